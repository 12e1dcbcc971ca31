// Operations defined by users: an operation outside the library's list is performed, transformed,
// observed and moved to devices like any other. check_op finds claims of a record that its kernels
// do not fulfil.
#include <algorithm>
#include <cmath>
#include <sstream>

#include <stave/stave.h>

#include "matchers.h"
#include "separate_backend.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;

// ---- four operations ----------------------------------------------------------------------------

template <class F>
void by_dtype(Dtype dtype, F f) {
  if (dtype == float32) f(float());
  else f(double());
}

// An elementwise operation with an attribute and derivatives of any order: x -> x^k.
struct Exponent final : Attributes {
  int exponent;
  explicit Exponent(int exponent) : exponent(exponent) {}
  std::string str() const override { return "exponent=" + std::to_string(exponent); }
};
Tensor power(const Tensor& x, int exponent);
const Op op_power = define_op({
    .name = "power",
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          if (!is_float(call.input(0).dtype())) throw DtypeError("power: the base must be floating");
          outputs.push_back(abstract(call.input(0)));
        },
    .reads = {0b1, 0},
    .jvp = [](const JvpContext& c) -> Outputs {
      const int k = c.as<Exponent>().exponent;
      return k == 0 ? zeros_like(c.in(0)) : static_cast<double>(k) * power(c.in(0), k - 1) * c.tangent(0);
    },
    .vjp =
        [](const VjpContext& c, int) {
          const int k = c.as<Exponent>().exponent;
          return k == 0 ? zeros_like(c.in(0)) : static_cast<double>(k) * power(c.in(0), k - 1) * c.ct();
        },
    .batch = batch_elementwise,
    .cpu =
        [](const Attributes* attributes, std::span<const View> in, std::span<const View> out) {
          const int k = static_cast<const Exponent*>(attributes)->exponent;
          by_dtype(in[0].dtype, [&]<class T>(T) {
            std::ranges::transform(elements<const T>(in[0]), elements<T>(out[0]).begin(),
                                   [&](T x) { return static_cast<T>(std::pow(x, k)); });
          });
        },
});
Tensor power(const Tensor& x, int exponent) { return apply(op_power, {x}, make_intrusive<Exponent>(exponent)); }

// An operation with two outputs, whose shapes differ from the input's, and no derivative: the
// minimum and the maximum of each row.
const Op op_extremes = define_op({
    .name = "extremes",
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          Shape rows = call.input(0).shape();
          rows.pop_back();
          outputs.push_back({rows, call.input(0).dtype()});
          outputs.push_back({rows, call.input(0).dtype()});
        },
    .derivative = Derivative::zero,
    .batch = batch_in_front,
    .cpu =
        [](const Attributes*, std::span<const View> in, std::span<const View> out) {
          const auto x = elements<const std::int32_t>(in[0]);
          const auto low = elements<std::int32_t>(out[0]), high = elements<std::int32_t>(out[1]);
          const auto row = static_cast<std::size_t>(in[0].shape.back());
          for (std::size_t i = 0; i < low.size(); ++i) {
            const auto [least, greatest] = std::ranges::minmax(x.subspan(i * row, row));
            low[i] = least, high[i] = greatest;
          }
        },
});

// A bilinear operation on any strides: the cross product of vectors along the last axis.
Tensor cross_product(const Tensor& a, const Tensor& b);
const Op op_cross = define_op({
    .name = "cross",
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          if (call.input(0).shape() != call.input(1).shape() || call.input(0).shape(-1) != 3)
            throw ShapeError("cross: vectors of three are wanted");
          outputs.push_back(abstract(call.input(0)));
        },
    .derivative = Derivative::bilinear,
    .vjp = [](const VjpContext& c,
              int input) { return input == 0 ? cross_product(c.in(1), c.ct()) : cross_product(c.ct(), c.in(0)); },
    .batch = batch_elementwise,
    .cpu =
        [](const Attributes*, std::span<const View> in, std::span<const View> out) {
          const auto result = elements<double>(out[0]);
          const auto at = [](const View& view, std::size_t vector, Index k) {
            Index offset = k * view.strides.back();
            auto rest = static_cast<Index>(vector);
            for (std::size_t axis = view.shape.size() - 1; axis-- > 0; rest /= view.shape[axis])
              offset += rest % view.shape[axis] * view.strides[axis];
            return static_cast<const double*>(view.data)[offset];
          };
          for (std::size_t v = 0; v < result.size() / 3; ++v)
            for (Index k = 0; k < 3; ++k) {
              const Index i = (k + 1) % 3, j = (k + 2) % 3;
              result[v * 3 + static_cast<std::size_t>(k)] =
                  at(in[0], v, i) * at(in[1], v, j) - at(in[0], v, j) * at(in[1], v, i);
            }
        },
    .takes_strides = true,
});
Tensor cross_product(const Tensor& a, const Tensor& b) { return apply(op_cross, {a, b}); }

