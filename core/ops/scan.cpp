// Scans. Linear recurrences are closed under differentiation: their tangents and cotangents are linear recurrences again,
// and so are those of cumulative products. Nothing is divided, so nothing goes wrong where factors are 0.

#include <stave/core/ops/scan.h>

#include <utility>
#include <vector>

#include <stave/core/fail.h>
#include <stave/core/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>

namespace stave {

using namespace stave_detail;

namespace {

AttributesPtr along(int axis, bool reverse) { return make_intrusive<ScanAttributes>(axis, reverse); }
AttributesPtr backwards(const ScanAttributes& scan) { return along(scan.axis, !scan.reverse); }

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

// x moved by one place along the axis: element i gets that of i - 1 (`later`) or of i + 1; `fill` enters.
Tensor moved(const Tensor& x, int axis, bool later, int fill) {
  if (x.shape(axis) == 0) return x;
  std::vector<std::pair<Index, Index>> widths(x.shape().size(), {0, 0});
  widths[static_cast<std::size_t>(axis)] = later ? std::pair<Index, Index>{1, -1} : std::pair<Index, Index>{-1, 1};
  return pad(x, widths, fill);
}
// What the scan had come to before each element, and which element it meets after it.
Tensor previous(const Tensor& y, const ScanAttributes& scan, int initial) {
  return moved(y, scan.axis, !scan.reverse, initial);
}
Tensor next(const Tensor& x, const ScanAttributes& scan) { return moved(x, scan.axis, scan.reverse, 0); }

Tensor recurrence(const Tensor& a, const Tensor& b, AttributesPtr attributes) {
  return apply(op_linear_recurrence, {a, b}, std::move(attributes));
}

}  // namespace

constinit const Op op_cumulative_sum{
    .id = OpId::cumulative_sum,
    .name = "cumulative_sum",
    .infer = infer_scan,
    .derivative = Derivative::linear,
    .vjp = [](const VjpContext& c,
              int) { return apply(op_cumulative_sum, {c.ct()}, backwards(c.as<ScanAttributes>())); },
    .batch = batch_in_front,
};

// y_i = y_(i-1) x_i, so dy_i = x_i dy_(i-1) + y_(i-1) dx_i. Backwards, r_i = ct_i + x_(i+1) r_(i+1) is all that flows into
// y_i, and y_(i-1) r_i into x_i.
constinit const Op op_cumulative_prod{
    .id = OpId::cumulative_prod,
    .name = "cumulative_prod",
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

// dh_i = a_i dh_(i-1) + h_(i-1) da_i + db_i. Backwards, r_i = ct_i + a_(i+1) r_(i+1) flows into b_i, h_(i-1) r_i into a_i.
constinit const Op op_linear_recurrence{
    .id = OpId::linear_recurrence,
    .name = "linear_recurrence",
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
};

// ---- functions -------------------------------------------------------------------------------------------

namespace {

Tensor cumulative(const Op& op, const Tensor& x, Index axis, CumulativeOptions options, int initial) {
  const int at = normalize_axis(axis, given(x, op.name).rank(), op.name);
  const Tensor y = apply(op, {widened(x)}, along(at, options.reverse));
  if (!options.include_initial) return y;
  std::vector<std::pair<Index, Index>> widths(x.shape().size(), {0, 0});
  widths[static_cast<std::size_t>(at)] =
      options.reverse ? std::pair<Index, Index>{0, 1} : std::pair<Index, Index>{1, 0};
  return named(op.name, [&] { return pad(y, widths, initial); });
}

const Tensor& of_rank_1(const Tensor& x, const char* operation) {
  if (given(x, operation).rank() != 1)
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

Tensor linear_recurrence(const Tensor& a, const Tensor& b, Index axis, RecurrenceOptions options) {
  const Shape shape = broadcast_shapes(given(a, "linear_recurrence", 0).shape(),
                                       given(b, "linear_recurrence", 1).shape(), "linear_recurrence");
  const int at = normalize_axis(axis, shape.rank(), "linear_recurrence");
  const Dtype dtype = promote(a.dtype(), b.dtype());
  const auto operand = [&](const Tensor& x) { return broadcast_to(widened(astype(x, dtype)), shape); };
  return named("linear_recurrence", [&] { return recurrence(operand(a), operand(b), along(at, options.reverse)); });
}

}  // namespace stave
