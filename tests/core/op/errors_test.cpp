// Bad input: the type of the error, its message, the context that it names, and that the state
// afterwards is as before. meaning_test.cpp tests values that leave their transform.

#include <functional>

#include <stave/core/effects/sanitize.h>
#include <stave/stave.h>

#include "errors.h"

namespace errors_test {

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

}  // namespace errors_test
