// Lowering of reductions, and of operations on rows: softmax, layer_norm and their gradients.
#include <algorithm>
#include <limits>

#include <stave/core/program/lanes.h>
#include <stave/core/program/lower_reduction_order.h>
#include <stave/core/program/lower_rows.h>

namespace stave_detail {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

int extreme_number(Lowering& l, Dtype dtype, bool largest) {
  return visit_real_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) return l.number(largest, dtype);
    else if constexpr (std::is_integral_v<T>)
      return l.number(largest ? std::numeric_limits<T>::max() : std::numeric_limits<T>::lowest(), dtype);
    else return l.number(largest ? infinity : -infinity, dtype);
  });
}

int choose(Lowering& l, bool larger, int present, int x) {
  const int wins =
      l.add(ScalarOp::bit_or, larger ? l.add(ScalarOp::less, x, present) : l.add(ScalarOp::less, present, x),
            l.add(ScalarOp::not_equal, present, present));
  return l.add(ScalarOp::select, wins, present, x);
}

int replaces(Lowering& l, bool larger, int best, int x) {
  const int wins = larger ? l.add(ScalarOp::less, best, x) : l.add(ScalarOp::less, x, best);
  if (!is_float(l.builder().dtype(x))) return wins;
  return l.add(ScalarOp::bit_or, wins,
               l.add(ScalarOp::bit_and, l.add(ScalarOp::not_equal, x, x), l.add(ScalarOp::equal, best, best)));
}

Dtype PlainReduction::accumulator() const {
  return op == OpId::max || op == OpId::min ? dtype : stave_detail::accumulator(dtype);
}

int PlainReduction::neutral() const {
  switch (op) {
    case OpId::sum: return l.number(0, accumulator());
    case OpId::prod: return l.number(1, accumulator());
    case OpId::all: return l.number(true, bool_);
    case OpId::any: return l.number(false, bool_);
    default: return extreme_number(l, dtype, op == OpId::min);
  }
}

int PlainReduction::both(int a, int b) const {
  switch (op) {
    case OpId::sum: return l.add(ScalarOp::add, a, b);
    case OpId::prod: return l.add(ScalarOp::multiply, a, b);
    case OpId::all: return l.add(ScalarOp::bit_and, a, b);
    case OpId::any: return l.add(ScalarOp::bit_or, a, b);
    default: return choose(l, op == OpId::max, a, b);
  }
}

int scaled(Lowering& l, int a, int b) {
  const int zero = l.number(0, l.builder().dtype(a));
  const int both = l.add(ScalarOp::bit_and, l.add(ScalarOp::not_equal, a, zero), l.add(ScalarOp::not_equal, b, zero));
  return l.add(ScalarOp::select, both, l.add(ScalarOp::multiply, a, b), zero);
}

// ---- sums ---------------------------------------------------------------------------------------

std::vector<int> LoweredSum::start() const {
  const int zero = l.number(0, accumulator(dtype));
  return dtype == float64 ? std::vector<int>{zero, zero} : std::vector<int>{zero};
}

void LoweredSum::step(std::span<int> state, int x) const {
  const auto add = [&](int a, int b) { return l.add(ScalarOp::add, a, b); };
  const auto subtract = [&](int a, int b) { return l.add(ScalarOp::subtract, a, b); };
  if (dtype != float64) {
    state[0] = add(state[0], l.convert(x, accumulator(dtype)));
    return;
  }
  // The rounding errors are summed separately (Knuth's TwoSum).
  const int sum = state[0], total = add(sum, x), given = subtract(total, sum);
  state[1] = add(state[1], add(subtract(sum, subtract(total, given)), subtract(x, given)));
  state[0] = total;
}

int LoweredSum::finish(std::span<const int> state) const {
  if (dtype != float64) return l.convert(state[0], dtype);
  // The error of an infinite sum is NaN, so an infinite sum is not corrected.
  return l.add(ScalarOp::select, l.is_finite(state[0]), l.add(ScalarOp::add, state[0], state[1]), state[0]);
}

// ---- reductions ---------------------------------------------------------------------------------

namespace {

// The axes that a reduction keeps, and the axes that it reduces.
struct ReducedAxes {
  std::vector<std::size_t> kept, reduced;
  Shape reduced_shape;

