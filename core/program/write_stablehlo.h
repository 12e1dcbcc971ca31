// write_stablehlo: a program as StableHLO text, which XLA compiles for the processors it knows.
//
//   std::ofstream file("f_grad.mlir");
//   write_stablehlo(file, trace(grad(f))(x));
//
// The text is one module. Its function `main` takes the inputs of the program and returns its
// outputs; jaxlib compiles and runs it (docs/guides/stablehlo.md). Loops stay loops, functions of
// checkpoints stay functions, and constants keep all bits.
//
// - Operations that StableHLO lacks are composed of those that it has, with the library's meaning:
//   division of integers, shifts, conversions, NaN in maxima, order of sorting.
//   docs/stablehlo_operations.md lists what each operation becomes.
// - Functions such as exp are XLA's, and differ from the library's in the last digits. XLA also
//   chooses the order of sums.
// - Complex numbers become those of StableHLO, and Fourier transforms become its fft.
// - StableHLO has no errors. docs/guides/stablehlo.md says what the text computes where the library
//   would throw; `.checks` adds a result that tells.
#pragma once

#include <iosfwd>
#include <string>

#include <stave/core/program/program.h>
#include <stave/core/tensor/options.h>

namespace stave {

/// Options of write_stablehlo.
struct StableHloOptions {
  [[no_unique_address]] ByName by_name{};
  /// The name of the module.
  std::string name = "stave";
  /// Adds a last result to `main`, a bool: true unless the library would have thrown an error, for
  /// an index out of range, a singular matrix, or a value other than the recorded one on which the
  /// program branched. Programs with such branches need this option.
  bool checks = false;
  /// Computes sums, products and normalisations of float32, and a few functions of it, in float64,
  /// as the library's CPU kernels do. Without it they are computed in float32, for processors
  /// without float64. Sums of float16 and bfloat16 are computed in float32 at least.
  bool wide = true;
};

/// Writes a program as StableHLO text to `out`. Equal programs give equal texts. Devices of the
/// program have no meaning in the text, and its transfers between devices are left out. Throws
/// TransformError for an operation that cannot be written (eigh, svd, a call into C++, an operation
/// of the user, ...), which it names; for a program that branched on a value, without `.checks`;
/// and for a program of which an output is an empty Tensor.
void write_stablehlo(std::ostream& out, const Program& program, const StableHloOptions& options = {});

}  // namespace stave

namespace stave_detail {

/// Writes the functions of a module without the module around them. The function of the program is
/// called `name`; the names of all others begin with `name`.
void write_stablehlo_functions(std::ostream& out, const stave::Program& program, const std::string& name,
                               const stave::StableHloOptions& options);

}  // namespace stave_detail
