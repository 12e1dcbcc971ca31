// The text of a program in a file, and the tensors that the text refers to by number. For the .cpp
// files of core/io, and for tests.
//
// The text is one object:
//   {"version": 1, "regions": [...], "scopes": [...], "programs": [...]}
// The last of the programs is the program that was saved. The earlier ones are the bodies of its
// loops and the functions of its calls, which are referred to by index. So a program that is used
// twice is written once, and nesting needs no recursion of the parser.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <stave/core/program/program.h>

namespace stave_detail {

/// The version of the format that is written. Files of this and of all earlier versions are read.
inline constexpr int program_version = 1;

struct ProgramText {
  std::string text;
  std::vector<Tensor> tensors;
};
/// Returns the text and the tensors of a program. Throws TransformError, naming the operation, for
/// parts that a file cannot hold. `where` begins error messages.
ProgramText text_of(const Program& program, const std::string& where);

/// Returns the program of a text. Checks the whole text, and throws FileError for any fault.
Program program_of(std::string_view text, const std::map<std::string, Tensor>& tensors, const std::string& where);

}  // namespace stave_detail
