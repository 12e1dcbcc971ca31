// Rows of convolutions and pooling. References are sums over windows.

#include <algorithm>
#include <cmath>

#include <stave/core/ops/pooling.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

const Domain entries{-3, 3};

/// The positions of windows. Each list has one entry for each spatial axis.
struct Windows {
  // `low` and `high` are padding; `apart` is the input dilation.
  Shape window, stride, low, high, dilation, apart;
  bool channels_last = false;

  std::size_t axes() const { return window.size(); }
  Index results(std::size_t axis, Index length) const {
    const Index all = (length - 1) * apart[axis] + 1 + low[axis] + high[axis];
    return (all - ((window[axis] - 1) * dilation[axis] + 1)) / stride[axis] + 1;
  }
  /// The index in the input of element k of the window at place p, along one axis;
  /// -1 if it is padding.
  Index element(std::size_t axis, Index length, Index p, Index k) const {
    const Index i = p * stride[axis] + k * dilation[axis] - low[axis];
    if (i < 0 || i % apart[axis] != 0 || i / apart[axis] >= length) return -1;
    return i / apart[axis];
  }
};

Windows windows_of(const Shape& window) {
  const auto all = [&](Index value) { return Shape(std::vector<Index>(window.size(), value)); };
  return {window, all(1), all(0), all(0), all(1), all(1)};
}

/// The shape [lead..., channels, lengths...] with the channels axis moved to the end.
Shape channels_last(const Shape& shape, std::size_t axes) {
  Shape result = without_axis(shape, shape.rank() - static_cast<Index>(axes) - 1);
  result.push_back(shape[shape.size() - axes - 1]);
  return result;
}
Array channels_first(const Array& x, std::size_t axes) {
  Shape shape = part(x.shape, 0, x.shape.rank() - static_cast<Index>(axes) - 1);
  shape.push_back(x.shape.back());
  shape = concatenated(shape, part(x.shape, x.shape.rank() - static_cast<Index>(axes) - 1, x.shape.rank() - 1));
  return make(x.dtype, shape, [&](const Shape& p) { return x(channels_last(p, axes)); });
}
Array channels_last(const Array& x, std::size_t axes) {
  Array result = make(x.dtype, channels_last(x.shape, axes), [&](const Shape& p) {
    Shape at = part(p, 0, p.rank() - static_cast<Index>(axes) - 1);
    at.push_back(p.back());
    return x(concatenated(at, part(p, p.rank() - static_cast<Index>(axes) - 1, p.rank() - 1)));
  });
  if (!x.magnitude.empty()) {
    const Array magnitude{float64, x.shape, x.magnitude};
    result.magnitude = channels_last(magnitude, axes).values;
  }
  return result;
}

Padding padding_of(const Windows& w) { return Padding(w.low, w.high); }

// ---- conv --------------------------------------------------------------------------------------

/// The convolution of x [batch..., channels, lengths...] with w
/// [out, channels / groups, windows...].
Array convolved(Dtype dtype, const Array& x, const Array& w, const Windows& windows, Index groups) {
  const auto axes = static_cast<Index>(windows.axes());
  const Index leading = x.shape.rank() - axes - 1, out = w.shape[0], taken = w.shape[1];
  Shape shape = part(x.shape, 0, leading);
  shape.push_back(out);
  for (std::size_t axis = 0; axis < windows.axes(); ++axis)
    shape.push_back(windows.results(axis, x.shape[static_cast<std::size_t>(leading) + 1 + axis]));
  const Shape terms = part(w.shape, 1, w.shape.rank());
  const auto summed = [&](bool absolute) {
    return [&, absolute](const Shape& p) {
      Real sum = 0;
      const Index o = p[static_cast<std::size_t>(leading)];
      for_each_position(terms, [&](const Shape& term) {
        Shape at = part(p, 0, leading);
        at.push_back(o / (out / groups) * taken + term[0]);
        for (std::size_t axis = 0; axis < windows.axes(); ++axis) {
          const std::size_t in_x = static_cast<std::size_t>(leading) + 1 + axis;
          at.push_back(windows.element(axis, x.shape[in_x], p[in_x], term[axis + 1]));
          if (at.back() < 0) return;
        }
        const Real product = x(at) * w(concatenated(Shape(o), term));
        sum += absolute ? std::abs(product) : product;
      });
      return sum;
    };
  };
  Array y = make(as_number(dtype), shape, summed(false));
  y.magnitude = make(float64, shape, summed(true)).values;
  return y;
}

