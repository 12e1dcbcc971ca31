// Programs of derivatives and of lanes, made of a Program by tracing what the transforms perform of it.
//
// They compute what the transforms themselves would, bit for bit. Each is made for real, at examples: values of the program's inputs, of
// which none may be read. So rules are run once, and what comes of them is a program, of which derivatives can be made again.
#pragma once

#include <stave/core/program/program.h>

namespace stave_detail {

/// The first so many of all.
std::vector<bool> first_of(std::size_t count, std::size_t all);

/// A program in two.
struct Parts {
  Program first;  // the first inputs -> the first outputs, then residuals
  Program rest;   // residuals, then the other inputs -> the other outputs
};
/// Residuals are what the rest reads of the first inputs, and of what the first part computes; what few cheap operations make of others
/// is computed again. What may throw, and waits for no other input, is in the first part.
Parts parts_of(const Program& program, const std::vector<bool>& first_inputs, const std::vector<bool>& first_outputs);

/// Reverse mode, by the wanted inputs, which are floats: inputs, then cotangents of the outputs that are floats -> outputs, then a
/// cotangent of each wanted input. The parts are the forward and the backward pass. Throws what the rules throw, and TransformError if
/// something reads a value; as the others do.
Parts vjp_of(const Program& program, const std::vector<bool>& wanted, std::span<const Tensor> examples);

/// Forward mode: inputs, then tangents of the wanted ones -> outputs, then a tangent of each (zeros for one that is no float).
Program jvp_of(const Program& program, const std::vector<bool>& wanted, std::span<const Tensor> examples);

/// vmap: inputs, of which the batched ones carry the lanes as axis 0 (as their examples do) -> outputs, all of which carry them so.
Program batched_of(const Program& program, Index lanes, const std::vector<bool>& batched,
                   std::span<const Tensor> examples);

/// One lane of x, without what transforms follow of it: an example of its values. Throws ShapeError where there are no lanes.
Tensor example_of(const Tensor& x);

/// Whether it reads a value, or a function that it calls does, or a rule that is recorded.
bool reads_values(const Program& program);
/// Whether a function that it calls reads a value.
bool calls_read(const Program& program);

}  // namespace stave_detail
