// Rows of resizing, sampling and windows of images, of padding with elements, and of adaptive
// pooling. References are loops over elements, in long double.

#include <stave/core/ops/images.h>

#include <algorithm>
#include <cmath>

#include <stave/core/ops/pooling.h>
#include <stave/core/ops/rearrange.h>
#include <stave/core/ops/sequences.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

bool takes_elements(ResizeMethod method) {
  return method == ResizeMethod::nearest || method == ResizeMethod::nearest_exact;
}

/// The weight of a neighbour at a distance from the position.
Real kernel(ResizeMethod method, Real distance) {
  const Real s = std::abs(distance), a = -0.75L;
  if (method == ResizeMethod::linear) return std::max<Real>(0, 1 - s);
  if (s <= 1) return (a + 2) * s * s * s - (a + 3) * s * s + 1;
  return s < 2 ? a * s * s * s - 5 * a * s * s + 8 * a * s - 4 * a : 0;
}

// ---- resize ------------------------------------------------------------------------------------

/// The element of a vector of `length` elements at position i of `count`, where `x` gives elements.
Real resized(Index length, Real step, Index i, const ResizeOptions& options, const std::function<Real(Index)>& x) {
  const Real place = static_cast<Real>(i);
  const auto bounded = [&](Index k) { return x(std::clamp<Index>(k, 0, length - 1)); };
  if (options.method == ResizeMethod::nearest) return bounded(static_cast<Index>(std::floor(place * step)));
  if (options.method == ResizeMethod::nearest_exact)
    return bounded(static_cast<Index>(std::floor((place + 0.5L) * step)));
  const Real position = options.align_corners ? place * step : (place + 0.5L) * step - 0.5L;
  const auto near = static_cast<Index>(std::floor(position));
  Real total = 0;
  for (Index k = near - 2; k <= near + 3; ++k)
    total += kernel(options.method, position - static_cast<Real>(k)) * bounded(k);
  return total;
}

Array resized_along(const Array& x, std::size_t axis, Index count, Real step, const ResizeOptions& options) {
  Shape shape = x.shape;
  shape[axis] = count;
  return make(x.dtype, shape, [&](const Shape& p) {
    return resized(x.shape[axis], step, p[axis], options, [&](Index k) {
      Shape at = p;
      at[axis] = k;
      return x(at);
    });
  });
}

std::vector<Variant> resize_variants(Dtype dtype, bool by_factors) {
  std::vector<Variant> variants;
  const auto add = [&](const Shape& shape, const Shape& lengths, const std::vector<double>& factors,
                       const ResizeOptions& options) {
    const auto first = shape.size() - lengths.size();
    variants.push_back(
        {.name = shape.str() + " to " + lengths.str() + " method " + std::to_string(static_cast<int>(options.method)) +
                 (options.align_corners ? " aligned" : ""),
         .inputs = {{dtype, shape}},
         .call =
             [=](auto xs) { return by_factors ? resize_by(xs[0], factors, options) : resize(xs[0], lengths, options); },
         .reference =
             [=](auto xs) {
               Array y = xs[0];
               y.dtype = takes_elements(options.method) ? dtype : as_float(dtype);
               for (std::size_t i = 0; i < lengths.size(); ++i) {
                 const auto length = static_cast<Real>(shape[first + i]), count = static_cast<Real>(lengths[i]);
                 const Real step = options.align_corners ? (count > 1 ? (length - 1) / (count - 1) : 0)
                                   : by_factors          ? 1 / static_cast<Real>(factors[i])
                                                         : length / count;
                 y = resized_along(y, first + i, lengths[i], step, options);
               }
               return Arrays{sized(y, 8)};
             }});
  };
  for (const ResizeMethod method :
       {ResizeMethod::nearest, ResizeMethod::nearest_exact, ResizeMethod::linear, ResizeMethod::cubic})
    for (const bool aligned : {false, true}) {
      if (aligned && takes_elements(method)) continue;
      const ResizeOptions options{.method = method, .align_corners = aligned};
      if (by_factors) {
        add({2, 3, 4}, {5, 3}, {1.75, 0.875}, options);
        continue;
      }
      add({2, 3, 4}, {5, 3}, {}, options);
      add({2, 4}, {1}, {}, options);
      add({4}, {7}, {}, options);
      add({0, 3}, {2}, {}, options);
    }
  if (by_factors) {
    add({0, 4}, {2}, {0.5}, {});
    add({4}, {6}, {1.5}, {.method = ResizeMethod::linear});
  }
  variants.push_back(refused(
      "", dtype, {}, [=](const Tensor& x) { return by_factors ? resize_by(x, {2.}) : resize(x, {2}); },
      "do not fit shape"));
  variants.push_back(refused(
      "", dtype, {2, 0}, [=](const Tensor& x) { return by_factors ? resize_by(x, {2.}) : resize(x, {2}); },
      "cannot get length"));
  return variants;
}

