// Bad input: the type of the error, its message, the context that it names, and that the state
// afterwards is as before. meaning_test.cpp tests values that leave their transform.

#include <functional>

#include <stave/core/effects/sanitize.h>
#include <stave/stave.h>

#include "matchers.h"

namespace errors_test {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using T = const Tensor&;

const Tensor x = ones({3}), m = ones({2, 3}), i = tensor({1, 2});
Tensor loss(T t) { return sum(t * t); }
Tensor identity(T t) { return t; }
Tensor b_of(T t) { return t > 0; }

/// Returns the message of the E that body throws; "" if the context or the live bytes have changed.
template <class E, class Body>
std::string error(Body body) {
  const std::size_t before = memory_stats().live_bytes;
  const std::string message = message_of<E>(body);
  EXPECT_EQ(memory_stats().live_bytes, before) << message;
  EXPECT_EQ(error_context(), "") << message;
  EXPECT_EQ(live_notes(x) + live_notes(m) + live_notes(i), 0) << message;
  return message;
}

// ---- operations ---------------------------------------------------------------------------------

TEST(Operations, NameThemselvesAndTheShapesInErrors) {
  EXPECT_EQ(error<ShapeError>([] {
              m + ones({2, 4});
            }),
            "add: shapes [2,3] and [2,4] do not broadcast: lengths 3 and 4 at axis -1 differ and neither is 1");
  EXPECT_THAT(error<ShapeError>([] { where(m, x, ones({2})); }),
              AllOf(StartsWith("where: shapes [3] and [2]"), HasSubstr("broadcast")));
  EXPECT_THAT(error<ShapeError>([] { matmul(m, m); }),
              StartsWith("matmul: shapes [2,3] and [2,3] do not fit: the last length of the left, 3, must equal"));
  EXPECT_THAT(error<ShapeError>([] { matmul(m, tensor(1.)); }), HasSubstr("matmul: shapes [2,3] and []"));
  EXPECT_THAT(error<ShapeError>([] {
                matmul(ones({4, 2, 3}), ones({5, 3, 2}));
              }),
              AllOf(HasSubstr("matmul"), HasSubstr("[4]"), HasSubstr("[5]")));
  EXPECT_THAT(error<ShapeError>([] {
                reshape(m, {4, 2});
              }),
              HasSubstr("reshape: shape [2,3] holds 6 elements, but [4,2] holds 8"));
  EXPECT_THAT(error<ShapeError>([] {
                concat({m, x});
              }),
              HasSubstr("concat: shapes [2,3] and [3] do not join along axis 0"));
  EXPECT_THAT(error<ShapeError>([] { stack({m, x}); }), HasSubstr("stack: shapes [2,3] and [3] differ"));
  EXPECT_THAT(error<ShapeError>([] {
                broadcast_to(m, {2, 5});
              }),
              HasSubstr("broadcast_to: shape [2,3] does not broadcast to [2,5]"));
  EXPECT_THAT(error<ShapeError>([] {
                permute_dims(m, {0, 0});
              }),
              HasSubstr("permute_dims: axes [0,0] must name each axis of shape [2,3] once"));
  EXPECT_THAT(error<ShapeError>([] { squeeze(m, 0); }), AllOf(HasSubstr("squeeze"), HasSubstr("[2,3]")));
}

TEST(Operations, NameAxesOutOfRange) {
  EXPECT_EQ(error<IndexError>([] { sum(m, 2); }), "sum: axis 2 is out of range for rank 2");
  EXPECT_EQ(error<IndexError>([] { concat({m, m}, -3); }), "concat: axis -3 is out of range for rank 2");
  EXPECT_THAT(error<IndexError>([] { moveaxis(m, 0, 2); }), HasSubstr("moveaxis: axis 2 is out of range for rank 2"));
  EXPECT_THAT(error<IndexError>([] { expand_dims(x, 3); }), HasSubstr("expand_dims: axis 3 is out of range"));
  EXPECT_THAT(error<IndexError>([] { argmax(x, 1); }), HasSubstr("argmax: axis 1 is out of range for rank 1"));
  EXPECT_THAT(error<IndexError>([] { m(0, 1, 2); }), HasSubstr("3 indices are too many for shape [2,3]"));
  EXPECT_THAT(error<IndexError>([] { m(0, -4); }),
              HasSubstr("index -4 is out of range for axis 1 of length 3 (shape [2,3])"));
}

TEST(Operations, NameDtypesThatDoNotFit) {
  EXPECT_THAT(error<DtypeError>([] { x.to_vector<double>(); }),
              HasSubstr("to_vector: the tensor is float32 [3], not float64"));
  EXPECT_THAT(error<DtypeError>([] { take(x, x); }), HasSubstr("take: indices are float32"));
  EXPECT_THAT(error<DtypeError>([] { i + 3000000000L; }), StartsWith("add: the number 3000000000 does not fit int32"));
  EXPECT_THAT(error<DtypeError>([] { pad(i, {{1, 1}}, 0.5); }), HasSubstr("pad: the value 0.5 does not fit int32"));
  EXPECT_THAT(error<DtypeError>([] { linspace(0, 1, 3, int64); }),
              HasSubstr("linspace: int64 is not a floating dtype"));
}

TEST(Operations, NameNumbersThatDoNotFit) {
  const Tensor bytes = zeros({2}, uint8);
  EXPECT_THAT(error<DtypeError>([&] {
                pad(bytes, {{1, 0}}, 300);
              }),
              StartsWith("pad: the number 300 does not fit uint8"));
  EXPECT_THAT(error<DtypeError>([&] { pad(bytes, {{1, 0}}, -1); }), HasSubstr("the number -1 does not fit uint8"));
  EXPECT_THAT(error<DtypeError>([] { arange(300, 303, 1, uint8); }), HasSubstr("the number 300 does not fit uint8"));
  EXPECT_THAT(error<DtypeError>([] { arange(250, 258, 1, uint8); }),
              StartsWith("arange: the number 257 does not fit uint8"));
  EXPECT_THAT(error<DtypeError>([] { arange(2, -2, -1, uint32); }), HasSubstr("the number -1 does not fit uint32"));
  EXPECT_THAT(error<DtypeError>([] { tensor({18446744073709551615ul}, int64); }),
              HasSubstr("the number 18446744073709551615 does not fit int64"));
}

TEST(Operations, NameShapesThatAreTooLarge) {
  const Index large = Index{1} << 32;
  EXPECT_EQ(error<ShapeError>([&] {
              zeros({large, large});
            }),
            "zeros: shape [4294967296,4294967296] has more elements than any memory holds");
  EXPECT_THAT(error<ShapeError>([] { zeros({Index{1} << 62}); }), HasSubstr("more elements than any memory holds"));
  EXPECT_THAT(error<ShapeError>([&] {
                broadcast_to(ones({}), {large, large});
              }),
              HasSubstr("more elements than any memory holds"));
  EXPECT_THAT(error<ShapeError>([&] { zeros({0, large, large}); }), HasSubstr("more elements than any memory holds"));
  const Tensor row = broadcast_to(ones({}), {1, large}), column = broadcast_to(ones({}), {large, 1});
  EXPECT_EQ(error<ShapeError>([&] { row + column; }),
            "add: shape [4294967296,4294967296] has more elements than any memory holds");
  EXPECT_THAT(error<ShapeError>([&] { where(row > 0, column, 0); }), StartsWith("where: shape [4294967296,"));
  EXPECT_THAT(error<ShapeError>([&] {
                gather(broadcast_to(ones({}), {1, large}), broadcast_to(tensor(0), {large, 1}));
              }),
              StartsWith("gather: shape [4294967296,"));
  EXPECT_EQ(zeros({large, 0}).size(), 0);
}

TEST(Operations, NameDevicesThatAreAbsent) {
  EXPECT_THAT(error<DeviceError>([] { zeros({2}, float32, cuda(200)); }), HasSubstr("cuda:200: "));
}

TEST(Operations, NameOperandsThatAreEmpty) {
  EXPECT_EQ(error<TransformError>([] { apply(op_sin, {Tensor()}); }),
            "sin: operand 0 is an empty Tensor (default-constructed or moved from)");
  const Tensor e, b = x > 0;
  const std::vector<std::tuple<const char*, int, std::function<void()>>> uses = {
      {"sin", 0, [&] { sin(e); }},
      {"add", 0, [&] { e + 1; }},
      {"add", 1, [&] { 1 + e; }},
      {"add", 0, [&] { e + x; }},
      {"multiply", 1, [&] { x* e; }},
      {"where", 0, [&] { where(e, x, x); }},
      {"where", 2, [&] { where(b, 0, e); }},
      {"clip", 0, [&] { clip(e, 0, 1); }},
      {"clip", 2, [&] { clip(x, 0, e); }},
      {"allclose", 1, [&] { allclose(x, e); }},
      {"array_equal", 0, [&] { array_equal(e, x); }},
      {"astype", 0, [&] { astype(e, float64); }},
      {"zeros_like", 0, [&] { zeros_like(e); }},
      {"tril", 0, [&] { tril(e); }},
      {"sum", 0, [&] { sum(e); }},
      {"max", 0, [&] { max(e, 0); }},
      {"any", 0, [&] { any(e); }},
      {"argmin", 0, [&] { argmin(e); }},
      {"mean", 0, [&] { mean(e); }},
      {"std", 0, [&] { stave::std(e); }},
      {"norm", 0, [&] { norm(e); }},
      {"logsumexp", 0, [&] { logsumexp(e); }},
      {"softmax", 0, [&] { softmax(e); }},
      {"cumulative_sum", 0, [&] { cumulative_sum(e, 0); }},
      {"linear_recurrence", 1, [&] { linear_recurrence(x, e, 0); }},
      {"sort", 0, [&] { sort(e); }},
      {"argsort", 0, [&] { argsort(e, 0); }},
      {"reshape", 0, [&] { reshape(e, {3}); }},
      {"transpose", 0, [&] { transpose(e); }},
      {"moveaxis", 0, [&] { moveaxis(e, 0, 1); }},
      {"expand_dims", 0, [&] { expand_dims(e, 0); }},
      {"squeeze", 0, [&] { squeeze(e); }},
      {"broadcast_to", 0, [&] { broadcast_to(e, {3}); }},
      {"flip", 0, [&] { flip(e); }},
      {"concat", 1,
       [&] {
         concat({x, e});
       }},
      {"stack", 0,
       [&] {
         stack({e, x});
       }},
      {"pad", 0,
       [&] {
         pad(e, {{1, 1}});
       }},
      {"unstack", 0, [&] { unstack(e); }},
      {"diagonal", 0, [&] { diagonal(e); }},
      {"trace", 0, [&] { trace(e); }},
      {"diff", 0, [&] { diff(e); }},
      {"roll", 0, [&] { roll(e, 1); }},
      {"tile", 0, [&] { tile(e, {2}); }},
      {"repeat", 0, [&] { repeat(e, 2); }},
      {"meshgrid", 1,
       [&] {
         meshgrid({x, e});
       }},
      {"take", 0, [&] { take(e, i); }},
      {"take", 1, [&] { take(x, e); }},
      {"take_along_axis", 1, [&] { take_along_axis(x, e, 0); }},
      {"gather", 0, [&] { gather(e, i); }},
      {"scatter_add", 2, [&] { scatter_add(x, i, e); }},
      {"one_hot", 0, [&] { one_hot(e, 3); }},
      {"dynamic_slice", 0, [&] { dynamic_slice(e, {0}, {1}); }},
      {"dynamic_update_slice", 1, [&] { dynamic_update_slice(x, e, {0}); }},
      {"matmul", 1, [&] { matmul(x, e); }},
      {"tensordot", 0, [&] { tensordot(e, x, 1); }},
      {"outer", 1, [&] { outer(x, e); }},
      {"einsum", 1, [&] { einsum("i,i->", x, e); }},
      {"permutation", 1, [&] { permutation(Key(0), e); }},
      {"bernoulli", 1, [&] { bernoulli(Key(0), e); }},
      {"categorical", 1, [&] { categorical(Key(0), e); }},
      {"to", 0, [&] { to(e, cpu); }},
  };
  for (const auto& [name, operand, use] : uses)
    EXPECT_EQ(error<TransformError>(use), std::string(name) + ": operand " + std::to_string(operand) +
                                              " is an empty Tensor (default-constructed or moved from)");
  const std::string hint =
      ": the left operand is an empty Tensor (default-constructed or moved from): begin with "
      "zeros(shape) or zeros_like(x)";
  Tensor total;
  EXPECT_EQ(error<TransformError>([&] { total += x; }), "+=" + hint);
  EXPECT_EQ(error<TransformError>([&] { total /= 2; }), "/=" + hint);
}

// A function composed of several operations names itself in its errors.
TEST(Operations, NameThePublicFunction) {
  const Tensor far = tensor({7});
  const Index large = Index{1} << 59;
  const auto huge = [](Index n) { return broadcast_to(ones({}), {n}); };
  EXPECT_EQ(error<IndexError>([&] { take(x, far); }), "take: index 7 is out of range for axis 0 with size 3");
  EXPECT_EQ(error<IndexError>([&] { take_along_axis(x, far, 0); }),
            "take_along_axis: index 7 is out of range for axis 0 with size 3");
  EXPECT_EQ(error<IndexError>([&] { gather(x, expand_dims(far, 0)); }),
            "gather: index 7 is out of range for axis 0 with size 3");
  EXPECT_THAT(error<IndexError>([&] { one_hot(far, 3); }), StartsWith("one_hot: index 7 is out of range for axis"));
  EXPECT_THAT(error<IndexError>([&] { vmap([&](T t) { return take(t, far); })(m); }),
              AllOf(StartsWith("take: index 7 is out of range"), HasSubstr("inside vmap")));
  EXPECT_THAT(error<ShapeError>([&] { tile(x, {large}); }), StartsWith("tile: shape"));
  EXPECT_THAT(error<ShapeError>([&] { repeat(x, large); }), StartsWith("repeat: shape"));
  EXPECT_THAT(error<ShapeError>([&] { outer(huge(large), huge(large)); }), StartsWith("outer: shape"));
  EXPECT_THAT(error<ShapeError>([&] { tensordot(huge(large), huge(large), 0); }), StartsWith("tensordot: shape"));
  EXPECT_THAT(error<ShapeError>([&] { einsum("i,j->ij", huge(large), huge(large)); }), StartsWith("einsum: shape"));
  EXPECT_THAT(error<ShapeError>([&] { meshgrid({huge(large), huge(large)}); }), StartsWith("meshgrid: shape"));
  EXPECT_THAT(error<MemoryError>([&] { cumulative_sum(huge(2 * large - 1), 0, {.include_initial = true}); }),
              StartsWith("cumulative_sum: "));
  EXPECT_THAT(error<ShapeError>([&] { eye(large, large); }), StartsWith("eye: shape"));
  EXPECT_THAT(error<ShapeError>([] { zeros({-1}); }), StartsWith("zeros: shape [-1] has a negative length"));
  EXPECT_THAT(error<ShapeError>([&] { clip(x, ones({2}), 1); }), StartsWith("clip: shapes [3] and [2]"));
  EXPECT_THAT(error<ShapeError>([&] { allclose(x, ones({2})); }), StartsWith("allclose: shapes [3] and [2]"));
  EXPECT_THAT(error<IndexError>([&] { mean(x, 1); }), StartsWith("mean: axis 1 is out of range"));
  EXPECT_THAT(error<IndexError>([&] { norm(x, 1); }), StartsWith("norm: axis 1 is out of range"));
  EXPECT_THAT(error<IndexError>([&] { stave::std(x, 1); }), StartsWith("std: axis 1 is out of range"));
  EXPECT_THAT(error<IndexError>([&] { max(b_of(x), 1); }), StartsWith("max: axis 1 is out of range"));
  EXPECT_THAT(error<DtypeError>([&] { uniform(Key(0), {2}, int32); }), StartsWith("uniform: int32 is not a floating"));
  EXPECT_THAT(error<DtypeError>([&] { normal(Key(0), {2}, int32); }), StartsWith("normal: int32 is not a floating"));
  EXPECT_THAT(error<ShapeError>([&] { permutation(Key(0), -1); }), StartsWith("permutation: "));
}

// The message of an exception from a user's handler stays the same.
TEST(Operations, DoNotChangeErrorsOfHandlers) {
  struct Refuse : Handler {
    Outputs handle(Call& call) override {
      if (call.op().id == OpId::gather) throw ShapeError("refused: gather");
      return perform(std::move(call));
    }
  } refuse;
  EXPECT_EQ(error<ShapeError>([&] { with(refuse, [] { return take(x, i); }); }), "refused: gather");
}

TEST(Operations, NameWhatDoesNotFitIntoMemory) {
  if (STAVE_ASAN) GTEST_SKIP() << "the sanitizer ends a program that asks for more than there is";
  const Index n = Index{1} << 40;
  const Tensor row = broadcast_to(ones({1}), {n});
  EXPECT_THAT(error<MemoryError>([&] { zeros({n}); }),
              StartsWith("zeros: not enough memory on cpu for float32 [1099511627776] (4398046511104 bytes)"));
  EXPECT_THAT(error<MemoryError>([&] { row + 1; }), StartsWith("add: not enough memory on cpu for float32 [10995"));
  EXPECT_THAT(error<MemoryError>([&] { cumulative_sum(row, 0); }), StartsWith("cumulative_sum: not enough memory"));
  EXPECT_THAT(error<MemoryError>([&] { contiguous(row); }), StartsWith("contiguous: not enough memory"));
  EXPECT_THAT(error<MemoryError>([&] { row.to_vector<float>(); }), StartsWith("to_vector: not enough memory"));
  EXPECT_THAT(error<MemoryError>([&] { repeat(m, std::vector<Index>{n, 1}, 0); }), StartsWith("repeat: "));
  EXPECT_THAT(error<MemoryError>([&] { grad([&](T t) { return sum(t * row); })(tensor(1.)); }),
              AllOf(StartsWith("multiply: not enough memory"), HasSubstr("inside grad")));
  EXPECT_THAT(grad(loss)(x), Equals(2 * x));  // everything still works
}

// ---- grad ---------------------------------------------------------------------------------------

TEST(Grad, LossMustBeOneFloatingNumber) {
  EXPECT_EQ(error<TransformError>([] { grad([](T t) { return 2 * t; })(x); }),
            "grad: the function must return one number, a tensor of shape [], but it returned shape [3]: reduce it "
            "(sum, mean), or "
            "use vjp or jacrev");
  EXPECT_THAT(error<TransformError>([] { grad([](T t) { return sum(t, 0, keepdims); })(x); }),
              HasSubstr("it returned shape [1]"));
  EXPECT_EQ(error<DtypeError>([] { grad([](T t) { return argmax(t); })(x); }),
            "grad: the function returned int32, which has no derivative: return a floating number");
  EXPECT_THAT(error<TransformError>([] { grad([](T t) { return std::pair(t, 1); })(x); }),
              HasSubstr("it returned shape [3]"));
  EXPECT_THAT(error<TransformError>([] {
                vmap(grad(identity))(ones({2, 3}));
              }),
              AllOf(HasSubstr("it returned shape [3]"), EndsWith("inside vmap over 2 lanes")));
}

TEST(Grad, InputsMustBeFloats) {
  EXPECT_EQ(
      error<DtypeError>([] { grad(loss)(i); }),
      "grad: argument 0 is int32 [2], which has no derivative: make it a floating tensor (write 1. instead of 1, or "
      "astype(x, "
      "float32)), or capture it in the function instead of differentiating with respect to it");
  EXPECT_THAT(error<DtypeError>([] { grad<0, 1>([](T a, T b) { return sum(a * b); })(ones({2}), i); }),
              HasSubstr("grad: argument 1 is int32 [2]"));
  EXPECT_THAT(
      error<TransformError>([] { grad([](const std::vector<Tensor>&) { return tensor(1.); })(std::vector<Tensor>()); }),
      HasSubstr("grad: the differentiated arguments hold no tensors"));
  EXPECT_THROW(grad(loss)(Tensor()), TransformError);
}

TEST(Vjp, CotangentsMustBeLikeTheOutputs) {
  const auto pullback = vjp([](T t) { return 2 * t; }, x).second;
  EXPECT_EQ(error<ShapeError>([&] { pullback(ones({2})); }),
            "vjp: the cotangent of output 0 has shape [2], the output [3]");
  EXPECT_EQ(error<ShapeError>([&] { pullback(tensor(1.)); }),
            "vjp: the cotangent of output 0 has shape [], the output [3]");
  EXPECT_EQ(error<DtypeError>([&] { pullback(ones({3}, float64)); }),
            "vjp: the cotangent of output 0 is float64, the output float32");
  EXPECT_THAT(std::get<0>(pullback(x)), Equals(2 * x));  // it still works
  const auto two = vjp([](T t) { return std::vector{t, t}; }, x).second;
  EXPECT_THAT(error<ShapeError>([&] { two(std::vector{x}); }),
              HasSubstr("vjp: the result and the cotangent differ in structure"));
  EXPECT_THAT(error<DtypeError>([] { vjp(identity, i); }),
              HasSubstr("vjp: argument 0 is int32 [2], which has no derivative"));
}

// ---- jvp ----------------------------------------------------------------------------------------

TEST(Jvp, TangentsMustBeLikeThePrimals) {
  EXPECT_EQ(error<ShapeError>([] { jvp(loss, x, ones({2})); }),
            "jvp: the tangent of argument 0 has shape [2], the input [3]");
  EXPECT_EQ(error<DtypeError>([] { jvp(loss, x, ones({3}, float64)); }),
            "jvp: the tangent of argument 0 is float64, the input float32");
  EXPECT_THAT(error<DtypeError>([] { jvp(loss, i, i); }),
              HasSubstr("jvp: argument 0 is int32 [2], which has no derivative"));
  EXPECT_THAT(error<ShapeError>([] {
                jvp([](const std::vector<Tensor>& v) { return v[0]; }, std::vector{x, x}, std::vector{x});
              }),
              HasSubstr("jvp: primals and tangents differ in structure"));
  EXPECT_THAT(error<ShapeError>([] { jvp([](T a, T b) { return a + b; }, std::tuple(x, x), std::tuple(x, m)); }),
              HasSubstr("jvp: the tangent of argument 1 has shape [2,3], the input [3]"));
}

// ---- vmap ---------------------------------------------------------------------------------------

TEST(Vmap, LanesMustAgree) {
  const auto add = [](T a, T b) { return a + b; };
  EXPECT_EQ(error<ShapeError>([&] { vmap(add)(x, m); }),
            "vmap: arguments disagree on the number of lanes: argument 0 of shape [3] has 3 along axis 0, argument 1 "
            "of shape [2,3] has "
            "2 along axis 0");
  EXPECT_EQ(error<ShapeError>([&] {
              vmap(add, {.in_axes = {0, -1}})(ones({4, 3}), m);
            }),
            "vmap: arguments disagree on the number of lanes: argument 0 of shape [4,3] has 4 along axis 0, argument 1 "
            "of shape [2,3] "
            "has 3 along axis -1");
  EXPECT_EQ(error<ShapeError>([] { vmap(identity, {.axis_size = 5})(x); }),
            "vmap: axis_size is 5, but argument 0 of shape [3] has 3 lanes along axis 0");
  EXPECT_THAT(
      error<ShapeError>([] {
        vmap([](const std::vector<Tensor>& v) { return v[0]; })(std::vector{x, m});
      }),
      HasSubstr("argument 0 (its member 0) of shape [3] has 3 along axis 0, argument 0 (its member 1) of shape [2,3]"));
}

TEST(Vmap, InAxesMustFitTheArguments) {
  EXPECT_EQ(error<ShapeError>([] { vmap(identity)(tensor(1.)); }),
            "vmap: argument 0 has rank 0 and no axis to map: give `unmapped` for it in in_axes");
  EXPECT_THAT(error<ShapeError>([] { vmap([](T a, int, T b) { return a + b; })(x, 3, tensor(1.)); }),
              HasSubstr("vmap: argument 2 has rank 0"));
  EXPECT_EQ(error<IndexError>([] { vmap(identity, {.in_axes = 1})(x); }),
            "vmap: in_axes gives axis 1 for argument 0, which has shape [3]");
  EXPECT_THAT(error<IndexError>([] { vmap(identity, {.in_axes = -3})(m); }),
              HasSubstr("in_axes gives axis -3 for argument 0, which has shape [2,3]"));
  EXPECT_EQ(error<TransformError>([] {
              vmap(identity, {.in_axes = {0, 0}})(x);
            }),
            "vmap: in_axes has 2 entries for 1 arguments");
  EXPECT_EQ(error<ShapeError>([] { vmap(identity, {.in_axes = unmapped})(x); }),
            "vmap: no argument is mapped: map one in in_axes, or give axis_size");
  EXPECT_THAT(error<ShapeError>([] { vmap([] { return tensor(1.); }, {.axis_size = -1})(); }),
              HasSubstr("vmap: axis_size is -1"));
}

TEST(Vmap, OutAxesMustFitTheResults) {
  EXPECT_EQ(error<IndexError>([] { vmap(loss, {.out_axes = 1})(m); }),
            "vmap: out_axes gives axis 1 for result 0, which has rank 1 with its lanes");
  EXPECT_THAT(error<IndexError>([] { vmap(identity, {.out_axes = -3})(m); }),
              HasSubstr("out_axes gives axis -3 for result 0"));
  EXPECT_EQ(error<TransformError>([] {
              vmap([](T t) { return std::tuple(t, t); }, {.out_axes = {0, 0, 0}})(x);
            }),
            "vmap: out_axes has 3 entries for 2 members");
  EXPECT_EQ(error<TransformError>([] { vmap(identity, {.out_axes = unmapped})(x); }),
            "vmap: out_axes says `unmapped` for result 0, but it differs between lanes");
}

// ---- results that are empty ---------------------------------------------------------------------

TEST(Results, MustNotBeEmpty) {
  const auto empty = [](T) { return Tensor(); };
  const std::string text = ": result 0 of the function is an empty Tensor (default-constructed or moved from)";
  EXPECT_EQ(error<TransformError>([&] { grad(empty)(x); }), "grad" + text);
  EXPECT_EQ(error<TransformError>([&] { vjp(empty, x); }), "vjp" + text);
  EXPECT_EQ(error<TransformError>([&] { jvp(empty, x, x); }), "jvp" + text);
  EXPECT_EQ(error<TransformError>([&] { vmap(empty)(x); }), "vmap" + text + "\n  inside vmap over 3 lanes");
  EXPECT_THAT(error<TransformError>([&] { jacfwd(empty)(x); }), HasSubstr(text));
  EXPECT_THAT(error<TransformError>([&] { vmap([](T t) { return std::pair(t, Tensor()); })(x); }),
              StartsWith("vmap: result 1 of"));
}

// ---- operations without a rule ------------------------------------------------------------------

constexpr Op op_opaque{
    .id = OpId::copy,
    .name = "opaque",
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          outputs.push_back({call.input(0).shape(), call.input(0).dtype()});
        },
    .view = [](const Call& call) { return clone_node(call.input(0)); },
};
Tensor opaque(T t) { return apply(op_opaque, {t}); }

