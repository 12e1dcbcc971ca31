// Errors that occur in some lanes of vmap: against loops over the lanes, with the number of runs
// and the messages.
#include <cmath>
#include <map>
#include <sstream>
#include <stdexcept>

#include <stave/stave.h>

#include "lanes.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;
using T = const Tensor&;

const Tensor two = tensor({1., 2.}, float64);
Tensor of_two(T x) { return take(two, astype(floor(abs(x)), int32)); }  // throws from 2 on
Tensor caught(T x) {
  try {
    return of_two(x) * x;
  } catch (const IndexError&) {
    return sin(x);
  }
}

// Counts the operations that are performed.
struct Counts : Handler {
  std::map<std::string, int> counts;
  int all = 0;
  Outputs handle(Call& call) override {
    ++counts[call.op().name];
    ++all;
    return perform(std::move(call));
  }
};

// ---- user-defined operations, checkpoints, host calls -------------------------------------------

struct Negative {
  double value;
};
void root_cpu(const Attributes*, std::span<const View> in, std::span<const View> out) {
  const auto from = elements<const double>(in[0]);
  const auto to = elements<double>(out[0]);
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] > 1000) throw std::range_error("too large");
    if (from[i] > 100) throw std::range_error("large");
    if (from[i] < -100) throw Negative{from[i]};
    if (from[i] < 0) throw std::domain_error("negative");
    to[i] = std::sqrt(from[i]);
  }
}
const Op root_op =
    define_op({.name = "root",
               .infer = [](const Call& call, auto& outputs) { outputs.push_back(abstract(call.input(0))); },
               .batch = batch_elementwise,
               .cpu = root_cpu});
Tensor root(T x) { return apply(root_op, {x}); }

Tensor told_apart(T x) {
  try {
    return root(x);
  } catch (const std::domain_error&) {
    return x * 2.;
  } catch (const std::range_error& error) {
    return x * static_cast<double>(std::string(error.what()).size());
  } catch (const Negative& negative) {
    return x * 0. + negative.value;
  }
}

TEST(PathsThrown, ErrorsOfAnyTypeAreDistinguished) {
  const Tensor xs = tensor({4., -1., 200., 2000., -200., -300., 9., -4., 300.}, float64);
  EXPECT_THAT(vmap(told_apart)(xs), IsNear(lane_by_lane(told_apart, xs)));
  EXPECT_THAT(vmap(vmap(told_apart))(reshape(xs, {3, 3})), IsNear(reshape(lane_by_lane(told_apart, xs), {3, 3})));
  EXPECT_THAT(vmap(told_apart)(abs(xs) + 2000.), IsNear(lane_by_lane(told_apart, abs(xs) + 2000.)));
}

// Errors of any type, including an error that occurs only on the path of some lanes.
TEST(PathsThrown, ByFunctionsOfHigherOrderOperations) {
  const auto f = [](T x) {
    try {
      return checkpoint([](T y) {
        if (y > 1) throw std::domain_error("too large");
        if (y < -1) reshape(y, {2});
        return y * y;
      })(x);
    } catch (const std::domain_error&) {
      return x * 10.;
    } catch (const ShapeError&) {
      return x * 100.;
    }
  };
  const Tensor xs = tensor({0.5, 2., -3., -0.5, 4.}, float64);
  EXPECT_THAT(vmap(f)(xs), IsNear(lane_by_lane(f, xs)));
  EXPECT_THAT(vmap(grad(f))(xs), IsNear(lane_by_lane(grad(f), xs)));
  EXPECT_THAT(grad([&](T all) { return sum(vmap(f)(all)); })(xs), IsNear(lane_by_lane(grad(f), xs)));
}

TEST(PathsThrown, ByHostCalls) {
  const auto f = [](T x) {
    try {
      return host_call(
          [](T y) {
            if (y.item<double>() > 1) throw std::domain_error("too large");
            return y * 2.;
          },
          {{Shape{}, float64}})(x);
    } catch (const std::domain_error&) {
      return x * 10.;
    }
  };
  const Tensor xs = tensor({0.5, 2., -3., 4.}, float64);
  EXPECT_THAT(vmap(f)(xs), IsNear(lane_by_lane(f, xs)));
}

// ---- error messages -----------------------------------------------------------------------------

