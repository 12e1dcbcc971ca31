// Compiles lowered code for one lane to machine code that runs a block of lanes at once, in vectors
// (lane_encoder.h).
//
//   const Lowered code = lower(of_one_lane);                    // in0 differs between lanes
//   if (const auto native = LaneCode::compile(code, {false})) {
//     // in0[e * native->lanes() + l] is element e of the input of lane l of the block.
//     const int error = (*native)(inputs, outputs, work);
//   }
//
// machine_code_of_lanes() copies the arrays of all lanes to blocks and back (lane_arrays.cpp).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <stave/backends/cpu/native/executable_memory.h>
#include <stave/core/program/lowered.h>
#include <stave/core/program/native.h>

namespace stave_cpu {

class LaneCode {
 public:
  /// Compiles code that `verify` accepts. is_uniform[i] is true if input i is the same for all
  /// lanes; the code reads such an input as it lies in memory. Returns null, and sets *reason
  /// unless `reason` is null, if that is impossible: for the reasons of NativeCode::compile,
  /// without the kernels of AVX2 or AVX-512, for integers of 8 or 16 bits that differ between
  /// lanes, and for loops whose numbers of steps do.
  static std::unique_ptr<const LaneCode> compile(const stave_detail::Lowered& code, const std::vector<bool>& is_uniform,
                                                 std::string* reason = nullptr);

  /// Runs a block. Inputs that differ between lanes, and outputs, have lanes() numbers for each
  /// element; a bool is a byte. `work` is a workspace of work_bytes() bytes, aligned to 64. Returns
  /// 0, or 1 + the index in Lowered::errors of a check that failed in one of the lanes.
  int operator()(const void* const* inputs, void* const* outputs, void* work) const {
    return entry_(inputs, outputs, work);
  }
  /// The number of lanes of a block.
  int lanes() const noexcept { return lanes_; }
  std::size_t work_bytes() const noexcept { return work_bytes_; }
  /// About the time of a block in nanoseconds.
  double cost() const noexcept { return cost_; }

 private:
  using Entry = int (*)(const void* const* inputs, void* const* outputs, void* work);
  struct Text;
  LaneCode(const Text& text, const stave_detail::Lowered& code);

  ExecutableMemory memory_;
  Entry entry_ = nullptr;
  int lanes_;
  std::size_t work_bytes_;
  double cost_;
  std::vector<stave::Tensor> constants_;  // kept alive, because the code contains their addresses
};

/// The arrays of a program of many lanes: the axis of lanes of each, or -1 for an input that is the
/// same for all lanes.
struct LaneLayout {
  struct Array {
    stave::Dtype dtype;
    stave::Shape shape;
    stave::Strides strides;
    int axis;
  };
  stave::Index lanes;
  std::vector<Array> inputs, outputs;
};

/// Machine code of a program of many lanes: it runs the code block by block, in several threads if
/// there is enough to do.
std::shared_ptr<const stave::MachineCode> machine_code_of_lanes(std::unique_ptr<const LaneCode> code,
                                                                const LaneLayout& layout);

}  // namespace stave_cpu
