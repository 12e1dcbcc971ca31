// Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011), and the numbers drawn with it. Element i of a key's stream is the block at the 64-bit
// counter i, high word first, as in jax.random with jax_threefry_partitionable, JAX's default.
#pragma once

#include <cstring>

#include <stave/backends/cuda/random_plan.h>
#include <stave/backends/cuda/kernels/lane.cuh>

namespace stave_cuda {

struct Words {
  std::uint32_t w0, w1;
};

STAVE_BOTH inline std::uint32_t rotate_left(std::uint32_t x, int by) { return x << by | x >> (32 - by); }

STAVE_BOTH inline Words threefry(Words key, Words x) {
  constexpr int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const std::uint32_t schedule[3] = {key.w0, key.w1, key.w0 ^ key.w1 ^ 0x1BD11BDAu};
  x.w0 += schedule[0];
  x.w1 += schedule[1];
  for (std::uint32_t group = 0; group < 5; ++group) {
    for (int i = 0; i < 4; ++i) {
      x.w0 += x.w1;
      x.w1 = rotate_left(x.w1, rotations[group % 2][i]) ^ x.w0;
    }
    x.w0 += schedule[(group + 1) % 3];
    x.w1 += schedule[(group + 2) % 3] + group + 1;
  }
  return x;
}
STAVE_BOTH inline Words words_at(Words key, std::uint64_t counter) {
  return threefry(key, {static_cast<std::uint32_t>(counter >> 32), static_cast<std::uint32_t>(counter)});
}
STAVE_BOTH inline Words key_at(const KeyPlan::Keys& keys, std::uint64_t i) {
  const std::uint32_t* key = keys.words + keys.lead(i)[0];
  return {key[0], key[keys.second]};
}

STAVE_BOTH inline void fold_in(const FoldLoop& loop, Position p) {
  const std::uint64_t i = p.block * p.threads + p.thread;
  if (i >= loop.elements) return;
  const Words folded = threefry(key_at(loop.keys, i), {0, loop.data[loop.places(i)[0]]});
  loop.out[2 * i] = folded.w0;
  loop.out[2 * i + 1] = folded.w1;
}

/// Returns the bits of a number in [1, 2), with the exponent of 1 and a random mantissa. float16
/// takes its mantissa from the upper bits of 16 random bits, and bfloat16 from those of 8.
template <class T>
STAVE_BOTH BitsOf<T> bits_from_one(Words words) {
  const std::uint32_t word = words.w0 ^ words.w1;
  if constexpr (std::is_same_v<T, stave::Float16>) return static_cast<std::uint16_t>((word & 0xffff) >> 6 | 0x3c00);
  else if constexpr (std::is_same_v<T, stave::BFloat16>) return static_cast<std::uint16_t>((word & 0xff) >> 1 | 0x3f80);
  else if constexpr (std::is_same_v<T, float>) return word >> 9 | 0x3f800000u;
  else return (std::uint64_t{words.w0} << 32 | words.w1) >> 12 | std::uint64_t{0x3ff} << 52;
}
/// Returns a number in [0, 1). Subtracting 1 from a number in [1, 2) is exact.
template <class T>
STAVE_BOTH stave::Computed<T> unit_float(Words words) {
  const BitsOf<T> bits = bits_from_one<T>(words);
  T x;
  memcpy(&x, &bits, sizeof x);
  return computed(x) - 1;
}
struct DrawBits {
  using Out = std::uint32_t;
  static STAVE_BOTH std::uint32_t draw(const DrawLoop&, Words words) { return words.w0 ^ words.w1; }
};
/// Draws a number between low and high from u, which is in [0, 1):
///   max(low, fma(u, high - low, low))    all in T
///   max(low, u * (high - low) + low)     for 16-bit types, with each step rounded
template <class T>
struct DrawUniform {
  using Out = T;
  static STAVE_BOTH T draw(const DrawLoop& loop, Words words) {
    using L = Lane<stave::Computed<T>>;
    const auto rounded = [](L x) { return L(computed(element_of<T>(x.value))); };
    const L low(computed(element_of<T>(loop.low))), high(computed(element_of<T>(loop.high)));
    const L unit(unit_float<T>(words)), range = rounded(high - low);
    const L x = stave::is_half<T> ? rounded(rounded(unit * range) + low) : fma(unit, range, low);
    return element_of<T>(select(x < low, low, x).value);
  }
};
template <class Draw>
STAVE_BOTH void draw(const DrawLoop& loop, Position p) {
  const std::uint64_t i = p.block * p.threads + p.thread;
  if (i >= loop.elements) return;
  const std::uint64_t lane = loop.each.wide(i), counter = i - lane * loop.each.divisor;
  static_cast<typename Draw::Out*>(loop.out)[i] = Draw::draw(loop, words_at(key_at(loop.keys, lane), counter));
}

// ---- permutations: a round draws bits, sorts by bits, then by rows, and moves elements --------

STAVE_BOTH inline void draw_sort_keys(const PermutationLoop& loop, Position p) {
  const std::uint64_t i = p.block * p.threads + p.thread;
  if (i >= loop.elements) return;
  const std::uint64_t row = loop.length.wide(i);
  Words key = key_at(loop.keys, loop.first_row + row);
  for (int round = 0; round < loop.rounds_done; ++round) key = words_at(key, 0);
  const Words bits = words_at(words_at(key, 1), i - row * loop.length.divisor);
  loop.key[i] = bits.w0 ^ bits.w1;
  loop.position[i] = static_cast<std::uint32_t>(i);
}
STAVE_BOTH inline void take_rows(const PermutationLoop& loop, Position p) {
  const std::uint64_t i = p.block * p.threads + p.thread;
  if (i >= loop.elements) return;
  loop.key[i] = static_cast<std::uint32_t>(loop.length.wide(loop.order[i]));
  loop.position[i] = loop.order[i];
}
STAVE_BOTH inline void move_elements(const PermutationLoop& loop, Position p) {
  const std::uint64_t i = p.block * p.threads + p.thread;
  if (i >= loop.elements) return;
  const std::uint64_t at = loop.order[i];
  loop.to[i] = loop.from ? loop.from[at] : static_cast<std::int32_t>(at - loop.length.wide(at) * loop.length.divisor);
}

}  // namespace stave_cuda
