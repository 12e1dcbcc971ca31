// How long notes, tape entries and buffers live, and programs that are too long for recursion.

#include <pthread.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <thread>

#include <stave/core/effects/sanitize.h>
#include <stave/stave.h>

#include "matchers.h"

namespace lifetime_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;

using T = const Tensor&;
constexpr std::size_t MiB = std::size_t{1} << 20;
const Shape one_mib{256, 1024};  // in float32

std::size_t live() { return memory_stats().live_bytes; }

/// The peak of live bytes while `body` runs, less the bytes that were live before.
template <class Body>
std::size_t peak_of(Body&& body) {
  const std::size_t before = live();
  reset_peak_memory();
  body();
  return memory_stats().peak_bytes - before;
}

// ---- notes --------------------------------------------------------------------------------------

struct Payload {
  int value = 0;
  Tensor held;
};

TEST(Notes, AreFoundOnTheValueTheyWerePutOn) {
  const Notes<Payload> notes("test");
  const Tensor x = tensor({1., 2.}), noted = notes.put(x, {5, {}});
  EXPECT_EQ(notes.find(x), nullptr);  // x is shared, so its clone carries the note.
  ASSERT_NE(notes.find(noted), nullptr);
  EXPECT_EQ(notes.find(noted)->value, 5);
  EXPECT_EQ(noted.node().storage, x.node().storage);
  const Tensor copy = noted;
  EXPECT_EQ(notes.find(copy)->value, 5);
  EXPECT_EQ(live_notes(noted), 1);
}

TEST(Notes, AreWrittenInPlaceOnAValueThatNobodyElseOwns) {
  const Notes<Payload> notes("test");
  Tensor x = tensor({1., 2.});
  const Node* const node = x.node_ptr().get();
  x = notes.put(std::move(x), {1, {}});
  EXPECT_EQ(x.node_ptr().get(), node);
  x = notes.put(std::move(x), {2, {}});  // replaces the first note
  EXPECT_EQ(x.node_ptr().get(), node);
  EXPECT_EQ(notes.find(x)->value, 2);
  EXPECT_EQ(live_notes(x), 1);
  x = notes.strip(std::move(x));
  EXPECT_EQ(x.node_ptr().get(), node);
  EXPECT_EQ(live_notes(x), 0);
}

TEST(Notes, OfSeveralInstallationsStandSideBySide) {
  const Notes<Payload> a("a"), b("b");
  const Tensor x = a.put(b.put(tensor(1.), {2, {}}), {1, {}});
  EXPECT_EQ(a.find(x)->value, 1);
  EXPECT_EQ(b.find(x)->value, 2);
  const Tensor kept = x, y = a.strip(x);  // x is shared, so the clone y keeps the other note.
  EXPECT_EQ(a.find(y), nullptr);
  EXPECT_EQ(b.find(y)->value, 2);
  EXPECT_EQ(a.find(kept)->value, 1);
  const Tensor clone = clone_node(x);
  EXPECT_NE(clone.node_ptr().get(), x.node_ptr().get());
  EXPECT_EQ(a.find(clone)->value, 1);
  EXPECT_EQ(live_notes(clone), 2);
  EXPECT_NE(a.id(), b.id());
}

TEST(Notes, EndWithWhatMadeThem) {
  Tensor x = tensor(1.);
  const std::size_t before = live();
  {
    const Notes<Payload> notes("test");
    x = notes.put(std::move(x), {1, zeros(one_mib)});
    EXPECT_EQ(live_notes(x), 1);
    EXPECT_EQ(live(), before + MiB);
  }
  EXPECT_EQ(live_notes(x), 0);
  EXPECT_EQ(live(), before);  // The payload is freed together with the note.
  EXPECT_EQ(live_notes(clone_node(x)), 0);
}

TEST(Notes, EndWithTheirValue) {
  const Notes<Payload> notes("test");
  const std::size_t before = live();
  {
    const Tensor x = notes.put(tensor(1.), {1, zeros(one_mib)});
    EXPECT_EQ(live(), before + MiB + 4);
  }
  EXPECT_EQ(live(), before);
}

// The value or the maker, whichever ends last, frees the note,
// on any thread. The sanitizers check this.
TEST(Notes, MayEndOnAnotherThread) {
  const std::size_t before = live();
  {
    const Notes<Payload> notes("test");
    Tensor x = notes.put(tensor(1.), {1, zeros(one_mib)});
    std::thread([y = std::move(x)]() mutable { y = Tensor(); }).join();
  }
  EXPECT_EQ(live(), before);
  Tensor survivor;
  {
    const Notes<Payload> notes("test");
    survivor = notes.put(tensor(1.), {1, zeros(one_mib)});
  }
  std::thread([y = std::move(survivor)]() mutable { y = Tensor(); }).join();
  EXPECT_EQ(live(), before);
}

