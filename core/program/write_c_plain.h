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
  std::string name;  // the function's
  // Names that need not be identifiers.
  std::vector<std::string> inputs{}, outputs{};
};
/// Throws TransformError if the name is not a C identifier or the number of names is not that of
/// the inputs, which have these labels, and of the outputs. Empty names become the labels of
/// inputs, then in0, out0, ... Returns the signature with names that are identifiers and differ
/// from each other.
CSignature checked(CSignature signature, const std::vector<std::string>& input_labels, std::size_t outputs);

/// Writes the code as one function in a C file that needs no other file, and its declarations as a
/// header if one is given.
void write_c_plain(std::ostream& out, std::ostream* header, const Lowered& code, CSignature signature);

}  // namespace stave_detail