// ---- grid_sample -------------------------------------------------------------------------------

Real reflect(Real p, Real low, Real high) {
  if (high == low) return low;
  for (;;) {
    if (p < low) p = 2 * low - p;
    else if (p > high) p = 2 * high - p;
    else return p;
  }
}

Real padded(Real p, Index length, const GridSampleOptions& options) {
  const auto last = static_cast<Real>(length - 1);
  if (options.padding == GridPadding::zeros) return p;
  if (options.padding == GridPadding::reflection)
    p = options.align_corners ? reflect(p, 0, last) : reflect(p, -0.5L, last + 0.5L);
  return std::clamp<Real>(p, 0, last);
}

std::vector<Variant> grid_sample_variants(Dtype dtype) {
  std::vector<Variant> variants;
  const auto add = [&](const Shape& x, const Shape& grid, const GridSampleOptions& options) {
    const Index axes = grid.back(), batch = x.rank() - 1 - axes;
    const Shape lengths = part(x, batch + 1, x.rank()), out = part(grid, batch, grid.rank() - 1);
    const Shape result = concatenated(part(x, 0, batch + 1), out);
    variants.push_back({.name = x.str() + " at " + grid.str() + " method " +
                                std::to_string(static_cast<int>(options.method)) + " padding " +
                                std::to_string(static_cast<int>(options.padding)) +
                                (options.align_corners ? " aligned" : ""),
                        .inputs = {{dtype, x}, {dtype, grid, {-1.4, 1.4}, options.method != ResizeMethod::nearest}},
                        .call = [=](auto xs) { return grid_sample(xs[0], xs[1], options); },
                        .reference =
                            [=](auto xs) {
                              Array y = make(as_float(dtype), result, [&](const Shape& p) {
                                std::vector<Real> positions;
                                for (Index axis = 0; axis < axes; ++axis) {
                                  Shape at = concatenated(part(p, 0, batch), part(p, batch + 1, p.rank()));
                                  at.push_back(axes - 1 - axis);
                                  const auto n = static_cast<Real>(lengths[static_cast<std::size_t>(axis)]);
                                  Real position = options.align_corners ? (xs[1](at) + 1) / 2 * (n - 1)
                                                                        : ((xs[1](at) + 1) * n - 1) / 2;
                                  if (options.method != ResizeMethod::cubic)
                                    position = padded(position, lengths[static_cast<std::size_t>(axis)], options);
                                  positions.push_back(position);
                                }
                                Real total = 0;
                                // Neighbours from three before to three after the position along
                                // each axis.
                                Shape offsets(std::vector<Index>(lengths.size(), 7));
                                for_each_position(offsets, [&](const Shape& offset) {
                                  Real weight = 1;
                                  Shape at = part(p, 0, batch + 1);
                                  for (std::size_t axis = 0; axis < lengths.size(); ++axis) {
                                    const Real position = positions[axis];
                                    Real k = std::floor(position) + static_cast<Real>(offset[axis]) - 3;
                                    if (options.method == ResizeMethod::nearest)
                                      weight *= k == std::nearbyint(position) ? 1 : 0;
                                    else weight *= kernel(options.method, position - k);
                                    if (options.method == ResizeMethod::cubic) k = padded(k, lengths[axis], options);
                                    if (k < 0 || k > static_cast<Real>(lengths[axis] - 1)) weight = 0;
                                    at.push_back(std::clamp<Index>(static_cast<Index>(k), 0, lengths[axis] - 1));
                                  }
                                  if (weight != 0) total += weight * xs[0](at);
                                });
                                return total;
                              });
                              return Arrays{sized(y, 32)};
                            }});
  };
  for (const ResizeMethod method : {ResizeMethod::nearest, ResizeMethod::linear, ResizeMethod::cubic})
    for (const GridPadding padding : {GridPadding::zeros, GridPadding::border, GridPadding::reflection})
      add({2, 3, 4}, {3, 2, 2},
          {.method = method, .padding = padding, .align_corners = padding != GridPadding::border});
  add({2, 2, 3, 4}, {2, 3, 2}, {});
  add({2, 2, 3}, {2, 4, 1}, {});
  add({2, 0, 3}, {2, 4, 1}, {});
  variants.push_back({.name = "() (2, 2)",
                      .inputs = {{dtype, {}}, {dtype, {2, 2}}},
                      .call = [](auto xs) { return grid_sample(xs[0], xs[1]); },
                      .refusal = "with one number for each axis"});
  return variants;
}

