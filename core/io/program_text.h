// The text of a program in a file, and the tensors that the text refers to by number. For the .cpp
// files of core/io, and for tests.
//
// The text is one object:
//   {"version": 1, "regions": [...], "scopes": [...], "programs": [...]}
// The last of the programs is the program itself. The bodies of loops and the functions of calls
// are the earlier ones, referred to by their index, so that a program that is used twice is written
// once, and nesting needs no recursion of the parser.
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
/// Throws TransformError, naming the operation, for what a file cannot hold. `where` begins error
/// messages.
ProgramText text_of(const Program& program, const std::string& where);

/// Returns the program of a text, of which everything is checked. Throws FileError.
Program program_of(std::string_view text, const std::map<std::string, Tensor>& tensors, const std::string& where);

}  // namespace stave_detail
