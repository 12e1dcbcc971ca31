// The context of a dependence rule (Op::depends), which says which elements of an operation's
// inputs each element of its outputs depends on.
//
// A handler that finds the sparsity of a Jacobian (handlers/structure/dependence.h) numbers the
// elements of its inputs and keeps a set of these numbers for each element of a value. The sets
// have numbers in turn: an int64 tensor of the value's shape, on the CPU, holds the number of each
// element's set. Set 0 is the empty set. A rule computes such tensors for the outputs from those
// of the inputs. A reversal of a vector, whose rule moves the numbers, and a sum of a vector:
//
//   .depends = [](const DependsContext& c) { return Outputs(flip(c.set(0))); }
//   .depends = [](const DependsContext& c) {
//     return Outputs(reshape(c.sets.unite_over(c.set(0), Shape(0)), {}));
//   }
//
// Rules are written with public operations and with those of ElementSets. Both compute outside all
// handlers. Without a rule, an operation that moves elements (Op::moves_elements) is performed on
// the numbers, an elementwise operation unites the sets of its operands, and for any other
// operation each output element depends on all elements of all inputs.
#pragma once

#include <stave/core/effects/function_ref.h>
#include <stave/core/op/op.h>

namespace stave {

class ElementSets;  // core/ops/element_sets.h

/// The arguments of a dependence rule. The rule returns an int64 tensor for each output, which
/// broadcasts to the output's shape; an undefined tensor stands for empty sets. A rule that cannot
/// say anything about this call returns no tensors at all.
struct DependsContext {
  const Call& call;
  std::span<const Tensor> inputs;  // the sets of each input's elements; undefined: all are empty
  ElementSets& sets;
  FunctionRef<Tensor(std::size_t)> read;

  bool has(std::size_t i) const { return inputs[i].defined(); }
  /// The sets of input i, with its shape; all are empty if the input has none.
  Tensor set(std::size_t i) const;
  /// The values of input i on the CPU, if its elements depend on nothing and their values may be
  /// used: they are the same wherever the function takes the same path. Otherwise undefined.
  /// A rule that ignores the values is right, but may find too many dependences.
  Tensor constant(std::size_t i) const { return has(i) ? Tensor() : read(i); }
  const Abstract& output(std::size_t k = 0) const { return call.abstract_outputs()[k]; }
  template <class A>
  const A& as() const {
    return call.as<A>();
  }
};

}  // namespace stave
