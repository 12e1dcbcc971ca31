// Labels: names of values, shown by tools that observe a program, such as traces, graphs
// and whos().
//
//   const Tensor h = label(tanh(matmul(x, w)), "hidden");  // traces show hidden:f32[64,30]
//
// A label belongs to a value and performs nothing: label(x, "w") is x, with the derivative and
// the lanes of x. A label stays through copies and assignments, on the arguments that a transform
// passes to its function, and on a result that the function returns. Under vmap it also names
// the value of all lanes. The result of an operation is another value and has no label. An
// operation that has nothing to do (astype to x's own dtype) may return its operand with its label.
#pragma once

#include <string>

#include <stave/core/effects/name.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// Returns x with the label `name`, which replaces an earlier one; "" removes the label.
/// Throws TransformError for an empty Tensor.
Tensor label(Tensor x, std::string name);
/// Returns the label of x; "" if it has none.
std::string label_of(const Tensor& x);

}  // namespace stave

namespace stave_detail {

/// The label of the value; null if it has none.
stave::NamePtr label_of(const stave::Node& node);
/// Returns x with this label; null leaves x unchanged.
stave::Tensor relabel(stave::Tensor x, stave::NamePtr name);

}  // namespace stave_detail
