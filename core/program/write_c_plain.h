// The plain interface of C source: a function of pointers to arrays.
//
//   int f(const double* x, const float* w, double* out0, f_workspace* work);
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include <stave/core/program/lowered.h>

namespace stave_detail {

struct CSignature {
  std::string name;  // the name of the function
  // The names of the arguments, which need not be identifiers.
  std::vector<std::string> inputs{}, outputs{};
};
/// Returns the signature with names that are identifiers and differ from each other. Empty names,
/// or all if none are given, become the labels of the inputs, or else in0, out0, ... Throws
/// TransformError if the function's name is not a C identifier, or is taken by the C library, or if
/// a list of names has another length than the inputs or outputs.
CSignature checked(CSignature signature, const std::vector<std::string>& input_labels, std::size_t outputs);

/// Writes the code as one function in a C file that needs no other file, and its declarations as a
/// header if one is given. Throws the errors of `checked`.
void write_c_plain(std::ostream& out, std::ostream* header, const Lowered& code, CSignature signature);

}  // namespace stave_detail