// ---- unfold and fold ---------------------------------------------------------------------------

struct Folding {
  Shape lengths, window, stride, padding, dilation;
  UnfoldOptions options() const { return {.stride = stride, .padding = padding, .dilation = dilation}; }
  Shape places() const {
    Shape result;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      result.push_back((lengths[i] + 2 * padding[i] - dilation[i] * (window[i] - 1) - 1) / stride[i] + 1);
    return result;
  }
  // Calls f with a channel's position in the array, row and column in the matrix of windows.
  void for_each(Index channels,
                const std::function<void(Index channel, const Shape&, Index row, Index column)>& f) const {
    const Shape all = places();
    for (Index channel = 0; channel < channels; ++channel) {
      Index element = 0;
      for_each_position(window, [&](const Shape& w) {
        Index column = 0;
        for_each_position(all, [&](const Shape& place) {
          Shape at;
          bool inside = true;
          for (std::size_t i = 0; i < w.size(); ++i) {
            at.push_back(place[i] * stride[i] - padding[i] + w[i] * dilation[i]);
            inside = inside && at.back() >= 0 && at.back() < lengths[i];
          }
          if (inside) f(channel, at, channel * window.elements() + element, column);
          ++column;
        });
        ++element;
      });
    }
  }
};

std::vector<Variant> unfold_variants(Dtype dtype) {
  std::vector<Variant> variants;
  const auto add = [&](const Shape& leading, Index channels, const Folding& w) {
    const Shape shape = concatenated(concatenated(leading, Shape(channels)), w.lengths);
    const Shape result = concatenated(leading, {channels * w.window.elements(), w.places().elements()});
    variants.push_back(
        {.name = shape.str() + " by " + w.window.str(),
         .inputs = {{dtype, shape}},
         .call = [=](auto xs) { return unfold(xs[0], w.window, w.options()); },
         .reference =
             [=](auto xs) {
               Array y = make(dtype, result, [](const Shape&) { return Real(0); });
               for_each_position(leading, [&](const Shape& p) {
                 w.for_each(channels, [&](Index channel, const Shape& at, Index row, Index column) {
                   y(concatenated(p, {row, column})) = xs[0](concatenated(concatenated(p, Shape(channel)), at));
                 });
               });
               return Arrays{y};
             }});
  };
  add({2}, 2, {{4, 3}, {2, 2}, {2, 1}, {1, 0}, {1, 1}});
  add({}, 2, {{5}, {2}, {1}, {0}, {2}});
  add({}, 1, {{3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}});
  add({0}, 2, {{3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}});
  variants.push_back(refused(
      "", dtype, {}, [](const Tensor& x) { return unfold(x, 2); }, "must have channels"));
  return variants;
}

