// Compiles lowered code to machine code for x86-64, with the System V calling convention, or for
// aarch64, with the procedure call standard of Arm (AAPCS64).
//
//   const Lowered code = lower(program);
//   if (const auto native = NativeCode::compile(code)) {
//     std::vector<char> work(native->work_bytes());
//     const int error = (*native)(inputs, outputs, work.data());
//   }
//
// compile() hoists loop invariants (core/program/hoist_invariants.h), finds the live ranges of
// values (live_ranges.h), and then walks the code once: it gives each value a register
// (register_allocator.h) and encodes the instruction (instruction_walk.h, and x86_64.h or
// aarch64.h).
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
  /// Compiles code that `verify` accepts. If that is impossible, returns null, and sets *reason
  /// unless `reason` is null. It is impossible if the library was built without native code, which
  /// needs Linux, and either x86-64 and Xbyak or aarch64, if the system gives no executable memory,
  /// or if the code has a dtype or an operation that native code does not support. The compilation
  /// takes about a microsecond for each instruction.
  static std::unique_ptr<const NativeCode> compile(const stave_detail::Lowered& code, std::string* reason = nullptr);

  /// Runs the code. `inputs` and `outputs` have the addresses of row-major arrays without gaps; the
  /// address of an array without elements may be null. `work` is a workspace of work_bytes() bytes,
  /// aligned to 16. Returns 0, or 1 + the index in Lowered::errors of the check that failed. The
  /// machine code calls nothing that throws or allocates, and its stack frame is always small.
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
  std::vector<stave::Tensor> constants_;  // kept alive, because the code contains their addresses
};

}  // namespace stave_cpu