  ReducedAxes(const Shape& given, const Shape& axes) {
    const auto rank = static_cast<Index>(given.size());
    for (std::size_t axis = 0; axis < given.size(); ++axis) {
      const auto is_axis = [&](Index a) { return (a < 0 ? a + rank : a) == static_cast<Index>(axis); };
      if (std::any_of(axes.begin(), axes.end(), is_axis)) {
        reduced.push_back(axis);
        reduced_shape.push_back(given[axis]);
      } else {
        kept.push_back(axis);
      }
    }
  }
  // The position in the operand of an element that is reduced to position `at` of the output, whose
  // reduced axes may be kept with length 1. `in_reduced` is its position along the reduced axes.
  PositionList place(Positions at, Positions in_reduced) const {
    PositionList found(kept.size() + reduced.size());
    const bool keeps = at.size() == found.size();
    for (std::size_t k = 0; k < kept.size(); ++k) found[kept[k]] = at[keeps ? kept[k] : k];
    for (std::size_t k = 0; k < reduced.size(); ++k) found[reduced[k]] = in_reduced[k];
    return found;
  }
};

}  // namespace

Array lower_reduction(Lowering& l, const Op& op, const Shape& given, const Strides& strides, Dtype dtype,
                      const Shape& axes, const Shape& shape, FunctionRef<int(Positions)> element) {
  const ReducedAxes of(given, axes);
  if (l.vector_bytes() > 0 && is_float(dtype) && given.elements() > 0 && given.elements() <= most_elements) {
    const ReductionOrder order(given, strides, of.reduced);
    const std::vector<PositionList> positions = order.positions();
    return l.compute(shape, dtype, [&](Positions at) {
      std::vector<int> elements;
      for (const PositionList& reduced : positions) elements.push_back(element(of.place(at, reduced)));
      return reduce_in_order(l, op.id, elements, order, l.vector_bytes());
    });
  }
  const LoweredSum sum{l, dtype};
  const PlainReduction plain{l, op.id, dtype};
  const bool is_sum = op.id == OpId::sum;
  const Index cost = 4 * std::max<Index>(1, of.reduced_shape.elements());
  return l.compute(
      shape, dtype,
      [&](Positions at) {
        std::vector<int> state = is_sum ? sum.start() : std::vector<int>{plain.neutral()};
        l.fold(of.reduced_shape, state, [&](Positions reduced, std::span<int> now) {
          const int value = element(of.place(at, reduced));
          if (is_sum) sum.step(now, value);
          else now[0] = plain.both(now[0], plain.read(value));
        });
        return is_sum ? sum.finish(state) : l.convert(state[0], dtype);
      },
      cost);
}

Array lower_reduction_of_lane(Lowering& l, const Op& op, const Array& x, const LaneReduction& of_all,
                              const Shape& shape) {
  const ReducedAxes of(x.shape, of_all.axes);
  Shape reduced = of_all.axes;  // the reduced axes, as axes of the array of all lanes
  for (Index& axis : reduced) axis += axis >= of_all.lane_axis;
  const ReductionOrder order(of_all.shape, of_all.strides, std::vector<std::size_t>(reduced.begin(), reduced.end()));
  const std::vector<PositionList> positions = order.positions();
  return l.compute(shape, x.dtype, [&](Positions at) {
    std::vector<int> elements;
    for (const PositionList& place : positions) elements.push_back(l.element(x, of.place(at, place)));
    return reduce_in_order(l, op.id, elements, order, l.vector_bytes());
  });
}

Array lower_reduction(Lowering& l, const Op& op, const Array& x, const Shape& axes, const Shape& shape) {
  return lower_reduction(l, op, x.shape, x.strides, x.dtype, axes, shape,
                         [&](Positions at) { return l.element(x, at); });
}

