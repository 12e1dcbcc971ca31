// Labels: names that values carry, for whoever looks at a program from outside.
//
//   const Tensor h = label(tanh(matmul(x, w)), "hidden");      // traces show hidden:f32[64,30], graphs and whos() name it
//
// A label belongs to a value, and performs nothing: label(x, "w") is x, with the derivative and the lanes of x. It stays through
// copies and assignments, on the arguments that a transform gives to its function, and on a result that it returns; under
// vmap it names the value of all lanes, too. What an operation computes is another value, and has no label; an operation
// that has nothing to do (astype to x's own dtype) may return its operand, label and all.
#pragma once

#include <string>

#include <stave/core/effects/name.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// x under the name `name`, in place of what label it had; "" takes that away. Throws TransformError for an empty Tensor.
Tensor label(Tensor x, std::string name);
/// The label of x; "" if it has none.
std::string label_of(const Tensor& x);

}  // namespace stave

namespace stave_detail {

/// Null if the value has none.
stave::NamePtr label_of(const stave::Node& node);
/// x under that name; null leaves x as it is.
stave::Tensor relabel(stave::Tensor x, stave::NamePtr name);

}  // namespace stave_detail
