// Random numbers. An attribute `seed` makes a key of its own; without one, the key comes from
// next_key. ONNX leaves the generator open, so the numbers are Stave's.
#include <stave/core/ops/random.h>

#include <bit>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/handlers/model/keys.h>
#include <stave/handlers/onnx/operators.h>

namespace stave_detail {

namespace {

constexpr auto random_results = OnnxOperator::Known::never;

Key key_of(const NodeCall& n) {
  if (!n.has("seed")) return next_key();
  return Key(std::bit_cast<std::uint32_t>(static_cast<float>(n.number("seed", 0))));
}

Shape shape_attribute(const NodeCall& n) { return Shape(n.integers("shape").value_or(std::vector<Index>())); }
// The dtype of the attribute, or that of the input.
Dtype dtype_like(const NodeCall& n) {
  return n.has("dtype") ? n.dtype("dtype") : is_float(n(0).dtype()) ? n(0).dtype() : float32;
}

Tensor normal_numbers(const NodeCall& n, const Shape& shape, Dtype dtype) {
  return normal(key_of(n), shape, dtype) * n.number("scale", 1) + n.number("mean", 0);
}
Tensor uniform_numbers(const NodeCall& n, const Shape& shape, Dtype dtype) {
  return uniform(key_of(n), shape, n.number("low", 0), n.number("high", 1), dtype);
}

Tensor bernoulli_numbers(const NodeCall& n) {
  return astype(bernoulli(key_of(n), n(0)), n.dtype("dtype", n(0).dtype()));
}

Tensor multinomial(const NodeCall& n) {
  const Tensor& logits = n(0);
  const Index samples = n.integer("sample_size", 1);
  const Tensor each = broadcast_to(expand_dims(logits, 1), {logits.shape(0), samples, logits.shape(1)});
  return astype(categorical(key_of(n), each), n.dtype("dtype", int32));
}

// In inference, dropout changes nothing.
OnnxValues dropped_out(const NodeCall& n) {
  const Tensor& x = n(0);
  const bool by_input = n.opset() >= 12, training = by_input && n.has(2) && n.integer(2) != 0;
  const double ratio = by_input && n.has(1) ? n.fixed_number(1) : n.number("ratio", 0.5);
  if (!training || ratio == 0) return {OnnxValue(x), OnnxValue(ones_like(x, n.opset() < 10 ? x.dtype() : bool_))};
  if (!(ratio > 0 && ratio < 1)) n.refuse("the ratio must lie in [0, 1), not {}", ratio);
  const Tensor kept =
      bernoulli(n.has("seed") ? Key(static_cast<std::uint64_t>(n.integer("seed"))) : next_key(), 1 - ratio, x.shape());
  return results({where(kept, x / (1 - ratio), zeros_like(x)), kept});
}

constexpr OnnxOperator random_rows[] = {
    {"Bernoulli", 15, bernoulli_numbers, random_results},
    {"Dropout", 7, dropped_out, random_results},
    {"Multinomial", 7, multinomial, random_results},
    {"RandomNormal", 1,
     [](const NodeCall& n) { return normal_numbers(n, shape_attribute(n), n.dtype("dtype", float32)); },
     random_results},
    {"RandomNormalLike", 1, [](const NodeCall& n) { return normal_numbers(n, n(0).shape(), dtype_like(n)); },
     random_results},
    {"RandomUniform", 1,
     [](const NodeCall& n) { return uniform_numbers(n, shape_attribute(n), n.dtype("dtype", float32)); },
     random_results},
    {"RandomUniformLike", 1, [](const NodeCall& n) { return uniform_numbers(n, n(0).shape(), dtype_like(n)); },
     random_results},
};

}  // namespace

std::span<const OnnxOperator> onnx_random() { return random_rows; }

}  // namespace stave_detail
