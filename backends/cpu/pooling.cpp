// Max pooling: finds the largest element of each window, or its position. Among equal elements, the
// first one in the row-major order of the plane is chosen.
#include <stave/backends/cpu/pooling.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include <stave/backends/cpu/in_floats.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

using stave::PoolAttributes;
using stave::Shape;
using stave::View;

namespace {

/// The parameters of a window along one axis.
struct PoolAxis {
  Index length = 1, window = 1, stride = 1, dilation = 1, low = 0, results = 1;
  /// The length of the range that all windows together cover, padding included.
  Index covered() const { return (results - 1) * stride + (window - 1) * dilation + 1; }
};

template <class T>
constexpr T lowest =
    std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();

/// Returns true if a is larger than b, where NaN counts as the largest number. It has no branches,
/// so that loops can be vectorised.
template <class T>
inline bool beats(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return !(a <= b) & (b == b);
  else return a > b;
}
template <class T>
inline bool equals(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return (a == b) | ((a != a) & (b != b));
  else return a == b;
}

/// Pools one dense plane of up to three axes. For each row of results, `cover` first takes the
/// elementwise maximum of the rows of x that the windows cover. Then `neighbours` takes the maximum
/// of neighbouring elements of this one row. If `places` is true, results are positions, of type I.
/// Otherwise they are elements, and I is T.
template <class T, class I, bool places>
class Plane {
 public:
  Plane(const PoolAttributes& a, std::span<const Index> lengths, std::span<const Index> results) {
    const std::size_t axes = lengths.size(), skipped = 3 - axes;
    for (std::size_t i = 0; i < axes; ++i)
      axes_[skipped + i] = {lengths[i], a.windows[i], a.strides[i], a.dilations[i], a.low[i], results[i]};
    const PoolAxis& wide = axes_[2];
    first_ = std::max<Index>(0, -wide.low);
    last_ = std::max(first_, std::min(wide.length, wide.covered() - wide.low));
    const auto covered = static_cast<std::size_t>(wide.covered());
    largest_.assign(covered, lowest<T>);
    // The position of padding is larger than all others, so that an equal element of x is
    // preferred.
    if constexpr (places) at_.assign(covered, std::numeric_limits<I>::max());
    best_.resize(places ? static_cast<std::size_t>(wide.results) : 0);
  }
  void run(const T* x, I* out) {
    for (Index p = 0; p < axes_[0].results; ++p)
      for (Index q = 0; q < axes_[1].results; ++q, out += axes_[2].results) {
        cover(x, p, q);
        if (axes_[2].stride == 1) neighbours(out, std::integral_constant<Index, 1>());
        else if (axes_[2].stride == 2) neighbours(out, std::integral_constant<Index, 2>());
        else neighbours(out, axes_[2].stride);
      }
  }

