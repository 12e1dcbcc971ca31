// Lowering of matrix products, convolutions and pooling.
#include <algorithm>

#include <stave/core/program/lower_rows.h>

namespace stave_detail {

namespace {

// Each element is 0 plus its products one after the other, as the CPU's kernel for small matrices
// adds them. If there is one product, nothing is added to it.
Arrays matmul(const LoweringContext& c) {
  Lowering& l = c.l;
  const Array &a = c.in(0), &b = c.in(1);
  const std::size_t rank = c.shape().size();
  const Index k = a.shape.back();
  return {l.compute(
      c.shape(), c.dtype(),
      [&](Positions at) {
        PositionList left(at), right(at);
        const auto product = [&](Position p) {
          left[rank - 1] = p;
          right[rank - 2] = p;
          return l.add(ScalarOp::multiply, l.element(a, left), l.element(b, right));
        };
        if (k == 1) return product(Position(0));
        int sum = l.number(0, c.dtype());
        l.fold({k}, std::span(&sum, 1),
               [&](Positions along, std::span<int> now) { now[0] = l.add(ScalarOp::add, now[0], product(along[0])); });
        return sum;
      },
      std::max<Index>(1, k))};
}

// A position along an axis whose elements are `dilation` apart and have padding around them.
// `is_inside` is a bool value: true if there is an element. `place` is the index of the element, or
// 0 if there is none.
struct Window {
  int is_inside;
  Position place;
};
Window window(Lowering& l, Position at, Index length, Index dilation) {
  int value = l.value_of(at), inside = l.number(true, bool_);
  if (dilation != 1) {
    const int holes = l.index(dilation);
    inside = l.add(ScalarOp::equal, l.add(ScalarOp::remainder, value, holes), l.index(0));
    value = l.add(ScalarOp::floor_divide, value, holes);
  }
  const int in_range = l.add(ScalarOp::bit_and, l.add(ScalarOp::less_equal, l.index(0), value),
                             l.add(ScalarOp::less, value, l.index(length)));
  inside = l.add(ScalarOp::bit_and, inside, in_range);
  return {inside, l.position_of(l.add(ScalarOp::select, inside, value, l.index(0)))};
}
Arrays convolution(const LoweringContext& c) {
  Lowering& l = c.l;
  const auto& a = c.as<ConvolutionAttributes>();
  const Array &x = c.in(0), &w = c.in(1);
  const std::size_t spatial = a.strides.size();
  const Shape terms = axes_of(w.shape, 2, w.shape.size());  // input channels, then the window
  return {l.compute(
      c.shape(), c.dtype(),
      [&](Positions at) {
        const int zero = l.number(0, c.dtype());
        int sum = zero;
        l.fold(terms, std::span(&sum, 1), [&](Positions term, std::span<int> now) {
          PositionList in_x{at[0], at[1], term[0]}, in_w{at[1], at[2], term[0]};
          int inside = l.number(true, bool_);
          for (std::size_t k = 0; k < spatial; ++k) {
            const Position place =
                l.sum(l.shifted(at[3 + k], -a.low[k], a.strides[k]), l.shifted(term[1 + k], 0, a.dilations[k]));
            const Window found = window(l, place, x.shape[3 + k], a.input_dilations[k]);
            inside = l.add(ScalarOp::bit_and, inside, found.is_inside);
            in_x.push_back(found.place);
            in_w.push_back(term[1 + k]);
          }
          const int value = l.add(ScalarOp::select, inside, l.element(x, in_x), zero);
          now[0] = l.add(ScalarOp::add, now[0], l.add(ScalarOp::multiply, value, l.element(w, in_w)));
        });
        return sum;
      },
      std::max<Index>(1, terms.elements()))};
}

// max_pool and argmax_pool: the first of the largest elements of a window, or its position; NaN is
// the largest.
Arrays pool(const LoweringContext& c) {
  Lowering& l = c.l;
  const auto& a = c.as<PoolAttributes>();
  const Array& x = c.in(0);
  const std::size_t spatial = a.windows.size(), others = x.shape.size() - spatial;
  const bool positions = c.instruction.op->id == OpId::argmax_pool;
  return {l.compute(
      c.shape(), c.dtype(),
      [&](Positions at) {
        // The largest element so far, its row-major position along the pooled axes, and a bool:
        // true if there is one.
        int state[] = {extreme_number(l, x.dtype, false), l.index(0), l.number(false, bool_)};
        l.fold(a.windows, state, [&](Positions term, std::span<int> now) {
          PositionList place(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(others));
          int inside = l.number(true, bool_);
          Position position(0);
          for (std::size_t k = 0; k < spatial; ++k) {
            const Position along =
                l.sum(l.shifted(at[others + k], -a.low[k], a.strides[k]), l.shifted(term[k], 0, a.dilations[k]));
            const Window found = window(l, along, x.shape[others + k], 1);
            inside = l.add(ScalarOp::bit_and, inside, found.is_inside);
            place.push_back(found.place);
            position = l.sum(l.shifted(position, 0, x.shape[others + k]), found.place);
          }
          const int value = l.element(x, place);
          int wins = l.add(ScalarOp::bit_or, replaces(l, true, now[0], value), l.add(ScalarOp::bit_not, now[2]));
          wins = l.add(ScalarOp::bit_and, wins, inside);
          now[0] = l.add(ScalarOp::select, wins, value, now[0]);
          now[1] = l.add(ScalarOp::select, wins, l.value_of(position), now[1]);
          now[2] = l.add(ScalarOp::bit_or, now[2], inside);
        });
        return positions ? l.convert(state[1], c.dtype()) : state[0];
      },
      std::max<Index>(1, a.windows.elements()))};
}

}  // namespace

LoweringRule lowering_of_product(OpId id) {
  switch (id) {
    case OpId::matmul: return matmul;
    case OpId::convolution: return convolution;
    case OpId::max_pool:
    case OpId::argmax_pool: return pool;
    default: return nullptr;
  }
}

}  // namespace stave_detail
