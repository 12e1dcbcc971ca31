// When buffers of intermediate values are freed and when they are reused, and what a tape takes.
#include <unistd.h>

#include <fstream>
#include <functional>

#include <stave/core/effects/sanitize.h>
#include <stave/stave.h>

#include "lifetime.h"
#include "matchers.h"

namespace lifetime_test {

using namespace stave;
using namespace stave_test;

TEST(Intermediates, AreFreedAsSoonAsNothingNeedsThem) {
  const Tensor x = full(one_mib, 0.5);
  EXPECT_LE(peak_of([&] {
              Tensor y = x;
              for (int i = 0; i < 20; ++i) y = tanh(y);
            }),
            2 * MiB);
  EXPECT_LE(peak_of([&] {
              jvp(
                  [](T t) {
                    Tensor y = t;
                    for (int i = 0; i < 20; ++i) y = tanh(y);
                    return y;
                  },
                  x, x);
            }),
            8 * MiB);
}

// Records the live bytes after every operation.
struct Watch : Handler {
  std::size_t last = 0;
  Outputs handle(Call& call) override {
    Outputs outputs = perform(std::move(call));
    last = live();
    return outputs;
  }
};

TEST(Intermediates, AreFreedDuringTheBackwardPass) {
  const Tensor x = full(one_mib, 0.5);
  std::size_t forward = 0;
  const auto chain = [&](T t) {
    Tensor y = t;
    for (int i = 0; i < 20; ++i) y = tanh(y);
    y = sum(y);
    forward = memory_stats().peak_bytes;
    return y;
  };
  const std::size_t before = live();
  reset_peak_memory();
  Watch watch;
  const Tensor gradient = with(watch, [&] { return grad(chain)(x); });
  EXPECT_GE(forward, before + 20 * MiB);
  EXPECT_LE(memory_stats().peak_bytes, forward + 3 * MiB);
  // The tape is almost empty when the last operation ends.
  EXPECT_LE(watch.last, before + 4 * MiB);
  EXPECT_EQ(live(), before + MiB);  // the gradient
}

TEST(Intermediates, AreNotKeptIfNoRuleReadsThem) {
  const Tensor x = full(one_mib, 0.5), c = full(one_mib, 2.), w = full({1024, 1024}, 1e-3f);
  const auto product_with = [&](auto times) {
    return peak_of([&] {
      grad([&](T t) {
        Tensor y = t;
        for (int i = 0; i < 20; ++i) y = times(y);
        return sum(y);
      })(x);
    });
  };
  EXPECT_LE(product_with([&](T y) { return y * c; }), 4 * MiB);
  EXPECT_LE(product_with([&](T y) { return c * y; }), 4 * MiB);
  EXPECT_LE(product_with([&](T y) { return matmul(y, w); }), 4 * MiB);
  // The rule of sin reads its input.
  EXPECT_GE(product_with([&](T y) { return sin(y); }), 19 * MiB);
}

// The memory in MiB that the tape of one operation keeps. `differentiated` has a bit for
// each input of 1 MiB that is differentiated. The function computes the inputs itself,
// so that only the tape keeps them alive.
double kept_of(const std::function<Tensor(T, T)>& f, unsigned differentiated) {
  const Tensor x = full({}, 0.5);
  std::size_t before = 0;
  const auto operation = [&](T t) {
    const auto operand = [&](unsigned bit, double value) {
      const Tensor constant = contiguous(broadcast_to(x + value, one_mib));
      return differentiated & bit ? constant + t : constant;
    };
    before = live();
    return sum(f(operand(1, 1.), operand(2, 2.)));
  };
  const auto [y, pullback] = vjp(operation, x);
  return (static_cast<double>(live()) - static_cast<double>(before)) / static_cast<double>(MiB);
}

TEST(Intermediates, AreKeptOnlyForRulesOfDifferentiatedInputs) {
  const Tensor places = zeros({1, 1}, int32), row = zeros({1, 1024}), corner = zeros({2}, int32);
  struct Case {
    const char* operation;
    std::function<Tensor(T, T)> f;
    // The memory in MiB if a, b, or both are differentiated. The formulas beside the cases show
    // the values that the rules read.
    int by_a, by_b, by_both;
  };
  const Case cases[] = {
      {"a", [](T a, T) { return a; }, 0, 0, 0},
      {"a + b", [](T a, T b) { return a + b; }, 0, 0, 0},
      {"a - b", [](T a, T b) { return a - b; }, 0, 0, 0},
      {"a * b", [](T a, T b) { return a * b; }, 1, 1, 2},        // b; a
      {"scale", [](T a, T b) { return scale(a, b); }, 1, 1, 2},  // b; a
      {"a / b", [](T a, T b) { return a / b; }, 1, 2, 2},        // 1 / b; -y / b
      {"a / 3", [](T a, T) { return a / 3.; }, 0, 0, 0},
      {"a % b", [](T a, T b) { return a % b; }, 0, 2, 2},            // 1; -floor(a / b)
      {"a ^ b", [](T a, T b) { return pow(a, b); }, 2, 2, 3},        // b a^(b - 1); y log a
      {"a ^ 2", [](T a, T) { return pow(a, 2.); }, 1, 0, 1},         // 2 a
      {"atan2", [](T a, T b) { return atan2(a, b); }, 2, 2, 2},      // (b, -a) / (a^2 + b^2)
      {"maximum", [](T a, T b) { return maximum(a, b); }, 2, 2, 2},  // which is larger
      {"matmul", [](T a, T b) { return matmul(a, matrix_transpose(b)); }, 1, 1, 2},
      {"sin", [](T a, T) { return sin(a); }, 1, 0, 1},
      {"exp", [](T a, T) { return exp(a); }, 1, 0, 1},
      {"sqrt", [](T a, T) { return sqrt(a); }, 1, 0, 1},    // 1 / (2 y)
      {"rsqrt", [](T a, T) { return rsqrt(a); }, 2, 0, 2},  // -y / (2 a)
      {"floor", [](T a, T) { return floor(a); }, 0, 0, 0},
      {"sum", [](T a, T) { return sum(a, 0); }, 0, 0, 0},
      {"prod", [](T a, T) { return prod(a, 0); }, 1, 0, 1},
      {"max", [](T a, T) { return max(a, 0); }, 1, 0, 1},
      {"softmax", [](T a, T) { return softmax(a, 0); }, 1, 0, 1},
      {"sort", [](T a, T) { return sort(a, 0); }, 1, 0, 1},
      {"cumulative_sum", [](T a, T) { return cumulative_sum(a, 0); }, 0, 0, 0},
      {"cumulative_prod", [](T a, T) { return cumulative_prod(a, 0); }, 2, 0, 2},
      // The rule for a reads h and a. The rule for b reads a.
      {"linear_recurrence", [](T a, T b) { return linear_recurrence(a, b, 0); }, 2, 1, 2},
      {"concat",
       [](T a, T b) {
         return concat({a, b}, 0);
       },
       0, 0, 0},
      {"pad",
       [](T a, T) {
         return pad(a, {{1, 0}, {0, 0}});
       },
       0, 0, 0},
      {"gather", [&](T a, T) { return gather(a, places); }, 0, 0, 0},
      {"scatter_add", [&](T a, T) { return scatter_add(a, places, row); }, 0, 0, 0},
      {"dynamic_slice",
       [&](T a, T) {
         return dynamic_slice(a, corner, {4, 4});
       },
       0, 0, 0},
  };
  for (const Case& c : cases) {
    EXPECT_NEAR(kept_of(c.f, 1), c.by_a, 0.1) << c.operation << " by a";
    EXPECT_NEAR(kept_of(c.f, 2), c.by_b, 0.1) << c.operation << " by b";
    EXPECT_NEAR(kept_of(c.f, 3), c.by_both, 0.1) << c.operation << " by both";
  }
}

TEST(Intermediates, OfANestedBackwardPassAreFreed) {
  const Tensor x = full(one_mib, 0.5);
  const auto f = [](T t) { return sum(tanh(tanh(tanh(t)))); };
  const std::size_t before = live();
  const Tensor h = grad([&](T t) { return sum(grad(f)(t)); })(x);
  EXPECT_EQ(live(), before + MiB);
}

// A tape entry is released at once when its outputs die unused.
template <class Transform>
void expect_small_rejection(Transform transform) {
  const Tensor x = full(one_mib, 0.5);
  const auto rejecting = [](T t) {
    for (int i = 1; i <= 1000; ++i) {
      const Tensor candidate = sin(t * (1. / i));
      if (candidate(0, 0).template item<float>() > 2) return sum(candidate);
    }
    return sum(t * t);
  };
  EXPECT_LT(peak_of([&] { transform(rejecting, x); }), 16 * MiB);
}
TEST(Rejected, ValuesUnderGradAreFreedAtOnce) {
  expect_small_rejection([](auto f, T x) { EXPECT_THAT(grad(f)(x)(0, 0), IsNumber(1)); });
}
TEST(Rejected, ValuesUnderGradOfGradAreFreedAtOnce) {
  expect_small_rejection([](auto f, T x) { grad([&](T t) { return sum(grad(f)(t)); })(x); });
}
TEST(Rejected, ValuesUnderJvpOfGradAreFreedAtOnce) {
  expect_small_rejection([](auto f, T x) { jvp(grad(f), x, x); });
}

// ---- what recording takes -----------------------------------------------------------------------

/// The resident memory of the process in bytes, whichever allocator provides it.
std::size_t resident() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, pages = 0;
  file >> all >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST(Tape, TakesAtMost400BytesPerScalarOperation) {
  if (STAVE_ASAN || STAVE_TSAN) GTEST_SKIP() << "sanitizers add to each block";
  constexpr std::size_t n = 100'000;
  const std::vector<std::pair<const char*, std::function<Tensor(T)>>> operations{
      {"y * 1.0001", [](T y) { return y * 1.0001; }},
      {"y * y", [](T y) { return y * y; }},
      {"sin(y)", [](T y) { return sin(y); }},
      {"exp(y)", [](T y) { return exp(y); }},
      {"y + 1.", [](T y) { return y + 1.; }}};
  for (const auto& [name, operation] : operations) {
    release_cached_memory();
    const std::size_t before = resident(), objects = memory_stats().object_bytes;
    auto recorded = vjp(
        [&operation = operation](T x) {
          Tensor y = x;
          for (std::size_t i = 0; i < n; ++i) y = operation(y);
          return y;
        },
        tensor(1.));
    EXPECT_LE(resident() - before, 400 * n) << name;
    const std::size_t counted = memory_stats().object_bytes - objects;
    EXPECT_GE(counted, 64 * n) << name << ": the tape is in memory_stats()";
    EXPECT_LE(counted, resident() - before) << name;
  }
  release_cached_memory();
}

TEST(Tape, ReturnsItsMemory) {
  if (STAVE_ASAN || STAVE_TSAN) GTEST_SKIP() << "sanitizers keep what is freed";
  release_cached_memory();
  const std::size_t before = resident(), objects = memory_stats().object_bytes;
  grad([](T x) {
    Tensor y = x;
    for (int i = 0; i < 100'000; ++i) y = sin(y);
    return y;
  })(tensor(1.));
  EXPECT_GT(resident(), before + (20 << 20));
  release_cached_memory();
  EXPECT_EQ(memory_stats().object_bytes, objects);
  EXPECT_LT(resident(), before + (4 << 20));
}

TEST(Views, AllocateNothing) {
  const Tensor x = ones({512, 512}), y = ones({512, 512});
  EXPECT_LE(peak_of([&] { sum(transpose(x)); }), 64u);
  EXPECT_LE(peak_of([&] { sum(transpose(x), 0); }), 512 * sizeof(float));
  EXPECT_LE(peak_of([&] { max(x(slice(none, none, -2), slice(5, 100)), 1); }), 512 * sizeof(float));
  EXPECT_EQ(peak_of([&] { matmul(transpose(x), y); }), MiB);
  EXPECT_EQ(peak_of([&] { matmul(x, transpose(y)); }), MiB);
  EXPECT_EQ(peak_of([&] { matmul(x(slice(0, 256)), transpose(y)(slice(), slice(0, 256))); }), MiB / 4);
  EXPECT_LE(peak_of([&] { sum(broadcast_to(tensor(1.), {1000, 1000, 1000})); }), 64u);
  EXPECT_EQ(peak_of([&] { x + transpose(y); }), MiB);
  EXPECT_EQ(peak_of([&] { softmax(x, 0); }), MiB);
  EXPECT_EQ(peak_of([&] { log_softmax(transpose(x)(slice(none, none, -1))); }), MiB);
}

// ---- reuse of buffers ---------------------------------------------------------------------------

TEST(Reuse, ResultsTakeTheBuffersOfTemporaries) {
  const Tensor x = ones(one_mib), y = full(one_mib, 2.), z = full(one_mib, 3.);
  EXPECT_EQ(peak_of([&] { EXPECT_EQ(((x * y) + z)(0, 0).item<float>(), 5); }), MiB);
  // The result takes the buffer of the second operand.
  EXPECT_EQ(peak_of([&] { EXPECT_EQ((z - (x * y))(0, 0).item<float>(), 1); }), MiB);
  EXPECT_EQ(peak_of([&] { sqrt(exp(sin(x * y) + z) * x); }), MiB);
  // The mask and the number 7 take memory too.
  EXPECT_LE(peak_of([&] { where(x > 0, x * y, z); }), MiB + MiB / 4 + 64);
  Tensor mine = x * y;
  EXPECT_LT(peak_of([&] { mine = std::move(mine) + z; }), 64u);
  EXPECT_EQ(mine(255, 1023).item<float>(), 5);
}

TEST(Reuse, HappensUnderHandlersThatPassCallsOn) {
  const Tensor x = ones(one_mib), y = full(one_mib, 2.), z = full(one_mib, 3.);
  CountOps a, b;
  EXPECT_EQ(peak_of([&] { with(a, [&] { with(b, [&] { (x * y) + z; }); }); }), MiB);
  EXPECT_EQ(a.n, 2);
  const auto f = [&](T t) { return (x * y) + z + t * 0; };
  EXPECT_LE(peak_of([&] { vmap(f)(zeros({1})); }), 3 * MiB);
}

// A tensor that another handle, a view or a tape may still read keeps its elements.
TEST(Reuse, NeverTakesABufferThatIsStillHeld) {
  const auto is = [](T x, float value) { return array_equal(x, full_like(x, value)); };
  {
    Tensor x = full({1000}, 1.);
    const Tensor held = x, y = std::move(x) + 1.;
    EXPECT_TRUE(is(held, 1) && is(y, 2)) << "another handle";
  }
  {
    Tensor x = full({1000}, 1.);
    const Tensor view = x(slice(10, 20)), y = std::move(x) + 1.;
    EXPECT_TRUE(is(view, 1) && is(y, 2)) << "a view of a part";
  }
  {
    Tensor x = full({10, 100}, 1.);
    const Tensor view = transpose(x), y = exp(std::move(x));
    EXPECT_TRUE(is(view, 1)) << "a transposed view";
  }
  {
    const Tensor base = full({2, 1000}, 1.);
    Tensor row = base[0];
    const Tensor y = std::move(row) + 1.;
    EXPECT_TRUE(is(base, 1) && is(y, 2)) << "a view given up, its base kept";
  }
  {
    Tensor x = full({1000}, 1.);
    const Tensor y = x + x, z = x * x;
    EXPECT_TRUE(is(x, 1) && is(y, 2) && is(z, 1)) << "an lvalue";
  }
  {
    const Tensor x = full({1000}, 1.);
    const auto f = [&] { return x; };
    const Tensor y = f() + 1.;
    EXPECT_TRUE(is(x, 1)) << "a temporary handle";
  }
  {
    Tensor x = full({1000}, 1.);
    const auto [y, pullback] = vjp([](T t) { return sum(square(t) * exp(std::move(t) * 1)); }, std::move(x));
    // The slope is (2 + 1) e.
    EXPECT_THAT(std::get<0>(pullback(tensor(1.)))(0), IsNumber(3 * std::exp(1.))) << "a saved value";
  }
  {
    Tensor flag = full({1000}, true), number = full({1000}, 5.);
    const Tensor y = where(std::move(flag), std::move(number), 7.);
    EXPECT_TRUE(is(y, 5));
  }
  {
    // `half` is the only owner of storage that is larger than `half`.
    Tensor half = full({1000}, 1.)(slice(0, 500));
    const Tensor y = std::move(half) + 1.;
    EXPECT_TRUE(is(y, 2));
    EXPECT_EQ(y.node().storage->bytes, 2000u);
  }
}

// A handler that passes a call on as an lvalue keeps the call's inputs.
TEST(Reuse, NeverHappensUnderAHandlerThatKeepsTheCall) {
  struct Keeps : Handler {
    std::vector<std::pair<float, float>> before_and_after;
    Outputs handle(Call& call) override {
      const auto first = [&] { return call.input(0).data<float>()[0]; };
      const float before = first();
      Outputs outputs = perform(call);
      before_and_after.emplace_back(before, first());
      return outputs;
    }
  } keeps;
  const Tensor x = full({1000}, 1.), y = full({1000}, 2.);
  const Tensor result = with(keeps, [&] { return sqrt((x * 4.) + (y * 0.)); });
  EXPECT_EQ(result(0).item<float>(), 2);
  for (const auto& [before, after] : keeps.before_and_after) EXPECT_EQ(before, after);
  EXPECT_EQ(keeps.before_and_after.size(), 4u);
}

// A call that was passed on as an rvalue has given its operand away.
// The operand is then undefined, and never has the new value.
TEST(Reuse, LeavesTheOperandOfAPerformedCallUndefined) {
  struct ReadsAfterwards : Handler {
    int empty = 0;
    Outputs handle(Call& call) override {
      Outputs outputs = perform(std::move(call));
      if (&call.op() == &op_add) empty += !call.input(0).defined();
      return outputs;
    }
  } reads;
  const Tensor x = full({1000}, 1.);
  with(reads, [&] { return (x * 2.) + 1.; });
  EXPECT_EQ(reads.empty, 1);
}

}  // namespace lifetime_test
