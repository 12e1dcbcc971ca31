// The arguments of rules that write instructions of a program in another form, such as StableHLO.
#pragma once

#include <cstddef>

#include <stave/core/program/program.h>

namespace stave_detail {

/// The arguments of a rule, which writes an operation by the builder `b` and returns its results.
/// Inputs and Results are lists; a result has a shape and a dtype.
template <class Builder, class Inputs, class Results>
struct WritingContext {
  Builder& b;
  const Program::Instruction& instruction;
  Inputs inputs;
  Results results;  // the types of the results, which are not written yet

  const auto& in(std::size_t i = 0) const { return inputs[i]; }
  const Shape& shape(std::size_t i = 0) const { return results[i].shape; }
  Dtype dtype(std::size_t i = 0) const { return results[i].dtype; }
  OpId id() const { return instruction.op->id; }
  template <class A>
  const A& as() const {
    return static_cast<const A&>(*instruction.attributes);
  }
};

}  // namespace stave_detail