// An operation that is always a view and has no kernel: every second entry.
const Op op_evens = define_op({
    .name = "evens",
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          Shape shape = call.input(0).shape();
          shape.back() = (shape.back() + 1) / 2;
          outputs.push_back({shape, call.input(0).dtype()});
        },
    .view = [](const Call& call) { return call.input(0)(ellipsis, slice(none, none, 2)); },
});

const Tensor x = tensor({{0.5, -1.25, 2.}, {3., 0.75, -0.5}}, float64);
const Tensor y = tensor({{1.5, 0.25, -2.}, {1., -0.75, 0.5}}, float64);

// ---- using the operations -----------------------------------------------------------------------

TEST(OwnOperation, Computes) {
  EXPECT_THAT(power(x, 2), IsNear(square(x)));
  EXPECT_THAT(power(astype(x, float32), 3), IsNear(astype(x * x * x, float32)));
  // The input is made row-major for the kernel.
  EXPECT_THAT(power(permute_dims(x, {1, 0}), 2), IsNear(permute_dims(square(x), {1, 0})));
  EXPECT_THAT(power(broadcast_to(tensor(3., float64), {2, 2}), 2), Equals(full({2, 2}, 9., float64)));
  const Outputs both = perform(Call(op_extremes, {tensor({{3, 1, 2}, {-1, -5, 0}})}));
  EXPECT_THAT(both[0], Equals(tensor({1, -5})));
  EXPECT_THAT(both[1], Equals(tensor({3, 0})));
  EXPECT_THAT(cross_product(tensor({1., 0., 0.}, float64), tensor({0., 1., 0.}, float64)),
              Equals(tensor({0., 0., 1.}, float64)));
  EXPECT_THAT(apply(op_evens, {tensor({1, 2, 3})}), Equals(tensor({1, 3})));
}

TEST(OwnOperation, HasDerivativesOfEveryOrderAndVmap) {
  const auto f = [](const Tensor& v) { return sum(power(v, 4)); };
  EXPECT_THAT(grad(f)(x), IsNear(4 * x * x * x));
  EXPECT_THAT(hessian(f)(x(0)), IsNear(eye(3, 3, 0, float64) * (12 * square(x(0)))));
  EXPECT_THAT(vmap(grad(f))(x), IsNear(4 * x * x * x));
  EXPECT_THAT(
      grad([&](const Tensor& v) { return f(checkpoint([](const Tensor& w) { return power(w, 2); })(v)); })(x(1)),
      IsNear(8 * power(x(1), 7)));
  const auto triple = [](const Tensor& a) { return sum(cross_product(a, sin(a)) * y(0)); };
  EXPECT_NO_THROW(check_grads(triple, x(0), {.order = 3}));
  EXPECT_THAT(vmap(cross_product, {.in_axes = {0, unmapped}})(x, y(0)),
              IsNear(stack({cross_product(x(0), y(0)), cross_product(x(1), y(0))})));
}

// An operation linear in x. Its record gives no other derivative.
Tensor scaled(const Tensor& by, const Tensor& x);
const Op op_scaled = define_op({
    .name = "scaled",
    .infer = [](const Call& call, SmallVector<Abstract, 1>& outputs) { outputs.push_back(abstract(call.input(1))); },
    .derivative = Derivative::linear,
    .linear_in = 0b10,
    .reads = {0b1, 0b1},
    .vjp = [](const VjpContext& c, int) { return scaled(c.in(0), c.ct()); },
    .batch = batch_elementwise,
    .cpu =
        [](const Attributes*, std::span<const View> in, std::span<const View> out) {
          by_dtype(in[0].dtype, [&]<class T>(T) {
            std::ranges::transform(elements<const T>(in[0]), elements<const T>(in[1]), elements<T>(out[0]).begin(),
                                   [](T by, T x) { return by * x; });
          });
        },
});
Tensor scaled(const Tensor& by, const Tensor& x) { return apply(op_scaled, {by, x}); }

