// write_c: a program as C source, for processors and tools that have no Stave.
//
//   std::ofstream c("f_grad.c"), h("f_grad.h");
//   write_c(c, trace(grad(f))(x), {.name = "f_grad", .header = &h});
//
//   int f_grad(const double* x, double* out0, f_grad_workspace* work);      // in f_grad.h
//
// The text is C99 that needs libm and nothing else: no allocation, no variables outside of the
// function but constant tables. Loops stay loops. Arrays are row-major.
//
// - Arithmetic gives the bits of the library's CPU kernels, if the compiler does not contract or
//   reorder it (-ffp-contract=off, no -ffast-math). Functions such as exp are those of libm, and
//   differ by some units in the last place.
// - A complex array is an array of floats with a last axis of length 2, the parts: the memory of
//   C's double _Complex, to which a pointer may be converted.
// - The function returns 0, or the number of an error where the library would throw.
// - With Interface::casadi the file is an external function of CasADi, with derivatives on request.
//
// The guide docs/guides/c_source.md shows both interfaces at work.
#pragma once

#include <initializer_list>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include <stave/core/program/program.h>
#include <stave/core/tensor/options.h>

namespace stave {

/// How C calls the function. `plain`: a pointer for each array, and the workspace. `casadi`: the
/// convention of CasADi's external functions, which acados and do-mpc load too; all inputs and
/// outputs are float64 of at most two axes.
enum class Interface { plain, casadi };

/// Options of write_c.
struct COptions {
  [[no_unique_address]] ByName by_name{};
  /// The name of the function. It begins every other name in the file.
  std::string name = {};
  /// Receives the declarations, as a header for C and C++.
  std::ostream* header = nullptr;
  Interface interface = Interface::plain;
  /// The names of the arguments. By default these are the labels of the inputs, then in0, in1, ...
  /// for inputs without a label; and out0, out1, ... for the outputs.
  std::vector<std::string> inputs = {}, outputs = {};
  /// For Interface::casadi, the derivatives that the file has, under the names that CasADi looks
  /// for: jac_f; fwd1_f; adj1_f; and jac_adj1_f, of which CasADi makes Hessians.
  bool jacobian = false, forward = false, reverse = false, hessian = false;
  /// Values at which derivatives are traced. They matter only where an operation throws for some
  /// values; without them, inputs are 1/2 and square matrices the identity.
  std::vector<Tensor> examples = {};
};

/// Writes a program as C source to `out`. The text is the same whenever the program is. Throws
/// TransformError for an operation that cannot be written as C (eigh, a call into C++, ...), which
/// it names, and for a name that is not a C identifier; DtypeError for float16 and bfloat16, and
/// for a dtype other than float64 with Interface::casadi.
void write_c(std::ostream& out, const Program& program, const COptions& options);

/// A program with the options with which stave_generate (cmake/stave_generate.cmake) writes it. The
/// C function gets the name of the C++ function that returns this object.
struct CFunction {
  CFunction(Program recorded, COptions given = {}) : program(std::move(recorded)), options(std::move(given)) {}
  Program program;
  COptions options;
};

}  // namespace stave

namespace stave_detail {

struct NamedCFunction {
  const char* name;
  stave::CFunction (*make)();
};
/// The main function of the program that stave_generate builds: writes DIRECTORY/NAME.c and NAME.h
/// for each function. The directory is the one argument.
int generate_c(int argc, char** argv, std::initializer_list<NamedCFunction> functions);

}  // namespace stave_detail
