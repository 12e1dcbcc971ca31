// Bad input of transforms: the type of the error, its message, and the context that it names.
#include <functional>

#include <stave/core/effects/sanitize.h>
#include <stave/stave.h>

#include "errors.h"

namespace errors_test {

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