TEST(PathsThrown, UncaughtErrorsNameTheLanes) {
  const Tensor xs = tensor({0., 5., 1., 7., 9., 11., 13.}, float64);
  EXPECT_THAT([&] { vmap(of_two)(xs); },
              ThrowsMessage<IndexError>(AllOf(HasSubstr("take: index 5 is out of range for axis 0 with size 2"),
                                              HasSubstr("inside vmap, lanes 1, 3, 4 and 2 more of 7"))));
  EXPECT_THAT([&] { vmap(of_two)(xs(slice(0, 2))); }, ThrowsMessage<IndexError>(HasSubstr("inside vmap, lane 1 of 2")));
  EXPECT_THAT([&] { vmap(of_two)(xs + 5.); }, ThrowsMessage<IndexError>(HasSubstr("inside vmap over 7 lanes")));
  EXPECT_THAT([&] { vmap(root)(tensor({4., 9., -1.}, float64)); }, ThrowsMessage<std::domain_error>("negative"));
  const Tensor matrices = stack({eye(2, float64), -eye(2, float64), eye(2, float64)});
  EXPECT_THAT([&] { vmap([](T a) { return cholesky(a); })(matrices); },
              ThrowsMessage<LinalgError>(AllOf(HasSubstr("cholesky: the matrix is not positive definite"),
                                               HasSubstr("inside vmap, lane 1 of 3"))));
  EXPECT_THAT(
      [&] {
        vmap(vmap([](T a) { return cholesky(a); }))(stack({matrices, matrices}));
      },
      ThrowsMessage<LinalgError>(AllOf(HasSubstr("cholesky: the matrix is not positive definite"),
                                       HasSubstr("inside vmap, lane 1 of 3, inside vmap"))));
  EXPECT_THAT([&] { vmap(grad([](T x) { return checkpoint(of_two)(x) * x; }))(xs); },
              ThrowsMessage<IndexError>(HasSubstr("inside vmap, lanes 1, 3, 4 and 2 more of 7")));
  EXPECT_EQ(error_context(), "");
}

TEST(PathsThrown, FirstErrorInPathOrderIsReported) {
  const auto f = [](T x) {
    of_two(x);
    return bool(x < 0) ? throw std::domain_error("negative") : x;
  };
  // The path of the first lane continues first, so its error is reported.
  EXPECT_THROW(vmap(f)(tensor({-0.5, 4., 1.}, float64)), std::domain_error);
  EXPECT_THROW(vmap(f)(tensor({4., -0.5, 1.}, float64)), IndexError);
}

// Outer lanes throw for all, some or none of their inner lanes. In the last check every outer lane
// throws, the first one for all of its inner lanes.
TEST(PathsThrown, ByAllInnerLanesOfSomeOuterLanes) {
  const Tensor grid = tensor({{3., 4., 5.}, {0.5, 4., 1.}, {0.5, 1., 1.}, {9., 8., 1.}}, float64);
  const auto flat = reshape(lane_by_lane(caught, reshape(grid, {-1})), {4, 3});
  EXPECT_THAT(vmap(vmap(caught))(grid), IsNear(flat));
  EXPECT_THAT(vmap(vmap(caught), {.in_axes = 1, .out_axes = 1})(grid), IsNear(flat));
  EXPECT_THAT(vmap(vmap(caught))(grid(slice(0, 2))), IsNear(flat(slice(0, 2))));
}

TEST(PathsThrown, AreErrorsWhereLanesMustNotSplit) {
  const auto f = checkpoint([](T x) { return caught(x) * x; }, CheckpointPolicy([](const Op&) { return true; }));
  const Tensor xs = tensor({0.5, 3., 1.}, float64);
  EXPECT_THAT([&] { vmap(grad(f))(xs); },
              ThrowsMessage<TransformError>(AllOf(HasSubstr("gather throws for some of the lanes"),
                                                  HasSubstr("use checkpoint without a policy"))));
  EXPECT_THAT(vmap(grad(f))(xs * 0.1), IsNear(lane_by_lane(grad(f), xs * 0.1)));
  // The function throws for all lanes.
  EXPECT_THAT(vmap(grad(f))(xs + 5.), IsNear(lane_by_lane(grad(f), xs + 5.)));
}

