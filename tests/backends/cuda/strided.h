// Strided arrays with random layouts, for tests of kernels on the host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <stave/core/tensor/backend.h>

namespace stave_test {

using stave::Dtype;
using stave::Index;
using stave::Shape;
using stave::Strides;
using stave::View;

/// An array that owns its memory.
struct Array {
  Dtype dtype = Dtype::float32;
  Shape shape;
  Strides strides;
  std::vector<char> memory;
  // The offset of element (0, ..., 0), in elements.
  Index origin = 0;

  View view() {
    return {memory.data() + origin * static_cast<Index>(stave::size_of(dtype)), dtype, std::span<const Index>(shape),
            std::span<const Index>(strides)};
  }
  template <class T>
  T& at(Index offset) {
    return reinterpret_cast<T*>(memory.data())[origin + offset];
  }
};

inline Array contiguous(const Shape& shape, Dtype dtype) {
  Array array{dtype, shape, stave::contiguous_strides(shape), {}};
  array.memory.resize(static_cast<std::size_t>(std::max<Index>(1, shape.elements())) * stave::size_of(dtype));
  return array;
}

/// A random layout: axes in any order in memory, with gaps, reversed or broadcast.
/// The memory ends at the last element. The first element may be at any offset,
/// so that rows begin at any distance from an aligned pack.
inline Array any_layout(const Shape& shape, Dtype dtype, std::mt19937& random) {
  Array array{dtype, shape, shape, {}};
  std::vector<std::size_t> order(shape.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (random() % 2) std::shuffle(order.begin(), order.end(), random);
  const bool plain = random() % 3 == 0;
  Index step = 1, low = 0, high = 0;
  for (std::size_t k = order.size(); k-- > 0;) {
    const std::size_t axis = order[k];
    const unsigned kind = plain ? 9 : random() % 10;
    const Index gap = kind == 0 ? 2 : 1, sign = kind == 1 || kind == 2 ? -1 : 1;
    array.strides[axis] = kind == 3 ? 0 : sign * step * gap;
    const Index reach = array.strides[axis] * std::max<Index>(0, shape[axis] - 1);
    (reach < 0 ? low : high) += reach;
    if (kind != 3) step *= gap * std::max<Index>(1, shape[axis]);
  }
  const Index before = static_cast<Index>(random() % 4);
  array.origin = before - low;
  array.memory.resize(static_cast<std::size_t>(before + high - low + 1) * stave::size_of(dtype));
  return array;
}

inline Shape any_shape(std::mt19937& random) {
  static constexpr Index lengths[] = {1, 2, 3, 4, 5, 7, 8, 16, 31, 64, 70, 130, 300, 1000};
  for (;;) {
    Shape shape;
    const unsigned rank = random() % 5;
    for (unsigned i = 0; i < rank; ++i) shape.push_back(random() % 40 == 0 ? 0 : lengths[random() % 14]);
    if (shape.elements() <= 40000) return shape;
  }
}

/// Small numbers, so that many are equal. Floats include infinities, NaN and -0,
/// seldom or (with `wild`) often.
template <class T>
T any_element(std::mt19937& random, bool wild = false) {
  if constexpr (std::is_same_v<T, bool>) {
    return random() % 7 != 0;
  } else if constexpr (stave::is_half<T>) {
    return T(any_element<float>(random, wild));
  } else if constexpr (std::is_integral_v<T>) {
    if (random() % 2) return static_cast<T>(static_cast<std::uint64_t>(random()) << 32 | random());
    return static_cast<T>(random() % 20 - 10);
  } else {
    using Limits = std::numeric_limits<T>;
    const T special[] = {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), T(-0.)};
    if (random() % (wild ? 8 : 100000) == 0) return special[random() % 4];
    const T x = static_cast<T>(static_cast<std::int32_t>(random())) / T(1 << 28);
    return random() % 2 ? x : std::floor(x);
  }
}

inline void fill(Array& array, std::mt19937& random, bool wild = false) {
  stave::visit_real_dtype(array.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* to = reinterpret_cast<T*>(array.memory.data());
    for (std::size_t i = 0; i < array.memory.size() / sizeof(T); ++i) to[i] = any_element<T>(random, wild);
  });
}

/// Calls f(position) for all positions of `shape`, row-major.
template <class F>
void for_positions(const Shape& shape, F f) {
  if (shape.elements() == 0) return;
  Shape position = shape;
  std::fill(position.begin(), position.end(), 0);
  for (Index n = shape.elements(); n > 0; --n) {
    f(position);
    for (std::size_t axis = shape.size(); axis-- > 0 && ++position[axis] == shape[axis];) position[axis] = 0;
  }
}
inline Index offset_of(const Shape& position, const Strides& strides) {
  Index offset = 0;
  for (std::size_t i = 0; i < position.size(); ++i) offset += position[i] * strides[i];
  return offset;
}

}  // namespace stave_test
