// Calls of functions. A call may change the registers that the calling convention does not
// preserve, so live values leave these registers first.
#include <stdexcept>
#include <string>

#include <stave/backends/cpu/native/functions.h>
#include <stave/backends/cpu/native/group_calls.h>
#include <stave/backends/cpu/native/instruction_walk.h>

namespace stave_cpu {

void InstructionWalk::call_function(const Instruction& it) {
  const Dtype of = dtype(it.operands[0]);
  if (const void* const function = function_by_value(it.op, of)) return call_by_value(it, function);
  const BlockKernel kernel = kernel_of_operation(it.op, of, it.dtype);
  if (!kernel)
    throw std::runtime_error(std::string("native code has no ") + stave_detail::name_of(it.op) + " of " +
                             stave::name_of(of));
  call_kernel(it, kernel);
}

// Calls a function of floats, which are passed in the first floating registers. The result is in
// the first one.
void InstructionWalk::call_by_value(const Instruction& it, const void* function) {
  std::vector<std::pair<Location, Location>> arguments;
  for (int i = 0; i < stave_detail::operand_count(it.op); ++i)
    arguments.emplace_back(in_register(first_floating + i), allocator_.location(it.operands[i]));
  allocator_.release_operands();
  allocator_.clobber(conventions_.clobbered_by_calls);  // the registers still have their contents
  move_at_once(std::move(arguments), *this);
  call_address(function);
  const int to = allocator_.assign(it.result);
  if (to != first_floating) copy_register(to, first_floating);
}

void InstructionWalk::store_operand(int offset, std::size_t bytes, int value) {
  Location from = allocator_.location(value);
  if (!from.is_register()) {
    const bool is_floating = ranges_.bank(value) == Bank::floating;
    const Location here = in_register(is_floating ? conventions_.floating_scratch : conventions_.general_scratch);
    move(here, from);
    from = here;
  }
  store_in_frame(offset, bytes, from.id);
}

// Calls a kernel for one element. Operands and result are in the frame.
void InstructionWalk::call_kernel(const Instruction& it, BlockKernel kernel) {
  for (int i = 0; i < stave_detail::operand_count(it.op); ++i)
    store_operand(frame_.operands + 8 * i, 8, it.operands[i]);
  allocator_.release_operands();
  allocator_.clobber(conventions_.clobbered_by_calls);
  pass_frame_address(0, frame_.result);
  pass_frame_address(1, frame_.addresses);
  pass_number(2, 1);
  call_address(reinterpret_cast<const void*>(kernel));
  load_from_frame(allocator_.assign(it.result), frame_.result, 8);
}

// ---- calls on vectors ---------------------------------------------------------------------------

int InstructionWalk::vector_call_length() const {
  const Lowered& code = ranges_.code();
  const Instruction& first = instruction_at(position_);
  if (!is_vector_call(code, first)) return 0;
  const int most = vector_call_lanes(dtype(first.operands[0]));
  const auto reads_results = [&](const Instruction& it) {
    for (int k = position_; instruction_at(k).result != it.result; ++k)
      for (int i = 0; i < stave_detail::operand_count(it.op); ++i)
        if (it.operands[i] == instruction_at(k).result) return true;
    return false;
  };
  int count = 1;
  for (; count < most && position_ + count < static_cast<int>(code.instructions.size()); ++count) {
    const Instruction& it = instruction_at(position_ + count);
    if (it.code != first.code || it.op != first.op || dtype(it.operands[0]) != dtype(first.operands[0]) ||
        !ranges_.is_needed(position_ + count) || reads_results(it))
      break;
  }
  return count;
}

// Computes `count` calls of one function by a call on a vector in the frame.
void InstructionWalk::call_on_vector(int count) {
  const int first = position_;
  const Instruction& call = instruction_at(first);
  const Dtype of = dtype(call.operands[0]);
  const std::size_t size = stave::size_of(of);
  const auto place = [&](int vector, int lane) { return frame_.vectors[vector] + static_cast<int>(size) * lane; };
  for (int lane = 0; lane < count; ++lane) {
    position_ = first + lane;
    allocator_.begin(position_);
    for (int i = 0; i < stave_detail::operand_count(call.op); ++i)
      store_operand(place(i, lane), size, instruction_at(position_).operands[i]);
    if (lane + 1 < count) allocator_.end();
  }
  // The other lanes repeat the first one, as unusual operands would slow the function down.
  for (int i = 0; count < vector_call_lanes(of) && i < stave_detail::operand_count(call.op); ++i) {
    load_from_frame(conventions_.general_scratch, place(i, 0), size);
    for (int lane = count; lane < vector_call_lanes(of); ++lane)
      store_in_frame(place(i, lane), size, conventions_.general_scratch);
  }
  allocator_.release_operands();
  allocator_.clobber(conventions_.clobbered_by_calls);
  pass_frame_address(0, frame_.vectors[0]);
  pass_frame_address(1, frame_.vectors[1]);
  call_address(function_on_vector(call.op, of));
  for (int lane = 0; lane < count; ++lane)
    load_from_frame(allocator_.assign(instruction_at(first + lane).result), place(0, lane), size);
  allocator_.end();
}

}  // namespace stave_cpu