TEST(Rules, MissingRuleIsNamedWithARemedy) {
  EXPECT_THAT(opaque(x), Equals(x));
  EXPECT_EQ(error<TransformError>([] { grad([](T t) { return sum(opaque(t)); })(x); }),
            "grad: the operation opaque has no VJP rule: give it one, or cut it off with stop_gradient\n  inside "
            "backward of grad");
  EXPECT_EQ(error<TransformError>([] { jvp(opaque, x, x); }),
            "jvp: the operation opaque has no JVP rule: give it one, or cut it off with stop_gradient\n  inside jvp");
  EXPECT_EQ(error<TransformError>([] { vmap (&opaque)(x); }),
            "vmap: the operation opaque has no batching rule: give it one, or compute it outside of vmap\n  inside "
            "vmap over 3 lanes");
  // The remedy that the message proposes.
  EXPECT_THAT(grad([](T t) { return sum(t * opaque(stop_gradient(t))); })(x), Equals(x));
}

constexpr Op op_misshapen{
    .id = OpId::copy,
    .name = "misshapen",
    .infer = op_opaque.infer,
    .jvp = [](const JvpContext&) { return Outputs(ones({7})); },
    .vjp = [](const VjpContext&, int) { return ones({7}); },
    .batch = [](const BatchContext&) { return Outputs(ones({7})); },
    .view = op_opaque.view,
};
Tensor misshapen(T t) { return apply(op_misshapen, {t}); }