std::vector<Variant> fold_variants(Dtype dtype) {
  std::vector<Variant> variants;
  const auto add = [&](const Shape& leading, Index channels, const Folding& w) {
    const Shape shape = concatenated(leading, {channels * w.window.elements(), w.places().elements()});
    const Shape result = concatenated(concatenated(leading, Shape(channels)), w.lengths);
    variants.push_back(
        {.name = shape.str() + " to " + w.lengths.str(),
         .inputs = {{dtype, shape}},
         .call = [=](auto xs) { return fold(xs[0], w.lengths, w.window, w.options()); },
         .reference =
             [=](auto xs) {
               Array y = make(summed_in(dtype), result, [](const Shape&) { return Real(0); });
               for_each_position(leading, [&](const Shape& p) {
                 w.for_each(channels, [&](Index channel, const Shape& at, Index row, Index column) {
                   y(concatenated(concatenated(p, Shape(channel)), at)) += xs[0](concatenated(p, {row, column}));
                 });
               });
               return Arrays{sized(y, 8)};
             }});
  };
  add({2}, 2, {{4, 3}, {2, 2}, {2, 1}, {1, 0}, {1, 1}});
  add({}, 2, {{5}, {2}, {1}, {0}, {2}});
  add({}, 1, {{3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}});
  add({0}, 2, {{3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}});
  variants.push_back(refused(
      "", dtype, {},
      [](const Tensor& x) {
        return fold(x, {2, 2}, 2);
      },
      "columns [] must be"));
  return variants;
}

// ---- adaptive pooling --------------------------------------------------------------------------

std::vector<Variant> adaptive_variants(Dtype dtype, bool of_maxima) {
  std::vector<Variant> variants;
  const auto add = [&](const Shape& shape, const Shape& lengths) {
    const auto first = shape.size() - lengths.size();
    Shape result = part(shape, 0, static_cast<Index>(first));
    for (std::size_t i = 0; i < lengths.size(); ++i) result.push_back(lengths[i] < 0 ? shape[first + i] : lengths[i]);
    const auto reference = [=](const Array& at_x, const Array& x) {
      Array y = make(of_maxima ? dtype : as_float(dtype), result, [&](const Shape& p) {
        Shape start = p, window;
        for (std::size_t axis = first; axis < p.size(); ++axis) {
          const Index n = shape[axis], m = result[axis];
          start[axis] = p[axis] * n / m;
          window.push_back(((p[axis] + 1) * n + m - 1) / m - start[axis]);
        }
        Real total = 0, greatest = -HUGE_VALL, found = 0;
        for_each_position(window, [&](const Shape& offset) {
          Shape at = start;
          for (std::size_t i = 0; i < offset.size(); ++i) at[first + i] += offset[i];
          total += x(at);
          if (at_x(at) > greatest) {
            greatest = at_x(at);
            found = x(at);
          }
        });
        return of_maxima ? found : total / static_cast<Real>(window.elements());
      });
      return Arrays{of_maxima ? y : sized(y, 8)};
    };
    variants.push_back(
        {.name = shape.str() + " to " + lengths.str(),
         .inputs = {{dtype, shape}},
         .call =
             [=](auto xs) { return of_maxima ? adaptive_max_pool(xs[0], lengths) : adaptive_avg_pool(xs[0], lengths); },
         .reference = [=](auto xs) { return reference(xs[0], xs[0]); },
         .smooth = [=](auto at, auto xs) { return reference(at[0], xs[0]); }});
  };
  add({2, 5, 4}, {3, 3});
  add({2, 4, 6}, {2, 3});
  add({2, 5}, {2});
  add({5}, {7});
  add({2, 3, 4}, {-1, 3});
  add({0, 3}, {2});
  const auto call = [=](const Tensor& x) { return of_maxima ? adaptive_max_pool(x, {2}) : adaptive_avg_pool(x, {2}); };
  variants.push_back(refused("", dtype, {}, call, "do not fit shape"));
  variants.push_back(refused("", dtype, {2, 0}, call, "cannot be divided"));
  return variants;
}