Shape weights_last(const Shape& w) { return concatenated(part(w, 2, w.rank()), Shape(w[1], w[0])); }
Array weights_first(const Array& w) {
  const Index axes = w.shape.rank() - 2;
  const Shape shape = concatenated(Shape(w.shape.back(), w.shape[w.shape.size() - 2]), part(w.shape, 0, axes));
  return make(w.dtype, shape, [&](const Shape& p) { return w(weights_last(p)); });
}

std::string name_of(const Shape& x, const Shape& w, const Windows& windows, Index groups) {
  const auto list = [](const char* what, const Shape& values, Index usual) {
    const bool plain = std::all_of(values.begin(), values.end(), [&](Index value) { return value == usual; });
    return plain ? std::string() : std::string(" ") + what + values.str();
  };
  return x.str() + " with " + w.str() + list("stride", windows.stride, 1) + list("low", windows.low, 0) +
         list("high", windows.high, 0) + list("dilation", windows.dilation, 1) + list("apart", windows.apart, 1) +
         (groups > 1 ? " groups " + std::to_string(groups) : "") + (windows.channels_last ? " channels last" : "");
}

Variant conv_of(Dtype dtype, const Shape& x, const Shape& w, Windows windows, Index groups = 1) {
  const bool last = windows.channels_last;
  const std::size_t axes = windows.axes();
  return {.name = name_of(x, w, windows, groups),
          .inputs = {{dtype, last ? channels_last(x, axes) : x, entries}, {dtype, last ? weights_last(w) : w, entries}},
          .call =
              [=](auto xs) {
                return conv(xs[0], xs[1],
                            {.stride = windows.stride,
                             .padding = padding_of(windows),
                             .dilation = windows.dilation,
                             .input_dilation = windows.apart,
                             .groups = groups,
                             .channels_last = last});
              },
          .reference =
              [=](auto xs) {
                if (!last) return Arrays{convolved(dtype, xs[0], xs[1], windows, groups)};
                const Array y = convolved(dtype, channels_first(xs[0], axes), weights_first(xs[1]), windows, groups);
                return Arrays{channels_last(y, axes)};
              }};
}

/// All combinations of stride, padding, dilation of both operands and number of groups,
/// along one axis.
std::vector<Variant> all_of_one_axis(Dtype dtype) {
  std::vector<Variant> variants;
  for (const Index stride : {1, 2, 3})
    for (const auto& [low, high] : {std::pair{0, 0}, std::pair{1, 2}, std::pair{3, -2}})
      for (const Index dilation : {1, 2})
        for (const Index apart : {1, 2, 3})
          for (const Index groups : {1, 2}) {
            Windows windows{{3}, {stride}, {low}, {high}, {dilation}, {apart}};
            variants.push_back(conv_of(dtype, {1, 2, 6}, {2, 2 / groups, 3}, windows, groups));
          }
  return variants;
}

std::vector<Variant> conv_variants(Dtype dtype) {
  std::vector<Variant> variants;
  const auto add = [&](const Shape& x, const Shape& w, auto change, Index groups = 1) {
    Windows windows = windows_of(part(w, 2, w.rank()));
    change(windows);
    variants.push_back(conv_of(dtype, x, w, windows, groups));
  };
  const auto plain = [](Windows&) {};
  const auto padded = [](Windows& w) {
    for (std::size_t axis = 0; axis < w.axes(); ++axis) w.low[axis] = w.high[axis] = w.window[axis] / 2;
  };
  const auto all = [](Windows& w) {
    for (std::size_t axis = 0; axis < w.axes(); ++axis) {
      w.stride[axis] = axis % 2 ? 1 : 2;
      w.low[axis] = static_cast<Index>(axis);
      w.high[axis] = axis % 2 ? -1 : 2;
      w.dilation[axis] = axis % 2 ? 2 : 1;
      w.apart[axis] = axis == 1 ? 1 : 2;
    }
  };
  const auto last = [&](Windows& w) {
    padded(w);
    w.stride[0] = 2;
    w.channels_last = true;
  };
  add({2, 2, 5}, {3, 2, 3}, plain);
  add({2, 5}, {3, 2, 3}, plain);           // no batch axis
  add({2, 2, 2, 5}, {3, 2, 2}, plain);     // two batch axes
  add({2, 3, 4, 3}, {2, 3, 1, 1}, plain);  // a matrix product
  add({2, 2, 4, 4}, {2, 2, 3, 3}, padded);
  add({1, 2, 5, 6}, {2, 1, 2, 3}, all, 2);
  add({1, 2, 3, 3, 4}, {2, 2, 2, 2, 2}, all);
  add({2, 3, 4, 5}, {3, 1, 3, 2}, padded, 3);  // each channel separately (depthwise)
  add({2, 2, 3, 5}, {4, 1, 2, 3}, padded, 2);  // two outputs for each channel
  add({2, 2, 4, 3}, {3, 2, 3, 2}, last);
  add({2, 4, 4}, {2, 2, 3}, last, 2);
  add({1, 8, 35}, {7, 8, 3}, padded);  // longer than SIMD vectors and blocks of results
  add({0, 2, 4}, {3, 2, 2}, plain);
  add({2, 0, 4}, {3, 0, 2}, plain);
  add({2, 2, 4}, {0, 2, 2}, plain);
  if (dtype == float64)
    for (Variant& variant : all_of_one_axis(dtype)) variants.push_back(std::move(variant));
  variants.push_back(conv_of(dtype, {}, {}, windows_of({})));
  variants.back().refusal = "it must have 3, 4 or 5";
  return variants;
}

