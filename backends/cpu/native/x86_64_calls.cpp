// Calls of functions. A call may change all floating registers, and the general ones that the
// calling convention does not preserve, so live values leave these registers first.
#ifdef STAVE_HAVE_XBYAK

#include <stave/backends/cpu/native/x86_64.h>

#include <stdexcept>
#include <string>

#include <stave/backends/cpu/native/functions.h>
#include <stave/backends/cpu/native/group_calls.h>

namespace stave_cpu {

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

// Returns the number of instructions, from the position on, that one call on a vector computes.
int Encoder::vector_call_length(int position) const {
  const Lowered& code = ranges_.code();
  const auto at = [&](int k) -> const Instruction& { return code.instructions[static_cast<std::size_t>(k)]; };
  const Instruction& first = at(position);
  if (!is_vector_call(code, first)) return 0;
  const int most = vector_call_lanes(dtype(first.operands[0]));
  const auto reads_results = [&](const Instruction& it) {
    for (int k = position; at(k).result != it.result; ++k)
      for (int i = 0; i < stave_detail::operand_count(it.op); ++i)
        if (it.operands[i] == at(k).result) return true;
    return false;
  };
  int count = 1;
  for (; count < most && position + count < static_cast<int>(code.instructions.size()); ++count) {
    const Instruction& it = at(position + count);
    if (it.code != first.code || it.op != first.op || dtype(it.operands[0]) != dtype(first.operands[0]) ||
        !ranges_.is_needed(position + count) || reads_results(it))
      break;
  }
  return count;
}

// Computes `count` calls of one function by a call on a vector in the frame.
void Encoder::call_on_vector(int count) {
  constexpr int vectors[] = {56, 120};
  const Instruction* const first = &ranges_.code().instructions[static_cast<std::size_t>(position_)];
  const bool wide = dtype(first->operands[0]) == stave::float64;
  const auto place = [&](int vector, int lane) { return ptr[rsp + vectors[vector] + (wide ? 8 : 4) * lane]; };
  for (int lane = 0; lane < count; ++lane) {
    allocator_.begin(position_ + lane);
    for (int i = 0; i < stave_detail::operand_count(first->op); ++i) {
      Location from = allocator_.location(first[lane].operands[i]);
      if (!from.is_register()) {
        const Location here = in_register(first_floating + scratch.getIdx());
        move(here, from);
        from = here;
      }
      const Xbyak::Xmm value = floating(from.id);
      if (wide) features_.avx ? vmovsd(place(i, lane), value) : movsd(place(i, lane), value);
      else features_.avx ? vmovss(place(i, lane), value) : movss(place(i, lane), value);
    }
    if (lane + 1 < count) allocator_.end();
  }
  // The other lanes repeat the first one, as unusual operands would slow the function down.
  for (int i = 0; i < stave_detail::operand_count(first->op); ++i)
    for (int lane = count; lane < vector_call_lanes(dtype(first->operands[0])); ++lane) {
      if (lane == count) wide ? mov(rax, place(i, 0)) : mov(eax, place(i, 0));
      wide ? mov(place(i, lane), rax) : mov(place(i, lane), eax);
    }
  position_ += count - 1;
  allocator_.release_operands();
  allocator_.clobber(clobbered_by_calls);
  lea(rdi, place(0, 0));
  lea(rsi, place(1, 0));
  call_address(function_on_vector(first->op, dtype(first->operands[0])));
  for (int lane = 0; lane < count; ++lane) {
    const Xbyak::Xmm value = floating(allocator_.assign(first[lane].result));
    if (wide) features_.avx ? vmovsd(value, place(0, lane)) : movsd(value, place(0, lane));
    else features_.avx ? vmovss(value, place(0, lane)) : movss(value, place(0, lane));
  }
  allocator_.end();
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
