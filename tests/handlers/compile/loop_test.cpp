// Loops in programs: which loops are recorded as one body, and what such a program gives, prints
// and costs.
#include <sstream>
#include <vector>

#include <stave/stave.h>

#include "matchers.h"
#include "programs.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Tensor x = tensor({0.5, -1.2, 2.3});

Tensor step(const Tensor& y) { return tanh(y * 1.1) + y * 0.01; }

TEST(Loop, PrintsWithItsBody) {
  const auto p = trace([](const Tensor& a, const Tensor& b) {
    return loop(1000, [&](const Tensor& y) { return sin(y) * b + 1.; })(a) * 2.;
  })(x, x);
  EXPECT_EQ(p.str(),
            "a:f32[3] b:f32[3] ->\n"
            "  c:f32[3] = loop a b steps=1000 states=1\n"
            "    a:f32[3] b:f32[3] ->\n"
            "      c:f32[3] = sin a\n"
            "      d:f32[3] = multiply c b\n"
            "      e:f32[3] = add d 1.0\n"
            "      in e\n"
            "  d:f32[3] = multiply c 2.0\n"
            "  in d\n");
}

TEST(Loop, EqualsUnrolledSteps) {
  for (const int n : {0, 1, 2, 3, 4, 17}) {
    const auto p = trace(loop(n, step))(x);
    EXPECT_EQ(count_loops(p), n > 2 ? 1u : 0u);
    const auto f = compile(loop(n, step));
    for (const Tensor& start : {x, x * 0.3, -x}) {
      EXPECT_THAT(p(start), Is(unrolled(n, step)(start))) << n;
      EXPECT_THAT(optimized(p)(std::vector<Tensor>{start})[0], Is(unrolled(n, step)(start))) << n;
      EXPECT_THAT(f(start), Is(unrolled(n, step)(start))) << n;
    }
  }
}

TEST(Loop, MayCaptureLoopInvariantValues) {
  const auto f = [](const Tensor& a, const Tensor& w) {
    const Tensor half = w * 0.5, ones_ = ones({3}), constant = tensor({1., 2., 3.});
    return loop(50, [=](const Tensor& y) { return sin(y * half) + exp(w) * ones_ - constant * 0.1; })(a);
  };
  const auto p = trace(f)(x, x);
  EXPECT_EQ(count_loops(p), 1u);
  EXPECT_THAT(p(x, -x), Is(f(x, -x)));
  const auto compiled = compile(f);
  for (int i = 1; i < 4; ++i) EXPECT_THAT(compiled(x, x * i), Is(f(x, x * i)));
}

// A captured number and a literal stay distinct, even if both are equal when the loop is recorded.
TEST(Loop, CapturedNumberDiffersFromAnEqualLiteral) {
  const auto f = [](const Tensor& a, const Tensor& two) {
    return loop(5, [&](const Tensor& y) { return y * 2. + sin(two) * two + tensor(2.); })(a);
  };
  const auto p = trace(f)(x, tensor(2.));
  EXPECT_THAT(p(x, tensor(-3.)), Is(f(x, tensor(-3.))));
  const auto checkpointed = [](const Tensor& a, const Tensor& two) {
    return checkpoint([=](const Tensor& y) { return y * 2. + two * tensor(2.); })(a);
  };
  EXPECT_THAT(trace(checkpointed)(x, tensor(2.))(x, tensor(-3.)), Is(checkpointed(x, tensor(-3.))));
}

struct State {
  Tensor position;
  std::vector<Tensor> others;
  Key key;
  int kind;
};

TEST(Loop, StatesAreTreesWithKeys) {
  const auto f = [](const State& state) {
    return loop(20, [](const State& s) {
      const auto [here, next] = split(s.key);
      return State{s.position + uniform(here, {3}) * s.others[0], {s.others[1], s.others[0]}, next, s.kind};
    })(state);
  };
  const State start{x, {x, -x}, Key(3), 7};
  const auto p = trace(f)(start);
  EXPECT_EQ(count_loops(p), 1u);
  const State other{-x, {x * 3., -x}, Key(5), 7}, found = p(other), expected = f(other);
  EXPECT_THAT(found.position, Is(expected.position));
  EXPECT_THAT(found.others[1], Is(expected.others[1]));
  EXPECT_THAT(found.key.data(), Is(expected.key.data()));
}

TEST(Loop, KeepsDtypesOfAllKinds) {
  const auto f = [](const std::vector<Tensor>& s) {
    return loop(9, [](const std::vector<Tensor>& v) {
      return std::vector<Tensor>{v[0] * 1.5, v[1] + 3, logical_not(v[2]), v[0] + v[3] * 0.5, v[4] + 1};
    })(s);
  };
  for (const Dtype dtype : {float32, float64, float16, bfloat16}) {
    const std::vector<Tensor> start{astype(x, dtype), arange(4), tensor({true, false}), astype(x * 2., dtype),
                                    tensor(1, uint8)};
    const auto p = trace(f)(start);
    EXPECT_EQ(count_loops(p), 1u);
    const std::vector<Tensor> found = p(start), expected = f(start);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_THAT(found[i], Is(expected[i])) << i;
  }
}