TEST(Rules, RuleThatGivesAWrongShapeIsNamed) {
  EXPECT_THAT(error<TransformError>([] { grad([](T t) { return sum(misshapen(t)); })(x); }),
              HasSubstr("the VJP rule of misshapen gave a cotangent float32 [7] for input 0, which is float32 [3]"));
  EXPECT_THAT(error<TransformError>([] { jvp(misshapen, x, x); }),
              HasSubstr("the JVP rule of misshapen gave a tangent float32 [7] for an output float32 [3]"));
  EXPECT_THAT(error<TransformError>([] { vmap (&misshapen)(m); }),
              HasSubstr("the batching rule of misshapen gave float32 [7] for 2 lanes of float32 [3]"));
}

TEST(Rules, AHandlerMustAnswerWithAllOutputs) {
  struct Mute : Handler {
    Outputs handle(Call&) override { return {}; }
    std::string describe() const override { return "mute"; }
  } mute;
  EXPECT_EQ(error<TransformError>([&] { with(mute, [] { sin(x); }); }),
            "sin: mute answered with 0 output(s) instead of 1\n  inside mute");
}

// ---- where it happened --------------------------------------------------------------------------

TEST(Context, ListsTheTransformsFromInsideOut) {
  const auto bad = [](T t) { return sum(t + ones({5})); };
  const auto context = [&](auto body) {
    const std::string text = error<ShapeError>(body);
    const std::size_t line = text.find('\n');
    return line == std::string::npos ? std::string() : text.substr(line + 1);
  };
  CountOps count;
  EXPECT_EQ(context([&] { bad(x); }), "");
  EXPECT_EQ(context([&] { grad(bad)(x); }), "  inside grad");
  EXPECT_EQ(context([&] { vjp(bad, x); }), "  inside vjp");
  EXPECT_EQ(context([&] { vmap(grad(bad))(m); }), "  inside grad, inside vmap over 2 lanes");
  EXPECT_EQ(context([&] { grad([&](T t) { return sum(vmap(bad)(t)); })(m); }),
            "  inside vmap over 2 lanes, inside grad");
  EXPECT_EQ(context([&] { debug([&] { return jvp(bad, x, x); }, {.print = false})(); }), "  inside jvp, inside debug");
  EXPECT_EQ(context([&] { with(count, [&] { grad([&](T t) { return with(count, [&] { return bad(t); }); })(x); }); }),
            "  inside count, inside grad, inside count");
  EXPECT_EQ(context([&] {
              const Scope scope("epoch 3");
              grad(bad)(x);
            }),
            "  inside grad, inside epoch 3");
  EXPECT_EQ(context([&] { hessian(bad)(x); }), "  inside jacrev, inside jvp, inside vmap over 3 lanes");
}

