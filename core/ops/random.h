// Random numbers from explicit keys and a counter-based generator: the same on every run
// and backend.
//
// The generator is Threefry-2x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011). split, fold_in, bits, uniform, bernoulli and permutation equal the functions of jax.random
// with its default settings bit by bit. normal equals them except for the rounding of erfinv,
// gumbel and categorical except for the rounding of log. The same key gives the same numbers,
// so split a key before each use.
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

/// A key: two words in a uint32 tensor of shape [2]. Under vmap each lane has a key:
/// `vmap(f)(xs, split(key, n))`, where f takes a Key. To use one key in all lanes, pass `unmapped`
/// in in_axes. Arguments and results of vmap may be arrays of keys, of shape [..., 2].
class Key {
 public:
  /// A key whose words are the upper and the lower half of the seed. (JAX drops the upper half,
  /// unless 64-bit integers are enabled.)
  explicit Key(std::uint64_t seed, Device device = cpu);
  /// A key from a row of split(key, n), or an array of keys. Throws ShapeError unless `data` is
  /// uint32 of shape [..., 2].
  Key(Tensor data);
  const Tensor& data() const noexcept { return data_; }

 private:
  friend struct stave_detail::KeyData;
  Tensor data_;
};

}  // namespace stave

namespace stave_detail {

// Gives transforms access to the data of a key, which they replace by the data of one lane or of
// all lanes.
struct KeyData {
  static stave::Tensor& of(stave::Key& key) { return key.data_; }
  static const stave::Tensor& of(const stave::Key& key) { return key.data_; }
};
template <>
struct LeafOf<stave::Key> : KeyData {};

}  // namespace stave_detail

namespace stave {

/// n new keys, as the rows of a uint32 tensor [n, 2]. Use vmap over it, or Key(keys[i]).
Tensor split(const Key& key, Index n);
/// N new keys: auto [a, b] = split(key);
template <std::size_t N = 2>
std::array<Key, N> split(const Key& key) {
  const Tensor keys = split(key, static_cast<Index>(N));
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    return std::array<Key, N>{Key(keys[static_cast<Index>(i)])...};
  }(std::make_index_sequence<N>());
}
/// A new key made of a key and a number, such as an epoch or a lane: row `data` of split(key, n).
/// A tensor must have rank 0, and its number wraps to 32 bits; vmap over several numbers.
Key fold_in(const Key& key, std::uint32_t data);
Key fold_in(const Key& key, const Tensor& data);

/// Uniformly distributed uint32 numbers.
Tensor random_bits(const Key& key, const Shape& shape);
/// Uniformly distributed numbers in [low, high), in any floating dtype. Rounding may produce `high`
/// itself.
Tensor uniform(const Key& key, const Shape& shape = {}, double low = 0, double high = 1, Dtype dtype = default_dtype());
Tensor uniform(const Key& key, const Shape& shape, Dtype dtype);
/// Standard normal numbers: sqrt(2) erfinv(u) of a uniform u in (-1, 1).
Tensor normal(const Key& key, const Shape& shape = {}, Dtype dtype = default_dtype());
/// Bools that are true with probability p.
Tensor bernoulli(const Key& key, double p, const Shape& shape = {});
Tensor bernoulli(const Key& key, const Tensor& p);
/// Numbers of the standard Gumbel distribution, whose density is exp(-x - exp(-x)): -log(-log(u))
/// of a uniform u in (0, 1).
Tensor gumbel(const Key& key, const Shape& shape = {}, Dtype dtype = default_dtype());
/// Positions along `axis`, drawn with the probabilities softmax(logits, axis).
/// Each is the position of the largest element of logits + gumbel(key, logits.shape()).
/// The result has the dtype of argmax (int32) and the shape of logits without the axis.
/// Integer logits become default_dtype(), 16-bit floats become float32. A logit of -inf is not
/// drawn if another one is larger. Throws ShapeError for an axis of length 0.
Tensor categorical(const Key& key, const Tensor& logits, Index axis = -1);
/// The numbers 0 ... n-1 in a random order, int32.
Tensor permutation(const Key& key, Index n);
/// The entries of x along its first axis in a random order.
Tensor permutation(const Key& key, const Tensor& x);

}  // namespace stave
