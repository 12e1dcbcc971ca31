// Which operations run as machine code, and estimates of their times.
#pragma once

#include <optional>

#include <stave/core/program/program.h>

namespace stave_detail {

using namespace stave;

/// The most elements of an array that an operation in machine code reads or computes. Three kinds
/// of arrays may be larger: those from which gather and dynamic_slice pick elements, the stacks of
/// loops, and states of loops of which the steps replace parts in place. Arrays of more than
/// most_elements (lower.h) lie in memory and are computed in loops.
inline constexpr Index most_native_elements = 512;

/// The largest products of floats that kernels compute term after term: the rows of the left
/// matrix, and the terms of a sum as well as the columns of the right one. BLAS computes larger
/// products, and may add the terms in another order.
inline constexpr Index tiny_rows = 64, tiny_terms = 16;

/// Returns true if an operation has complex inputs or outputs, or is a region with complex numbers.
bool has_complex(const Program& program, const Program::Instruction& step);

/// Estimates of the time of one run as machine code and by kernels, in nanoseconds, and of the
/// number of instructions of the lowered code.
struct Estimate {
  double native = 0, kernels = 0, instructions = 0;
  Estimate& operator+=(const Estimate& other) {
    native += other.native;
    kernels += other.kernels;
    instructions += other.instructions;
    return *this;
  }
};

/// Returns nothing for an operation that has no machine code, or whose machine code would not have
/// the bits of its kernel. If `is_in_place`, the operation replaces a part of its first input,
/// which may be large, and the estimate has no copy of that input.
std::optional<Estimate> estimate(const Program& program, const Program::Instruction& step, bool is_in_place = false);

/// Estimates the time of an operation by kernels, in nanoseconds, for arrays of any size.
double time_of_kernels(const Program& program, const Program::Instruction& step);

/// Estimates the time of an operation in the program of one lane (lanes.h), as machine code for a
/// block of lanes, in nanoseconds: an instruction takes half a nanosecond, and a function twenty.
double time_of_block(const Program& program, const Program::Instruction& step);

/// Returns lower bounds of the time and the number of instructions of a whole program if all of it
/// became machine code for lanes, and its time by kernels. This is much cheaper than find_lanes.
Estimate least_of_lanes(const Program& program);

}  // namespace stave_detail
