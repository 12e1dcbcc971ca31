// Scans. The tangents and cotangents of linear recurrences are computed by linear recurrences, and
// so are those of cumulative products. The rules do not divide, so they are exact where factors
// are 0.

#include <stave/core/ops/scan.h>

#include <limits>
#include <utility>
#include <vector>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/element_sets.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

AttributesPtr scan_attributes(int axis, bool reverse) { return make_intrusive<ScanAttributes>(axis, reverse); }
AttributesPtr backwards(const ScanAttributes& scan) { return scan_attributes(scan.axis, !scan.reverse); }

void infer_scan(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor& x = call.input(0);
  if (x.dtype() == bool_)
    fail<DtypeError>("{}: bool has no sums and products: convert it to an integer dtype with astype", call.op().name);
  outputs.push_back({x.shape(), x.dtype()});
}

void infer_recurrence(const Call& call, SmallVector<Abstract, 1>& outputs) {
  const Tensor &a = call.input(0), &b = call.input(1);
  if (a.shape() != b.shape() || a.dtype() != b.dtype())
    fail<ShapeError>("linear_recurrence: a is {} {}, b is {} {}: they must be equal", a.dtype(), a.shape(), b.dtype(),
                     b.shape());
  infer_scan(call, outputs);
}

// Returns x moved by one position along the axis: element i of the result is element i - 1 of x
// (`later`) or i + 1. The element at the free end is `fill`.
Tensor moved(const Tensor& x, int axis, bool later, Scalar fill) {
  if (x.shape(axis) == 0) return x;
  std::vector<std::pair<Index, Index>> widths(x.shape().size(), {0, 0});
  widths[static_cast<std::size_t>(axis)] = later ? std::pair<Index, Index>{1, -1} : std::pair<Index, Index>{-1, 1};
  return pad(x, widths, fill);
}
// `previous` returns the result of the scan before each element, `next` the element that follows
// it.
Tensor previous(const Tensor& y, const ScanAttributes& scan, int initial) {
  return moved(y, scan.axis, !scan.reverse, initial);
}
Tensor next(const Tensor& x, const ScanAttributes& scan) { return moved(x, scan.axis, scan.reverse, 0); }

// Returns, for each element i, the position of the latest element up to i that equals the extreme
// y_i (the maximum or minimum of the elements up to i).
Tensor latest_extreme(const Tensor& x, const Tensor& y, const ScanAttributes& scan) {
  Shape line(std::vector<Index>(x.shape().size(), 1));
  const Index length = line[static_cast<std::size_t>(scan.axis)] = x.shape(scan.axis);
  const Tensor positions = reshape(arange(0, length, 1, positions_dtype(length), x.device()), line);
  const Tensor equal = x == y, attains = is_float(x.dtype()) ? logical_or(equal, isnan(x)) : equal;
  return apply(scan.reverse ? op_cummin : op_cummax, {where(attains, positions, scan.reverse ? length - 1 : 0)},
               scan_attributes(scan.axis, scan.reverse));
}

void infer_extreme(const Call& call, SmallVector<Abstract, 1>& outputs) {
  outputs.push_back({call.input(0).shape(), call.input(0).dtype()});
}

// y_i = x_p(i), where p(i) is the position of the extreme. So dy_i = dx_p(i), and the cotangent of
// y_i is added to that of x_p(i).
constexpr Op cumulative_extreme(OpId id, const char* name) {
  return Op{
      .id = id,
      .name = name,
      .infer = infer_extreme,
      .reads = {0b1 | ValueSet::outputs},
      .jvp = [](const JvpContext& c) -> Outputs {
        const auto& scan = c.as<ScanAttributes>();
        return take_along_axis(c.tangents[0], latest_extreme(c.in(0), c.out(), scan), scan.axis);
      },
      .vjp =
          [](const VjpContext& c, int) {
            const auto& scan = c.as<ScanAttributes>();
            const int batch = c.ct().rank() - 1;
            const Tensor places = moveaxis(latest_extreme(c.in(0), c.out(), scan), scan.axis, -1);
            const Tensor flow = moveaxis(c.ct(), scan.axis, -1);
            return moveaxis(scatter_add(zeros_like(flow), expand_dims(places, -1), flow, batch), -1, scan.axis);
          },
      .batch = batch_in_front,
  };
}

