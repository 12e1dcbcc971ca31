// Programs of derivatives and batched programs, made by tracing a transform of a Program.
//
// These programs compute the same as the transforms themselves, bit for bit. Each is traced on
// examples, which are concrete values of the program's inputs; the trace must not read any value.
// Thus rules run once, and the result is a program from which derivatives can be made again.
#pragma once

#include <stave/core/program/dataflow.h>
#include <stave/handlers/transforms/vjp_flat.h>

namespace stave_detail {

/// Returns a mask of size `all` whose first `count` entries are true.
std::vector<bool> first_of(std::size_t count, std::size_t all);

/// A program partitioned into a known part and the rest, the unknown part (partial evaluation).
struct Partition {
  Program first;  // the first inputs -> the first outputs, then residuals
  Program rest;   // residuals, then the other inputs -> the other outputs
};
/// Partitions a program. Residuals are the first inputs, and the values of the first part, that the
/// rest reads. A value that a few cheap operations compute from other residuals is rematerialised
/// in the rest instead. Operations that may throw and depend on first inputs alone are in the first
/// part.
Partition partition(const Program& program, const std::vector<bool>& first_inputs,
                    const std::vector<bool>& first_outputs);

/// Returns the program of the operations that a transformed function performs on `examples`. Throws
/// TransformError, which names the transform, if the function reads a value or performs an effect.
Program traced(const char* name, FlatFunction transformed, std::span<const Tensor> examples);

/// Returns the program of reverse mode with respect to the wanted inputs, which must be floats, as
/// a partition into the forward and the backward pass. Its inputs are those of the program, then
/// cotangents of the program's float outputs; its outputs are those of the program, then a
/// cotangent of each wanted input. Throws the errors of the rules, and TransformError if a rule
/// reads a value; so do jvp_of and batched_of.
Partition vjp_of(const Program& program, const std::vector<bool>& wanted, std::span<const Tensor> examples);

/// Returns the program of forward mode. Its inputs are those of the program, then tangents of the
/// wanted ones; its outputs are those of the program, then a tangent of each (zeros for an output
/// that is not a float).
Program jvp_of(const Program& program, const std::vector<bool>& wanted, std::span<const Tensor> examples);

/// Returns the program of vmap. Batched inputs, and their examples, have the lanes as axis 0, and
/// so have all outputs.
Program batched_of(const Program& program, Index lanes, const std::vector<bool>& batched,
                   std::span<const Tensor> examples);

/// Returns one lane of x, detached from all transforms, as an example of its values. Throws
/// ShapeError if there are no lanes.
Tensor example_of(const Tensor& x);

/// Returns true if the program reads a value, or a function that it calls or a recorded rule does.
bool reads_values(const Program& program);
/// Returns true if a function that the program calls, or a recorded rule of one, reads a value.
bool calls_read(const Program& program);

}  // namespace stave_detail