TEST(PathsThrown, CollectivesNeedAllLanes) {
  const auto before = [](T x) {
    const Tensor total = psum(x, "i");
    return caught(x) + total;
  };
  const Tensor xs = tensor({0.5, 3., 1.}, float64);
  EXPECT_THAT(vmap(before, {.axis_name = "i"})(xs), IsNear(lane_by_lane(caught, xs) + 4.5));
  const auto after = [](T x) { return psum(caught(x), "i"); };
  EXPECT_THAT([&] { vmap(after, {.axis_name = "i"})(xs); },
              ThrowsMessage<TransformError>(HasSubstr("all 3 lanes of \"i\" must take part, but they have split")));
  EXPECT_THAT(vmap(after, {.axis_name = "i"})(xs * 0.5),
              IsNear(zeros({3}, float64) + sum(lane_by_lane(caught, xs * 0.5))));
}

// ---- errors that belong to no lane --------------------------------------------------------------

// Throws at the n-th operation.
template <class E>
struct Fails : Handler {
  int left;
  explicit Fails(int n) : left(n) {}
  Outputs handle(Call& call) override {
    if (--left == 0) throw E();
    return perform(std::move(call));
  }
};
struct Once : std::exception {};

TEST(PathsThrown, ErrorsThatBelongToNoLaneReachAllLanes) {
  const auto f = [](T x) {
    try {
      return cos(x) * x;
    } catch (const std::exception&) {
      return bool(x > 0) ? x * 2. : x;
    }
  };
  const Tensor xs = tensor({0.5, -3., 1.}, float64), either = tensor({1., -3., 2.}, float64);
  Fails<Once> once(1);
  EXPECT_THAT(with(once, [&] { return vmap(f)(xs); }), IsNear(either));
  const auto tries = [](T x) {
    try {
      return cos(x) * x;
    } catch (const std::bad_alloc&) {
      return x * 2.;
    }
  };
  Fails<std::bad_alloc> no_memory(1);
  EXPECT_THAT(with(no_memory, [&] { return vmap(tries)(xs); }), IsNear(xs * 2.));
  // Only cos, the number and multiply ran. No lane was tried separately.
  EXPECT_EQ(no_memory.left, -2);
}

struct Refuses : Handler {  // throws if a lane that it sees is above 2
  Outputs handle(Call& call) override {
    if (std::string(call.op().name) == "cos" && any(call.input(0) > 2).item<bool>()) throw std::range_error("large");
    return perform(std::move(call));
  }
};

TEST(PathsThrown, ErrorsOfOuterHandlersAffectOnlyTheirLanes) {
  const auto f = [](T x) {
    try {
      return cos(x) * x;
    } catch (const std::range_error&) {
      return x * 2.;
    }
  };
  const Tensor xs = tensor({0.5, 3., 1., 4.}, float64);
  Refuses refuses;
  EXPECT_THAT(with(refuses, [&] { return vmap(f)(xs); }), IsNear(with(refuses, [&] { return lane_by_lane(f, xs); })));
  // Inside vmap, the handler reads a value that differs between lanes.
  EXPECT_THAT(vmap([&](T x) { return with(refuses, [&] { return f(x); }); })(xs),
              IsNear(with(refuses, [&] { return lane_by_lane(f, xs); })));
}

struct Fault {};
struct FaultAt : Handler {  // throws at one operation, number n from 0
  int left;
  explicit FaultAt(int n) : left(n) {}
  Outputs handle(Call& call) override {
    if (left-- == 0) throw Fault();
    return perform(std::move(call));
  }
};

// Returns how many of the faults were lost. A fault may come while all lanes, half of them or one
// lane are tried, or while vmap determines the lanes for a message.
template <class F>
int lost_faults(F f, T xs) {
  for (int n = 0, lost = 0;; ++n) {
    FaultAt handler(n);
    bool came = false;
    try {
      with(handler, [&] { return f(xs); });
    } catch (const Fault&) {
      came = true;
    }
    if (handler.left >= 0) {
      EXPECT_GT(n, 10);
      return lost;
    }
    lost += !came;
  }
}