TEST(OwnOperation, HasNoDerivativeByNonlinearInputs) {
  const Tensor x = tensor({1., 2.}, float64), by = tensor({3., 4.}, float64);
  check_op(op_scaled, {{.inputs = {by, x}}});
  EXPECT_TRUE(array_equal(grad([&](const Tensor& y) { return sum(scaled(by, y)); })(x), by));
  const auto in_by = [&](const Tensor& y) { return sum(scaled(y, x)); };
  const std::string why = "the operation scaled has no derivative with respect to input 0, in which it is not linear";
  EXPECT_THAT([&] { grad(in_by)(by); }, ThrowsMessage<TransformError>(HasSubstr(why)));
  EXPECT_THAT([&] { jvp(in_by, by, x); }, ThrowsMessage<TransformError>(HasSubstr(why)));
  EXPECT_THAT([&] { grad(compile(in_by))(by); }, ThrowsMessage<TransformError>(HasSubstr(why)));
  EXPECT_TRUE(array_equal(grad([&](const Tensor& y) { return in_by(stop_gradient(y)) + sum(y); })(by), ones_like(by)));
}

TEST(OwnOperation, IsShownInTracesAndNamedInErrors) {
  std::ostringstream trace;
  debug([](const Tensor& v) { return power(v, 2); }, {.out = &trace})(x);
  EXPECT_THAT(trace.str(), HasSubstr("power"));
  EXPECT_THAT(trace.str(), HasSubstr("exponent=2"));
  EXPECT_THAT(message_of<TransformError>([] { vmap([](const Tensor& v) { return apply(op_evens, {v}); })(x); }),
              HasSubstr("evens"));
  EXPECT_THAT(message_of<TransformError>([] { grad([](const Tensor& v) { return sum(apply(op_evens, {v})); })(x); }),
              HasSubstr("the operation evens has no VJP rule"));
  EXPECT_THAT(message_of<DtypeError>([] { power(tensor({1, 2}), 2); }), HasSubstr("power: the base must be floating"));
}

TEST(OwnOperation, ComputesOnADevice) {
  SeparateBackend device{0};
  const Device gpu = cuda(0);
  EXPECT_THAT(to(power(to(x, gpu), 2), cpu), IsNear(square(x)));
  EXPECT_THAT(to(grad([](const Tensor& v) { return sum(power(v, 2)); })(to(x, gpu)), cpu), IsNear(2 * x));
  EXPECT_THAT(to(power(tensor(3., float64, gpu), 2), cpu), IsNear(tensor(9., float64)));
  EXPECT_THAT(to(cross_product(to(x, gpu), broadcast_to(tensor(2., float64, gpu), {2, 3})), cpu),
              IsNear(cross_product(x, full({2, 3}, 2., float64))));
  EXPECT_NO_THROW(check_op(op_power, {{.inputs = {to(x, gpu)}, .attributes = make_intrusive<Exponent>(3)}}));
  EXPECT_NO_THROW(check_op(op_cross, {{.inputs = {to(x, gpu), to(y, gpu)}}}));
}

TEST(DefineOp, RefusesARecordThatCannotBePerformed) {
  const auto refusal = [](const Op& op) { return message_of<TransformError>([&] { define_op(op); }); };
  Op op = op_power;
  op.name = nullptr;
  EXPECT_EQ(refusal(op), "define_op: the operation has no name");
  op = op_power;
  op.infer = nullptr;
  EXPECT_THAT(refusal(op), HasSubstr("define_op: power: it lacks `infer`"));
  op = op_power;
  op.cpu = nullptr;
  EXPECT_THAT(refusal(op), HasSubstr("power: nothing computes it"));
  op = op_power;
  op.id = OpId::sin;
  EXPECT_THAT(refusal(op), HasSubstr("power: its id is one of the library's"));
  op = op_power;
  op.elementwise = true;
  EXPECT_THAT(refusal(op), HasSubstr("use batch_elementwise as batching rule"));
  EXPECT_THAT(message_of<DeviceError>([] {
                Op no_cpu = op_power;
                no_cpu.cpu = nullptr;
                no_cpu.cuda = [](void*, const Attributes*, std::span<const View>, std::span<const View>) {};
                const Op only_cuda = define_op(no_cpu);
                apply(only_cuda, {x}, make_intrusive<Exponent>(2));
              }),
              HasSubstr("power: it has no kernel for the CPU: move its inputs with to(x, cuda())"));
}

TEST(Elements, RequireTheRightTypeAndRowMajorOrder) {
  const Tensor across = permute_dims(x, {1, 0});
  const View view = across.node().view();
  EXPECT_THAT(message_of<DtypeError>([&] { elements<float>(view); }), HasSubstr("elements: the view is float64 [3,2]"));
  EXPECT_THAT(message_of<ShapeError>([&] { elements<double>(view); }), HasSubstr("is not row-major"));
  EXPECT_EQ(elements<const double>(x.node().view()).size(), 6u);
}

// ---- check_op -----------------------------------------------------------------------------------

OpCase cubes() { return {.inputs = {x}, .attributes = make_intrusive<Exponent>(3)}; }
std::string found(const Op& op, const OpCase& at) {
  return message_of<TransformError>([&] { check_op(op, {at}); });
}

