// Executes the bodies of kernels on the host, with loops over blocks and threads.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <stave/backends/cuda/elementwise_plan.h>
#include <stave/core/tensor/backend.h>

#include "cuda/rounding.h"

namespace stave_cuda {

/// Calls body(Position) for all threads of all blocks. The blocks run from last to first,
/// because no result may depend on their order.
template <class Body>
void for_each_thread(std::uint64_t blocks, Body body, unsigned threads = block_threads) {
  for (std::uint64_t block = blocks; block-- > 0;)
    for (unsigned thread = 0; thread < threads; ++thread) body(Position{block, thread, threads});
}

/// Memory with a view of it, aligned as a storage is. Guard bytes around the elements detect writes
/// outside.
class Buffer {
 public:
  /// Holds the elements that the strides reach.
  Buffer(stave::Dtype dtype, const stave::Shape& shape, const stave::Strides& strides, std::size_t misaligned_by = 0)
      : dtype_(dtype), shape_(shape), strides_(strides), size_(stave::size_of(dtype)) {
    Index low = 0, high = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == 0) {
        low = 0, high = -1;
        break;
      }
      Index reach = (shape[i] - 1) * strides[i];
      (reach < 0 ? low : high) += reach;
    }
    elements_ = static_cast<std::size_t>(high - low + 1);
    begin_ = guard + misaligned_by * size_;
    origin_ = begin_ + static_cast<std::size_t>(-low) * size_;
    memory_.resize((begin_ + elements_ * size_ + guard) / 64 + 1);
    std::memset(memory_.data(), 0xa5, memory_.size() * 64);
  }
  Buffer(stave::Dtype dtype, const stave::Shape& shape) : Buffer(dtype, shape, contiguous_strides(shape)) {}

  /// A new buffer with the same layout.
  Buffer like(stave::Dtype dtype) const { return Buffer(dtype, shape_, strides_, (begin_ - guard) / size_); }

  View view() const { return {const_cast<char*>(bytes()) + origin_, dtype_, shape_, strides_}; }
  std::size_t elements() const { return elements_; }
  stave::Dtype dtype() const { return dtype_; }
  /// The elements in memory order, independent of the strides.
  template <class T>
  T* data() {
    return reinterpret_cast<T*>(bytes_() + begin_);
  }
  template <class T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes() + begin_);
  }
  /// The element with this row-major index.
  template <class T>
  T at(Index index) const {
    Index offset = 0;
    for (std::size_t i = shape_.size(); i-- > 0;) {
      offset += index % shape_[i] * strides_[i];
      index /= shape_[i];
    }
    T value;
    std::memcpy(&value, bytes() + origin_ + offset * static_cast<Index>(size_), sizeof value);
    return value;
  }
  bool guards_are_whole() const {
    const char* all = bytes();
    for (std::size_t i = 0; i < memory_.size() * 64; ++i)
      if ((i < begin_ || i >= begin_ + elements_ * size_) && all[i] != static_cast<char>(0xa5)) return false;
    return true;
  }

 private:
  static constexpr std::size_t guard = 64;
  struct alignas(64) Line {
    char bytes[64];
  };
  const char* bytes() const { return memory_[0].bytes; }
  char* bytes_() { return memory_[0].bytes; }

  stave::Dtype dtype_;
  stave::Shape shape_;
  stave::Strides strides_;
  std::size_t size_, elements_, begin_, origin_;
  std::vector<Line> memory_;
};

/// A value of a random kind: small, large, ties, zeros of both signs, the ends of the range,
/// infinities and NaN.
template <class T>
T any_value(std::uint64_t bits) {
  const int kind = static_cast<int>(bits & 15);
  if constexpr (std::is_same_v<T, bool>) {
    return bits & 1;
  } else if constexpr (stave::is_half<T>) {
    return T(any_value<float>(bits));
  } else if constexpr (std::is_floating_point_v<T>) {
    constexpr T specials[] = {T(0), T(-0.0), T(HUGE_VAL), T(-HUGE_VAL), T(NAN), T(1), T(-1), T(0.5), T(-2.5), T(3e9)};
    if (kind < 2) return specials[(bits >> 8) % 10];
    if (kind < 4) return static_cast<T>(static_cast<int>((bits >> 8) % 9) - 4);
    if (kind < 6)
      return std::ldexp(T(1) + static_cast<T>((bits >> 20) & 0xff) / 256, static_cast<int>((bits >> 8) % 100) - 50);
    return (static_cast<T>(bits >> 11) * T(0x1p-53) - T(0.5)) * T(kind);
  } else {
    if (kind < 8) return static_cast<T>(static_cast<int>((bits >> 8) % 9) - 4);
    if (kind < 10) return std::numeric_limits<T>::min();
    if (kind < 12) return std::numeric_limits<T>::max();
    return static_cast<T>(bits >> 8);
  }
}
template <class T>
void fill_with_values(Buffer& buffer, std::mt19937_64& random) {
  T* data = buffer.data<T>();
  for (std::size_t i = 0; i < buffer.elements(); ++i) data[i] = any_value<T>(random());
}

/// A copy as float32 if the dtype is a 16-bit float, in the same layout; else the buffer itself.
inline Buffer widened(const Buffer& buffer) {
  if (!is_half_float(buffer.dtype())) return buffer;
  Buffer wide = buffer.like(stave::float32);
  stave::visit_real_dtype(buffer.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for (std::size_t i = 0; i < wide.elements(); ++i)
      if constexpr (stave::is_half<T>) wide.data<float>()[i] = buffer.data<T>()[i];
  });
  return wide;
}
/// The elements of `exact`, in row-major order, each rounded once to a 16-bit dtype.
inline Buffer rounded_to(stave::Dtype dtype, const Buffer& exact, const stave::Shape& shape) {
  Buffer result(dtype, shape);
  stave::visit_real_dtype(exact.dtype(), [&](auto from) {
    stave::visit_real_dtype(dtype, [&](auto to) {
      using To = decltype(to);
      for (Index i = 0; i < shape.elements(); ++i)
        if constexpr (stave::is_half<To>)
          result.data<To>()[i] = stave_test::rounded<To>(static_cast<long double>(exact.at<decltype(from)>(i)));
    });
  });
  return result;
}

}  // namespace stave_cuda