// ---- conv_transpose ----------------------------------------------------------------------------

/// Each element x[n, c, i] adds x[n, c, i] w[c, o, k] to the result at i * stride + k * dilation -
/// low.
Array transposed(Dtype dtype, const Array& x, const Array& w, const Windows& windows, const Shape& more, Index groups) {
  const auto axes = static_cast<Index>(windows.axes());
  const Index leading = x.shape.rank() - axes - 1, channels = w.shape[0], each = w.shape[1];
  Shape shape = part(x.shape, 0, leading);
  shape.push_back(each * groups);
  for (std::size_t axis = 0; axis < windows.axes(); ++axis)
    shape.push_back((x.shape[static_cast<std::size_t>(leading) + 1 + axis] - 1) * windows.stride[axis] -
                    windows.low[axis] - windows.high[axis] + windows.dilation[axis] * (windows.window[axis] - 1) + 1 +
                    more[axis]);
  Array y = make(as_number(dtype), shape, [](const Shape&) { return Real(0); });
  Array magnitude{float64, shape, y.values};
  const Shape terms = part(w.shape, 1, w.shape.rank());
  for_each_position(x.shape, [&](const Shape& p) {
    const Index c = p[static_cast<std::size_t>(leading)];
    for_each_position(terms, [&](const Shape& term) {
      Shape at = part(p, 0, leading);
      at.push_back(c / (channels / groups) * each + term[0]);
      for (std::size_t axis = 0; axis < windows.axes(); ++axis) {
        const std::size_t in_x = static_cast<std::size_t>(leading) + 1 + axis;
        at.push_back(p[in_x] * windows.stride[axis] + term[axis + 1] * windows.dilation[axis] - windows.low[axis]);
        if (at.back() < 0 || at.back() >= shape[in_x]) return;
      }
      const Real product = x(p) * w(concatenated(Shape(c), term));
      y(at) += product;
      magnitude(at) += std::abs(product);
    });
  });
  for (Real& value : y.values) value = is_integer(dtype) ? rounded(value, dtype) : value;
  y.magnitude = magnitude.values;
  return y;
}

Variant transpose_of(Dtype dtype, const Shape& x, const Shape& w, const Windows& windows, const Shape& more,
                     Index groups = 1) {
  const bool last = windows.channels_last;
  const std::size_t axes = windows.axes();
  return {.name = name_of(x, w, windows, groups) + " more " + more.str(),
          .inputs = {{dtype, last ? channels_last(x, axes) : x, entries}, {dtype, last ? weights_last(w) : w, entries}},
          .call =
              [=](auto xs) {
                return conv_transpose(xs[0], xs[1],
                                      {.stride = windows.stride,
                                       .padding = padding_of(windows),
                                       .output_padding = more,
                                       .dilation = windows.dilation,
                                       .groups = groups,
                                       .channels_last = last});
              },
          .reference =
              [=](auto xs) {
                if (!last) return Arrays{transposed(dtype, xs[0], xs[1], windows, more, groups)};
                const Array y =
                    transposed(dtype, channels_first(xs[0], axes), weights_first(xs[1]), windows, more, groups);
                return Arrays{channels_last(y, axes)};
              }};
}