// ---- padding -----------------------------------------------------------------------------------

std::vector<Variant> pad_mode_variants(Dtype dtype) {
  std::vector<Variant> variants;
  using Widths = std::vector<std::pair<Index, Index>>;
  const auto add = [&](const Shape& shape, const Widths& widths, PadMode mode) {
    Shape result = shape;
    for (std::size_t axis = 0; axis < widths.size(); ++axis) result[axis] += widths[axis].first + widths[axis].second;
    // Walks from element to element, and turns around or jumps at the ends.
    const auto source = [=](Index place, Index n) {
      Index at = 0, step = 1;
      const Index count = std::abs(place);
      if (place < 0) step = -1;
      for (Index i = 0; i < count; ++i) {
        const Index next = at + step;
        if (next >= 0 && next < n) {
          at = next;
          continue;
        }
        switch (mode) {
          case PadMode::edge: break;
          case PadMode::wrap: at = step > 0 ? 0 : n - 1; break;
          case PadMode::symmetric: step = -step; break;
          case PadMode::reflect:
            step = -step;
            if (n > 1) at += step;
        }
      }
      return at;
    };
    variants.push_back({.name = shape.str() + " to " + result.str() + " mode " + std::to_string(static_cast<int>(mode)),
                        .inputs = {{dtype, shape}},
                        .call = [=](auto xs) { return pad(xs[0], widths, mode); },
                        .reference =
                            [=](auto xs) {
                              return Arrays{make(dtype, result, [&](Shape p) {
                                for (std::size_t axis = 0; axis < p.size(); ++axis)
                                  p[axis] = source(p[axis] - widths[axis].first, shape[axis]);
                                return xs[0](p);
                              })};
                            }});
  };
  for (const PadMode mode : {PadMode::reflect, PadMode::symmetric, PadMode::edge, PadMode::wrap}) {
    add({2, 3}, {{1, 2}, {4, 7}}, mode);
    add({3}, {{2, 1}}, mode);
    add({2, 4}, {{0, 0}, {2, -1}}, mode);
    add({1, 3}, {{2, 2}, {-1, 0}}, mode);
    add({0, 3}, {{0, 0}, {1, 1}}, mode);
    add({}, {}, mode);
  }
  variants.push_back(refused(
      "", dtype, {2, 0},
      [](const Tensor& x) {
        return pad(x, {{0, 0}, {1, 0}}, PadMode::edge);
      },
      "has no element"));
  return variants;
}

std::vector<Variant> pad_between_variants(Dtype dtype) {
  std::vector<Variant> variants;
  const auto add = [&](const Shape& shape, const std::vector<PadWidths>& widths) {
    Shape result = shape;
    for (std::size_t axis = 0; axis < widths.size(); ++axis)
      result[axis] +=
          widths[axis].before + widths[axis].after + std::max<Index>(shape[axis] - 1, 0) * widths[axis].between;
    variants.push_back({.name = shape.str() + " to " + result.str(),
                        .inputs = {{dtype, shape}},
                        .call = [=](auto xs) { return pad_between(xs[0], widths, 1); },
                        .reference =
                            [=](auto xs) {
                              return Arrays{make(dtype, result, [&](Shape p) -> Real {
                                for (std::size_t axis = 0; axis < p.size(); ++axis) {
                                  const Index place = p[axis] - widths[axis].before, step = widths[axis].between + 1;
                                  if (place < 0 || place % step != 0 || place / step >= shape[axis]) return 1;
                                  p[axis] = place / step;
                                }
                                return xs[0](p);
                              })};
                            }});
  };
  add({2, 3}, {{1, 0, 2}, {-1, 2, 1}});
  add({4}, {{0, 1, 1}});
  add({0, 3}, {{1, 1, 1}, {0, 0, 0}});
  add({}, {});
  return variants;
}

