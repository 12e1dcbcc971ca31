// trace: programs as text, replays through handlers, and the passes.
#include <algorithm>
#include <sstream>

#include <stave/stave.h>

#include "matchers.h"
#include "programs.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

const Tensor x = tensor({1., -2., 3.});

Tensor loss(const Tensor& w, const Tensor& a) { return sum(square(tanh(a * w) + 1.)); }

// The number of steps in fused regions that perform `op`.
std::size_t steps_of(const Program& program, const Op& op) {
  std::size_t found = 0;
  for (const auto& step : program.instructions) {
    const auto* region = dynamic_cast<const FusedAttributes*>(step.attributes.get());
    if (!region) continue;
    for (const auto& inner : region->region->steps()) found += inner.op == &op;
  }
  return found;
}

TEST(Trace, ProgramsPrintAsListsOfOperations) {
  const auto f = [](const Tensor& w, const Tensor& a) {
    const Scope scope("layer");
    return sum(matmul(a, w) * 0.5);
  };
  const auto p = trace(f)(ones({2, 2}), ones({3, 2}));
  EXPECT_EQ(p.str(),
            "a:f32[2,2] b:f32[3,2] ->\n"
            "  c:f32[3,2] = matmul b a @layer\n"
            "  d:f32[3,2] = multiply c 0.5 @layer\n"
            "  e:f32[] = sum d axes=[0,1] @layer\n"
            "  in e\n");
}

TEST(Trace, LabelsAndConstantsAreShown) {
  const Tensor captured = tensor({4., 5., 6.});
  const auto p = trace([&](const Tensor& a) { return label(a * captured, "scaled"); })(label(x, "x"));
  EXPECT_EQ(p.str(),
            "a:f32[3] \"x\" ->\n"
            "  b:f32[3] = constant\n"
            "  c:f32[3] \"scaled\" = multiply a b\n"
            "  in c\n");
  EXPECT_EQ(label_of(p(x)), "scaled");
}

TEST(Trace, ValuesIndependentOfInputsAreConstants) {
  const auto p = trace([](const Tensor& a) { return a * sin(arange(3.)) + full({3}, 2.); })(x);
  EXPECT_EQ(count(p, op_sin), 0u);
  EXPECT_THAT(p(x), IsNear(tensor({2., 2. - 2. * std::sin(1.), 2. + 3. * std::sin(2.)})));
}

TEST(Trace, ReplayUsesTheHandlersInstalledThen) {
  struct Count : Handler {
    int n = 0;
    Outputs handle(Call& call) override { return ++n, perform(std::move(call)); }
  } counter;
  const auto p = trace(loss)(x, x);
  with(counter, [&] { p(x, x); });
  EXPECT_EQ(counter.n, 5);
}

TEST(Trace, TransformsOfProgramsEqualThoseOfTheFunction) {
  const auto p = trace(loss)(x, x);
  const Tensor w = tensor({0.3, 0.1, -0.7});
  EXPECT_THAT(grad(p)(w, x), IsNear(grad(loss)(w, x)));
  EXPECT_THAT(grad([&](const Tensor& a) { return sum(square(grad(p)(a, x))); })(w),
              IsNear(grad([&](const Tensor& a) { return sum(square(grad(loss)(a, x))); })(w)));
  const Tensor ws = stack({w, x, -x});
  const auto mapped = [&](auto f) { return vmap(f, {.in_axes = {0, unmapped}})(ws, x); };
  EXPECT_THAT(mapped(p), IsNear(mapped(loss)));
  EXPECT_THAT(jvp(p, std::tuple(w, x), std::tuple(x, w)).second,
              IsNear(jvp(loss, std::tuple(w, x), std::tuple(x, w)).second));
  const auto again = trace(grad(p))(w, x);
  EXPECT_THAT(again(x, w), IsNear(grad(loss)(x, w)));
}

