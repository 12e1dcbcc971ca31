// Regions whose arrays have one element: an interpreter keeps each value in a variable, and calls a
// function for each operation. It is used for programs without machine code
// (core/program/native.h): a simulation of a thousand steps by `loop` takes six times as long
// without it.
#pragma once

#include <span>

#include <stave/core/program/region.h>

namespace stave_cpu {

using stave::View;

/// Returns true if interpret_scalars supports the region: it has no reductions and fewer than 2^16
/// values.
bool supports_scalar_interpreter(const stave::Region& region);
/// Runs the region on inputs of one element. The results are, bit for bit, those of Tiles
/// (fused_tiles.h).
void interpret_scalars(const stave::Region& region, std::span<const View> inputs, std::span<const View> outputs);

}  // namespace stave_cpu
