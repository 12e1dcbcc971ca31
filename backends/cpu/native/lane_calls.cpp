// Calls of functions by native code for lanes. A call may change all floating registers, and the
// general ones that the calling convention does not preserve, so live values leave them first.
#ifdef STAVE_HAVE_XBYAK

#include <stave/backends/cpu/native/lane_encoder.h>

#include <stdexcept>
#include <string>

#include <stave/backends/cpu/native/functions.h>

namespace stave_cpu {

namespace {

constexpr int result_area = 3;

}  // namespace

void LaneEncoder::call_vector_function(const Instruction& it) {
  const Dtype of = dtype(it.operands[0]);
  if (const void* const function = function_on_vector(it.op, of)) {
    pass_operands(it, true);
    lea(rdi, area(0));
    lea(rsi, area(1));
    call_address(function);
    return load_vector(vector_result(it), area(0), it.dtype);
  }
  if (const BlockKernel kernel = kernel_of_operation(it.op, of, it.dtype)) return call_vector_kernel(it, kernel);
  if (const void* const function = function_by_value(it.op, of)) return call_each_lane(it, function);
  throw std::runtime_error(std::string("native code has no lanes of ") + stave_detail::name_of(it.op) + " of " +
                           stave::name_of(of));
}

// A function on a vector takes whole ones. Where operands are shorter, their lanes are repeated if
// `fills` is set, as unusual operands would slow the function down.
void LaneEncoder::pass_operands(const Instruction& it, bool fills) {
  for (int i = 0; i < stave_detail::operand_count(it.op); ++i) {
    const Vector x = read_vector(it.operands[i], 0);
    const Dtype of = dtype(it.operands[i]);
    store_vector(area(i), x, of);
    if (fills && 2 * width(of) == vector_bytes_) store_vector(area(i, width(of)), x, of);
  }
  allocator_.release_operands();
  allocator_.clobber(clobbered_by_calls);
}

void LaneEncoder::call_each_lane(const Instruction& it, const void* function) {
  pass_operands(it, false);
  const bool wide = it.dtype == stave::float64;
  for (int lane = 0; lane < lanes_; ++lane) {
    for (int i = 0; i < stave_detail::operand_count(it.op); ++i)
      wide ? vmovsd(Xbyak::Xmm(i), area(i, 8 * lane)) : vmovss(Xbyak::Xmm(i), area(i, 4 * lane));
    vzeroupper();
    call_address(function);
    wide ? vmovsd(area(result_area, 8 * lane), xmm0) : vmovss(area(result_area, 4 * lane), xmm0);
  }
  load_vector(vector_result(it), area(result_area), it.dtype);
}

// Calls a kernel for the elements of a block. Its operands' addresses are at rsp + 56.
void LaneEncoder::call_vector_kernel(const Instruction& it, BlockKernel kernel) {
  pass_operands(it, false);
  for (int i = 0; i < stave_detail::operand_count(it.op); ++i) {
    lea(rax, area(i));
    mov(ptr[rsp + 56 + 8 * i], rax);
  }
  lea(rdi, area(result_area));
  lea(rsi, ptr[rsp + 56]);
  mov(edx, lanes_);
  vzeroupper();
  call_address(reinterpret_cast<const void*>(kernel));
  load_vector(vector_result(it), area(result_area), it.dtype);
}

}  // namespace stave_cpu

#endif