TEST(Trace, TracingMayHappenInsideTransforms) {
  // Traces inside grad and vmap with values that these transforms trace.
  const auto square_by_program = [](const Tensor& a) { return trace([](const Tensor& b) { return b * b; })(a)(a); };
  EXPECT_THAT(grad([&](const Tensor& a) { return sum(square_by_program(a)); })(x), IsNear(2 * x));
  EXPECT_THAT(vmap(square_by_program)(x), IsNear(x * x));
}

TEST(Trace, TreesAndKeysAreInputs) {
  struct Layer {
    Tensor w, b;
    int power;
  };
  const auto f = [](const Layer& layer, const std::vector<Tensor>& xs, const Key& key) {
    return std::pair(layer.w * xs[0] + layer.b * xs[1], normal(key, {3}));
  };
  const Layer layer{x, 2 * x, 3};
  const auto p = trace(f)(layer, std::vector<Tensor>{x, x}, Key(1));
  const auto [y, noise] = p(Layer{2 * x, x, 3}, std::vector<Tensor>{x, 3 * x}, Key(7));
  EXPECT_THAT(y, IsNear(5 * x * x));
  EXPECT_THAT(noise, IsNear(normal(Key(7), {3})));
}

TEST(Trace, AReplayThatWouldReadAnotherValueThrows) {
  const auto f = [](const Tensor& a) { return sum(a).item<double>() > 0 ? a * 2 : a; };
  const auto p = trace(f)(x);
  EXPECT_THAT(p.str(), HasSubstr("read b: 2.0"));
  EXPECT_THAT(p(tensor({2., 1., -1.})), IsNear(tensor({4., 2., -2.})));
  EXPECT_THAT(([&] { p(-x); }), ThrowsMessage<TransformError>(HasSubstr("that was 2.0, but now it is -2.0")));
  EXPECT_THAT(vmap(p)(stack({x, x})), IsNear(stack({x * 2, x * 2})));
  EXPECT_THAT(([&] { vmap(p)(stack({x, -x})); }), ThrowsMessage<TransformError>(HasSubstr("inside vmap, lane 1 of 2")));
}

TEST(Trace, OtherShapesDtypesAndCountsAreRefused) {
  const auto p = trace(loss)(x, x);
  EXPECT_THAT(([&] { p(ones({4}), x); }),
              ThrowsMessage<ShapeError>(HasSubstr("input 0 is float32 [4] on cpu, but was float32 [3]")));
  EXPECT_THAT(([&] { p(x, astype(x, float64)); }), ThrowsMessage<DtypeError>(HasSubstr("input 1 is float64")));
  EXPECT_THAT(([&] { p(x); }),
              ThrowsMessage<TransformError>(HasSubstr("it was recorded for 2 tensors, but 1 are given")));
}

TEST(Trace, CustomRulesAndCheckpointsAreKept) {
  const auto straight =
      custom_vjp([](const Tensor& a) { return round(a); }, [](const Tensor& a) { return std::pair(round(a), a); },
                 [](const Tensor& a, const Tensor& g) { return g * a; });
  const Tensor at = tensor({1.3, 2.4, -0.9});
  const auto f = [&](const Tensor& a) { return sum(straight(a * 2) * a); };
  const auto p = trace(f)(at);
  EXPECT_THAT(grad(p)(x), IsNear(grad(f)(x)));
  EXPECT_THAT(grad(p)(x), IsNear(round(2 * x) + 4 * x * x));
  const auto forward = custom_jvp([](const Tensor& a) { return sin(a); },
                                  [](const Tensor& a, const Tensor& da) { return std::pair(sin(a), 3 * da * a); });
  EXPECT_THAT(grad(trace([&](const Tensor& a) { return sum(forward(a)); })(at))(x), IsNear(3 * x));
  // A value that a checkpoint captures is an input of its instruction and has a derivative.
  const auto checkpointed = [](const Tensor& a) {
    const Tensor captured = a * 3;
    return checkpoint([=](const Tensor& b) { return sum(sin(b) * captured); })(a);
  };
  const auto q = trace(checkpointed)(at);
  EXPECT_EQ(q.instructions.size(), 2u);
  EXPECT_THAT(grad(q)(x), IsNear(3 * sin(x) + 3 * x * cos(x)));
  EXPECT_THAT(vmap(q)(stack({x, at})), IsNear(stack({checkpointed(x), checkpointed(at)})));
}

