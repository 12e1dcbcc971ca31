// The functions on trees that are not templates: they throw errors, or work on vectors of leaves.
#include <stave/core/ops/tree.h>

#include <stave/core/ops/complex.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

void fail_reference_member() {
  fail<TransformError>("a member of a tree is a reference to tensors that the tree does not own: hold them by value");
}

void check_same_structure(bool same, const char* what) {
  if (!same)
    fail<ShapeError>("{} differ in structure: in a length, in the keys of a map, or in which member is present", what);
}

Tensor ravel_leaves(const std::vector<Tensor>& leaves) {
  std::vector<Tensor> vectors;
  for (const Tensor& leaf : leaves) vectors.push_back(reshape(leaf, {-1}));
  return vectors.empty() ? zeros({0}) : concat(vectors);
}

std::vector<Tensor> unravel_leaves(const Tensor& vector, const TensorTypes& types) {
  Index total = 0;
  for (const auto& [shape, dtype] : types) total += shape.elements();
  if (vector.shape() != Shape(total))
    fail<ShapeError>("unravel: the tree has {} elements, but a tensor of shape {} was given", total, vector.shape());
  std::vector<Tensor> leaves;
  Index at = 0;
  for (const auto& [shape, dtype] : types) {
    const Index end = at + shape.elements();
    const Tensor part = reshape(vector(slice(at, end)), shape);
    leaves.push_back(astype(is_complex(dtype) ? part : real(part), dtype));
    at = end;
  }
  return leaves;
}

}  // namespace stave_detail