// Notes that hold each other's values in a chain are destroyed without recursion.
TEST(Notes, ThatHoldEachOtherEndWithTheirMaker) {
  const std::size_t before = live();
  {
    const Notes<Payload> notes("test");
    Tensor x = tensor(1.);
    for (int i = 0; i < 1000; ++i) x = notes.put(tensor(2.), {i, std::move(x)});
  }
  EXPECT_EQ(live(), before);
}

// The note of each value holds the value's inputs, like the tape of a user.
struct Parents : Handler {
  Notes<Inputs> parents{"Parents"};
  Outputs handle(Call& call) override {
    const Inputs inputs(call.inputs().begin(), call.inputs().end());
    Outputs outputs = perform(call);
    for (Tensor& output : outputs) output = parents.put(std::move(output), inputs);
    return outputs;
  }
};
struct ResumesLast : Controller {
  void handle(Call& call, Resumption<Call> rest) override { rest.resume_last(perform(call)); }
};

TEST(Notes, ThatHoldEachOtherInALongChainEndWithTheirValues) {
  const auto chain = [] {
    Tensor y = ones({3});
    for (int i = 0; i < 200'000; ++i) y = y + 1.;
    return y;
  };
  const std::size_t before = live();
  Parents parents;
  {
    const Tensor y = with(parents, chain);
    EXPECT_GT(live(), before + 200'000 * 12);
  }
  EXPECT_EQ(live(), before);
  ResumesLast controller;
  EXPECT_TRUE(with(controller, [&] { return with(parents, chain).size() == 3; }));
  EXPECT_EQ(live(), before);
  // Values of a tape and notes of a handler alternate in the chain.
  EXPECT_THAT(grad([&](T x) { return with(parents, [&] { return sum(chain() * x); }); })(ones({3})),
              Equals(full({3}, 200'001.)));
  const auto under_grad = [&](T x) {
    return with(parents, [&] {
      Tensor y = x;
      for (int i = 0; i < 100'000; ++i) y = y * y;
      return sum(y);
    });
  };
  EXPECT_THAT(grad(under_grad)(ones({3})), testing::_);
  EXPECT_EQ(live(), before);
}

// ---- after a transform, all is as before --------------------------------------------------------

TEST(Memory, IsBackAfterEveryTransform) {
  const Tensor x = linspace(0.1, 1, 300), rows = reshape(x, {30, 10});
  const auto f = [](T t) { return sum(sin(t) * exp(t) + square(t)); };
  const auto throws = [&](T t) { return f(t) + sum(t + zeros({7})); };
  const std::vector<std::pair<const char*, std::function<void()>>> programs{
      {"plain", [&] { f(x); }},
      {"grad", [&] { grad(f)(x); }},
      {"value_and_grad", [&] { value_and_grad(f)(x); }},
      {"vjp, not used", [&] { vjp(f, x); }},
      {"vjp, used twice",
       [&] {
         auto pull = vjp(f, x).second;
         pull(tensor(1.));
         pull(tensor(2.));
       }},
      {"jvp", [&] { jvp(f, x, x); }},
      {"vmap", [&] { vmap(f)(rows); }},
      {"jacfwd", [&] { jacfwd(f)(rows[0]); }},
      {"hessian", [&] { hessian(f)(rows[0]); }},
      {"hvp", [&] { hvp(f, x, x); }},
      {"grad of grad", [&] { grad([&](T t) { return sum(grad(f)(t)); })(x); }},
      {"vmap of grad", [&] { vmap(grad(f))(rows); }},
      {"grad of vmap", [&] { grad([&](T t) { return sum(vmap(f)(t)); })(rows); }},
      {"check_grads", [&] { check_grads(f, astype(x, float64), {.order = 2}); }},
      {"a throw", [&] { EXPECT_THROW(throws(x), ShapeError); }},
      {"a throw in grad", [&] { EXPECT_THROW(grad(throws)(x), ShapeError); }},
      {"a throw in jvp", [&] { EXPECT_THROW(jvp(throws, x, x), ShapeError); }},
      {"a throw in vmap", [&] { EXPECT_THROW(vmap(throws)(rows), ShapeError); }},
      {"a throw in vmap of grad of grad",
       [&] { EXPECT_THROW(vmap(grad([&](T t) { return sum(grad(throws)(t)); }))(rows), ShapeError); }},
      {"a throw in the backward pass", [&] {
         struct Throws : Handler {
           Outputs handle(Call& call) override {
             if (current_handlers().find("backward of") != std::string::npos && &call.op() == &op_cos)
               throw ShapeError("here");
             return perform(std::move(call));
           }
         } handler;
         EXPECT_THROW(with(handler, [&] { grad(f)(x); }), ShapeError);
       }}};
  for (const auto& [name, program] : programs) {
    program();  // The first run creates the objects that are made once.
    const std::size_t before = live();
    program();
    EXPECT_EQ(live(), before) << name;
    EXPECT_EQ(live_notes(x), 0) << name;
    EXPECT_EQ(error_context(), "") << name;
  }
}

TEST(Memory, AfterAThrowInItsBackwardPassAPullbackStillWorks) {
  struct ThrowsOnce : Handler {
    bool thrown = false;
    Outputs handle(Call& call) override {
      if (!thrown && &call.op() == &op_scale) {
        thrown = true;
        throw ShapeError("here");
      }
      return perform(std::move(call));
    }
  } handler;
  const Tensor x = tensor({1., 2.});
  const auto [out, pullback] = vjp([](T t) { return sum(sin(t) * t + exp(t)); }, x);
  const Tensor expected = std::get<0>(pullback(tensor(1.)));
  EXPECT_THROW(with(handler, [&pullback = pullback] { pullback(tensor(1.)); }), ShapeError);
  // No cotangent was left behind.
  EXPECT_THAT(std::get<0>(pullback(tensor(1.))), Equals(expected));
}

TEST(Memory, ATapeLivesAsLongAsItsPullback) {
  const std::size_t before = live();
  {
    const Tensor x = ones(one_mib);
    auto made = vjp([](T t) { return sum(square(tanh(t))); }, x);
    EXPECT_GE(live(), before + 2 * MiB);  // x and tanh(x)
    auto copy = made.second;
    made.second = copy;
    made.first = Tensor();
    EXPECT_GE(live(), before + 2 * MiB);
  }
  EXPECT_EQ(live(), before);
}

TEST(Memory, AThousandStepsLeaveNoNotes) {
  const auto step = [](T x) {
    const Tensor y = x * 0.999 + 0.001;
    return std::pair(sum(y * y), y);
  };
  const auto unchanged = [](T x) { return std::pair(sum(x * x), x); };
  const auto all_notes = [](T x) {
    int count = 0;
    for (const Note* note = x.node().notes; note; note = note->next) ++count;
    return count;
  };
  Tensor x = ones({100}), same = x;
  const std::size_t before = live();
  for (int i = 0; i < 1000; ++i) {
    x = grad(step)(x).second;
    same = grad(unchanged)(same).second;
    ASSERT_EQ(live_notes(x), 0);
    ASSERT_EQ(live_notes(same), 0);
    ASSERT_LE(all_notes(same), 1);  // Ended notes do not accumulate either.
  }
  x = jvp([](T t) { return t * 2; }, x, x).first;
  EXPECT_EQ(live_notes(x), 0);
  EXPECT_LE(live(), before + 2 * 400);
}

// ---- intermediate values ------------------------------------------------------------------------

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

TEST(Intermediates, ThatNoRuleReadsAreNotKept) {
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

TEST(Intermediates, AreKeptForTheRulesOfTheInputsThatAreDifferentiated) {
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
TEST(Rejected, CandidatesUnderGradStaySmall) {
  expect_small_rejection([](auto f, T x) { EXPECT_THAT(grad(f)(x)(0, 0), IsNumber(1)); });
}
TEST(Rejected, CandidatesUnderGradOfGradStaySmall) {
  expect_small_rejection([](auto f, T x) { grad([&](T t) { return sum(grad(f)(t)); })(x); });
}
TEST(Rejected, CandidatesUnderJvpOfGradStaySmall) {
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

TEST(Tape, TakesAtMost400BytesForAnOperationOnSingleNumbers) {
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

TEST(Tape, GivesItsMemoryBack) {
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

TEST(Reuse, OfATemporarysBuffer) {
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
TEST(Reuse, NeverOfWhatSomebodyHolds) {
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
TEST(Reuse, NeverUnderAHandlerThatKeepsTheCall) {
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
TEST(Reuse, LeavesNoWrongValueInTheCall) {
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

// ---- long programs ------------------------------------------------------------------------------

/// Runs `body` on a stack of 8 MiB, whatever the limit of the machine is.
void on_an_8_mib_stack(std::function<void()> body) {
  pthread_attr_t attributes;
  pthread_t thread;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 8 * MiB), 0);
  const auto run = [](void* argument) -> void* {
    (*static_cast<std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &body), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

Tensor chain(T x, int length) {
  Tensor y = x;
  for (int i = 0; i < length; i += 2) y = (y + 1e-6) * 1;  // two operations
  return y;
}

constexpr int million = 1000000;

TEST(LongPrograms, GradOfAMillionOperations) {
  on_an_8_mib_stack([] {
    const std::size_t before = live();
    EXPECT_THAT(grad([](T x) { return square(chain(x, million)); })(tensor(1., float64)), IsNumber(2 * 1.5, 1e-9));
    EXPECT_EQ(live(), before);
  });
}

TEST(LongPrograms, ATapeThatNobodyWalksBackOver) {
  on_an_8_mib_stack([] {
    const std::size_t before = live();
    vjp([](T x) { return chain(x, million); }, tensor(1.));
    EXPECT_EQ(live(), before);
    const auto throws = [](T x) {
      const Tensor y = chain(x, million / 4);
      return y + zeros({2}) + zeros({3});
    };
    EXPECT_THROW(grad(throws)(tensor(1.)), ShapeError);
    EXPECT_EQ(live(), before);
    Tensor kept;  // Its note is the last owner of the tape.
    EXPECT_THROW(grad([&](T x) -> Tensor {
                   kept = chain(x, million / 4);
                   throw ShapeError("here");
                 })(tensor(1.)),
                 ShapeError);
    EXPECT_EQ(live_notes(kept), 0);
    kept = Tensor();
    EXPECT_EQ(live(), before);
  });
}

TEST(LongPrograms, InNests) {
  constexpr int length = million / 10;
  on_an_8_mib_stack([] {
    const Tensor x = tensor(1., float64);
    const std::size_t before = live();
    const auto f = [](T t) { return square(chain(t, length)); };
    EXPECT_THAT(jvp(f, x, x).second, IsNumber(2 * 1.05, 1e-9));
    EXPECT_THAT(grad(grad(f))(x), IsNumber(2, 1e-9));
    EXPECT_THAT(jvp(grad(f), x, x).second, IsNumber(2, 1e-9));
    EXPECT_THAT(grad([&](T t) { return jvp(f, t, t).second; })(x), IsNumber(2 * 1.05 + 2, 1e-9));
    EXPECT_THAT(vmap(grad(f))(tensor({1., 2.}, float64)), IsNear(tensor({2.1, 4.1}, float64), 1e-9));
    EXPECT_THAT(grad([&](T t) { return sum(vmap(f)(t)); })(tensor({1., 2.}, float64)),
                IsNear(tensor({2.1, 4.1}, float64), 1e-9));
    EXPECT_EQ(live(), before);
  });
}

// Every value of this graph is used twice. The backward pass visits each entry once, not 2^n times.
TEST(LongPrograms, SharedValuesAreWalkedOnce) {
  const auto f = [](T x) {
    Tensor y = x;
    for (int i = 0; i < 1000; ++i) y = 0.5 * y + 0.5 * y;
    return y;
  };
  CountOps count;
  EXPECT_THAT(with(count, [&] { return grad(f)(tensor(1.)); }), IsNumber(1));
  EXPECT_LT(count.n, 20000);
}

// ---- threads ------------------------------------------------------------------------------------

TEST(Threads, RunTransformsIndependently) {
  const Tensor shared = linspace(0.1, 1, 50);
  const auto f = [](T x) { return sum(sin(x) * x); };
  const Tensor expected = hvp(f, shared, shared);
  std::vector<Tensor> results(4);
  std::vector<std::thread> threads;
  for (Tensor& result : results)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) result = hvp(f, shared, shared);
    });
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& result : results) EXPECT_THAT(result, Equals(expected));
}

// A value under grad that dies on another thread leaves its note to the tape.
TEST(Threads, MayEndValuesOfARunningTransform) {
  const std::size_t before = live();
  const Tensor g = grad([](T x) {
    Tensor y = x * 2.;
    std::thread([z = std::move(y)]() mutable { z = Tensor(); }).join();
    return sum(x * 3.);
  })(ones({100}));
  EXPECT_THAT(g, Equals(full({100}, 3.)));
  EXPECT_EQ(live(), before + 400);
}

}  // namespace lifetime_test