TEST(Trace, DotAndJsonShowOperationsAndLabels) {
  const auto p = trace(loss)(label(x, "w\"1"), x);
  std::ostringstream dot, json;
  p.write_dot(dot);
  p.write_json(json);
  EXPECT_THAT(dot.str(), HasSubstr("label=\"tanh\\nd:f32[3]\""));
  EXPECT_THAT(dot.str(), HasSubstr("w\\\"1"));
  EXPECT_THAT(json.str(), HasSubstr(R"("op": "sum", "attributes": "axes=[0]")"));
}

// ---- passes -------------------------------------------------------------------------------------

TEST(Passes, DeadCodeIsRemovedUnlessItMayThrowOrIsRead) {
  const auto p = trace([](const Tensor& a) {
    static_cast<void>(exp(a));
    static_cast<void>(take(a, tensor({0, 1}) + astype(a(slice(0, 2)) * 0, int32), 0));
    return a * 2;
  })(x);
  const Program shorter = without_dead_code(p);
  EXPECT_EQ(count(shorter, op_exp), 0u);
  EXPECT_EQ(count(shorter, op_gather), 1u);
  const auto reads = trace([](const Tensor& a) { return sum(a).item<float>() > 0 ? a : -a; })(x);
  EXPECT_EQ(without_dead_code(reads).instructions.size(), 2u);
}

TEST(Passes, RepeatedOperationsAreMergedEvenRandomOnes) {
  const Key key(3);
  const auto p =
      trace([](const Tensor& a, const Key& k) { return exp(a) * exp(a) + normal(k, {3}) - normal(k, {3}); })(x, key);
  const auto shorter = p.with(without_repetitions(p));
  EXPECT_EQ(count(shorter, op_exp), 1u);
  EXPECT_EQ(count(p, op_exp), 2u);
  EXPECT_LT(count(shorter, op_random_bits) + count(shorter, op_random_uniform),
            count(p, op_random_bits) + count(p, op_random_uniform));
  EXPECT_THAT(shorter(x, key), IsNear(p(x, key), 0.));
}

TEST(Passes, NegativeZeroDiffersFromZero) {
  const auto different = [](const Tensor& a) { return pad(a, {{1, 0}}, 0.) / pad(a, {{1, 0}}, -0.); };
  const auto p = trace(different)(x);
  EXPECT_EQ(without_repetitions(p).instructions.size(), p.instructions.size());
  // x - 0 is x, but x + 0 is not x for x = -0.
  const auto q = simplified(trace([](const Tensor& a) { return (a - 0.) + 0.; })(x));
  EXPECT_EQ(count(q, op_subtract), 0u);
  EXPECT_EQ(count(q, op_add), 1u);
}

TEST(Passes, NestedConcatsAreJoined) {
  const auto nested = [](const Tensor& a) { return concat({a, concat({a + 1., concat({a + 2., a + 3.})})}); };
  const auto p = trace(nested)(x);
  const Program joined = without_dead_code(simplified(p));
  EXPECT_EQ(count(joined, op_concat), 1u);
  EXPECT_THAT(p.with(joined)(x), Equals(nested(x)));
  // The inner one is read twice; another axis.
  const auto shared = [](const Tensor& a) {
    const Tensor pair = concat({a, a + 1.});
    return concat({a, pair, sin(pair)});
  };
  EXPECT_EQ(count(without_dead_code(simplified(trace(shared)(x))), op_concat), 2u);
  const auto other_axis = [](const Tensor& a) { return concat({concat({a, a}, 1), ones({1, 6})}, 0); };
  EXPECT_EQ(count(without_dead_code(simplified(trace(other_axis)(reshape(x, {1, 3})))), op_concat), 2u);
}