std::vector<Variant> transpose_variants(Dtype dtype) {
  Windows strided = windows_of({3}), wide = windows_of({2, 3}), deep = windows_of({2, 2, 2}), last = windows_of({3, 2});
  strided.stride = {2};
  strided.low = strided.high = {1};
  wide.stride = {3, 2};
  wide.low = {0, 1};
  wide.high = {-1, 2};
  wide.dilation = {2, 1};
  deep.stride = {2, 1, 2};
  last.stride = {2, 1};
  last.channels_last = true;
  std::vector<Variant> variants = {transpose_of(dtype, {2, 2, 4}, {2, 3, 3}, windows_of({3}), {0}),
                                   transpose_of(dtype, {2, 3, 4}, {3, 2, 3}, strided, {1}),
                                   transpose_of(dtype, {4, 3}, {4, 1, 3}, strided, {0}, 2),
                                   transpose_of(dtype, {1, 2, 3, 3}, {2, 1, 2, 3}, wide, {2, 0}, 2),
                                   transpose_of(dtype, {1, 2, 2, 2, 2}, {2, 1, 2, 2, 2}, deep, {0, 0, 1}),
                                   transpose_of(dtype, {2, 2, 3, 2}, {2, 3, 3, 2}, last, {1, 0}),
                                   transpose_of(dtype, {0, 2, 4}, {2, 3, 3}, strided, {1}),
                                   transpose_of(dtype, {}, {}, windows_of({}), {})};
  variants.back().refusal = "it must have 3, 4 or 5";
  return variants;
}

// ---- pooling -----------------------------------------------------------------------------------

enum class Pool { sum, mean, own_mean, max, argmax };

/// Calls f(position in x, row-major index among the spatial axes) for each element of a window.
template <class F>
void for_each_element(const Windows& windows, const Shape& x, const Shape& p, F f) {
  const std::size_t leading = x.size() - windows.axes();
  for_each_position(windows.window, [&](const Shape& k) {
    Shape at = p;
    Index place = 0;
    for (std::size_t axis = 0; axis < windows.axes(); ++axis) {
      const std::size_t in_x = leading + axis;
      at[in_x] = windows.element(axis, x[in_x], p[in_x], k[axis]);
      if (at[in_x] < 0) return;
      place = place * x[in_x] + at[in_x];
    }
    f(at, place);
  });
}

/// The reference of pooling. A maximum is the element of x at the position where `at`
/// has its maximum.
Array pooled(Pool pool, Dtype dtype, const Array& at, const Array& x, const Windows& windows) {
  Shape shape = x.shape;
  for (std::size_t axis = 0; axis < windows.axes(); ++axis) {
    const std::size_t in_x = x.shape.size() - windows.axes() + axis;
    shape[in_x] = windows.results(axis, x.shape[in_x]);
  }
  const auto result = [&](const Shape& p, bool absolute) {
    Real sum = 0, count = 0, best = 0, value = 0;
    Index where = -1;
    for_each_element(windows, x.shape, p, [&](const Shape& i, Index place) {
      sum += absolute ? std::abs(x(i)) : x(i);
      ++count;
      if (where >= 0 && !(at(i) > best || (std::isnan(at(i)) && !std::isnan(best)))) return;
      best = at(i);
      value = x(i);
      where = place;
    });
    switch (pool) {
      case Pool::sum: return sum;
      case Pool::mean: return sum / static_cast<Real>(windows.window.elements());
      case Pool::own_mean: return sum / count;
      case Pool::max: return value;
      default: return static_cast<Real>(where);
    }
  };
  Array y = make(dtype, shape, [&](const Shape& p) { return result(p, false); });
  if (pool == Pool::sum || pool == Pool::mean || pool == Pool::own_mean)
    y.magnitude = make(float64, shape, [&](const Shape& p) { return result(p, true); }).values;
  return y;
}

Dtype dtype_of(Pool pool, Dtype x) {
  if (pool == Pool::argmax) return int32;
  return pool == Pool::max ? x : pool == Pool::sum ? summed_in(x) : as_float(x);
}

