// The ownership and lifetime of tensors: notes of values that outlive their function, the
// conditions under which a result takes over a buffer, operands while a handler works, and global
// tensors. lifetime_test.cpp tests the memory of transforms and long programs.

#include <functional>
#include <optional>

#include <stave/stave.h>

#include "matchers.h"

// ---- globals ------------------------------------------------------------------------------------
// These tensors are made before main and destroyed after it, in unspecified order.
// The address sanitizer checks both.

namespace globals {

using namespace stave;

const Tensor constant = full({1000}, 2.);
Tensor assigned;
thread_local Tensor of_thread = ones({10});

// The last use of tensors in this program is a computation in this destructor.
struct ComputesAtExit {
  Tensor x = full({1000}, 3.);
  ~ComputesAtExit() {
    if (grad([](const Tensor& t) { return sum(t * t); })(x)(0).item<float>() != 6) std::abort();
  }
} computes_at_exit;

}  // namespace globals

namespace {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;

using T = const Tensor&;
constexpr std::size_t MiB = std::size_t{1} << 20;
const Shape one_mib{256, 1024};  // in float32

std::size_t live() { return memory_stats().live_bytes; }

const void* address(T x) { return x.node().data(); }

TEST(Globals, MayBeUsedAndAssignedUnderTransforms) {
  const auto f = [](T x) {
    globals::assigned = x * globals::constant(slice(0, 10)) + globals::of_thread;
    return sum(globals::assigned);
  };
  EXPECT_THAT(grad(f)(ones({10})), Equals(full({10}, 2.)));
  EXPECT_THAT(globals::assigned, Equals(full({10}, 3.)));  // Its note ended with the tape.
  EXPECT_EQ(live_notes(globals::assigned), 0);
  // The global now holds a lane's value of the ended vmap, which cannot be used.
  EXPECT_THAT(vmap(f)(ones({3, 10})), Equals(full({3}, 30.)));
  EXPECT_EQ(live_notes(globals::assigned), 0);
  EXPECT_THAT(message_of<TransformError>([] { static_cast<void>(globals::assigned + 1); }), HasSubstr("vmap"));
}

// ---- notes --------------------------------------------------------------------------------------

TEST(NotesOfATape, EndWithTheLastPullback) {
  Tensor kept;
  const std::size_t before = live();
  {
    auto made = vjp(
        [&](T x) {
          kept = tanh(x);
          return sum(kept * kept);
        },
        ones(one_mib));
    EXPECT_EQ(live_notes(kept), 1);
    auto copy = made.second;
    made.first = Tensor();
    { const auto ends = std::move(made.second); }
    EXPECT_EQ(live_notes(kept), 1);
    copy(tensor(1.));
    EXPECT_EQ(live_notes(kept), 1);  // The pullback may be called again.
  }
  EXPECT_EQ(live_notes(kept), 0);
  EXPECT_EQ(live(), before + MiB);  // the tensor `kept` itself
  kept = Tensor();
  EXPECT_EQ(live(), before);
}

TEST(NotesOfATape, EndWithAnExceptionAndWithADroppedComputation) {
  struct DropsAtTanh : Controller {
    void handle(Call& call, Resumption<Call> rest) override {
      if (call.op().id == OpId::tanh) return rest.drop();
      rest.resume_last(perform(call));
    }
  } drops;
  const Tensor x = ones({100});
  const std::size_t before = live();
  Tensor kept;
  const auto f = [&](T t) {
    kept = sin(t);
    return sum(tanh(kept));
  };
  EXPECT_FALSE(with(drops, [&] { return grad(f)(x); }));
  EXPECT_EQ(live_notes(kept), 0);
  EXPECT_FALSE(with(drops, [&] { return vmap(grad(f))(reshape(x, {10, 10})); }));
  EXPECT_EQ(live_notes(kept), 0);
  kept = Tensor();
  EXPECT_EQ(live(), before);
}

TEST(NotesOfATape, AreOnePerRunningTransform) {
  int inside = 0;
  Tensor kept;
  const auto f = [&](T x) {
    kept = x * x;
    inside = live_notes(kept);
    return kept;
  };
  const Tensor one = tensor(1.);
  grad([&](T x) { return jvp(grad(f), x, one).second; })(one);
  EXPECT_EQ(inside, 3);
  EXPECT_EQ(live_notes(kept), 0);
}

// The next x was computed under grad and carries ended notes, as in training.
TEST(NotesOfATape, DoNotAccumulateOverAThousandSteps) {
  const auto step = [](T x) {
    const Tensor next = x * 0.999 + 0.001;
    return std::pair(sum(next * next), next);
  };
  const auto value = [&](T x) { return step(x).first; };
  struct PassesOn : Controller {
    void handle(Call& call, Resumption<Call> rest) override { rest.resume_last(perform(std::move(call))); }
  } passes_on;
  const std::vector<std::pair<const char*, std::function<Tensor(T)>>> nests{
      {"grad", [&](T x) { return grad(step)(x).second; }},
      {"value_and_grad", [&](T x) { return value_and_grad(step)(x).aux; }},
      {"vmap of grad",
       [&](T x) {
         return reshape(vmap(grad(step))(reshape(x, {4, 25})).second, {100});
       }},
      {"grad of grad", [&](T x) { return x + 0 * grad([&](T t) { return sum(grad(value)(t)); })(x); }},
      {"jvp", [&](T x) { return jvp([&](T t) { return step(t).second; }, x, x).first; }},
      {"grad of checkpoint", [&](T x) { return x - 1e-4 * grad(checkpoint(value))(x); }},
      {"a controller", [&](T x) { return *with(passes_on, [&] { return grad(step)(x).second; }); }}};
  for (const auto& [name, nest] : nests) {
    Tensor x = nest(ones({100}));
    const std::size_t before = live();
    for (int i = 0; i < 1000; ++i) {
      x = nest(x);
      ASSERT_EQ(live_notes(x), 0) << name;
    }
    int shells = 0;
    for (const Note* note = x.node().notes; note; note = note->next) ++shells;
    EXPECT_LE(shells, 2) << name << ": ended notes pile up";
    EXPECT_EQ(live(), before) << name;
  }
}

// ---- reuse of buffers ---------------------------------------------------------------------------
// A result takes over the buffer of an operand if the call passed every handler as an rvalue and
// the operand is the only owner of contiguous storage of exactly the result's size. The tests
// compare addresses: if the result has the operand's address, it took over the buffer.

struct PassesOn : Handler {
  Outputs handle(Call& call) override { return perform(std::move(call)); }
};
struct PassesOnAnLvalue : Handler {
  Outputs handle(Call& call) override { return perform(call); }
};
struct KeepsInputs : Handler {
  std::vector<Tensor> kept;
  Outputs handle(Call& call) override {
    kept.insert(kept.end(), call.inputs().begin(), call.inputs().end());
    return perform(std::move(call));
  }
};
struct Resumes : Controller {
  void handle(Call& call, Resumption<Call> rest) override { rest.resume_last(perform(std::move(call))); }
};
struct ResumesAnLvalue : Controller {
  void handle(Call& call, Resumption<Call> rest) override { rest.resume_last(perform(call)); }
};

/// Returns true if exp(x) has the address of x after x was given away.
/// Also checks the values of exp(x).
bool reuses(Tensor x) {
  const std::vector<double> before = values(x);
  const void* const was = address(x);
  const Tensor y = exp(std::move(x));
  const std::vector<double> after = values(y);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(after[i], std::exp(before[i]), 1e-5);
  return address(y) == was;
}
Tensor fresh() { return full({8, 16}, 0.5) * 1; }

TEST(BufferReuse, HappensForASoleOwner) {
  EXPECT_TRUE(reuses(fresh()));
  Tensor x = fresh(), y = fresh();
  const void *const of_x = address(x), *const of_y = address(y);
  EXPECT_EQ(address(std::move(x) * y), of_x);
  const Tensor kept = fresh();
  EXPECT_EQ(address(kept - std::move(y)), of_y) << "the second operand's";
  Tensor z = fresh();
  const void* const of_z = address(z);
  const Tensor row = z(0);
  EXPECT_NE(address(kept * std::move(z)), of_z) << "row is a view of it";
}

TEST(BufferReuse, HappensThroughHandlersThatPassRvaluesOn) {
  PassesOn a, b;
  EXPECT_TRUE(with(a, [] { return reuses(fresh()); }));
  EXPECT_TRUE(with(a, [&] { return with(b, [&] { return with(a, [] { return reuses(fresh()); }); }); }));
  EXPECT_TRUE(debug([] { return reuses(fresh()); }, {.print = false})());
  Resumes c;
  EXPECT_TRUE(*with(c, [] { return reuses(fresh()); }));
  // These transforms find no notes of theirs on the operands.
  bool reused = false;
  const auto f = [&](T x) {
    reused = reuses(fresh());
    return x;
  };
  const Tensor one = tensor(1.);
  grad(f)(one);
  EXPECT_TRUE(reused) << "grad";
  jvp(f, one, one);
  EXPECT_TRUE(reused) << "jvp";
  vmap(f)(ones({3}));
  EXPECT_TRUE(reused) << "vmap";
  with(a, [&] { return vmap(grad(f))(ones({3})); });
  EXPECT_TRUE(reused) << "vmap of grad, and a handler";
}

// The memory of lanes' values is that of all lanes, which the function does not see.
TEST(BufferReuse, HappensToLanesOfVmap) {
  const Tensor x = ones({64, 1024}), row = ones({1024});
  const auto most = [&](const std::function<Tensor(const Tensor&)>& f) {
    const std::size_t before = memory_stats().live_bytes;
    reset_peak_memory();
    const Tensor y = vmap(f)(x);
    const std::size_t peak = memory_stats().peak_bytes;
    EXPECT_THAT(y, Equals(full({64, 1024}, 21.)));
    return static_cast<double>(peak - before) / static_cast<double>(x.size() * 4);
  };
  const auto sole = [&](Tensor y) {
    for (int i = 0; i < 10; ++i) y = row + std::move(y) + 1.;
    return y;
  };
  const auto shared = [&](Tensor y) {
    for (int i = 0; i < 10; ++i) {
      const Tensor old = y;
      y = row + std::move(y) + 1.;
    }
    return y;
  };
  EXPECT_NEAR(most([&](const Tensor& a) { return sole(a); }), 1, 0.1);
  EXPECT_NEAR(most([&](const Tensor& a) { return shared(a); }), 2, 0.1);
  EXPECT_NEAR(most([&](const Tensor& a) { return jvp(sole, a, a).second + 20.; }), 2, 0.1);
}

// An operation that throws keeps its inputs: each lane performs it again and throws the error.
TEST(BufferReuse, NotIfTheOperationThrows) {
  const Tensor x = ones({2, 3});
  Tensor escaped;
  vmap([&](const Tensor& a) { return escaped = a; })(x);
  const auto error = [&](const std::function<Tensor(const Tensor&)>& f) {
    return message_of<TransformError>([&] { vmap(f)(x); });
  };
  const std::string of_lvalue = error([&](const Tensor& a) {
    const Tensor b = a * 2.;
    return b + escaped;
  });
  EXPECT_THAT(of_lvalue, testing::HasSubstr("vmap"));
  EXPECT_EQ(error([&](const Tensor& a) { return a * 2. + escaped; }), of_lvalue);
  // A handler inside gets its inputs back.
  struct AnswersErrors : Handler {
    Outputs handle(Call& call) override {
      try {
        return perform(std::move(call));
      } catch (const TransformError&) {
        return {call.input(0) * 10.};
      }
    }
  } answers;
  const auto f = [&](const Tensor& a) { return with(answers, [&] { return a * 2. + escaped; }); };
  EXPECT_THAT(vmap(f)(x), Equals(full({2, 3}, 20.)));
}

TEST(BufferReuse, NotThroughAHandlerThatKeepsTheCallOrItsInputs) {
  PassesOn passes_on;
  PassesOnAnLvalue lvalue;
  EXPECT_FALSE(with(lvalue, [] { return reuses(fresh()); }));
  EXPECT_FALSE(with(passes_on, [&] { return with(lvalue, [] { return reuses(fresh()); }); }));
  EXPECT_FALSE(with(lvalue, [&] { return with(passes_on, [] { return reuses(fresh()); }); }));
  ResumesAnLvalue controller;
  EXPECT_FALSE(*with(controller, [] { return reuses(fresh()); }));
  KeepsInputs keeps;
  EXPECT_FALSE(with(keeps, [] { return reuses(fresh()); }));
  EXPECT_THAT(keeps.kept.back(), Equals(full({8, 16}, 0.5)));  // the operand of exp
}

TEST(BufferReuse, NotOfValuesThatANoteHolds) {
  const Notes<Tensor> notes("test");
  {
    const Tensor x = fresh(), holder = notes.put(tensor(1.), x);
    const void* const was = address(x);
    EXPECT_NE(address(exp(Tensor(x))), was);
    EXPECT_THAT(*notes.find(holder), Equals(full({8, 16}, 0.5)));
  }
  {
    Tensor x = fresh();
    const Tensor holder = notes.put(tensor(1.), x);
    EXPECT_FALSE(reuses(std::move(x)));  // The note is the other owner.
    EXPECT_THAT(*notes.find(holder), Equals(full({8, 16}, 0.5)));
  }
  // A tape keeps the values that the rules read. The rule of sin reads its input.
  Tensor saved;
  const auto f = [&](T t) {
    Tensor x = t * 3.;
    const void* const was = address(x);
    saved = sin(std::move(x));
    EXPECT_NE(address(saved), was);
    return sum(saved * saved);
  };
  // d sin^2(3x) = 3 sin(6x)
  EXPECT_THAT(grad(f)(full({4}, 0.5)), IsNear(full({4}, 3 * std::sin(3.))));
  // A tape keeps nothing else. The rule of negative reads no value.
  const auto g = [&](T t) {
    Tensor x = t * 3.;
    const void* const was = address(x);
    const Tensor y = negative(std::move(x));
    EXPECT_EQ(address(y), was);
    return sum(y);
  };
  EXPECT_THAT(grad(g)(full({4}, 0.5)), Equals(full({4}, -3.)));
}

TEST(BufferReuse, NotOfViewsSharedStorageOrOtherSizes) {
  const auto reuses_last = [](const std::function<Tensor()>& view) {
    Tensor x = view();  // The tensor that x views has been destroyed.
    return reuses(std::move(x));
  };
  EXPECT_FALSE(reuses_last([] { return transpose(fresh()); })) << "not in row-major order";
  EXPECT_FALSE(reuses_last([] { return fresh()(slice(none, none, -1)); })) << "a negative step";
  EXPECT_FALSE(reuses_last([] { return fresh()(slice(1, none)); })) << "not from the beginning";
  EXPECT_FALSE(reuses_last([] { return fresh()(slice(0, 4)); })) << "not whole";
  EXPECT_FALSE(reuses_last([] { return fresh()(slice(), slice(0, 8)); })) << "not contiguous";
  EXPECT_FALSE(reuses_last([] { return broadcast_to(full({16}, 0.5) * 1, {8, 16}); })) << "repeated";
  EXPECT_TRUE(reuses_last([] { return reshape(fresh(), {128}); })) << "whole and in order";
  EXPECT_FALSE(reuses(reshape(fresh(), {128}))) << "what it is a view of lives until the end of the line";
  const Tensor x = fresh(), other = x;
  EXPECT_FALSE(reuses(x)) << "another handle";
  EXPECT_FALSE(reuses(x(slice()))) << "a view of all of it";
  const std::vector<float> mine{1, 2, 3, 4};
  EXPECT_NE(address(from(mine, Shape{4})), mine.data()) << "copied: nothing of the user's can be written to";

  Tensor wide = fresh();  // A bool takes one byte, so the result is smaller.
  const void* const was = address(wide);
  const Tensor flags = std::move(wide) > 0;
  EXPECT_NE(address(flags), was);
  EXPECT_EQ(flags.node().storage->bytes, 128u);
  Tensor row = full({16}, 2.) * 1;
  const void* const of_row = address(row);
  EXPECT_NE(address(std::move(row) * fresh()), of_row) << "a result that is larger";
}

// A handler that reads a call after passing it on sees the old value or gets
// an error, never the new value.
TEST(BufferReuse, ReadingAfterPerformingGivesTheOldValueOrAnError) {
  struct ReadsAfterwards : Handler {
    std::vector<double> seen;
    std::vector<std::string> errors;
    Outputs handle(Call& call) override {
      Outputs outputs = perform(std::move(call));
      if (call.op().id != OpId::exp) return outputs;
      try {
        seen.push_back(values(call.input(0))[0]);
      } catch (const TransformError& error) {
        errors.push_back(error.what());
      }
      return outputs;
    }
  } reads;
  const Tensor held = fresh();
  with(reads, [&] { return reuses(held); });
  EXPECT_THAT(reads.seen, ElementsAre(0.5));
  with(reads, [&] { return reuses(fresh()); });
  vmap([&](const Tensor& x) { return with(reads, [&] { return exp(x * 0.5); }); })(ones({3}));
  const auto is_empty = HasSubstr("an empty Tensor is used: it was default-constructed or moved from");
  EXPECT_THAT(reads.errors, ElementsAre(is_empty, is_empty));
  PassesOn below;  // `below` is an outer handler that also passes the call on.
  with(below, [&] { return with(reads, [&] { return reuses(fresh()); }); });
  EXPECT_EQ(reads.errors.size(), 3u);
  EXPECT_EQ(reads.seen.size(), 1u);
}

// ---- operands -----------------------------------------------------------------------------------
// A call borrows a named tensor. The tensor must stay valid if a handler keeps
// the call or assigns to the name.

/// Calls `meddle` before it passes on an operation of this name.
struct Meddles : Handler {
  std::string name;
  std::function<void()> meddle;
  Outputs handle(Call& call) override {
    if (name == call.op().name) meddle();
    return perform(std::move(call));
  }
};
struct MeddlesAndResumes : Controller {
  std::string name;
  std::function<void()> meddle;
  void handle(Call& call, Resumption<Call> rest) override {
    if (name == call.op().name) meddle();
    rest.resume_last(perform(std::move(call)));
  }
};

/// The variables that the functions read and that a handler assigns to.
struct Variables {
  Tensor x = full({2}, 2.) * 1, y = full({2}, 5.) * 1, one = tensor(10.) * 1, flags = full({2}, 1) * 1;
  // The new tensors may get the memory of the old ones.
  void assign() {
    for (Tensor* variable : {&x, &y, &one, &flags}) *variable = full({2}, -99.) * 1;
  }
};

template <class F>
Tensor under_meddling(const std::string& name, F f) {
  Variables v;
  Meddles handler;
  handler.name = name;
  handler.meddle = [&] { v.assign(); };
  const Tensor result = with(handler, [&] { return f(v); });
  Variables w;
  MeddlesAndResumes controller;
  controller.name = name;
  controller.meddle = [&] { w.assign(); };
  EXPECT_THAT(*with(controller, [&] { return f(w); }), Equals(result)) << name;
  return result;
}
using V = const Variables&;

TEST(Operands, SurviveAnAssignmentToTheirVariable) {
  EXPECT_THAT(under_meddling("multiply", [](V v) { return v.x * v.y; }), Equals(full({2}, 10.)));
  EXPECT_THAT(under_meddling("multiply", [](V v) { return v.x * v.x; }), Equals(full({2}, 4.)));
  EXPECT_THAT(under_meddling("multiply", [](V v) { return v.x * 3; }), Equals(full({2}, 6.)));
  EXPECT_THAT(under_meddling("exp", [](V v) { return exp(v.x); }), IsNear(full({2}, std::exp(2.))));
  EXPECT_THAT(under_meddling("sum", [](V v) { return sum(v.x); }), Equals(tensor(4.)));
  EXPECT_THAT(under_meddling("where", [](V v) { return where(v.flags > 0, v.x, v.y); }), Equals(full({2}, 2.)));
}

// Operands of different shapes and dtypes are first converted by operations that handlers see.
TEST(Operands, SurviveAnAssignmentBeforeTheirConversion) {
  EXPECT_THAT(under_meddling("broadcast_to", [](V v) { return v.one * v.x; }), Equals(full({2}, 20.)));
  EXPECT_THAT(under_meddling("broadcast_to", [](V v) { return v.x - v.one; }), Equals(full({2}, -8.)));
  EXPECT_THAT(under_meddling("astype", [](V v) { return v.flags * v.x; }), Equals(full({2}, 2.)));
  EXPECT_THAT(under_meddling("astype", [](V v) { return v.x + v.flags; }), Equals(full({2}, 3.)));
  EXPECT_THAT(under_meddling("astype", [](V v) { return where(v.flags, v.x, v.y); }), Equals(full({2}, 2.)));
  EXPECT_THAT(under_meddling("broadcast_to", [](V v) { return where(v.x > 0, v.one, v.y); }), Equals(full({2}, 10.)));
  EXPECT_THAT(under_meddling("maximum", [](V v) { return clip(v.x, v.x, v.y); }), Equals(full({2}, 2.)));
  EXPECT_THAT(under_meddling("maximum", [](V v) { return clip(v.one, 0, v.y); }), Equals(full({2}, 5.)));
}

// A transform passes on operands that it borrowed itself,
// and its rule reads them after the operation.
TEST(Operands, SurviveAnAssignmentBelowTransforms) {
  const Tensor one = ones({2});
  const auto product = [](Variables& v) {
    return [&v](T t) {
      v.x = t + 1;
      v.y = t + 4;
      return v.x * v.y;
    };
  };
  // The value is (t + 1) (t + 4) at t = 1.
  const auto expect = [&](const std::string& nest, const Tensor& expected, auto f) {
    Variables v;
    Meddles handler;
    handler.name = "multiply";
    handler.meddle = [&] { v.assign(); };
    EXPECT_THAT(with(handler, [&] { return f(product(v)); }), Equals(expected)) << nest;
  };
  expect("jvp", full({2}, 7.), [&](auto f) { return jvp(f, one, one).second; });
  expect("grad", full({2}, 7.), [&](auto f) { return grad([&](T t) { return sum(f(t)); })(one); });
  expect("vmap", full({2}, 10.), [&](auto f) { return vmap(f)(one); });
  expect("vmap of jvp", full({2}, 7.),
         [&](auto f) { return vmap([&](T t, T v) { return jvp(f, t, v).second; })(one, one); });
  expect("vmap of grad", full({2}, 7.), [&](auto f) { return vmap(grad(f))(one); });
  expect("jvp of grad", full({2}, 2.),
         [&](auto f) { return jvp([&](T t) { return grad([&](T s) { return sum(f(s)); })(t); }, one, one).second; });
  expect("grad of jvp", full({2}, 2.),
         [&](auto f) { return grad([&](T t) { return sum(jvp(f, t, one).second); })(one); });
}

// A call owns its operands once a handler has copied or moved it.
TEST(Operands, BelongToACallThatAHandlerKeeps) {
  struct Keeps : Handler {
    bool takes = false;
    std::vector<Call> kept;
    Outputs handle(Call& call) override {
      if (!takes) {
        kept.push_back(call);
        return perform(std::move(call));
      }
      Outputs answer = zeros(call.abstract_outputs()[0].shape, call.abstract_outputs()[0].dtype);
      kept.push_back(std::move(call));
      return answer;
    }
  } keeps;
  for (const bool takes : {false, true}) {
    keeps.takes = takes;
    keeps.kept.clear();
    {
      Tensor x = full({2}, 2.) * 1, y = full({2}, 5.) * 1;
      const Tensor result = with(keeps, [&] { return x * y; });
      EXPECT_THAT(result, Equals(full({2}, takes ? 0. : 10.)));
      x = y = Tensor();
      const Tensor where_they_lay[] = {full({2}, -99.) * 1, full({2}, -99.) * 1};
    }
    ASSERT_EQ(keeps.kept.size(), 1u);
    std::vector<Call> moved = std::move(keeps.kept);
    moved.push_back(moved[0]);
    EXPECT_THAT(perform(std::as_const(moved[1]))[0], Equals(full({2}, 10.)));
    EXPECT_THAT(moved[0].input(1), Equals(full({2}, 5.)));
    EXPECT_THAT(perform(std::move(moved[0]))[0], Equals(full({2}, 10.)));
  }
}

TEST(Operands, BelongToACallThatAControllerKeeps) {
  struct Keeps : Controller {
    std::optional<Call> kept;
    Resumption<Call> rest;
    void handle(Call& call, Resumption<Call> rest_) override {
      if (call.op().id != OpId::multiply) return rest_.resume_last(perform(std::move(call)));
      kept.emplace(std::move(call));
      rest = std::move(rest_);
    }
  };
  const auto keeps = std::make_shared<Keeps>();
  const std::size_t before = live();
  {
    Tensor result;
    Tensor x = full({2}, 2.) * 1, y = full({2}, 5.) * 1;
    with(keeps, [&] { result = x * y + 1; });
    x = y = Tensor();
    const Tensor where_they_lay[] = {full({2}, -99.) * 1, full({2}, -99.) * 1};
    keeps->rest.resume(perform(*keeps->kept));
    EXPECT_THAT(result, Equals(full({2}, 11.)));
    EXPECT_THAT(keeps->kept->input(0), Equals(full({2}, 2.)));
    keeps->kept.reset();
  }
  EXPECT_EQ(live(), before);
}

}  // namespace