TEST(Passes, RecomputationOfACheckpointIsKept) {
  const auto f = [](const Tensor& a) { return sum(checkpoint([](const Tensor& b) { return sin(sin(sin(b))); })(a)); };
  const auto traced = trace(value_and_grad(f))(x);
  const Program p = optimized(with_calls_inlined(traced));
  // Three sines run in the forward pass, and two of them again in the backward pass.
  EXPECT_EQ(count(p, op_sin) + steps_of(p, op_sin), 5u);
  EXPECT_THAT(traced.with(p)(x).grad, IsNear(grad(f)(x), 0.));
}

TEST(Passes, CancellingLayoutsAndSignsAreRemoved) {
  const auto p = trace([](const Tensor& a) {
    const Tensor m = reshape(reshape(a, {3, 1}), {1, 3});
    return -(-permute_dims(permute_dims(m, {1, 0}), {1, 0})) * 1.;
  })(x);
  EXPECT_EQ(without_dead_code(simplified(p)).str(), "a:f32[3] ->\n  b:f32[1,3] = reshape a [1,3]\n  in b\n");
}

TEST(Passes, LossyConversionsAreKept) {
  const auto there_and_back = [](Dtype by) {
    return without_dead_code(simplified(trace([by](const Tensor& a) { return astype(astype(a, by), float32); })(x)))
        .instructions.size();
  };
  EXPECT_EQ(there_and_back(float64), 0u);
  EXPECT_EQ(there_and_back(float16), 2u);
  EXPECT_EQ(there_and_back(int32), 2u);
}

TEST(Passes, ElementwiseOperationsBecomeRegions) {
  const Program p = optimized(trace(loss)(x, x));
  // The region includes the sum that it ends with.
  EXPECT_EQ(p.instructions.size(), 1u);
  EXPECT_THAT(p.str(), HasSubstr("fused"));
  EXPECT_THAT(p.str(), HasSubstr("tanh"));
}

TEST(Passes, BroadcastRowIsComputedOnce) {
  const auto f = [](const Tensor& a, const Tensor& row) { return a * exp(row) + 1.; };
  EXPECT_EQ(steps_of(optimized(trace(f)(ones({100, 3}), x)), op_exp), 0u);
}

TEST(Passes, RegionValuesMayHaveOtherReaders) {
  const auto f = [](const Tensor& a) {
    const Tensor e = exp(a * 2.), n = sum(e);
    return e / n - e;
  };
  const auto p = trace(f)(x);
  EXPECT_THAT(p.with(optimized(p))(x), IsNear(f(x), 0.));
}

TEST(Passes, RegionOfManyResultsIsDivided) {
  const auto f = [](const Tensor& a) {
    std::vector<Tensor> results;
    Tensor y = a;
    for (int i = 0; i < 200; ++i) {
      y = y * 0.5 + a;
      if (i % 2) results.push_back(y * y - a);
    }
    return results;
  };
  const auto p = trace(f)(x);
  const auto shorter = p.with(optimized(p));
  EXPECT_LE(shorter.instructions.size(), 4u);
  const auto found = shorter(x), wanted = f(x);
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_THAT(found[i], IsNear(wanted[i], 0.));
}

std::vector<std::string> fusion_report(const Program& program) {
  std::vector<std::string> lines{"of another program"};
  optimized(program, {.fusion_report = &lines});
  return lines;
}

