// Regions on one element: each value in a register of an interpreter, each step a call.
#pragma once

#include <span>

#include <stave/core/program/region.h>

namespace stave_cpu {

using stave::View;

/// Whether it computes such a region: one without reductions, of fewer than 2^16 values.
bool is_single(const stave::Region& region);
/// Computes it on inputs of one element. Bit for bit as by tiles.
void run_single(const stave::Region& region, std::span<const View> inputs, std::span<const View> outputs);

}  // namespace stave_cpu