TEST(PathsThrown, TransientErrorIsNotLost) {
  const Tensor xs = tensor({0.5, -3., 1., 0.25, 7., -0.5, 1.5}, float64);
  const auto shifted = [](T x) {  // lanes need different shifts, so they split several times
    for (double shift = 0;; shift += 1) try {
        return sum(cholesky((x + shift) * eye(2, float64)));
      } catch (const LinalgError&) {
      }
  };
  const auto carried = [](T x) {
    try {
      return checkpoint([](T y) { return of_two(sin(y) + y) * y; })(x);
    } catch (const IndexError&) {
      return checkpoint(caught)(x);
    }
  };
  EXPECT_EQ(lost_faults(vmap(caught), xs), 0);
  EXPECT_EQ(lost_faults(vmap(shifted), xs), 0);
  EXPECT_EQ(lost_faults(vmap(carried), xs), 0);
  EXPECT_EQ(lost_faults(vmap(grad(shifted)), xs), 0);
  EXPECT_EQ(lost_faults(vmap(grad(carried)), xs), 0);
  EXPECT_EQ(lost_faults(vmap(vmap(shifted)), reshape(concat({xs, -xs}), {2, 7})), 0);
  // The outer lanes split by values that the inner lanes read. Some operations have no outer lanes.
  const auto branched = [&](T y) {
    return vmap([&](T x) { return (y > 0).item<bool>() ? sin(x) : (x > y).item<bool>() ? square(x) : x + y; })(xs);
  };
  EXPECT_EQ(lost_faults(vmap(branched), xs), 0);
}

// An error of all lanes counts, also if the operation that threw had an operand of its own, whose
// memory its result would have taken. Else the next error would reach other lanes.
TEST(PathsThrown, ByOperationsOnTheirOwnOperands) {
  Tensor escaped;
  vmap([&](const Tensor& x) { return escaped = sin(x); })(ones({2, 3}, float64));
  // After a checkpoint, lanes that part run again from the start.
  const auto id = checkpoint([](const Tensor& x) { return x * 1.; });
  const auto f = [&](const Tensor& given) {
    const Tensor x = id(given);
    Tensor sole = x * 2., y = x;
    if (x(0) > 0) y = y + 1.;
    try {
      y = std::move(sole) + escaped;
    } catch (const TransformError&) {
      y = y + 10.;
    }
    if (x(1) > 0) y = y + 100.;
    try {
      y = y + take(tensor({1000., 2000.}, float64), astype(x(2), int32), 0);
    } catch (const IndexError&) {
      y = y + 5000.;
    }
    return y(2);
  };
  const Tensor xs = tensor(
      {{1., 1., 0.}, {1., 1., 5.}, {1., -1., 1.}, {1., -1., 7.}, {1., -1., 0.}, {-1., 1., 0.}, {-1., 1., 9.}}, float64);
  EXPECT_THAT(vmap(f)(xs), Equals(lane_by_lane(f, xs)));
  // The same below a handler that takes the operands.
  const auto inner = [&](const Tensor& a) { return vmap(f)(a); };
  EXPECT_THAT(jvp(inner, xs, xs).first, Equals(lane_by_lane(f, xs)));
}

// ---- costs --------------------------------------------------------------------------------------

TEST(PathsThrown, FewThrowingLanesAreFoundByFewOperations) {
  const Index n = 1024;
  Tensor xs = astype(arange(n), float64) / n;
  const auto f = [](T x) {
    try {
      return of_two(x) * 3.;
    } catch (const IndexError&) {
      return x;
    }
  };
  Counts counts;
  with(counts, [&] { return vmap(f)(xs); });
  EXPECT_EQ(counts.counts["gather"], 1);
  const Tensor one = where(arange(n) == 700, 5., xs);
  counts = {};
  EXPECT_THAT(with(counts, [&] { return vmap(f)(one); }), IsNear(lane_by_lane(f, one)));
  EXPECT_LE(counts.counts["gather"], 2 * 10 + 4);
}

TEST(PathsThrown, ErrorOfAllLanesCostsNoFurtherRuns) {
  const Index n = 1000;
  const Tensor xs = astype(arange(n), float64) + 2.;
  const auto f = [](T x) {
    try {
      return of_two(x) * 3.;
    } catch (const IndexError&) {
      return x;
    }
  };
  Counts counts;
  EXPECT_THAT(with(counts, [&] { return vmap(f)(xs); }), IsNear(xs));
  EXPECT_LE(counts.counts["gather"], 2);
  counts = {};
  const auto of_a_matrix = [](T x) {
    try {
      return sum(cholesky(-x * eye(2, float64)));
    } catch (const LinalgError&) {
      return x;
    }
  };
  EXPECT_THAT(with(counts, [&] { return vmap(of_a_matrix)(xs); }), IsNear(xs));
  EXPECT_LE(counts.counts["cholesky"], 2);
  const auto shapes = [](T x) {
    try {
      return reshape(x, {2});
    } catch (const ShapeError&) {
      return x;
    }
  };
  counts = {};
  EXPECT_THAT(with(counts, [&] { return vmap(shapes)(xs); }), IsNear(xs));
  EXPECT_EQ(counts.all, 0);
}

