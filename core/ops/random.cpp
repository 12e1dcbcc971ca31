// Random numbers. The operations hash counters with a key, as attributes.h describes. All other
// functions are composed of these operations.
//
// Keys may have leading batch axes, so the batch of a vmap becomes one more of these.
// With split keys each lane gets the numbers that a loop over the keys would get.

#include <stave/core/ops/random.h>

#include <cmath>
#include <limits>
#include <numbers>

#include <stave/core/op/op.h>
#include <stave/core/ops/complex.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using stave_detail::computed_in, stave_detail::fail, stave_detail::floating, stave_detail::require_defined,
    stave_detail::named;

namespace {

// Returns the batch axes of keys [batch..., 2]. Throws for other dtypes or shapes.
Shape batch_of(const Tensor& keys, const char* operation) {
  if (keys.dtype() != uint32 || keys.rank() == 0 || keys.shape(-1) != 2)
    fail<ShapeError>("{}: keys are uint32 tensors of shape [..., 2], not {} {}", operation, keys.dtype(), keys.shape());
  Shape batch = keys.shape();
  batch.pop_back();
  return batch;
}

// Adds the inferred result to `outputs`: `dtype` with the shape [batch..., shape...], where
// batch... are the leading axes of the keys.
void infer_drawn(const Call& call, const Shape& shape, Dtype dtype, SmallVector<Abstract, 1>& outputs) {
  Shape result = batch_of(call.input(0), call.op().name);
  for (Index length : shape) {
    if (length < 0) fail<ShapeError>("{}: shape {} has a negative length", call.op().name, shape);
    result.push_back(length);
  }
  outputs.push_back({std::move(result), dtype});
}

void infer_fold_in(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor &keys = call.input(0), &data = call.input(1);
  if (data.dtype() != uint32 || batch_of(keys, "fold_in") != data.shape())
    fail<ShapeError>("fold_in: data must be uint32, one number for each key here, not {} {} for keys {}", data.dtype(),
                     data.shape(), keys.shape());
  outputs.push_back({keys.shape(), uint32});
}

void infer_random_bits(const Call& call, SmallVector<Abstract, 1>& outputs) {
  infer_drawn(call, call.as<RandomAttributes>().shape, uint32, outputs);
}

void infer_random_uniform(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const auto& attributes = call.as<UniformAttributes>();
  if (!is_float(attributes.dtype))
    fail<DtypeError>("random_uniform: {} is not a floating dtype: draw floats and convert with astype",
                     attributes.dtype);
  infer_drawn(call, attributes.shape, attributes.dtype, outputs);
}

void infer_random_permutation(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Shape& shape = call.as<RandomAttributes>().shape;
  if (shape.rank() != 1 || shape[0] > std::numeric_limits<std::int32_t>::max())
    fail<ShapeError>("random_permutation: {} is not a single length that int32 can hold", shape);
  infer_drawn(call, shape, int32, outputs);
}

constexpr Op random_op(OpId id, const char* name, decltype(Op::infer) infer) {
  return {.id = id, .name = name, .infer = infer, .derivative = Derivative::zero, .batch = batch_in_front};
}

}  // namespace

constinit const Op op_fold_in = random_op(OpId::fold_in, "fold_in", infer_fold_in);
constinit const Op op_random_bits = random_op(OpId::random_bits, "random_bits", infer_random_bits);
constinit const Op op_random_uniform = random_op(OpId::random_uniform, "random_uniform", infer_random_uniform);
constinit const Op op_random_permutation =
    random_op(OpId::random_permutation, "random_permutation", infer_random_permutation);

// ---- keys -----------------------------------------------------------------------------------

Key::Key(std::uint64_t seed, Device device)
    : data_(from(std::vector{static_cast<std::uint32_t>(seed >> 32), static_cast<std::uint32_t>(seed)}, device)) {}

Key::Key(Tensor data) : data_(std::move(data)) {
  if (require_defined(data_, "Key").dtype() != uint32 || data_.rank() == 0 || data_.shape(-1) != 2)
    fail<ShapeError>("Key: a key is a uint32 tensor of shape [2], not {} {}: give one row of split(key, n)",
                     data_.dtype(), data_.shape());
}

