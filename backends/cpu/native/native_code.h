// Machine code of lowered code, for x86-64 under the calling convention of System V.
//
//   const Lowered code = lower(program);
//   if (const auto native = NativeCode::compile(code)) {
//     std::vector<char> work(native->work_bytes());
//     const int error = (*native)(inputs, outputs, work.data());
//   }
//
// compile() hoists loop invariants (core/program/hoist_invariants.h), finds when values are live
// (live_ranges.h), and then walks the code once: it gives each value a register
// (register_allocator.h) and encodes the instruction (x86_64.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <stave/backends/cpu/native/executable_memory.h>
#include <stave/core/program/lowered.h>

namespace stave_cpu {

/// The machine code of a Lowered, for the kernels in use when it was compiled. It can run in
/// several threads at once, with a workspace for each, and in a process that forked.
class NativeCode {
 public:
  /// Compiles code that `verify` accepts. Returns null, and sets `reason`, if that is impossible:
  /// the processor is another one, the system gives no executable memory, or the code has a type
  /// that native code does not have. Takes about a microsecond for each instruction.
  static std::unique_ptr<const NativeCode> compile(const stave_detail::Lowered& code, std::string* reason = nullptr);

  /// Runs the code on the addresses of the inputs and outputs, row-major arrays without gaps, and
  /// a workspace of work_bytes() bytes, aligned to 16. The address of an array without elements
  /// may be null. Returns 0, or 1 + the index in Lowered::errors of the check that failed. Calls
  /// nothing that throws or allocates, and has a small frame on the stack, whatever the code is.
  int operator()(const void* const* inputs, void* const* outputs, void* work) const {
    return entry_(inputs, outputs, work);
  }

  /// The size of the workspace: that of the Lowered, and room for values that no register holds.
  std::size_t work_bytes() const noexcept { return work_bytes_; }
  /// The size of the machine code with its constants.
  std::size_t code_bytes() const noexcept { return code_bytes_; }

 private:
  using Entry = int (*)(const void* const* inputs, void* const* outputs, void* work);
  struct Text;
  NativeCode(const Text& text, const stave_detail::Lowered& code);

  ExecutableMemory memory_;
  Entry entry_ = nullptr;
  std::size_t work_bytes_, code_bytes_;
  std::vector<stave::Tensor> constants_;  // the code has their addresses
};

}  // namespace stave_cpu
