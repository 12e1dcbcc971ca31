#include <stave/handlers/model/summary.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include <stave/core/op/notation.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>

namespace stave_detail {

namespace {

// Returns x with length 1 for broadcast axes (stride 0). Repetitions only change the counts, and
// they are common: the gradient of a sum repeats one number.
Tensor without_repetitions(const Tensor& x) {
  Shape shape = x.shape();
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (x.strides()[axis] == 0 && shape[axis] > 1) shape[axis] = 1;
  return view_of(x, shape, x.strides(), x.node().offset);
}

template <class T>
std::string number(T value) {
  if constexpr (std::is_integral_v<T>) return fmt::format("{}", +value);
  else return std::isnan(value) ? "nan" : fmt::format("{:.6g}", static_cast<Computed<T>>(value));
}

template <class T>
bool finite(T value) {
  if constexpr (std::is_integral_v<T>) return true;
  else return std::isfinite(value);
}

template <class T>
double deviation_from(double mean, const std::vector<T>& values, Index count) {
  double sum = 0;
  for (const T value : values)
    if (finite(value)) sum += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
  return std::sqrt(sum / static_cast<double>(count));
}

template <class T>
Statistics statistics_of(const std::vector<T>& values) {
  Statistics result;
  result.elements = static_cast<Index>(values.size());
  std::optional<T> least, greatest;
  double sum = 0;
  for (const T value : values) {
    if constexpr (!std::is_integral_v<T>) {
      result.nans += std::isnan(value);
      result.infinities += std::isinf(value);
      if (std::isnan(value)) continue;
    }
    if (finite(value)) sum += static_cast<double>(value);
    if (!least || value < *least) least = value;
    if (!greatest || value > *greatest) greatest = value;
  }
  result.least = least ? number(*least) : "nan";
  result.greatest = greatest ? number(*greatest) : "nan";
  const Index count = result.elements - result.nans - result.infinities;
  const double mean = sum / static_cast<double>(count);
  result.mean = number(mean);
  result.deviation = number(deviation_from(mean, values, count));
  return result;
}

}  // namespace

namespace {

// Calls f with the elements of x; for a complex tensor, with their absolute values.
template <class F>
auto with_real_elements(const Tensor& x, F f) {
  return visit_dtype(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> elements = read_elements<T>(x);
    if constexpr (ComplexNumber<T>) {
      std::vector<typename T::Real> sizes;
      // hypot would hide a NaN behind an infinite part.
      for (const T z : elements)
        sizes.push_back(std::isnan(z.re) || std::isnan(z.im) ? z.re + z.im : std::hypot(z.re, z.im));
      return f(sizes);
    } else {
      return f(elements);
    }
  });
}

}  // namespace

Statistics statistics_of(const Tensor& x) {
  const Tensor values = observed(x), distinct = without_repetitions(values);
  Statistics result = with_real_elements(distinct, [](const auto& elements) { return statistics_of(elements); });
  const Index repetitions = result.elements ? values.size() / result.elements : 1;
  for (Index* count : {&result.elements, &result.nans, &result.infinities}) *count *= repetitions;
  return result;
}

Index nans_in(const Tensor& x) { return x.defined() && is_inexact(x.dtype()) ? statistics_of(x).nans : 0; }
Index infinities_in(const Tensor& x) { return x.defined() && is_inexact(x.dtype()) ? statistics_of(x).infinities : 0; }

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

std::string summary_of(const Tensor& x) {
  std::string text = notation({&x, 1});
  if (!x.defined()) return text;
  const Statistics of = statistics_of(x);
  if (of.elements == 0) return text + " no elements";
  if (of.elements == 1) return text + (is_complex(x.dtype()) ? " abs " : " value ") + (of.nans ? "nan" : of.least);
  text += fmt::format("{} min {} max {} mean {} std {}", is_complex(x.dtype()) ? " abs:" : "", of.least, of.greatest,
                      of.mean, of.deviation);
  if (is_inexact(x.dtype())) text += fmt::format(" nan {} inf {}", of.nans, of.infinities);
  return text;
}