 private:
  void cover(const T* x, Index p, Index q) {
    const auto& [deep, high, wide] = axes_;
    bool first = true;
    for (Index k = 0; k < deep.window; ++k) {
      const Index depth = p * deep.stride + k * deep.dilation - deep.low;
      if (depth < 0 || depth >= deep.length) continue;
      for (Index l = 0; l < high.window; ++l) {
        const Index height = q * high.stride + l * high.dilation - high.low;
        if (height < 0 || height >= high.length) continue;
        cover_row(x, (depth * high.length + height) * wide.length, first);
        first = false;
      }
    }
  }
  void cover_row(const T* x, Index start, bool first) {
    const T* const row = x + start + first_;
    T* const largest = largest_.data() + first_ + axes_[2].low;
    const Index n = last_ - first_;
    [[maybe_unused]] I* const at = places ? at_.data() + first_ + axes_[2].low : nullptr;
    [[maybe_unused]] const auto from = static_cast<I>(start + first_);
    for (Index i = 0; i < n; ++i) {
      const bool better = first | beats(row[i], largest[i]);
      largest[i] = better ? row[i] : largest[i];
      if constexpr (places) at[i] = better ? static_cast<I>(from + static_cast<I>(i)) : at[i];
    }
  }
  template <class Stride>
  void neighbours(I* out, Stride stride) {
    const auto& wide = axes_[2];
    const T* const largest = largest_.data();
    if constexpr (!places) {
      for (Index j = 0; j < wide.results; ++j) out[j] = largest[j * stride];
      for (Index m = 1; m < wide.window; ++m) {
        const T* const tap = largest + m * wide.dilation;
        for (Index j = 0; j < wide.results; ++j) out[j] = beats(tap[j * stride], out[j]) ? tap[j * stride] : out[j];
      }
    } else {
      T* const best = best_.data();
      const I* const at = at_.data();
      for (Index j = 0; j < wide.results; ++j) best[j] = largest[j * stride], out[j] = at[j * stride];
      for (Index m = 1; m < wide.window; ++m) {
        const T* const tap = largest + m * wide.dilation;
        const I* const tap_at = at + m * wide.dilation;
        for (Index j = 0; j < wide.results; ++j) {
          const T value = tap[j * stride];
          const I place = tap_at[j * stride];
          const bool better = beats(value, best[j]) | (equals(value, best[j]) & (place < out[j]));
          best[j] = better ? value : best[j];
          out[j] = better ? place : out[j];
        }
      }
    }
  }

  PoolAxis axes_[3];
  Index first_, last_;  // The range of a row of x that windows cover.
  std::vector<T> largest_, best_;
  std::vector<I> at_;
};

template <class T, class I, bool places>
void pool_planes(const PoolAttributes& a, const View& x, const View& out) {
  const std::size_t axes = a.windows.size(), leading = x.shape.size() - axes;
  const auto lengths = x.shape.subspan(leading), results = out.shape.subspan(leading);
  const Index planes = element_count(x.shape.first(leading)), from = element_count(lengths),
              to = element_count(results);
  const Index work = to * element_count(a.windows);
  parallel_for(planes, std::max<Index>(1, cheap_grain / 4 / std::max<Index>(1, work)), [&](Index first, Index last) {
    Plane<T, I, places> plane(a, lengths, results);
    for (Index i = first; i < last; ++i)
      plane.run(static_cast<const T*>(x.data) + i * from, static_cast<I*>(out.data) + i * to);
  });
}

}  // namespace

namespace {

/// Calls f(x, out) with dense x. Sixteen-bit floats of x are converted to float32. If the results
/// are elements, `out` is then a float32 buffer, too, and its contents are rounded afterwards.
template <class F>
void with_dense(const View& x, const View& out, F f) {
  if (is_half_float(x.dtype)) {
    const FloatCopy copy(x);
    convert(x, copy.view);
    if (out.dtype != x.dtype) return f(copy.view, out);
    const FloatCopy result(out);
    f(copy.view, result.view);
    return convert(result.view, out);
  }
  f(Dense(x).view(), out);
}

/// Calls f with a value of the type that elements of `dtype` have in memory.
template <class F>
void visit_stored(Dtype dtype, F f) {
  stave::visit_real_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) f(std::uint8_t());
    else if constexpr (!stave::is_half<T>) f(zero);
  });
}

}  // namespace

void run_max_pool(const PoolAttributes& attributes, const View& x, const View& out) {
  if (element_count(out.shape) == 0) return;
  with_dense(x, out, [&](const View& dense, const View& results) {
    visit_stored(dense.dtype, [&]<class T>(T) { pool_planes<T, T, false>(attributes, dense, results); });
  });
}

void run_argmax_pool(const PoolAttributes& attributes, const View& x, const View& out) {
  if (element_count(out.shape) == 0) return;
  with_dense(x, out, [&](const View& dense, const View& results) {
    visit_stored(dense.dtype, [&]<class T>(T) {
      if (results.dtype == stave::int32) pool_planes<T, std::int32_t, true>(attributes, dense, results);
      else pool_planes<T, std::int64_t, true>(attributes, dense, results);
    });
  });
}

}  // namespace stave_cpu
