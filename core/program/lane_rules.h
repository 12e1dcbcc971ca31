// LaneBuilder, by which the rules in lane_rules.cpp make the program of one lane.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>

#include <stave/core/program/lanes.h>

namespace stave_detail {

/// The fewest lanes that machine code treats as lanes.
inline constexpr Index least_lanes = 2;

/// Makes the program of one lane (`one`) from a program for all lanes (`all`), instruction by
/// instruction.
class LaneBuilder {
 public:
  LaneBuilder(const Program& all, Index lanes);

  /// Adds an input to the program of one lane. It stands for this variable of the program for all
  /// lanes, whose lanes lie along `axis`.
  void add_input(int variable, int axis, Strides strides);
  /// Adds this instruction in the form for one lane. Returns false, and adds nothing, if that is
  /// impossible: an operand has no variable of one lane, no rule fits, or there is no machine code.
  bool add(const Program::Instruction& step);
  /// Returns the program, with these variables as outputs.
  Program finish(std::span<const int> outputs);
  /// The first axis whose length is the number of lanes, or no_axis.
  int guess(int variable) const;
  /// The estimate of the instructions so far, for a block of lanes.
  const Estimate& cost() const noexcept { return cost_; }
  void add_cost(const Estimate& cost) { cost_ += cost; }

  // ---- for rules

  const Program& all() const noexcept { return all_; }
  Index lanes() const noexcept { return lanes_; }
  const Shape& shape(int variable) const { return all_.variable(variable).shape; }
  Dtype dtype(int variable) const { return all_.variable(variable).dtype; }
  int axis(int variable) const { return axes_[variable]; }
  const Strides& strides(int variable) const { return strides_[variable]; }
  /// True if the array repeats its elements along the axis.
  bool is_broadcast(int variable, int axis) const;
  /// True if the variable is an input of the program of one lane.
  bool is_input(int variable) const {
    return std::find(one_.inputs.begin(), one_.inputs.end(), names_[variable]) != one_.inputs.end();
  }
  /// The variable of one lane.
  int name(int variable) const { return names_[variable]; }
  /// The shape without the axis of lanes.
  static Shape of_lane(const Shape& shape, int axis);
  Index elements(int variable) const { return of_lane(shape(variable), axis(variable)).elements(); }
  Index lane_elements(int name) const { return one_.variable(name).shape.elements(); }
  Dtype dtype_of_name(int name) const { return one_.variable(name).dtype; }

  /// Appends an instruction with one output, which it returns.
  int emit(const Op& op, AttributesPtr attributes, std::span<const int> inputs, Shape shape, Dtype dtype);
  int emit(const Op& op, AttributesPtr attributes, std::initializer_list<int> inputs, Shape shape, Dtype dtype);
  Program& one() noexcept { return one_; }
  /// Sets the axis of lanes of a variable, and the variable of one lane.
  void set(int variable, int axis, int name);

 private:
  void add_constant(int variable, const Tensor& value);
  Strides strides_of_output(const Program::Instruction& step, std::size_t k) const;

  const Program& all_;
  const Index lanes_;
  Program one_;
  PerVariable<int> axes_, names_;
  PerVariable<Strides> strides_;  // the strides of each array as kernels compute it
  Estimate cost_;
};

/// Appends the instructions of one lane to the builder's program, and sets the outputs. Returns
/// false if there is no rule.
bool lane_rule(LaneBuilder& b, const Program::Instruction& step);

}  // namespace stave_detail
