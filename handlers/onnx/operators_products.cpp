// Matrix products and other contractions.
#include <algorithm>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>
#include <stave/handlers/onnx/operators.h>

namespace stave_detail {

namespace {

// alpha a b + beta c
Tensor gemm(const NodeCall& n) {
  const Tensor a = n.integer("transA", 0) != 0 ? transpose(n(0)) : n(0);
  const Tensor b = n.integer("transB", 0) != 0 ? transpose(n(1)) : n(1);
  const double alpha = n.number("alpha", 1), beta = n.number("beta", 1);
  const Dtype dtype = a.dtype();
  Tensor y = matmul(a, b);
  if (alpha != 1) y = astype(y * alpha, dtype);
  if (!n.has(2) || beta == 0) return y;
  return y + (beta == 1 ? n(2) : astype(n(2) * beta, dtype));
}

Tensor einsum_of(const NodeCall& n) {
  std::string equation = n.text("equation", "");
  std::erase(equation, ' ');
  return einsum(equation, n.tensors());
}

constexpr OnnxOperator products_rows[] = {
    {"Det", 11, [](const NodeCall& n) { return det(n(0)); }},
    {"Einsum", 12, einsum_of},
    {"Gemm", 7, gemm},
    {"MatMul", 1, [](const NodeCall& n) { return matmul(n(0), n(1)); }},
};

}  // namespace

std::span<const OnnxOperator> onnx_products() { return products_rows; }

}  // namespace stave_detail