// Row i of the result is the key fold_in(key, i).
Tensor split(const Key& key, Index n) {
  if (n < 0) fail<ShapeError>("split: {} keys", n);
  if (key.data().rank() != 1) fail<ShapeError>("split: an array of keys {}: vmap over it", key.data().shape());
  return named("split", [&] {
    const Tensor counters = arange(0, n, 1, uint32, key.data().device());
    return apply(op_fold_in, {broadcast_to(key.data(), {n, 2}), counters});
  });
}

Key fold_in(const Key& key, std::uint32_t data) {
  return Key(apply(op_fold_in, {key.data(), full({}, data, uint32, key.data().device())}));
}

Key fold_in(const Key& key, const Tensor& data) {
  if (!is_integer(require_defined(data, "fold_in", 1).dtype()))
    fail<DtypeError>("fold_in: data is {}, not an integer", data.dtype());
  if (data.rank() != 0) fail<ShapeError>("fold_in: data has shape {}, not []: vmap over it", data.shape());
  return Key(apply(op_fold_in, {key.data(), astype(data, uint32)}));
}

// ---- numbers --------------------------------------------------------------------------------

Tensor random_bits(const Key& key, const Shape& shape) {
  return apply(op_random_bits, {key.data()}, make_intrusive<RandomAttributes>(shape));
}

Tensor uniform(const Key& key, const Shape& shape, double low, double high, Dtype dtype) {
  return named("uniform", [&] {
    return apply(op_random_uniform, {key.data()}, make_intrusive<UniformAttributes>(shape, dtype, low, high));
  });
}

Tensor uniform(const Key& key, const Shape& shape, Dtype dtype) { return uniform(key, shape, 0, 1, dtype); }

// The result is sqrt(2) erfinv(u) of a uniform u in (-1, 1). u begins slightly above -1, because
// erfinv(-1) is infinite.
Tensor normal(const Key& key, const Shape& shape, Dtype dtype) {
  const double digits = dtype == float64 ? 53 : dtype == float32 ? 24 : dtype == float16 ? 11 : 8;
  const double low = std::exp2(-digits) - 1;
  if (is_complex(dtype))
    return named("normal", [&] {
      const auto [of_real, of_imaginary] = split(key);
      const Dtype part = real_of(dtype);
      return complex(normal(of_real, shape, part) / std::numbers::sqrt2,
                     normal(of_imaginary, shape, part) / std::numbers::sqrt2);
    });
  return named("normal", [&] { return std::numbers::sqrt2 * erfinv(uniform(key, shape, low, 1, dtype)); });
}

Tensor bernoulli(const Key& key, double p, const Shape& shape) {
  return named("bernoulli", [&] { return uniform(key, shape, float32) < p; });
}

Tensor bernoulli(const Key& key, const Tensor& p) {
  require_defined(p, "bernoulli", 1);
  return named("bernoulli", [&] { return uniform(key, p.shape(), is_float(p.dtype()) ? p.dtype() : float32) < p; });
}

Tensor gumbel(const Key& key, const Shape& shape, Dtype dtype) {
  const double smallest = dtype == float64 ? 0x1p-1022 : dtype == float16 ? 0x1p-14 : 0x1p-126;
  return named("gumbel", [&] {
    const Tensor u = astype(uniform(key, shape, smallest, 1, dtype), computed_in(dtype));
    return astype(-log(-log(u)), dtype);
  });
}

Tensor categorical(const Key& key, const Tensor& logits, Index axis) {
  require_defined(logits, "categorical", 1);
  return named("categorical", [&] {
    const Tensor x = floating(logits), wide = astype(x, computed_in(x.dtype()));
    return argmax(wide + gumbel(key, wide.shape(), wide.dtype()), axis);
  });
}

Tensor permutation(const Key& key, Index n) {
  return named("permutation",
               [&] { return apply(op_random_permutation, {key.data()}, make_intrusive<RandomAttributes>(Shape(n))); });
}

Tensor permutation(const Key& key, const Tensor& x) {
  if (require_defined(x, "permutation", 1).rank() == 0)
    fail<ShapeError>("permutation: a tensor of rank 0 has no entries to permute");
  return take(x, permutation(key, x.shape(0)), 0);
}

}  // namespace stave