Tensor recurrence(const Tensor& a, const Tensor& b, AttributesPtr attributes) {
  return apply(op_linear_recurrence, {a, b}, std::move(attributes));
}

// Each element depends on all elements up to it.
Outputs depends_scan(const DependsContext& c) {
  const auto& scan = c.as<ScanAttributes>();
  const Tensor each = depends_elementwise(c)[0];
  return c.sets.unite_running(each, scan.axis, scan.reverse);
}

}  // namespace

constinit const Op op_cumulative_sum{
    .id = OpId::cumulative_sum,
    .name = "cumulative_sum",
    .takes_complex = true,
    .infer = infer_scan,
    .derivative = Derivative::linear,
    .vjp = [](const VjpContext& c,
              int) { return apply(op_cumulative_sum, {c.ct()}, backwards(c.as<ScanAttributes>())); },
    .batch = batch_in_front,
    .depends = depends_scan,
};

// y_i = y_(i-1) x_i, so dy_i = x_i dy_(i-1) + y_(i-1) dx_i. In the backward pass
// r_i = ct_i + x_(i+1) r_(i+1) is the whole cotangent of y_i, and y_(i-1) r_i that of x_i.
constinit const Op op_cumulative_prod{
    .id = OpId::cumulative_prod,
    .name = "cumulative_prod",
    .takes_complex = true,
    .infer = infer_scan,
    .reads = {0b1 | ValueSet::outputs},
    .jvp = [](const JvpContext& c) -> Outputs {
      const Tensor before = previous(c.out(), c.as<ScanAttributes>(), 1);
      return recurrence(c.in(0), scale(c.tangents[0], before), c.call.attributes_ptr());
    },
    .vjp =
        [](const VjpContext& c, int) {
          const auto& scan = c.as<ScanAttributes>();
          return scale(recurrence(next(c.in(0), scan), c.ct(), backwards(scan)), previous(c.out(), scan, 1));
        },
    .batch = batch_in_front,
};

constinit const Op op_cummax = cumulative_extreme(OpId::cummax, "cummax");
constinit const Op op_cummin = cumulative_extreme(OpId::cummin, "cummin");

// dh_i = a_i dh_(i-1) + h_(i-1) da_i + db_i. In the backward pass r_i = ct_i + a_(i+1) r_(i+1) is
// the cotangent of b_i, and h_(i-1) r_i that of a_i.
constinit const Op op_linear_recurrence{
    .id = OpId::linear_recurrence,
    .name = "linear_recurrence",
    .takes_complex = true,
    .infer = infer_recurrence,
    .reads = {0b01 | ValueSet::outputs, 0b01},
    .jvp = [](const JvpContext& c) -> Outputs {
      Tensor source = c.tangents[1];
      if (c.has(0)) {
        const Tensor before = previous(c.out(), c.as<ScanAttributes>(), 0);
        source = add_tangents(std::move(source), scale(c.tangents[0], before));
      }
      return recurrence(c.in(0), source, c.call.attributes_ptr());
    },
    .vjp =
        [](const VjpContext& c, int input) {
          const auto& scan = c.as<ScanAttributes>();
          const Tensor flow = recurrence(next(c.in(0), scan), c.ct(), backwards(scan));
          return input == 1 ? flow : scale(flow, previous(c.out(), scan, 0));
        },
    .batch = batch_in_front,
    .depends = depends_scan,
};

// ---- functions ------------------------------------------------------------------------------

namespace {

Tensor cumulative(const Op& op, const Tensor& x, Index axis, CumulativeOptions options, int initial) {
  const int at = normalize_axis(axis, require_defined(x, op.name).rank(), op.name);
  const Tensor y = apply(op, {widened(x)}, scan_attributes(at, options.reverse));
  if (!options.include_initial) return y;
  std::vector<std::pair<Index, Index>> widths(x.shape().size(), {0, 0});
  widths[static_cast<std::size_t>(at)] =
      options.reverse ? std::pair<Index, Index>{0, 1} : std::pair<Index, Index>{1, 0};
  return named(op.name, [&] { return pad(y, widths, initial); });
}

const Tensor& of_rank_1(const Tensor& x, const char* operation) {
  if (require_defined(x, operation).rank() != 1)
    fail<ShapeError>("{}: x has shape {}: say along which axis", operation, x.shape());
  return x;
}

}  // namespace