TEST(PathsThrown, ManyThrowingLanesCostNoMoreThanALoop) {
  const Index n = 512;
  const Tensor xs = astype(arange(n) % 3, float64);  // every third lane throws
  Counts counts;
  EXPECT_THAT(with(counts, [&] { return vmap(caught)(xs); }), IsNear(lane_by_lane(caught, xs)));
  EXPECT_LE(counts.counts["gather"], 2 * n);
}

TEST(PathsThrown, LeaveNoMemory) {
  const Tensor xs = tensor({0.5, 3., 1., 4.}, float64);
  static_cast<void>(vmap(grad(caught))(xs));
  const std::int64_t before = memory_stats().live_bytes;
  for (int i = 0; i < 3; ++i) {
    static_cast<void>(vmap(grad(caught))(xs));
    static_cast<void>(grad([](T all) { return sum(vmap(checkpoint(caught))(all)); })(xs));
  }
  EXPECT_EQ(memory_stats().live_bytes, before);
}

// ---- effects ------------------------------------------------------------------------------------

struct Next {
  using Result = int;
};
struct CountsUp : Handles<Next> {
  int n = 0;
  int handle(Next&) override { return ++n; }
};
struct Draw {
  static constexpr AcrossLanes across_lanes = AcrossLanes::each;
  using Result = Tensor;
  Tensor of;
};
// Multiplies by n for the n-th question, in the order in which lanes ask.
struct DrawsUp : Handles<Draw> {
  int n = 0;
  Tensor handle(Draw& draw) override {
    if (draw.of.item<double>() > 3) throw std::domain_error("too large");
    return draw.of * static_cast<double>(++n);
  }
};

TEST(PathsThrown, EffectsAreAskedOnce) {
  CountsUp counts;
  DrawsUp draws;
  const auto f = [](T x) {
    const int before = perform(Next());
    Tensor y = x * static_cast<double>(before);
    const auto part = checkpoint([](T z) {
      const double inside = perform(Next());
      const Tensor drawn = perform(Draw{z});
      const Tensor found = of_two(z) + drawn * inside;
      return found + static_cast<double>(perform(Next()));
    });
    try {
      y = y + part(x);
    } catch (const IndexError&) {
      y = y + 100.;
    }
    return y + static_cast<double>(perform(Next()));
  };
  const Tensor xs = tensor({0.5, 2.5, 1., 2.25}, float64);
  // The answers to Next are 1 before the checkpoint and 2 and 3 inside it. At the end, the first
  // path gets 4 and the second one 5.
  const Tensor expected =
      tensor({0.5 + 1 + 0.5 * 1 * 2 + 3 + 4, 2.5 + 100 + 5, 1. + 2 + 1. * 3 * 2 + 3 + 4, 2.25 + 100 + 5}, float64);
  EXPECT_THAT(with(counts, [&] { return with(draws, [&] { return vmap(f)(xs); }); }), IsNear(expected));
  EXPECT_EQ(counts.n, 5);
  EXPECT_EQ(draws.n, 4);
}

TEST(PathsThrown, EffectsMayThrowForSomeLanes) {
  DrawsUp draws;
  const auto f = [](T x) {
    const Tensor y = x * x;
    try {
      return perform(Draw{x}) + y;
    } catch (const std::domain_error&) {
      return y * 10.;
    }
  };
  const Tensor xs = tensor({0.5, 5., 1., 4.}, float64);
  const Tensor expected = with(draws, [&] { return lane_by_lane(f, xs); });
  draws.n = 0;
  EXPECT_THAT(with(draws, [&] { return vmap(f)(xs); }), IsNear(expected));
  EXPECT_EQ(draws.n, 2);
  draws.n = 0;
  EXPECT_THAT(with(draws, [&] { return vmap(f)(flip(xs)); }),
              IsNear(flip(tensor({0.5 * 2 + 0.25, 250., 1. + 1, 160.}, float64))));
}

}  // namespace
