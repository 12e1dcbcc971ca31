// Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011), vectorised over counters. Element i of a key's stream is the block at the 64-bit counter
// i, whose high word comes first, as in jax.random with jax_threefry_partitionable, JAX's default.
#include <stave/backends/cpu/kernels/fill.h>
#include <stave/backends/cpu/kernels/half.h>
#include <stave/backends/cpu/kernels/vec_math.h>

namespace STAVE_KERNELS {

using stave_cpu::Index;
using Word = Vec<std::uint32_t>;

template <int by>
STAVE_INLINE Word rotate_left(Word x) {
  return {(x.raw << by) | (x.raw >> (32 - by))};
}
template <int by>
STAVE_INLINE void mix(Word& x0, Word& x1) {
  x0 = x0 + x1;
  x1 = rotate_left<by>(x1);
  x1 = {x1.raw ^ x0.raw};
}

struct KeySchedule {
  std::uint32_t k[3];
  STAVE_INLINE KeySchedule(std::uint32_t k0, std::uint32_t k1) : k{k0, k1, k0 ^ k1 ^ 0x1BD11BDAu} {}
};

/// Replaces each 64-bit counter (x0, x1) by the two words of its Threefry block.
STAVE_INLINE void threefry(const KeySchedule& key, Word& x0, Word& x1) {
  x0 = x0 + Word(key.k[0]);
  x1 = x1 + Word(key.k[1]);
  for (std::uint32_t group = 0; group < 5; ++group) {
    if (group % 2 == 0) {
      mix<13>(x0, x1);
      mix<15>(x0, x1);
      mix<26>(x0, x1);
      mix<6>(x0, x1);
    } else {
      mix<17>(x0, x1);
      mix<29>(x0, x1);
      mix<16>(x0, x1);
      mix<24>(x0, x1);
    }
    x0 = x0 + Word(key.k[(group + 1) % 3]);
    x1 = x1 + Word(key.k[(group + 2) % 3] + group + 1);
  }
}

/// Sets x0 to the high words and x1 to the low words of the counters first, first + 1, ...
STAVE_INLINE void counters(std::uint64_t first, Word& x0, Word& x1) {
  Word::Raw step;
  for (int i = 0; i < Word::lanes; ++i) step[i] = static_cast<std::uint32_t>(i);
  Word low(static_cast<std::uint32_t>(first)), high(static_cast<std::uint32_t>(first >> 32));
  x1 = low + Word(step);
  x0 = select(x1 < low, high + Word(1), high);  // the carry
}

void random_bits(std::uint32_t* out, std::uint32_t key0, std::uint32_t key1, std::uint64_t first, Index n) {
  KeySchedule key(key0, key1);
  for (Index i = 0; i < n; i += Word::lanes) {
    Word x0, x1;
    counters(first + static_cast<std::uint64_t>(i), x0, x1);
    threefry(key, x0, x1);
    Word bits{x0.raw ^ x1.raw};
    if (i + Word::lanes <= n) bits.store(out + i);
    else __builtin_memcpy(out + i, &bits, static_cast<std::size_t>(n - i) * sizeof(std::uint32_t));
  }
}

void random_words(std::uint64_t* out, std::uint32_t key0, std::uint32_t key1, std::uint64_t first, Index n) {
  KeySchedule key(key0, key1);
  for (Index i = 0; i < n; i += Word::lanes) {
    Word x0, x1;
    counters(first + static_cast<std::uint64_t>(i), x0, x1);
    threefry(key, x0, x1);
    for (int lane = 0; lane < Word::lanes && i + lane < n; ++lane)
      out[i + lane] = static_cast<std::uint64_t>(x0.raw[lane]) << 32 | x1.raw[lane];
  }
}

// ---- floats in a range --------------------------------------------------------------------------
// The numbers use fma, which rounds once on every instruction set, so they do not depend
// on the machine.

/// Returns numbers in [0, 1). The random bits, as the mantissa with the exponent of 1, are a number
/// in [1, 2); subtracting 1 is exact.
STAVE_INLINE F32 unit(Vec<std::uint32_t> bits) {
  return F32{reinterpret_cast<F32::Raw>((bits.raw >> 9) | Word(0x3f800000u).raw)} - F32(1);
}
STAVE_INLINE F64 unit(Vec<std::uint64_t> bits) {
  return F64{reinterpret_cast<F64::Raw>((bits.raw >> 12) | Vec<std::uint64_t>(std::uint64_t{0x3ff} << 52).raw)} -
         F64(1);
}
template <class T>
STAVE_INLINE Vec<T> in_range(Vec<T> u, T low, T high) {
  Vec<T> x = fma(u, Vec<T>(high - low), Vec<T>(low));
  return select(x < Vec<T>(low), Vec<T>(low), x);
}

template <class T, class Bits>
void random_uniform(void* out, std::uint32_t key0, std::uint32_t key1, std::uint64_t first, Index n, double low,
                    double high) {
  constexpr Index block = 256;
  Bits bits[block];
  T* to = static_cast<T*>(out);
  for (Index i = 0; i < n; i += block) {
    Index count = n - i < block ? n - i : block;
    for (Index j = count; j < block && j % Vec<T>::lanes != 0; ++j) bits[j] = 0;
    if constexpr (sizeof(T) == 4) random_bits(bits, key0, key1, first + static_cast<std::uint64_t>(i), count);
    else random_words(bits, key0, key1, first + static_cast<std::uint64_t>(i), count);
    for (Index j = 0; j < count; j += Vec<T>::lanes) {
      Vec<T> x = in_range<T>(unit(Vec<Bits>::load(bits + j)), static_cast<T>(low), static_cast<T>(high));
      if (j + Vec<T>::lanes <= count) x.store(to + i + j);
      else __builtin_memcpy(to + i + j, &x, static_cast<std::size_t>(count - j) * sizeof(T));
    }
  }
}

/// Draws sixteen-bit floats. Each takes whole bytes from the low end of a random word, and the
/// highest bits of these bytes become its mantissa. Each step is rounded to T, as in jax.random.
template <class T>
void random_uniform_half(void* out, std::uint32_t key0, std::uint32_t key1, std::uint64_t first, Index n, double low,
                         double high) {
  constexpr bool is_float16 = std::is_same_v<T, Float16>;
  constexpr std::uint32_t drawn = is_float16 ? 16 : 8, mantissa = is_float16 ? 10 : 7,
                          one = is_float16 ? 0x3c00 : 0x3f80;
  const T least = T(low), width = T(T(high) - least);
  T* to = static_cast<T*>(out);
  constexpr Index block = 256;
  std::uint32_t words[block];
  for (Index i = 0; i < n; i += block) {
    const Index count = n - i < block ? n - i : block;
    random_bits(words, key0, key1, first + static_cast<std::uint64_t>(i), count);
    for (Index j = 0; j < count; ++j) {
      T number;
      number.bits = static_cast<std::uint16_t>((words[j] & ((1u << drawn) - 1)) >> (drawn - mantissa) | one);
      const T x = T(T((number - 1.0f) * width) + least);
      to[i + j] = x < least ? least : x;
    }
  }
}

void fill_random(stave_cpu::Kernels& table) {
  table.random_bits = random_bits;
  table.random_words = random_words;
  table.random_uniform[static_cast<int>(stave_cpu::Dtype::float16)] = random_uniform_half<Float16>;
  table.random_uniform[static_cast<int>(stave_cpu::Dtype::bfloat16)] = random_uniform_half<BFloat16>;
  table.random_uniform[static_cast<int>(stave_cpu::Dtype::float32)] = random_uniform<float, std::uint32_t>;
  table.random_uniform[static_cast<int>(stave_cpu::Dtype::float64)] = random_uniform<double, std::uint64_t>;
}

}  // namespace STAVE_KERNELS