TEST(Loop, NestedLoopsAreRecordedAsNestedLoops) {
  const auto f = [](const Tensor& a, const Tensor& w) {
    return loop(6, [&](const Tensor& y) {
      const Tensor z = cos(y);
      return loop(7, [&](const Tensor& v) { return sin(v * w) + z; })(y) * 0.9;
    })(a);
  };
  const auto p = trace(f)(x, x);
  EXPECT_EQ(p.instructions.size(), 1u);
  EXPECT_EQ(count_loops(*stave_detail::loop_of(p.instructions[0])->body), 1u);
  EXPECT_THAT(p(-x, x), Is(f(-x, x)));
  const auto compiled = compile(f);
  for (int i = 1; i < 4; ++i) EXPECT_THAT(compiled(x * i, x), Is(f(x * i, x)));
}

TEST(Loop, OutputsMayAliasInputsAndEachOther) {
  const auto f = [](const std::vector<Tensor>& s) {
    return loop(5, [](const std::vector<Tensor>& v) {
      const Tensor y = v[0] + v[1];
      return std::vector<Tensor>{y, y, v[0], zeros({3}), reshape(reshape(v[2], {3, 1}), {3})};
    })(s);
  };
  const std::vector<Tensor> start{x, 2. * x, 3. * x, x, -x};
  const auto p = trace(f)(start);
  EXPECT_EQ(count_loops(p), 1u);
  const std::vector<Tensor> found = p(start), expected = f(start);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_THAT(found[i], Is(expected[i])) << i;
}

// A loop that cannot be recorded as one body is unrolled. Its function is then called as often as
// without a recorder.
template <class Body>
void expect_unrolled(const Body& body, const Tensor& start = x) {
  int calls = 0;
  const auto f = [&](const Tensor& a) { return loop(6, [&](const Tensor& y) { return ++calls, body(y); })(a); };
  const auto p = trace(f)(start);
  EXPECT_EQ(count_loops(p), 0u);
  EXPECT_EQ(calls, 6);
  EXPECT_THAT(p(start), Is(f(start)));
}

struct Rate {
  using Result = float;
};
struct FixedRate : Handles<Rate> {
  float handle(Rate&) override { return 0.5f; }
};

TEST(Loop, StepsThatReadAreUnrolled) {
  expect_unrolled([](const Tensor& y) { return sum(y).item<float>() > 0 ? y * 0.5 : y + 1.; });
  const auto reads_captured = [](const Tensor& a, const Tensor& w) {
    return loop(5, [&](const Tensor& y) { return sum(w).item<float>() > 0 ? y * 0.5 : y + 1.; })(a);
  };
  const auto p = trace(reads_captured)(x, x);
  EXPECT_EQ(count_loops(p), 0u);
  EXPECT_THAT(([&] { p(x, -x); }), ThrowsMessage<TransformError>(HasSubstr("the traced function read a value")));
  const auto compiled = compile(reads_captured);
  for (const Tensor& w : {x, -x, x}) EXPECT_THAT(compiled(x, w), Is(reads_captured(x, w)));
}

TEST(Loop, StepsThatDifferAreUnrolled) {
  const auto f = [](const Tensor& a) {
    double scale = 1;
    return loop(5, [&](const Tensor& y) { return y * (scale *= 0.5) + 1.; })(a);
  };
  EXPECT_EQ(count_loops(trace(f)(x)), 0u);
  EXPECT_THAT(compile(f)(x), Is(f(x)));
  struct Counted {
    Tensor y;
    int steps;
  };
  const auto counted = [](const Tensor& a) {
    return loop(5, [](const Counted& c) { return Counted{sin(c.y), c.steps + 1}; })(Counted{a, 0});
  };
  EXPECT_EQ(count_loops(trace(counted)(x)), 0u);
  EXPECT_THAT(compile([&](const Tensor& a) { return counted(a).y * counted(a).steps; })(x), Is(counted(x).y * 5));
}

TEST(Loop, StepsThatChangeShapeOrDtypeAreUnrolled) {
  const auto grows = [](const Tensor& y) { return concat({y, y}); };
  const auto f = [&](const Tensor& a) { return loop(3, grows)(a); };
  EXPECT_THAT(trace(f)(x)(-x), Is(f(-x)));
  const auto converts = [](const Tensor& a) {
    return loop(4, [](const Tensor& y) { return astype(y, float64) * 1.1; })(a);
  };
  EXPECT_THAT(trace(converts)(x)(-x), Is(converts(-x)));
}