Variant pool_of(Pool pool, Dtype dtype, const Shape& x, const Windows& windows, const Domain& domain = {-9, 9}) {
  const bool last = windows.channels_last;
  const std::size_t axes = windows.axes();
  const auto reference = [=](const Array& at, const Array& values) {
    const Dtype result = dtype_of(pool, dtype);
    if (!last) return Arrays{pooled(pool, result, at, values, windows)};
    const Array y = pooled(pool, result, channels_first(at, axes), channels_first(values, axes), windows);
    return Arrays{channels_last(y, axes)};
  };
  return {.name = name_of(x, windows.window, windows, 1) + (domain.choices.empty() ? "" : " special values"),
          .inputs = {{dtype, last ? channels_last(x, axes) : x, domain}},
          .call = [=](auto xs) -> Tensor {
            const PoolOptions options{.stride = windows.stride,
                                      .padding = padding_of(windows),
                                      .dilation = windows.dilation,
                                      .channels_last = last};
            switch (pool) {
              case Pool::sum: return sum_pool(xs[0], windows.window, options);
              case Pool::max: return max_pool(xs[0], windows.window, options);
              case Pool::argmax: return argmax_pool(xs[0], windows.window, options);
              default:
                return avg_pool(xs[0], windows.window,
                                {.stride = windows.stride,
                                 .padding = padding_of(windows),
                                 .dilation = windows.dilation,
                                 .count_include_pad = pool == Pool::mean,
                                 .channels_last = last});
            }
          },
          .reference = [=](auto xs) { return reference(xs[0], xs[0]); },
          .smooth = [=](auto at, auto xs) { return reference(at[0], xs[0]); },
          .differentiable = pool != Pool::argmax};
}

std::vector<Variant> pool_variants(Pool pool, Dtype dtype) {
  const auto with_choices = [&](Windows w, const Shape& stride, const Shape& low, const Shape& high,
                                const Shape& dilation, bool last = false) {
    w.stride = stride;
    w.low = low;
    w.high = high;
    w.dilation = dilation;
    w.channels_last = last;
    return w;
  };
  const Windows one = windows_of({2}), two = windows_of({3, 2}), three = windows_of({2, 1, 2}),
                five = windows_of({5, 5});
  std::vector<Variant> variants = {
      pool_of(pool, dtype, {2, 2, 5}, one), pool_of(pool, dtype, {6}, one),
      pool_of(pool, dtype, {2, 1, 5, 4}, with_choices(two, {2, 1}, {1, 1}, {1, 0}, {1, 1})),
      pool_of(pool, dtype, {1, 7, 6}, with_choices(two, {1, 2}, {1, 1}, {2, 0}, {2, 3})),
      pool_of(pool, dtype, {2, 4, 6}, with_choices(two, {1, 3}, {-1, 0}, {0, -1}, {1, 1})),
      pool_of(pool, dtype, {1, 3, 2, 4}, with_choices(three, {1, 2, 2}, {1, 0, 0}, {0, 0, 1}, {1, 1, 1})),
      // one window covers all elements
      pool_of(pool, dtype, {2, 3, 2}, windows_of({3, 2})),
      // a different setting for each axis
      pool_of(pool, dtype, {1, 6, 7}, with_choices(five, {1, 2}, {2, 1}, {2, 1}, {1, 1})),
      pool_of(pool, dtype, {2, 3, 5, 4}, with_choices(two, {2, 1}, {1, 0}, {1, 0}, {1, 1}, true)),
      pool_of(pool, dtype, {0, 5}, one),
      refused(
          "", dtype, {}, [](const Tensor& x) { return sum_pool(x, {2}); }, "does not have the 1 spatial axes")};
  if (is_float(dtype) && pool == Pool::argmax)
    variants.push_back(pool_of(pool, dtype, {4, 12}, one, {.choices = special_values}));
  return variants;
}

}  // namespace

void add_convolution_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "conv", .dtypes = all_dtypes, .variants = conv_variants, .bitwise = false});
  rows.push_back({.name = "conv_transpose", .dtypes = all_dtypes, .variants = transpose_variants, .bitwise = false});
  const auto add = [&](const char* name, Pool pool, const std::vector<Dtype>& dtypes, Real accuracy) {
    rows.push_back({.name = name,
                    .dtypes = dtypes,
                    .variants = [pool](Dtype dtype) { return pool_variants(pool, dtype); },
                    .accuracy = accuracy,
                    .bitwise = false});
  };
  add("sum_pool", Pool::sum, all_dtypes, 4);
  rows.push_back({.name = "avg_pool",
                  .dtypes = all_dtypes,
                  .variants =
                      [](Dtype dtype) {
                        std::vector<Variant> variants = pool_variants(Pool::mean, dtype);
                        for (Variant& variant : pool_variants(Pool::own_mean, dtype)) {
                          variant.name += " of its own";
                          variants.push_back(std::move(variant));
                        }
                        return variants;
                      },
                  .bitwise = false});
  add("max_pool", Pool::max, all_dtypes, 0);
  add("argmax_pool", Pool::argmax, all_dtypes, 0);
}

}  // namespace table
