// Where windows have their largest elements: tap by tap over rows of results, so that the first of equal ones stays.
#include <stave/backends/cpu/pooling.h>

#include <algorithm>
#include <memory>

#include <stave/backends/cpu/in_floats.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

using stave::PoolAttributes;
using stave::Shape;
using stave::View;

namespace {

/// What one axis has of a window.
struct PoolAxis {
  Index length = 1, window = 1, stride = 1, dilation = 1, low = 0, results = 1;
  /// The results [first, last) for which tap k lies in the axis.
  void range(Index k, Index& first, Index& last) const {
    const Index at = k * dilation - low;  // of result 0
    first = at >= 0 ? 0 : std::min(results, (-at + stride - 1) / stride);
    last = at >= length ? 0 : std::min(results, (length - 1 - at) / stride + 1);
    last = std::max(first, last);
  }
};

template <class T>
inline bool beats(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a > b || (a != a && b == b);
  else return a > b;
}

/// One plane of up to three axes, dense.
template <class T, class I>
class Plane {
 public:
  Plane(const PoolAttributes& a, std::span<const Index> lengths, std::span<const Index> results) {
    const std::size_t axes = lengths.size(), skipped = 3 - axes;
    for (std::size_t i = 0; i < axes; ++i)
      axes_[skipped + i] = {lengths[i], a.windows[i], a.strides[i], a.dilations[i], a.low[i], results[i]};
    best_ = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(axes_[2].results));
  }
  void run(const T* x, I* out) {
    for (Index p = 0; p < axes_[0].results; ++p)
      for (Index q = 0; q < axes_[1].results; ++q, out += axes_[2].results) row(x, p, q, out);
  }

 private:
  void row(const T* x, Index p, Index q, I* out) {
    const auto& [deep, high, wide] = axes_;
    std::fill(out, out + wide.results, I{-1});
    for (Index k = 0; k < deep.window; ++k) {
      const Index depth = p * deep.stride + k * deep.dilation - deep.low;
      if (depth < 0 || depth >= deep.length) continue;
      for (Index l = 0; l < high.window; ++l) {
        const Index height = q * high.stride + l * high.dilation - high.low;
        if (height < 0 || height >= high.length) continue;
        for (Index m = 0; m < wide.window; ++m) tap(x, (depth * high.length + height) * wide.length, m, out);
      }
    }
  }
  void tap(const T* x, Index start, Index m, I* out) {
    const PoolAxis& wide = axes_[2];
    Index first, last;
    wide.range(m, first, last);
    T* best = best_.get();
    Index at = start + first * wide.stride + m * wide.dilation - wide.low;
    for (Index j = first; j < last; ++j, at += wide.stride) {
      const bool better = out[j] < 0 || beats(x[at], best[j]);
      best[j] = better ? x[at] : best[j];
      out[j] = better ? static_cast<I>(at) : out[j];
    }
  }

  PoolAxis axes_[3];
  std::unique_ptr<T[]> best_;
};

template <class T, class I>
void pool_planes(const PoolAttributes& a, const View& x, const View& out) {
  const std::size_t axes = a.windows.size(), leading = x.shape.size() - axes;
  const auto lengths = x.shape.subspan(leading), results = out.shape.subspan(leading);
  const Index planes = element_count(x.shape.first(leading)), from = element_count(lengths),
              to = element_count(results);
  const Index work = to * element_count(a.windows);
  parallel_for(planes, std::max<Index>(1, cheap_grain / 4 / std::max<Index>(1, work)), [&](Index first, Index last) {
    Plane<T, I> plane(a, lengths, results);
    for (Index i = first; i < last; ++i)
      plane.run(static_cast<const T*>(x.data) + i * from, static_cast<I*>(out.data) + i * to);
  });
}

}  // namespace

void run_argmax_pool(const PoolAttributes& attributes, const View& x, const View& out) {
  if (element_count(out.shape) == 0) return;
  if (is_half_float(x.dtype)) {
    const FloatCopy copy(x);
    convert(x, copy.view);
    return run_argmax_pool(attributes, copy.view, out);
  }
  if (!is_contiguous(x.shape, x.strides)) {
    const auto size = static_cast<Index>(stave::size_of(x.dtype));
    const auto copy = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(element_count(x.shape) * size));
    const stave::Strides dense = stave::contiguous_strides(Shape(x.shape));
    copy_strided({copy.get(), dense}, {static_cast<char*>(x.data), x.strides}, x.shape, size);
    return run_argmax_pool(attributes, {copy.get(), x.dtype, x.shape, dense}, out);
  }
  stave::visit_dtype(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!stave::is_half<T>) {
      if (out.dtype == stave::int32) pool_planes<T, std::int32_t>(attributes, x, out);
      else pool_planes<T, std::int64_t>(attributes, x, out);
    }
  });
}

}  // namespace stave_cpu