namespace {

Arrays reduce(const LoweringContext& c) {
  if (const auto* const of_all = dynamic_cast<const LaneReduction*>(c.instruction.attributes.get()))
    return {lower_reduction_of_lane(c.l, *c.instruction.op, c.in(0), *of_all, c.shape())};
  return {lower_reduction(c.l, *c.instruction.op, c.in(0), c.as<ReduceAttributes>().axes, c.shape())};
}

// argmax and argmin: the first position of the largest or smallest element, or of NaN if there is
// one.
Arrays arg_reduce(const LoweringContext& c) {
  Lowering& l = c.l;
  const Array& x = c.in(0);
  const ReducedAxes of(x.shape, c.as<ReduceAttributes>().axes);
  const bool largest = c.instruction.op->id == OpId::argmax;
  return {l.compute(
      c.shape(), c.dtype(),
      [&](Positions at) {
        const auto value_at = [&](Positions reduced) { return l.element(x, of.place(at, reduced)); };
        const auto position = [&](Positions reduced) {
          Position place(0);
          for (std::size_t k = 0; k < reduced.size(); ++k)
            place = l.position_of(
                l.add(ScalarOp::add, l.value_of(l.shifted(place, 0, of.reduced_shape[k])), l.value_of(reduced[k])));
          return l.value_of(place);
        };
        int state[] = {value_at(PositionList(of.reduced.size())), l.index(0)};
        l.fold(of.reduced_shape, state, [&](Positions reduced, std::span<int> now) {
          const int value = value_at(reduced);
          const int wins = replaces(l, largest, now[0], value);
          now[1] = l.add(ScalarOp::select, wins, position(reduced), now[1]);
          now[0] = l.add(ScalarOp::select, wins, value, now[0]);
        });
        return l.convert(state[1], c.dtype());
      },
      std::max<Index>(1, of.reduced_shape.elements()))};
}

// ---- rows ---------------------------------------------------------------------------------------

// The position `at`, for an array that has length 1 along the axis.
PositionList in_row(Positions at, std::size_t axis) { return with(at, axis, Position(0)); }

Array sum_along(Lowering& l, const Array& x, std::size_t axis) {
  return lower_reduction(l, op_sum, x, {static_cast<Index>(axis)}, keepdims_shape(x.shape, axis));
}
Array max_along(Lowering& l, const Array& x, std::size_t axis) {
  return lower_reduction(l, op_max, x, {static_cast<Index>(axis)}, keepdims_shape(x.shape, axis));
}

// `terms`: exp(x - largest); `total`: their sum along the axis; `largest`: the maximum of x along
// the axis.
struct Exponentials {
  Array terms, total, largest;
  Exponentials(Lowering& l, const Array& x, std::size_t axis) : largest(max_along(l, x, axis)) {
    terms = l.compute(x.shape, x.dtype, [&](Positions at) {
      return l.add(ScalarOp::exp, l.add(ScalarOp::subtract, l.element(x, at), l.element(largest, in_row(at, axis))));
    });
    total = sum_along(l, terms, axis);
  }
};

Array softmax_of(Lowering& l, const Array& x, std::size_t axis) {
  const Exponentials e(l, x, axis);
  return l.compute(x.shape, x.dtype, [&](Positions at) {
    return l.add(ScalarOp::divide, l.element(e.terms, at), l.element(e.total, in_row(at, axis)));
  });
}

std::size_t axis_of(const LoweringContext& c) { return static_cast<std::size_t>(c.as<AxisAttributes>().axis); }

Arrays softmax(const LoweringContext& c) { return {softmax_of(c.l, c.in(0), axis_of(c))}; }

// log(the sum of exp(terms)) along the axis, in float64, for terms whose maximum is 0: log1p(the
// sum without its largest term, which is 1).
Array log_sum_along(Lowering& l, const Shape& shape, std::size_t axis, FunctionRef<int(Positions)> term) {
  const LoweredSum sum{l, float64};
  return l.compute(
      keepdims_shape(shape, axis), float64,
      [&](Positions at) {
        std::vector<int> state = sum.start();
        sum.step(state, l.number(-1, float64));
        l.fold({shape[axis]}, state, [&](Positions along, std::span<int> now) {
          sum.step(now, l.add(ScalarOp::exp, term(with(at, axis, along[0]))));
        });
        return l.add(ScalarOp::log1p, sum.finish(state));
      },
      4 * shape[axis]);
}

// x - max - log(the sum of exp(x - max)). The difference x - max is computed in the dtype of x, and
// everything else in float64.
Arrays log_softmax(const LoweringContext& c) {
  Lowering& l = c.l;
  const Array& x = c.in(0);
  const std::size_t axis = axis_of(c);
  const Array largest = max_along(l, x, axis);
  const auto off = [&](Positions at) {
    return l.convert(l.add(ScalarOp::subtract, l.element(x, at), l.element(largest, in_row(at, axis))), float64);
  };
  const Array logarithm = log_sum_along(l, x.shape, axis, off);
  return {l.compute(c.shape(), c.dtype(), [&](Positions at) {
    return l.convert(l.add(ScalarOp::subtract, off(at), l.element(logarithm, in_row(at, axis))), c.dtype());
  })};
}

// max + log(the sum of exp(x - max)), where x - max is 0 for elements that equal an infinite max.
Arrays logsumexp(const LoweringContext& c) {
  Lowering& l = c.l;
  const Array& x = c.in(0);
  const std::size_t axis = axis_of(c);
  const Array largest = max_along(l, x, axis);
  const auto off = [&](Positions at) {
    const int value = l.element(x, at), most = l.element(largest, in_row(at, axis));
    const int wins = l.add(ScalarOp::equal, value, most);
    const int difference = l.add(ScalarOp::subtract, value, most);
    return l.convert(l.add(ScalarOp::select, wins, l.number(0, x.dtype), difference), float64);
  };
  const Array logarithm = log_sum_along(l, x.shape, axis, off);
  return {l.compute(c.shape(), c.dtype(), [&](Positions at) {
    return l.convert(l.add(ScalarOp::add, l.convert(l.element(largest, at), float64), l.element(logarithm, at)),
                     c.dtype());
  })};
}

// An array of the shape of x with element(a, b) of the elements a of x and b of y. y is broadcast
// along its axes of length 1.
Array zipped(Lowering& l, const Array& x, const Array& y, FunctionRef<int(int, int)> element) {
  return l.compute(x.shape, x.dtype, [&](Positions at) {
    PositionList in_y(at);
    for (std::size_t axis = 0; axis < in_y.size(); ++axis)
      if (y.shape[axis] == 1) in_y[axis] = Position(0);
    return element(l.element(x, at), l.element(y, in_y));
  });
}

// y (e - sum(y e)) along the last axis, where y is the output of softmax, and e is ct minus the ct
// of the element with y > 1/2, if there is one.
Arrays softmax_gradient(const LoweringContext& c) {
  Lowering& l = c.l;
  const Array &y = c.in(0), &ct = c.in(1);
  const std::size_t axis = y.shape.size() - 1;
  const int zero = l.number(0, c.dtype()), half = l.number(0.5, c.dtype());
  const Array of_winner =
      zipped(l, y, ct, [&](int p, int v) { return l.add(ScalarOp::select, l.add(ScalarOp::less, half, p), v, zero); });
  const Array e = zipped(l, ct, sum_along(l, of_winner, axis),
                         [&](int v, int winner) { return l.add(ScalarOp::subtract, v, winner); });
  const Array total = sum_along(l, zipped(l, y, e, [&](int p, int v) { return scaled(l, p, v); }), axis);
  const Array relative = zipped(l, e, total, [&](int v, int sum) { return l.add(ScalarOp::subtract, v, sum); });
  return {zipped(l, relative, y, [&](int v, int p) { return scaled(l, v, p); })};
}

// ct - sum(ct) softmax(x) along the last axis. For an element with softmax(x) > 1/2 it is computed
// as minus the sum of the others, which loses fewer digits.
Arrays log_softmax_gradient(const LoweringContext& c) {
  Lowering& l = c.l;
  const Array &x = c.in(0), &ct = c.in(1);
  const std::size_t axis = x.shape.size() - 1;
  const int zero = l.number(0, c.dtype()), half = l.number(0.5, c.dtype());
  const Array p = softmax_of(l, x, axis);
  const Array share = zipped(l, p, sum_along(l, ct, axis), [&](int weight, int sum) { return scaled(l, sum, weight); });
  const Array difference = zipped(l, ct, share, [&](int v, int part) { return l.add(ScalarOp::subtract, v, part); });
  const Array others = zipped(l, difference, p, [&](int v, int weight) {
    return l.add(ScalarOp::select, l.add(ScalarOp::less, half, weight), zero, v);
  });
  const Array total = sum_along(l, others, axis);
  return {l.compute(c.shape(), c.dtype(), [&](Positions at) {
    const int wins = l.add(ScalarOp::less, half, l.element(p, at));
    return l.add(ScalarOp::select, wins, l.add(ScalarOp::negative, l.element(total, in_row(at, axis))),
                 l.element(others, at));
  })};
}

// ---- layer_norm: see NormAttributes -------------------------------------------------------------

// The normalized rows h = (x - mean) r, where r = 1 / sqrt(variance + epsilon) for each row, in
// float64. An infinite r is replaced by 1.
struct Normalized {
  Array h, r;
  Normalized(Lowering& l, const Array& given, double epsilon) {
    const std::size_t axis = given.shape.size() - 1;
    const int n = l.number(given.shape[axis], float64);
    const auto per_row = [&](const Array& sums, FunctionRef<int(int)> f) {
      return l.compute(sums.shape, float64, [&](Positions at) { return f(l.element(sums, at)); });
    };
    const Array x =
        l.compute(given.shape, float64, [&](Positions at) { return l.convert(l.element(given, at), float64); });
    const Array mean = per_row(sum_along(l, x, axis), [&](int sum) { return l.add(ScalarOp::divide, sum, n); });
    const Array off = zipped(l, x, mean, [&](int a, int b) { return l.add(ScalarOp::subtract, a, b); });
    const Array squares = zipped(l, off, off, [&](int a, int b) { return l.add(ScalarOp::multiply, a, b); });
    r = per_row(sum_along(l, squares, axis), [&](int sum) {
      const int variance = l.add(ScalarOp::add, l.add(ScalarOp::divide, sum, n), l.number(epsilon, float64));
      const int one = l.number(1, float64), root = l.add(ScalarOp::divide, one, l.add(ScalarOp::sqrt, variance));
      return l.add(ScalarOp::select, l.add(ScalarOp::equal, root, l.number(infinity, float64)), one, root);
    });
    h = zipped(l, off, r, [&](int a, int b) { return l.add(ScalarOp::multiply, a, b); });
  }
};

Arrays layer_norm(const LoweringContext& c) {
  Lowering& l = c.l;
  const Normalized of(l, c.in(0), c.as<NormAttributes>().epsilon);
  return {l.compute(c.shape(), c.dtype(), [&](Positions at) {
    const int weight = l.convert(l.element(c.in(1), at.last(1)), float64);
    const int bias = l.convert(l.element(c.in(2), at.last(1)), float64);
    const int scaled_h = l.add(ScalarOp::multiply, weight, l.element(of.h, at));
    return l.convert(l.add(ScalarOp::add, scaled_h, bias), c.dtype());
  })};
}

Arrays layer_norm_gradient(const LoweringContext& c) {
  Lowering& l = c.l;
  const Array &x = c.in(0), &weight = c.in(1), &ct = c.in(2);
  const std::size_t axis = x.shape.size() - 1;
  const Normalized of(l, x, c.as<NormAttributes>().epsilon);
  const int n = l.number(x.shape[axis], float64);
  const auto wide = [&](int value) { return l.convert(value, float64); };
  const Array wide_ct = l.compute(x.shape, float64, [&](Positions at) { return wide(l.element(ct, at)); });
  const Array u = l.compute(x.shape, float64, [&](Positions at) {
    return scaled(l, wide(l.element(weight, at.last(1))), l.element(wide_ct, at));
  });
  const Array hu = zipped(l, of.h, u, [&](int a, int b) { return scaled(l, a, b); });
  const Array sum_u = sum_along(l, u, axis), sum_hu = sum_along(l, hu, axis);
  const Array by_x = l.compute(x.shape, x.dtype, [&](Positions at) {
    const PositionList row = in_row(at, axis);
    const int mean_u = l.add(ScalarOp::divide, l.element(sum_u, row), n);
    const int mean_hu = l.add(ScalarOp::divide, l.element(sum_hu, row), n);
    const int rest = l.add(ScalarOp::subtract, l.add(ScalarOp::subtract, l.element(u, at), mean_u),
                           l.add(ScalarOp::multiply, l.element(of.h, at), mean_hu));
    return l.convert(l.add(ScalarOp::multiply, l.element(of.r, row), rest), x.dtype);
  });
  const auto over_rows = [&](const Array& terms) {
    Shape axes;
    for (std::size_t k = 0; k < axis; ++k) axes.push_back(static_cast<Index>(k));
    const Array sums = lower_reduction(l, op_sum, terms, axes, {x.shape[axis]});
    return l.compute(sums.shape, x.dtype, [&](Positions at) { return l.convert(l.element(sums, at), x.dtype); });
  };
  const Array ct_h = zipped(l, wide_ct, of.h, [&](int a, int b) { return scaled(l, a, b); });
  return {by_x, over_rows(ct_h), over_rows(wide_ct)};
}

}  // namespace

LoweringRule lowering_of_reduction(OpId id) {
  switch (id) {
    case OpId::sum:
    case OpId::prod:
    case OpId::max:
    case OpId::min:
    case OpId::all:
    case OpId::any: return reduce;
    case OpId::argmax:
    case OpId::argmin: return arg_reduce;
    case OpId::softmax: return softmax;
    case OpId::log_softmax: return log_softmax;
    case OpId::logsumexp: return logsumexp;
    case OpId::softmax_gradient: return softmax_gradient;
    case OpId::log_softmax_gradient: return log_softmax_gradient;
    case OpId::layer_norm: return layer_norm;
    case OpId::layer_norm_gradient: return layer_norm_gradient;
    default: return nullptr;
  }
}

}  // namespace stave_detail
