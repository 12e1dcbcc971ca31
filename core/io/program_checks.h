// Checks of what a file says about one instruction. For the .cpp files of core/io.
#pragma once

#include <span>
#include <vector>

#include <stave/core/op/op.h>
#include <stave/core/program/loop.h>
#include <stave/core/program/program.h>

namespace stave_detail {

/// Returns the types of the operation's outputs for inputs of these types. `attributes` must be of
/// the operation's type of attributes. Throws an Error for a wrong number of inputs, and for
/// attributes that are out of range for the inputs. Errors of the operation's inference pass
/// through.
std::vector<Program::Variable> inferred_outputs(const Op& op, const AttributesPtr& attributes,
                                                std::span<const Program::Variable> inputs);

/// Throws an Error unless the numbers and types of a loop fit its bodies.
void check_loop(const LoopAttributes& loop);

/// Returns the types of the outputs of a `call`. Throws an Error unless its functions fit the
/// inputs and each other.
std::vector<Program::Variable> outputs_of_call(const RecordedFunctions& call,
                                               std::span<const Program::Variable> inputs);

/// Returns true if both have the same shape, dtype and device.
bool same_type(const Program::Variable& a, const Program::Variable& b);
/// The type as error messages show it: "float32 [2,3] on cpu".
std::string type_text(const Program::Variable& it);

}  // namespace stave_detail