Tensor cumulative_sum(const Tensor& x, Index axis, CumulativeOptions options) {
  return cumulative(op_cumulative_sum, x, axis, options, 0);
}
Tensor cumulative_prod(const Tensor& x, Index axis, CumulativeOptions options) {
  return cumulative(op_cumulative_prod, x, axis, options, 1);
}
Tensor cumulative_sum(const Tensor& x) { return cumulative_sum(of_rank_1(x, "cumulative_sum"), 0); }
Tensor cumulative_prod(const Tensor& x) { return cumulative_prod(of_rank_1(x, "cumulative_prod"), 0); }

namespace {

Tensor extreme(const Op& op, const Tensor& x, Index axis, ReverseOptions options) {
  return apply(op, {x},
               scan_attributes(normalize_axis(axis, require_defined(x, op.name).rank(), op.name), options.reverse));
}

}  // namespace

Tensor cummax(const Tensor& x, Index axis, ReverseOptions options) { return extreme(op_cummax, x, axis, options); }
Tensor cummin(const Tensor& x, Index axis, ReverseOptions options) { return extreme(op_cummin, x, axis, options); }
Tensor cummax(const Tensor& x) { return cummax(of_rank_1(x, "cummax"), 0); }
Tensor cummin(const Tensor& x) { return cummin(of_rank_1(x, "cummin"), 0); }

// Let m_i be the largest x up to i; of equal ones, the latest. Then y_i = m_i + log1p(r_i), where
// r_i is the sum of e^(x_j - m_i) over j <= i without the term of m_i. It is a linear recurrence:
//   r_i = e^(m_(i-1) - x_i) (1 + r_(i-1))   where x_i is the largest
//   r_i = r_(i-1) + e^(x_i - m_(i-1))       elsewhere
// So neither y nor its derivatives, which include that of m, contain differences that cancel.
// If the largest x is infinite, the result is that x and has its derivative. In m, the largest
// finite number replaces infinity, and the most negative finite number precedes the first element.
Tensor logcumsumexp(const Tensor& x, Index axis, ReverseOptions options) {
  const int at = normalize_axis(axis, require_defined(x, "logcumsumexp").rank(), "logcumsumexp");
  const auto of_floats = [&](const Tensor& terms) {
    const double end =
        terms.dtype() == float64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
    const Tensor largest = extreme(op_cummax, terms, at, options), m = clip(largest, -end, end);
    const Tensor before = moved(m, at, !options.reverse, -end), wins = terms >= before;
    const Tensor other = exp(where(wins, before - terms, terms - before));
    const Tensor rest = recurrence(where(wins, other, 1), other, scan_attributes(at, options.reverse));
    return where(isinf(largest), largest, m + log1p(rest));
  };
  return named(
      "logcumsumexp", [&] { return in_floats(of_floats, x); }, x);
}
Tensor logcumsumexp(const Tensor& x) { return logcumsumexp(of_rank_1(x, "logcumsumexp"), 0); }

Tensor linear_recurrence(const Tensor& a, const Tensor& b, Index axis, ReverseOptions options) {
  const Shape shape = broadcast_shapes(require_defined(a, "linear_recurrence", 0).shape(),
                                       require_defined(b, "linear_recurrence", 1).shape(), "linear_recurrence");
  const int at = normalize_axis(axis, shape.rank(), "linear_recurrence");
  const Dtype dtype = promote(a.dtype(), b.dtype());
  const auto operand = [&](const Tensor& x) { return broadcast_to(widened(astype(x, dtype)), shape); };
  return named("linear_recurrence",
               [&] { return recurrence(operand(a), operand(b), scan_attributes(at, options.reverse)); });
}

}  // namespace stave
