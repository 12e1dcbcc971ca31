// The parameters of a convolution for its algorithms: lengths along three spatial axes,
// and the layout of the operands. In these files, a "place" is a position of the result along
// the spatial axes, a "tap" is an element of the window, and a "term" is a tap of one channel.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include <stave/backends/cpu/parallel.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

using stave::ConvolutionAttributes;
using stave::Dtype;
using stave::Index;
using stave::View;

using Triple = std::array<Index, 3>;

// The least number of multiplications for which a separate task pays.
inline constexpr Index least_work = Index{1} << 17;
// The least number of bytes of a row for which vectors pay.
inline constexpr Index vector_part = 48;
// The part of the L1 and of the L2 cache that one task uses, in bytes.
inline constexpr Index first_cache = Index{1} << 14, second_cache = Index{1} << 18;

inline Index volume(const Triple& lengths) { return lengths[0] * lengths[1] * lengths[2]; }

/// One operand, x, w or the result: its address, and its steps in bytes along its first three axes
/// (`lead`) and its spatial axes (`step`).
struct Operand {
  char* data;
  Triple lead, step;
};

/// The parameters of a convolution with three spatial axes. A convolution with fewer axes has
/// leading axes of length 1. x is not dilated.
struct Convolution {
  Dtype dtype;
  Index size;             // bytes of an element
  Index n, groups, o, c;  // images, groups, and channels of the result and of x in each group
  Triple in, window, out, stride, dilation, low;
  Operand x, w, y;  // x [n, groups, c, in], w [groups, o, c, window], y [n, groups, o, out]
  Index terms() const { return c * volume(window); }
  Index work() const { return n * groups * o * terms() * volume(out); }
  /// The length of the range of x that a window covers along an axis, with the gaps of the
  /// dilation.
  Index reach(std::size_t axis) const { return (window[axis] - 1) * dilation[axis] + 1; }
};

/// Returns the last `axes` entries of `all`. Missing leading entries are `fill`.
inline Triple spatial(std::span<const Index> all, std::size_t axes, Index fill) {
  Triple result{fill, fill, fill};
  std::copy(all.end() - static_cast<std::ptrdiff_t>(axes), all.end(), result.end() - static_cast<std::ptrdiff_t>(axes));
  return result;
}

inline Operand operand(const View& view, std::size_t axes, Index size) {
  Operand result{static_cast<char*>(view.data), {}, spatial(view.strides, axes, 0)};
  for (std::size_t i = 0; i < 3; ++i) result.lead[i] = view.strides[i] * size;
  for (Index& step : result.step) step *= size;
  return result;
}

inline Convolution convolution_of(const ConvolutionAttributes& a, const View& x, const View& w, const View& out) {
  const std::size_t axes = a.strides.size();
  const auto size = static_cast<Index>(stave::size_of(out.dtype));
  return {.dtype = out.dtype,
          .size = size,
          .n = x.shape[0],
          .groups = w.shape[0],
          .o = w.shape[1],
          .c = w.shape[2],
          .in = spatial(x.shape, axes, 1),
          .window = spatial(w.shape, axes, 1),
          .out = spatial(out.shape, axes, 1),
          .stride = spatial(a.strides, axes, 1),
          .dilation = spatial(a.dilations, axes, 1),
          .low = spatial(a.low, axes, 0),
          .x = operand(x, axes, size),
          .w = operand(w, axes, size),
          .y = operand(out, axes, size)};
}

/// Returns true if threads would share so many tasks unevenly, and smaller tasks pay.
inline bool has_few_tasks(const Convolution& p, Index tasks) {
  const Index threads = thread_count();
  return tasks < 4 * threads && tasks % threads != 0 && p.work() / tasks > 2 * least_work;
}

inline Index ceil_divide(Index a, Index b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }
inline Index floor_divide(Index a, Index b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/// The indices j in [0, count) for which first + j * step lies in [0, length).
struct Range {
  Index first, last;
  Range(Index first_, Index step, Index length, Index count)
      : first(std::clamp<Index>(ceil_divide(-first_, step), 0, count)),
        last(std::clamp<Index>(floor_divide(length - 1 - first_, step) + 1, first, count)) {}
};

/// Sets dst[j] = x[first + j * step] for j < count, or 0 where the index is outside of x, which has
/// `length` elements. x_step is in bytes.
template <class T>
void copy_run(T* dst, const char* x, Index x_step, Index first, Index step, Index length, Index count) {
  const Range range(first, step, length, count);
  Index j = 0;
  for (; j < range.first; ++j) dst[j] = T{};
  const char* from = x + (first + j * step) * x_step;
  const Index each = step * x_step;
  if (each == static_cast<Index>(sizeof(T))) {
    std::memcpy(dst + j, from, static_cast<std::size_t>(range.last - j) * sizeof(T));
    j = range.last;
  } else if (each == 2 * static_cast<Index>(sizeof(T))) {  // compilers make vectors of this loop
    const T* const elements = reinterpret_cast<const T*>(from);
    for (Index i = 0; i < range.last - j; ++i) dst[j + i] = elements[2 * i];
    j = range.last;
  } else {
    for (; j < range.last; ++j, from += each) dst[j] = *reinterpret_cast<const T*>(from);
  }
  for (; j < count; ++j) dst[j] = T{};
}

}  // namespace stave_cpu