std::vector<Variant> rot90_variants(Dtype dtype) {
  std::vector<Variant> variants;
  for (const Index times : {0, 1, 2, 3, -1})
    for (const Shape& shape : {Shape(2, 3), Shape(0, 2)}) {
      const Index turns = (times + 4) % 4, m = shape[0], n = shape[1];
      const Shape result = turns % 2 ? Shape(n, m) : shape;
      variants.push_back(view_of(
          std::to_string(times) + " times ", dtype, shape, [=](const Tensor& x) { return rot90(x, times); }, result,
          [=](const Shape& p) {
            if (turns == 1) return Shape(p[1], n - 1 - p[0]);
            if (turns == 2) return Shape(m - 1 - p[0], n - 1 - p[1]);
            return turns == 3 ? Shape(m - 1 - p[1], p[0]) : p;
          }));
    }
  variants.push_back(refused(
      "", dtype, {}, [](const Tensor& x) { return rot90(x); }, "axis 0 is out of range for rank 0"));
  return variants;
}

std::vector<Variant> swapaxes_variants(Dtype dtype) {
  const auto source = [](const Shape& p) { return Shape(p[2], p[1], p[0]); };
  const auto call = [](const Tensor& x) { return swapaxes(x, 0, -1); };
  return {view_of("", dtype, {2, 3, 4}, call, {4, 3, 2}, source),
          view_of("", dtype, {0, 3, 2}, call, {2, 3, 0}, source),
          refused("", dtype, {}, call, "axis 0 is out of range for rank 0")};
}

std::vector<Variant> broadcast_arrays_variants(Dtype dtype) {
  std::vector<Variant> variants;
  const auto add = [&](const Shape& a, const Shape& b) {
    const Shape result = broadcast_shape(a, b);
    const auto broadcast = [=](const Array& x) {
      return make(dtype, result, [&](const Shape& p) { return x(broadcast_position(x.shape, p)); });
    };
    variants.push_back({.name = a.str() + " " + b.str(),
                        .inputs = {{dtype, a}, {dtype, b}},
                        .call =
                            [](auto xs) {
                              const std::vector<Tensor> ys = broadcast_arrays({xs[0], xs[1]});
                              return Outputs{ys[0], ys[1]};
                            },
                        .reference =
                            [=](auto xs) {
                              return Arrays{broadcast(xs[0]), broadcast(xs[1])};
                            }});
  };
  add({2, 3}, {3});
  add({2, 1}, {1, 4});
  add({0, 3}, {3});
  add({}, {2});
  return variants;
}

// ---- sequences ---------------------------------------------------------------------------------

std::vector<Variant> spaced(Dtype dtype, const std::function<Tensor(Index, bool)>& call,
                            const std::function<Real(Real)>& number) {
  std::vector<Variant> variants;
  for (const Index count : {5, 1, 0})
    for (const bool endpoint : {true, false})
      variants.push_back({.name = std::to_string(count) + (endpoint ? "" : " without end"),
                          .inputs = {},
                          .call = [=](auto) { return call(count, endpoint); },
                          .reference =
                              [=](auto) {
                                const Index steps = endpoint ? std::max<Index>(count - 1, 1) : count;
                                return Arrays{make(dtype, {count}, [&](const Shape& p) {
                                  return number(static_cast<Real>(p[0]) / static_cast<Real>(steps));
                                })};
                              }});
  return variants;
}

