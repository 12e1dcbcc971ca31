// Passes: each takes a Program and returns a cheaper one that computes the same, bit for bit unless
// its comment says otherwise.
//
// A pass never removes reads of values (Program::Instruction::is_read), and keeps their order. It
// removes an operation that may throw only if another one computes the same. It does not merge
// instructions behind different rematerialisation barriers: a checkpoint computes a value again on
// purpose, to save memory.
#pragma once

#include <stave/core/program/program.h>

namespace stave {

/// Removes instructions and constants that no output, read or operation that may throw needs.
Program without_dead_code(Program program);
/// Removes repeated computations: the same operation on the same values (common subexpressions).
/// Random operations are included, because they are functions of their keys.
Program without_repetitions(Program program);
/// Replaces operations on constants alone by their outputs, as constants of at most 64 KiB. A
/// `full` of any size becomes a constant that repeats one number, unless it is an output of the
/// program. Copies and operations that may throw stay.
Program with_constants_folded(Program program);
/// Removes operations that change nothing, such as x * 1, x - 0 and --x, and merges a reshape,
/// permutation, broadcast or concat with one before it. Of two additions of 0, one stays, since it
/// changes -0. A conversion and the conversion back are removed if no value loses digits.
Program simplified(Program program);
/// Merges elementwise operations into regions (core/program/region.h). `fusion_report` receives one
/// line for each reason and operation that explains why operations which might be expected in one
/// region are not.
Program with_regions(Program program, std::vector<std::string>* fusion_report = nullptr);

/// Moves work in front of loops: expensive operations whose results are the same in every step, and
/// expensive elementwise functions of rows, which one kernel computes for all steps. A loop that
/// computes tanh(x) of its row x takes rows of tanh(xs) instead. The new stacks take at most
/// 16 MiB, or as much memory as the loop's own stacks. Functions of few rows stay, and so do those
/// of loops that recompute values to save memory.
Program with_work_hoisted_from_loops(Program program);

/// Removes outputs of loops that nothing reads, except states that later steps need, and the inputs
/// and computations that only the removed outputs need.
Program with_loops_narrowed(Program program);

/// Replaces arrays by scalars in a program on the CPU whose arrays are all small (1 to 8 elements).
/// All its operations must be elementwise or move elements, and one of them must be a slice, a
/// concat or a pad. Other programs stay unchanged.
Program with_small_arrays_split(Program program);

/// Folds constants by channel that the output of a matmul or convolution is multiplied by, such as
/// those of batch normalisation, into constant weights, and the constants that are added after it
/// into one. The weights are multiplied in double and rounded once. Unlike other passes, this one
/// changes the last digits of results. A product is left as it is if its weights would overflow, or
/// become so small that they lose digits.
Program with_scales_folded(Program program);

/// Replaces calls of functions (checkpoint, custom rules) by the operations of the functions:
/// `all` calls, for a program that no transform will see, since the rules are lost; or only calls
/// without derivative rules.
enum class InlineCalls { all, without_rules };
Program with_calls_inlined(Program program, InlineCalls which = InlineCalls::all);

struct OptimizeOptions {
  /// Apply with_work_hoisted_from_loops as well. The stacks of its results take memory, and are
  /// often too large for machine code.
  bool hoists_from_loops = true;
  /// Apply with_scales_folded.
  bool folds_scales = false;
  /// Receives the fusion report of with_regions.
  std::vector<std::string>* fusion_report = nullptr;
};
/// Applies all passes of this file except with_calls_inlined and, unless options.folds_scales,
/// with_scales_folded.
Program optimized(Program program, const OptimizeOptions& options = {});

}  // namespace stave

namespace stave_detail {

/// Removes loops whose outputs another loop of the program also computes, as the loop of a
/// derivative does (LoopAttributes::performs).
Program with_loops_joined(Program program);

}  // namespace stave_detail