TEST(Loop, StepsThatPerformEffectsOrCallFunctionsWithRulesAreUnrolled) {
  FixedRate rate;
  with(rate, [&] { expect_unrolled([](const Tensor& y) { return y * perform(Rate{}); }); });
  expect_unrolled([](const Tensor& y) { return checkpoint([](const Tensor& z) { return sin(z); })(y); });
}

TEST(Loop, HandlerInsideTheTraceSeesEachStep) {
  struct Count : Handler {
    int n = 0;
    Outputs handle(Call& call) override { return ++n, perform(std::move(call)); }
  } counter;
  const auto f = [&](const Tensor& a) { return with(counter, [&] { return loop(8, step)(a); }); };
  EXPECT_EQ(count_loops(trace(f)(x)), 0u);
  EXPECT_EQ(counter.n, 8 * 4);
  const auto p = trace(loop(8, step))(x);
  counter.n = 0;
  EXPECT_THAT(with(counter, [&] { return p(x); }), Is(unrolled(8, step)(x)));
  EXPECT_GE(counter.n, 8 * 4);
}

TEST(Loop, LeakingAValueOfAStepIsAnError) {
  const auto f = [](const Tensor& a) {
    Tensor last;
    const Tensor y = loop(5, [&](const Tensor& v) { return last = sum(v), sin(v); })(a);
    return y * last;
  };
  EXPECT_THAT(([&] { trace(f)(x); }),
              ThrowsMessage<TransformError>(HasSubstr("left the function through a captured variable")));
  EXPECT_THAT(([&] { compile(f)(x); }),
              ThrowsMessage<TransformError>(HasSubstr("left the function through a captured variable")));
}

TEST(Loop, ExceptionsEqualThoseOfUnrolledSteps) {
  const auto f = [](const Tensor& a, const Tensor& i) {
    return loop(4, [&](const Tensor& y) { return take(y, i, 0) * 2.; })(a);
  };
  const auto p = trace(f)(x, tensor({0, 2, 1}));
  EXPECT_EQ(count_loops(p), 1u);
  EXPECT_THAT(p(x, tensor({2, 2, 1})), Is(f(x, tensor({2, 2, 1}))));
  EXPECT_THROW(p(x, tensor({0, 3, 1})), IndexError);
  EXPECT_THROW(trace(f)(x, tensor({0, 3, 1})), IndexError);
}

TEST(Loop, AMillionStepsTakeTheMemoryOfOne) {
  const auto f = [](const Tensor& a) { return loop(1'000'000, [](const Tensor& y) { return y * 0.5 + 1.; })(a); };
  const auto compiled = compile(f);
  compiled(x);
  EXPECT_EQ(compiled.recordings(), 1u);
  const auto before = memory_stats();
  reset_peak_memory();
  EXPECT_THAT(compiled(-x), Is(tensor({2., 2., 2.})));
  const auto after = memory_stats();
  // All steps together would take 12 MB.
  EXPECT_LT(after.peak_bytes - before.live_bytes, 100'000u);
  EXPECT_LT(after.object_bytes, before.object_bytes + 100'000u);
}

TEST(Loop, DotJsonAndCostIncludeTheBody) {
  const auto p = trace(loop(50, step))(x);
  std::ostringstream json, dot;
  p.write_json(json);
  p.write_dot(dot);
  EXPECT_THAT(json.str(), HasSubstr("\"op\": \"loop\", \"attributes\": \"steps=50 states=1\""));
  EXPECT_THAT(json.str(), HasSubstr("\"body\": {\"inputs\": ["));
  EXPECT_THAT(dot.str(), HasSubstr("loop steps=50 states=1"));
  const ProgramCost one = cost_of(trace(step)(x)), all = cost_of(p);
  EXPECT_EQ(all.operations, 50 * one.operations);
  EXPECT_EQ(all.bytes, 50 * one.bytes);
  EXPECT_EQ(all.flops, 50 * one.flops);
  EXPECT_LT(all.peak_bytes, 2 * one.peak_bytes);
}

// The result that is used needs neither the other states nor the operations that only they need.
TEST(Loop, UnusedResultsOfALoopAreNotComputed) {
  const auto f = [](const std::vector<Tensor>& s) {
    return loop(5, [](const std::vector<Tensor>& v) {
      return std::vector<Tensor>{v[0] * 2., sin(v[1]) + v[0], v[2] + v[1]};
    })(s);
  };
  const auto first = [&](const std::vector<Tensor>& s) { return f(s)[0]; };
  const auto p = trace(first)(std::vector<Tensor>{x, x, x});
  const Program shorter = optimized(p);
  const auto* loop = stave_detail::loop_of(shorter.instructions[0]);
  ASSERT_TRUE(loop);
  EXPECT_EQ(loop->states, 1u);
  EXPECT_EQ(loop->body->instructions.size(), 1u);
  EXPECT_THAT(shorter(std::vector<Tensor>{-x, x, x})[0], Is(-32. * x));
}

}  // namespace
