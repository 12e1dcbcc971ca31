// Calls of functions. A call may change all floating registers, and the general ones that the
// calling convention does not preserve, so live values leave these registers first.
#ifdef STAVE_HAVE_XBYAK

#include <stave/backends/cpu/native/x86_64.h>

#include <stdexcept>
#include <string>

#include <stave/backends/cpu/native/functions.h>

namespace stave_cpu {

namespace {

// All floating registers, and rsi, rdi, r8 to r11.
constexpr RegisterSet clobbered_by_calls = floating_registers | 0xfc0u;

}  // namespace

void Encoder::call_address(const void* function) {
  mov(rax, reinterpret_cast<std::uint64_t>(function));
  call(rax);
}

void Encoder::call_function(const Instruction& it) {
  const Dtype of = dtype(it.operands[0]);
  if (const void* const function = function_by_value(it.op, of)) return call_by_value(it, function);
  const BlockKernel kernel = kernel_of_operation(it.op, of, it.dtype);
  if (!kernel)
    throw std::runtime_error(std::string("native code has no ") + stave_detail::name_of(it.op) + " of " +
                             stave::name_of(of));
  call_kernel(it, kernel);
}

// Calls a function of floats in xmm0, xmm1, ..., which returns its result in xmm0.
void Encoder::call_by_value(const Instruction& it, const void* function) {
  std::vector<std::pair<Location, Location>> arguments;
  for (int i = 0; i < stave_detail::operand_count(it.op); ++i)
    arguments.emplace_back(in_register(first_floating + i), allocator_.location(it.operands[i]));
  allocator_.release_operands();
  allocator_.clobber(clobbered_by_calls);  // the registers still have their contents
  move_at_once(std::move(arguments), *this);
  call_address(function);
  copy(floating(allocator_.assign(it.result)), xmm0);
}

// Calls a kernel for one element. Operands and result are in the frame.
void Encoder::call_kernel(const Instruction& it, BlockKernel kernel) {
  for (int i = 0; i < stave_detail::operand_count(it.op); ++i) {
    const Location from = allocator_.location(it.operands[i]);
    const Xbyak::Address to = ptr[rsp + 24 + 8 * i];
    if (from.is_register() && from.id >= first_floating) {
      features_.avx ? vmovsd(to, floating(from.id)) : movsd(to, floating(from.id));
    } else {
      fetch(rax, it.operands[i]);
      mov(to, rax);
    }
  }
  allocator_.release_operands();
  allocator_.clobber(clobbered_by_calls);
  lea(rdi, ptr[rsp + 48]);
  mov(rsi, rsp);
  mov(edx, 1);
  call_address(reinterpret_cast<const void*>(kernel));
  const int to = allocator_.assign(it.result);
  const Xbyak::Address from = ptr[rsp + 48];
  if (to < first_floating) mov(general(to), from);
  else features_.avx ? vmovsd(floating(to), from) : movsd(floating(to), from);
}

}  // namespace stave_cpu

#endif