std::vector<Variant> vander_variants(Dtype dtype) {
  std::vector<Variant> variants;
  const auto add = [&](const Shape& shape, Index columns, bool increasing) {
    const Index count = columns < 0 ? shape.back() : columns;
    Shape result = shape;
    result.push_back(count);
    variants.push_back({.name = shape.str() + " columns " + std::to_string(columns) + (increasing ? " increasing" : ""),
                        .inputs = {{dtype, shape}},
                        .call = [=](auto xs) { return vander(xs[0], {.columns = columns, .increasing = increasing}); },
                        .reference =
                            [=](auto xs) {
                              return Arrays{sized(make(as_number(dtype), result,
                                                       [&](Shape p) {
                                                         const Index power =
                                                             increasing ? p.back() : count - 1 - p.back();
                                                         p.pop_back();
                                                         return std::pow(xs[0](p), static_cast<Real>(power));
                                                       }),
                                                  16)};
                            }});
  };
  add({4}, -1, false);
  add({2, 3}, 4, true);
  add({3}, 1, false);
  add({3}, 0, true);
  add({0}, 3, false);
  variants.push_back(refused(
      "", dtype, {}, [](const Tensor& x) { return vander(x); }, "rank 0"));
  return variants;
}

}  // namespace

void add_image_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "resize", .dtypes = network_dtypes, .variants = [](Dtype dtype) {
                    return resize_variants(dtype, false);
                  }});
  rows.push_back({.name = "resize_by", .dtypes = network_dtypes, .variants = [](Dtype dtype) {
                    return resize_variants(dtype, true);
                  }});
  rows.push_back({.name = "grid_sample", .dtypes = {float32, float64}, .variants = grid_sample_variants});
  rows.push_back({.name = "unfold", .dtypes = all_dtypes, .variants = unfold_variants, .accuracy = 0});
  rows.push_back({.name = "fold", .dtypes = all_dtypes, .variants = fold_variants});
}

void add_padding_rows(std::vector<Row>& rows) {
  for (Row& row : rows)
    if (row.name == "pad")
      row.variants = [constant = row.variants](Dtype dtype) {
        std::vector<Variant> variants = constant(dtype);
        for (Variant& variant : pad_mode_variants(dtype)) variants.push_back(std::move(variant));
        return variants;
      };
  rows.push_back({.name = "pad_between", .dtypes = all_dtypes, .variants = pad_between_variants, .accuracy = 0});
  rows.push_back(
      {.name = "broadcast_arrays", .dtypes = all_dtypes, .variants = broadcast_arrays_variants, .accuracy = 0});
  rows.push_back({.name = "swapaxes", .dtypes = all_dtypes, .variants = swapaxes_variants, .accuracy = 0});
  rows.push_back({.name = "rot90", .dtypes = all_dtypes, .variants = rot90_variants, .accuracy = 0});
}

void add_sequence_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "logspace", .dtypes = float_dtypes, .variants = [](Dtype dtype) {
                    return spaced(
                        dtype,
                        [=](Index count, bool endpoint) {
                          return logspace(-1, 2, count, 3, dtype, {.endpoint = endpoint, .device = place()});
                        },
                        [](Real share) { return std::pow(Real(3), -1 + 3 * share); });
                  }});
  rows.push_back({.name = "geomspace", .dtypes = float_dtypes, .variants = [](Dtype dtype) {
                    return spaced(
                        dtype,
                        [=](Index count, bool endpoint) {
                          return geomspace(-2, -50, count, dtype, {.endpoint = endpoint, .device = place()});
                        },
                        [](Real share) { return -2 * std::pow(Real(25), share); });
                  }});
  rows.push_back({.name = "vander", .dtypes = all_dtypes, .variants = vander_variants});
}

void add_adaptive_pool_rows(std::vector<Row>& rows) {
  rows.push_back({.name = "adaptive_avg_pool", .dtypes = network_dtypes, .variants = [](Dtype dtype) {
                    return adaptive_variants(dtype, false);
                  }});
  rows.push_back({.name = "adaptive_max_pool",
                  .dtypes = network_dtypes,
                  .variants = [](Dtype dtype) { return adaptive_variants(dtype, true); },
                  .accuracy = 0});
}

}  // namespace table