TEST(CheckOp, PassesCorrectRecords) {
  EXPECT_NO_THROW(check_op(op_power, {cubes(),
                                      {.inputs = {x}, .attributes = make_intrusive<Exponent>(0)},
                                      {.inputs = {tensor(2., float64)}, .attributes = make_intrusive<Exponent>(2)},
                                      {.inputs = {astype(x, float32)}, .attributes = make_intrusive<Exponent>(2)}}));
  EXPECT_NO_THROW(check_op(op_extremes, {{.inputs = {tensor({{3, 1, 2}, {-1, -5, 0}})}}}));
  EXPECT_NO_THROW(check_op(op_cross, {{.inputs = {x, y}}, {.inputs = {x(0), y(0)}}}, {.order = 3}));
  EXPECT_NO_THROW(check_op(op_evens, {{.inputs = {x}}}));
  // Operations of the library pass.
  EXPECT_NO_THROW(check_op(op_matmul, {{.inputs = {x, permute_dims(y, {1, 0})}}}));
  EXPECT_NO_THROW(check_op(op_sin, {{.inputs = {x}}}));
}

TEST(CheckOp, FindsAWrongRule) {
  Op op = op_power;
  op.jvp = [](const JvpContext& c) -> Outputs { return power(c.in(0), 2) * c.tangent(0); };
  EXPECT_THAT(found(op, cubes()), HasSubstr("check_op: power: case 0: derivatives: check_grads: jvp and the central"));
  op = op_power;
  op.vjp = [](const VjpContext& c, int) { return 2. * power(c.in(0), 2) * c.ct(); };
  EXPECT_THAT(found(op, cubes()), HasSubstr("vjp and jvp"));
  op.jvp = nullptr;  // without the jvp rule
  EXPECT_THAT(found(op, cubes()), HasSubstr("derivatives: check_grads: vjp and the central difference"));
  op = op_power;
  op.vjp = nullptr;
  EXPECT_NO_THROW(check_op(op, {cubes()}));
  op = op_power;  // right at the first order only
  op.vjp = [](const VjpContext& c, int) { return 3. * stop_gradient(power(c.in(0), 2)) * c.ct(); };
  EXPECT_THAT(found(op, cubes()), HasSubstr("at order 2"));
}

TEST(CheckOp, FindsARuleThatReadsUndeclaredValues) {
  Op op = op_power;
  op.reads[0] = 0;
  EXPECT_THAT(found(op, cubes()), HasSubstr("check_op: power: case 0: derivatives"));
}

TEST(CheckOp, FindsAWrongBatchingRule) {
  Op op = op_power;
  op.batch = [](const BatchContext& c) -> Outputs { return flip(batch_elementwise(c)[0], {0}); };
  EXPECT_THAT(found(op, cubes()), HasSubstr("check_op: power: case 0: vmap over inputs 0"));
  op = op_cross;  // the rules below mix up which input has lanes
  op.batch = [](const BatchContext& c) -> Outputs {
    return cross_product(c.batched[0] ? c.in(0) : c.batched_in(0), broadcast_to(c.in(1), c.batched_in(1).shape()) * 1.);
  };
  EXPECT_NO_THROW(check_op(op, {{.inputs = {x, y}}}));
  op.batch = [](const BatchContext& c) -> Outputs { return cross_product(c.batched_in(1), c.batched_in(0)); };
  EXPECT_THAT(found(op, {.inputs = {x, y}}), HasSubstr("vmap over inputs 0: result 0"));
}

TEST(CheckOp, FindsAKernelThatBreaksItsContract) {
  Op op = op_power;
  op.takes_strides = true;  // the kernel's result depends on the strides
  op.cpu = [](const Attributes*, std::span<const View> in, std::span<const View> out) {
    std::ranges::fill(elements<double>(out[0]), static_cast<double>(in[0].strides[0]));
  };
  op.derivative = Derivative::zero;
  op.batch = nullptr;
  EXPECT_THAT(found(op, cubes()), HasSubstr("check_op: power: case 0: value: result 0 is"));
  op = op_power;
  op.cpu = [](const Attributes*, std::span<const View>, std::span<const View> out) {
    static double calls = 0;
    std::ranges::fill(elements<double>(out[0]), ++calls);
  };
  EXPECT_THAT(found(op, cubes()), HasSubstr("case 0: value"));
  op.cpu = [](const Attributes*, std::span<const View> in, std::span<const View> out) {
    std::ranges::fill(elements<double>(out[0]), 1.);
    elements<double>(in[0])[0] += 1;
  };
  EXPECT_THAT(found(op, {.inputs = {x + 0.}, .attributes = make_intrusive<Exponent>(3)}), HasSubstr("case 0: value"));
}

}  // namespace
