// Adaptive pooling, one axis at a time. If all lengths divide evenly, it is performed as avg_pool
// or max_pool.

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/layout_rules.h>
#include <stave/core/ops/pooling.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

// Returns the entries of each part along an axis, as two axes [parts, most], where `most` is the
// greatest number of entries. A smaller part repeats its last entry.
Tensor entries_of_parts(const Tensor& x, int axis, Index parts, std::vector<double>& sizes, Index& most) {
  const Index length = x.shape(axis);
  const auto first = [&](Index i) { return i * length / parts; };
  const auto end = [&](Index i) { return ((i + 1) * length + parts - 1) / parts; };
  most = 0;
  for (Index i = 0; i < parts; ++i) most = std::max(most, end(i) - first(i));
  std::vector<Index> positions;
  for (Index i = 0; i < parts; ++i) {
    sizes.push_back(static_cast<double>(end(i) - first(i)));
    for (Index k = 0; k < most; ++k) positions.push_back(std::min(first(i) + k, end(i) - 1));
  }
  return take(x, from(positions, {parts, most}, x.device()), axis);
}

Tensor means_of_parts(const Tensor& x, int axis, Index parts) {
  std::vector<double> sizes, weights;
  Index most = 0;
  const Tensor elements = entries_of_parts(x, axis, parts, sizes, most);
  for (double size : sizes)
    for (Index k = 0; k < most; ++k) weights.push_back(static_cast<double>(k) < size ? 1 / size : 0);
  Shape line = repeated(elements.rank(), 1);
  line[static_cast<std::size_t>(axis)] = parts;
  line[static_cast<std::size_t>(axis) + 1] = most;
  const Tensor factors = astype(from(weights, line, x.device()), x.dtype());
  return sum(scale(factors, elements), axis + 1);
}

Tensor maxima_of_parts(const Tensor& x, int axis, Index parts) {
  std::vector<double> sizes;
  Index most = 0;
  const Tensor elements = entries_of_parts(x, axis, parts, sizes, most);
  return squeeze(take_along_axis(elements, argmax(elements, axis + 1, keepdims), axis + 1), axis + 1);
}

// Calls `even` with the window if all parts have the same length and do not overlap, else `along`
// for each axis, from the last one to the first.
template <class Even, class Along>
Tensor in_parts(const char* function, Tensor x, const Shape& given, Even even, Along along) {
  const int axes = given.rank();
  if (axes < 1 || x.rank() < axes)
    fail<ShapeError>("{}: {} spatial axes do not fit shape {}", function, axes, x.shape());
  const int first = x.rank() - axes;
  Shape lengths = given, windows;
  bool divides = axes <= 3;
  for (int i = 0; i < axes; ++i) {
    const Index length = x.shape(first + i);
    Index& parts = lengths[static_cast<std::size_t>(i)];
    if (parts == -1) parts = length;
    if (length < 1 || parts < 1)
      fail<ShapeError>("{}: axis {} of length {} cannot be divided into {} parts", function, first + i, length, parts);
    divides = divides && length % parts == 0;
    windows.push_back(length / parts);
  }
  if (divides) return even(x, windows);
  for (int i = axes; i-- > 0;) {
    const Index parts = lengths[static_cast<std::size_t>(i)];
    if (parts != x.shape(first + i)) x = along(x, first + i, parts);
  }
  return x;
}

}  // namespace

Tensor adaptive_avg_pool(const Tensor& x, const Shape& lengths) {
  return named(
      "adaptive_avg_pool",
      [&] {
        return in_floats(
            [&](const Tensor& t) {
              const auto even = [](const Tensor& u, const Shape& windows) { return avg_pool(u, windows); };
              return in_parts("adaptive_avg_pool", t, lengths, even, means_of_parts);
            },
            x);
      },
      x);
}

Tensor adaptive_max_pool(const Tensor& x, const Shape& lengths) {
  return named(
      "adaptive_max_pool",
      [&] {
        const auto even = [](const Tensor& u, const Shape& windows) { return max_pool(u, windows); };
        return in_parts("adaptive_max_pool", x, lengths, even, maxima_of_parts);
      },
      x);
}

}  // namespace stave