namespace {

// Returns the index at which part i begins, if an axis of this length is cut into `parts`.
Index start_of_part(Index i, Index parts, Index length) {
  return i / parts * length + i % parts * (length / parts) + i % parts * (length % parts) / parts;
}

// Returns the mean of the values in a part of a matrix. It is NaN if one of the values is NaN, else
// infinity if one is infinite.
template <class T>
double mean_of_part(const std::vector<T>& values, Index columns, std::array<Index, 2> rows,
                    std::array<Index, 2> across) {
  const double count = static_cast<double>((rows[1] - rows[0]) * (across[1] - across[0]));
  double mean = 0;
  bool infinite = false;
  for (Index row = rows[0]; row < rows[1]; ++row)
    for (Index column = across[0]; column < across[1]; ++column) {
      const auto value = static_cast<double>(values[static_cast<std::size_t>(row * columns + column)]);
      if (std::isnan(value)) return value;
      infinite |= std::isinf(value);
      if (!infinite) mean += value / count;
    }
  return infinite ? std::numeric_limits<double>::infinity() : mean;
}

struct Field {
  Index rows, columns;
  std::vector<double> cells;
};

template <class T>
Field field_of(const std::vector<T>& values, Index height, Index width, const PictureOptions& most) {
  Field field{std::min(height, most.rows), std::min(width, most.columns), {}};
  const auto part = [](Index i, Index parts, Index length) {
    return std::array{start_of_part(i, parts, length), start_of_part(i + 1, parts, length)};
  };
  for (Index row = 0; row < field.rows; ++row)
    for (Index column = 0; column < field.columns; ++column)
      field.cells.push_back(
          mean_of_part(values, width, part(row, field.rows, height), part(column, field.columns, width)));
  return field;
}

// Maps values to characters. The first character stands for the least finite value and the last for
// the greatest. The values of the others are evenly spaced between; a value gets the nearest one.
class Shades {
 public:
  Shades(const std::vector<double>& values, std::vector<const char*> shades) : shades_(std::move(shades)) {
    for (const double value : values)
      if (std::isfinite(value)) {
        least_ = std::min(least_, value);
        greatest_ = std::max(greatest_, value);
      }
  }
  const char* of(double value) const {
    if (std::isnan(value)) return "×";
    if (std::isinf(value)) return "∞";
    const double range = greatest_ / 2 - least_ / 2, last = static_cast<double>(shades_.size() - 1);
    const double place = range > 0 ? (value / 2 - least_ / 2) / range : 0.5;
    return shades_[static_cast<std::size_t>(std::lround(place * last))];
  }

 private:
  std::vector<const char*> shades_;
  double least_ = std::numeric_limits<double>::infinity(), greatest_ = -least_;
};

// Returns the last two axes of x, or its only axis, at index 0 of the other axes.
Tensor first_plane(const Tensor& x) {
  const std::size_t planes = std::min<std::size_t>(x.shape().size(), 2), others = x.shape().size() - planes;
  Shape shape, strides;
  shape.append(x.shape().begin() + others, x.shape().end());
  strides.append(x.strides().begin() + others, x.strides().end());
  return view_of(x, shape, strides, x.node().offset);
}

}  // namespace

std::string picture_of(const Tensor& x, PictureOptions options) {
  if (options.columns < 1 || options.rows < 1)
    fail<TransformError>("picture_of: {} columns and {} rows; at least one of each is needed", options.columns,
                         options.rows);
  if (!x.defined()) return "";
  const Tensor values = observed(x);
  if (values.size() < 2) return "";
  const Tensor plane = first_plane(values);
  const Shape& shape = plane.shape();
  const bool line = shape.size() == 1;
  const Field field = with_real_elements(
      plane, [&](const auto& elements) { return field_of(elements, line ? 1 : shape[0], shape.back(), options); });
  const Shades shades(
      field.cells, line ? std::vector{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"} : std::vector{"·", "░", "▒", "▓", "█"});
  std::string text;
  for (std::size_t i = 0; i < field.cells.size(); ++i) {
    text += shades.of(field.cells[i]);
    if ((i + 1) % static_cast<std::size_t>(field.columns) == 0) text += '\n';
  }
  return text;
}

}  // namespace stave
