// Random numbers: explicit keys, counter-based, the same on every run and backend.
//
// The generator is Threefry-2x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011); split,
// fold_in, bits, uniform, bernoulli and permutation equal jax.random's with its default settings bit by bit, normal but
// for the rounding of erfinv, gumbel and categorical but for that of log. The same key gives the same numbers: split it.
//   auto [a, b] = split(Key(0));
#pragma once

#include <array>
#include <cstdint>

#include <stave/core/tensor/default_dtype.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {
struct KeyData;
}

namespace stave {

/// A key: two words, kept in a uint32 tensor of shape [2]. Under vmap, one for each lane: vmap(f)(xs, split(key, n)), where f takes
/// a Key; one for all lanes is `unmapped` in in_axes. What vmap takes and returns may be an array of keys, of shape [..., 2].
class Key {
 public:
  /// The words are the seed's upper and lower half. (JAX drops the upper one, unless 64-bit integers are enabled.)
  explicit Key(std::uint64_t seed, Device device = cpu);
  /// From a row of split(key, n), or an array of keys.
  Key(Tensor data);
  const Tensor& data() const noexcept { return data_; }

 private:
  friend struct stave_detail::KeyData;
  Tensor data_;
};

}  // namespace stave

namespace stave_detail {

// Transforms replace the data of a key by that of a lane, or of all lanes.
struct KeyData {
  static stave::Tensor& of(stave::Key& key) { return key.data_; }
  static const stave::Tensor& of(const stave::Key& key) { return key.data_; }
};
template <>
struct TensorOf<stave::Key> : KeyData {};

}  // namespace stave_detail

namespace stave {

/// n new keys, rows of a uint32 tensor [n, 2]: vmap over it, or Key(keys[i]).
Tensor split(const Key& key, Index n);
/// N new keys: auto [a, b] = split(key);
template <std::size_t N = 2>
std::array<Key, N> split(const Key& key) {
  const Tensor keys = split(key, static_cast<Index>(N));
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    return std::array<Key, N>{Key(keys[static_cast<Index>(i)])...};
  }(std::make_index_sequence<N>());
}
/// A new key of a key and a number (an epoch, a lane): the row `data` of split(key, n). A tensor has rank 0, and wraps
/// to 32 bits; vmap over more.
Key fold_in(const Key& key, std::uint32_t data);
Key fold_in(const Key& key, const Tensor& data);

/// Uniform uint32.
Tensor random_bits(const Key& key, const Shape& shape);
/// Uniform in [low, high), but that rounding may give `high`: in any floating dtype.
Tensor uniform(const Key& key, const Shape& shape = {}, double low = 0, double high = 1, Dtype dtype = default_dtype());
Tensor uniform(const Key& key, const Shape& shape, Dtype dtype);
/// Standard normal: sqrt(2) erfinv(u) of a uniform u in (-1, 1).
Tensor normal(const Key& key, const Shape& shape = {}, Dtype dtype = default_dtype());
/// true with probability p.
Tensor bernoulli(const Key& key, double p, const Shape& shape = {});
Tensor bernoulli(const Key& key, const Tensor& p);
/// Of the density exp(-x - exp(-x)), the standard Gumbel distribution: -log(-log(u)) of a uniform u in (0, 1).
Tensor gumbel(const Key& key, const Shape& shape = {}, Dtype dtype = default_dtype());
/// Positions along `axis`, drawn with the probabilities softmax(logits, axis): int32 (argmax's dtype), of logits' shape without the axis.
/// They are those of the largest logits + gumbel(key, logits.shape()); integers become default_dtype(), halves float32. A logit of -inf
/// is not drawn where another is larger. Throws ShapeError for an axis of length 0.
Tensor categorical(const Key& key, const Tensor& logits, Index axis = -1);
/// 0 ... n-1 in a random order, int32.
Tensor permutation(const Key& key, Index n);
/// The entries of x along its first axis in a random order.
Tensor permutation(const Key& key, const Tensor& x);

}  // namespace stave
