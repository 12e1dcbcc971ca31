// The statements of a C function that performs Lowered code.
#pragma once

#include <string>
#include <vector>

#include <stave/core/program/lowered.h>
#include <stave/core/program/write_c_functions.h>

namespace stave_detail {

/// The part of the workspace for buffers of one dtype. Each dtype has a C array of its own, because
/// C does not allow an array of one type to hold numbers of another type.
struct CWorkspace {
  Dtype dtype;
  const char* name;    // the name of the array: that of the dtype, "bool_" for bool
  Index first = 0;     // the byte of Lowered's workspace at which the array begins
  Index elements = 0;  // the size of the array
};
/// The arrays that the `work` buffers of the code need, one for each dtype.
std::vector<CWorkspace> workspace_of(const Lowered& code);

/// Text at file scope, and the statements of a function.
struct CBody {
  std::string tables;      // "static const double f_c5[3] = {...};"
  std::string statements;  // they end with `return 0;`
};
/// Writes the code as the body of function `name`. `inputs` and `outputs` are the names of the
/// pointers to the arrays. The function returns 0, or 1 + the index in Lowered::errors of the check
/// that failed. `workspace` is a C expression for an array of the workspace, in which {} stands for
/// the name of the array: "work->{}". Functions that the code needs are added to `functions`.
CBody write_c_body(const Lowered& code, const std::string& name, const std::vector<std::string>& inputs,
                   const std::vector<std::string>& outputs, const std::string& workspace, CFunctions& functions);

}  // namespace stave_detail