TEST(Passes, FusionReportNamesWhatEndsARegion) {
  const Tensor a = ones({3, 4}), w = ones({4, 5});
  const auto normalized = [](const Tensor& b) {
    const Scope scope("norm");
    return exp(b) / sum(exp(b), 0);
  };
  EXPECT_THAT(fusion_report(trace(normalized)(a)), ElementsAre("sum of [3,4] over axes=[0] ends a region @norm"));
  const auto layers = [](const Tensor& b, const Tensor& v) { return tanh(matmul(b * 2., v) + matmul(b * 2., v * 3.)); };
  EXPECT_THAT(fusion_report(trace(layers)(a, w)),
              ElementsAre("matmul of [3,4] and [4,5] is not elementwise (2 times)"));
}

TEST(Passes, FusionReportNamesRegionsThatEndInAReduction) {
  const auto p = trace([](const Tensor& a) { return sum(a * 2., 0); })(ones({3, 4}));
  const auto regions = p.with(optimized(p));
  const auto around = [&](const Tensor& a) { return exp(regions(sin(a))); };
  EXPECT_THAT(fusion_report(trace(around)(ones({3, 4}))), ElementsAre("fused of [3,4] already ends in a reduction"));
}

TEST(Passes, FusionReportNamesBroadcastsAndTransposes) {
  const auto row = [](const Tensor& b, const Tensor& r) { return b * label(exp(r), "weights") + 1.; };
  EXPECT_THAT(fusion_report(trace(row)(ones({1000, 4}), ones({4}))),
              ElementsAre("exp \"weights\" of [4] is broadcast to [1000,4]: it would be computed 1000 times"));
  const auto turned = [](const Tensor& b) { return permute_dims(sin(b), {1, 0}) + permute_dims(sin(b), {1, 0}) * 2.; };
  EXPECT_THAT(
      fusion_report(trace(turned)(ones({3, 4}))),
      ElementsAre(
          "sin of [3,4] is read through permute_dims, as [4,3]: a region cannot read its values through a view"));
}

TEST(Passes, FusionReportNamesRegionsPerformedEarlier) {
  const auto both = [](const Tensor& b) {
    const Tensor e = exp(b);
    const Tensor product = matmul(b, e);
    return std::pair(product, e + 1.);
  };
  EXPECT_THAT(fusion_report(trace(both)(ones({3, 3}))),
              ElementsAre("add of [3,3] reads exp after matmul did, which ended the region that computes that value"));
  const auto summed = [](const Tensor& b) {
    const Tensor e = exp(b);
    const Tensor product = matmul(b, e);
    return std::pair(product, sum(e));
  };
  EXPECT_THAT(fusion_report(trace(summed)(ones({3, 3}))),
              ElementsAre("sum of [] reads exp after matmul did, which ended the region that computes that value"));
}

TEST(Passes, ReplaysKeepTheRerunOfACheckpoint) {
  // The derivative of a checkpoint computes exp again. So does a program that is recorded anew.
  const auto rerun = [](const Tensor& a) { return sum(checkpoint([](const Tensor& b) { return sin(exp(b)); })(a)); };
  const auto count = [](const Program& p) {
    const Program cheaper = without_repetitions(with_calls_inlined(p));
    return std::ranges::count_if(cheaper.instructions, [](const auto& step) { return step.op == &op_exp; });
  };
  const Program once = with_calls_inlined(trace(grad(rerun))(x));
  const Program anew = trace([&](const Tensor& a) { return once(std::vector{a})[0]; })(x);
  const Program lanes = trace(vmap([&](const Tensor& a) { return once(std::vector{a})[0]; }))(stack({x, x}));
  EXPECT_EQ(count(once), 2);
  EXPECT_EQ(count(anew), 2);
  EXPECT_EQ(count(lanes), 2);
}

