// Programs of many lanes, as `vmap` records them: arrays have an axis of lanes, and what is
// computed for a lane does not depend on the other lanes. one_lane() makes the program of one lane
// of them, which machine code runs for a block of lanes at once (backends/cpu/native/lane_code.h).
//
//   x:f64[64,3] -> c:f64[64,3] = sin x             x:f64[3] -> c:f64[3] = sin x
//                  d:f64[64] = sum c axes=[1]                  d:f64[] = sum c axes=[0]
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <stave/core/program/dataflow.h>
#include <stave/core/program/native_estimate.h>
#include <stave/core/program/program.h>

namespace stave_detail {

using namespace stave;

/// The axis of lanes of a variable's array; no_axis: the array has none, and is the same for all.
inline constexpr int no_axis = -1;

/// The attributes of the operation `lanes`: a program of one lane, run for each lane. Input i of
/// the operation has its lanes along axis input_axes[i], or is passed to each lane as it is
/// (no_axis). The outputs have their lanes along output_axes.
struct LanesAttributes final : Attributes {
  Index lanes = 0;
  std::vector<int> input_axes, output_axes;
  Program body;
  std::string str() const override;
};
/// The attributes of a program that is one operation `lanes`, or null for another program.
const LanesAttributes* lanes_of(const Program& program);

/// The attributes of a reduction of floats (sum, prod, max, min) in a program of one lane. Kernels
/// reduce the array of all lanes, on whose shape and strides the order of the reduction depends.
struct LaneReduction final : Attributes {
  Shape axes;  // the reduced axes of the array of one lane, sorted
  Shape shape;
  Strides strides;
  Index lane_axis = 0;
  std::string str() const override;
};

/// Which instructions of a program treat each of some lanes on its own.
struct LaneAnalysis {
  Index lanes;
  std::vector<int> axes;  // for each variable
  /// For each variable, true if it is a constant that differs between lanes. Such constants are
  /// inputs of the program of one lane.
  std::vector<bool> are_inputs;
  /// For each instruction, the estimate for a block of lanes; nothing if the instruction has no
  /// code for lanes. `kernels` is the time for all lanes.
  std::vector<std::optional<Estimate>> estimates;
  double kernels = 0;  // the time that kernels take for these instructions
};

/// Analyses an optimized program with inputs of these strides, for this number of lanes. An array
/// that is an input, or that an operation without a rule computes, has its lanes along its first
/// axis of that length, if it has one. This choice never makes the code wrong: it only decides for
/// which instructions there is code for lanes.
LaneAnalysis find_lanes(const Program& program, std::span<const Strides> strides, Index lanes);
/// Returns the analysis for the number of lanes that covers the most work, or nothing if no number
/// of lanes covers any work.
std::optional<LaneAnalysis> find_lanes(const Program& program, std::span<const Strides> strides);

/// Returns the program that consists of the operation `lanes` for a program whose inputs have these
/// axes of lanes, or nothing if an instruction has no rule for lanes.
std::optional<Program> one_lane(const Program& program, std::span<const Strides> strides, Index lanes,
                                std::span<const int> input_axes);

}  // namespace stave_detail