// An error in a derivative rule names the backward pass in which it happened, and the handlers
// outside it.
TEST(Context, NamesTheBackwardPass) {
  struct Refuses : Handler {
    Outputs handle(Call& call) override {
      if (&call.op() == &op_cos) stave_detail::throw_unhandled(typeid(int));
      return perform(std::move(call));
    }
    std::string describe() const override { return "refuses"; }
  } refuses;
  EXPECT_THAT(error<TransformError>([&] { with(refuses, [] { grad([](T t) { return sum(sin(t)); })(x); }); }),
              EndsWith("\n  inside backward of grad, inside refuses"));
  EXPECT_THAT(error<TransformError>([&] { with(refuses, [] { vmap(grad([](T t) { return sum(sin(t)); }))(m); }); }),
              EndsWith("\n  inside backward of grad, inside vmap over 2 lanes, inside refuses"));
}

// ---- trees --------------------------------------------------------------------------------------

TEST(Trees, MustHaveOneStructure) {
  using Tensors = std::vector<Tensor>;
  EXPECT_EQ(
      error<ShapeError>([] {
        tree_map([](T a, T b) { return a + b; }, Tensors{x}, Tensors{x, x});
      }),
      "tree_map: the trees differ in structure: in a length, in the keys of a map, or in which member is present");
  EXPECT_THROW(hvp([](const Tensors& v) { return sum(v[0]); }, Tensors{x}, Tensors{}), Error);
}

TEST(CheckGrads, SaysWhatDisagrees) {
  // A step function, whose derivative is 0.
  const auto kinked = [](T t) { return sum(astype(astype(t, int32), float64)); };
  EXPECT_THAT(error<TransformError>([&] {
                check_grads(kinked, tensor({1., 2.}, float64));
              }),
              AllOf(StartsWith("check_grads: jvp and the central difference at order 1 disagree: 0 and "),
                    HasSubstr("tolerance")));
}

// Every error is a stave::Error, and so a std::runtime_error.
TEST(Errors, HaveACommonBaseClass) {
  EXPECT_THROW(sum(x, 9), Error);
  EXPECT_THROW(x + ones({2}), std::runtime_error);
  EXPECT_THROW(grad(loss)(i), Error);
}

}  // namespace errors_test