TEST(Passes, FusionReportNamesCheckpointsAndRegionLimits) {
  const auto again = [](const Tensor& a) { return checkpoint([](const Tensor& b) { return sin(sin(b)); })(a * 2.); };
  EXPECT_THAT(fusion_report(with_calls_inlined(trace(grad([&](const Tensor& a) { return sum(again(a)); }))(x))),
              Contains(HasSubstr("across a rematerialisation barrier: operations that a checkpoint runs again")));
  const auto long_one = [](const Tensor& a) {
    Tensor y = a;
    for (int i = 0; i < 3000; ++i) y = sin(y);
    return y;
  };
  EXPECT_THAT(
      fusion_report(trace(long_one)(x)),
      ElementsAre("sin of [3] begins another region, because the region of sin has the largest size that is allowed"));
  const auto many = [](const Tensor& a) {
    std::vector<Tensor> results;
    for (int i = 0; i < 70; ++i) results.push_back(a * (2. + i));
    return results;
  };
  EXPECT_THAT(
      fusion_report(trace(many)(x)),
      ElementsAre("a region of 70 operations, of whose values other operations read 70, more than 64, is divided"));
}

TEST(Passes, FusionReportIsEmptyForFullyFusedPrograms) {
  EXPECT_THAT(fusion_report(trace(loss)(x, x)), IsEmpty());
  EXPECT_THAT(fusion_report(trace([](const Tensor& a) {
                return matmul(permute_dims(a, {1, 0}), exp(a) * 2.);
              })(ones({3, 3}))),
              IsEmpty());
  EXPECT_THAT(fusion_report(trace([](const Tensor& a) { return a * 2. + sum(a, 0); })(ones({3, 3}))), IsEmpty());
}

TEST(Passes, CostCountsBytesAndFlops) {
  const auto p =
      trace([](const Tensor& a, const Tensor& b) { return sum(matmul(a, b)); })(ones({8, 16}), ones({16, 4}));
  const ProgramCost found = cost_of(p);
  EXPECT_EQ(found.operations, 2);
  EXPECT_EQ(found.flops, 2u * 8 * 16 * 4 + 32);
  EXPECT_EQ(found.bytes, 4u * (8 * 16 + 16 * 4 + 32) + 4 * (32 + 1));
  EXPECT_EQ(found.peak_bytes, 4u * 33);
}

TEST(Trace, ElementsOfSmallArraysBecomeNumbers) {
  const auto f = [](const Tensor& a, const Tensor& b) {
    const Tensor m = matrix_transpose(reshape(concat({a * b, flip(sin(a))}), {2, 3})) * 0.5;
    const Tensor padded = pad(m(slice(1, none), 0), {{1, 2}}, 3.) + expand_dims(a, 1)(0);
    return std::tuple(m, padded, a(1) - b(2), astype(concat({a > b, b > a}), int32) + 1,
                      where(a > 0, a, -b)(slice(0, 2)));
  };
  const auto p = trace(f)(x, x);
  const Program shorter = optimized(p);
  EXPECT_EQ(count(shorter, op_pad) + count(shorter, op_permute_dims), 0u);
  for (const Tensor& b : {x, -x, tensor({0., -0., 1e30})}) {
    const auto [m, padded, difference, counts, chosen] = f(x * 0.3, b);
    const Outputs found = shorter(std::vector<Tensor>{x * 0.3, b});
    std::size_t next = 0;
    for (const Tensor& expected : {m, padded, difference, counts, chosen})
      EXPECT_TRUE(stave_detail::same_bits(found[next++], expected)) << next;
  }
  const auto large = optimized(trace([](const Tensor& a) { return concat({a * 2., a}); })(ones({9})));
  EXPECT_EQ(count(large, op_slice), 0u);
}

TEST(Trace, RepeatedAdditionsOfZeroAreMerged) {
  const auto f = [](const Tensor& a) { return (0. + (a + 0.)) + 0.; };
  const Program p = optimized(trace(f)(x));
  EXPECT_EQ(count(simplified(trace(f)(x)), op_add), 1u);
  EXPECT_TRUE(stave_detail::same_bits(p(std::vector<Tensor>{tensor({-0., 1., 0.})})[0], tensor({0., 1., 0.})));
}

}  // namespace
