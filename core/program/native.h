// Native code: groups of operations on small arrays as machine code.
//
// An Executable calls a kernel for each operation, which takes some tens of nanoseconds even for a
// single number. with_native_code() finds the operations whose arrays have few elements, whole
// loops among them, and replaces groups of them, where that pays, by one operation, whose kernel is
// machine code that the backend compiles (Backend::compile). Its outputs are those of the kernels,
// bit for bit, except for the bits of NaN.
//
// The environment variable STAVE_NATIVE chooses what happens: 1 (the default) uses machine code
// where it pays, 0 never, and `check` wherever it is possible; then the kernels run as well, and an
// output that differs in any bit is an error, except that all NaN are equal. Native::never forbids
// machine code in any case.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <stave/core/effects/error.h>
#include <stave/core/program/program.h>
#include <stave/core/tensor/backend.h>

namespace stave {

/// Machine code of a program. Thread-safe.
class MachineCode {
 public:
  virtual ~MachineCode() = default;
  /// Computes the outputs, which are contiguous and overlap nothing else, from inputs with the
  /// strides for which the code was compiled. Returns false if a kernel of the program would throw
  /// an error; the outputs are then undefined.
  virtual bool run(std::span<const View> inputs, std::span<const View> outputs) const = 0;
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

/// Thrown if there is no machine code although it is required (Native::required), if
/// STAVE_NATIVE=check finds a difference, or if STAVE_NATIVE is not 0, 1 or check. The compiled
/// function itself never throws this error, so a replay passes it on. After any other error the
/// replay of a compiled function ends, and the function itself runs.
struct NativeCodeError : TransformError {
  using TransformError::TransformError;
};

struct NativeProgram {
  Program program;
  /// The number of runs after which more machine code would pay; infinity: it would never pay.
  double more_pays_after;
};

/// Replaces groups of operations of an optimized program, which runs on the CPU, by machine code.
/// `strides` are those of the inputs. The program will run about `runs` times; machine code that
/// would not save more time than its compilation takes is not made, unless it is `required` or
/// STAVE_NATIVE is `check`. `report` receives one line for each group: that it is machine code,
/// after how many runs this would pay, or why it cannot be; and none if kernels are as fast. Throws
/// NativeCodeError if native code is `required` and impossible.
NativeProgram with_native_code(Program program, std::span<const Strides> strides, Native native, double runs,
                               std::vector<std::string>* report = nullptr);

/// Returns the program whose machine code an instruction runs; null if it is not machine code.
const Program* native_program_of(const Program::Instruction& instruction);

}  // namespace stave_detail
