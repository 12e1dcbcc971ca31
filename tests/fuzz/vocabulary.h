// What the random programs are made of, beside Stave itself. A program that a fuzzer prints compiles with this header.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <utility>
#include <vector>

#include <stave/stave.h>

namespace stave_fuzz {

using namespace stave;

// All values are float64 vectors of this length. A function has an argument, and a second value which those who use it pass as
// an argument, too, or capture.
constexpr Index length = 3;
using Fn = std::function<Tensor(const Tensor& x, const Tensor& c)>;

/// Where all values live.
inline thread_local Device place = cpu;

/// Keeps numbers between -1/2 and 1/2, so that no depth of nesting makes them overflow.
inline Tensor tame(const Tensor& x) { return x / (1 + square(x)); }
inline Tensor vector(std::initializer_list<NestedList> entries) { return tensor(entries, float64, place); }
inline Tensor indices(std::initializer_list<NestedList> entries) { return tensor(entries, int32, place); }
inline Tensor matrix() { return vector({{0.5, -0.2, 0.1}, {0.3, 0.4, -0.6}, {-0.1, 0.7, 0.2}}); }
inline Tensor unit_vector(Index i) { return one_hot(tensor(i, int32, place), length, float64); }
/// Lanes made of x, along axis 0, of which two go the same way most often: where they part, some are alone, others not.
inline Tensor lanes(const Tensor& x) { return stack({flip(x) * 0.5, x, x * 0.9, x * -0.6}); }
#define OF_X [&](const Tensor& x)
#define OF_Y [&](const Tensor& y)
inline Tensor both(const std::pair<Tensor, Tensor>& pair) { return tame(pair.first) + pair.second; }

/// A branch, and a loop of branches, on values: under vmap lanes part there.
inline Tensor branched(const Tensor& a, const Tensor& b) {
  const Tensor product = a * b, difference = a - b;
  if (bool(a(0) > b(1))) return tame(product);
  return bool(a(2) > 0) ? sin(difference) : tame(difference + product);
}
inline Tensor chosen(const Tensor& a, const Tensor& b) {
  Tensor y = b;
  for (Index i = 0; i < length; ++i)
    if (bool(a(i) > b(i))) y = y * 0.5 + a(i) * a;
  return tame(y);
}

/// An operation throws, each time, and is caught.
inline Tensor caught(const Tensor& x) {
  try {
    return take(x, astype(x * 0., int32) + length, 0);
  } catch (const IndexError&) {
    return x * 0.5;
  }
}

// ---- effects and handlers of a user's ---------------------------------------------------------------------------

/// Asks for a value, which is a constant where nobody answers.
struct Ask {
  using Result = Tensor;
  Tensor unhandled() const { return vector({0.3, -0.4, 0.9}); }
};

struct Answers : Handles<Ask> {
  Tensor answer;
  explicit Answers(Tensor answer) : answer(std::move(answer)) {}
  Tensor handle(Ask&) override { return answer; }
  std::string describe() const override { return "Answers"; }
};
struct Passes : Handler {
  Outputs handle(Call& call) override { return perform(std::move(call)); }
  std::string describe() const override { return "Passes"; }
};
/// Passes on what it may still look at.
struct Lends : Handler {
  Outputs handle(Call& call) override {
    Outputs outputs = perform(std::as_const(call));
    for (const Tensor& input : call.inputs()) (void)input.shape();
    return outputs;
  }
  std::string describe() const override { return "Lends"; }
};
/// Notes on every value how deep the program is that made it.
struct Notices : Handler {
  Notes<int> depth{"Notices"};
  Outputs handle(Call& call) override {
    int deepest = 0;
    for (const Tensor& input : call.inputs())
      if (const int* found = depth.find(input)) deepest = std::max(deepest, *found);
    Outputs outputs = perform(std::move(call));
    for (Tensor& output : outputs) output = depth.put(std::move(output), deepest + 1);
    return outputs;
  }
  std::string describe() const override { return "Notices"; }
};
struct GoesOn : Controller {
  void handle(Call& call, Resumption<Call> rest) override { rest.resume_last(perform(std::move(call))); }
  std::string describe() const override { return "GoesOn"; }
};
/// Goes on within `handle`: each operation stands deeper on the stack, as long as there is much of that.
struct Deepens : Controller {
  int depth = 0;
  void handle(Call& call, Resumption<Call> rest) override {
    Outputs outputs = perform(call);
    if (depth == 40) return rest.resume_last(std::move(outputs));
    ++depth;
    rest.resume(std::move(outputs));
    --depth;
  }
  std::string describe() const override { return "Deepens"; }
};
struct AnswersLater : Controls<Ask> {
  Tensor answer;
  explicit AnswersLater(Tensor answer) : answer(std::move(answer)) {}
  void handle(Ask&, Resumption<Ask> rest) override { rest.resume_last(answer); }
  std::string describe() const override { return "AnswersLater"; }
};

template <class H, class Body>
Tensor under(std::shared_ptr<H> handler, Body&& body) {
  if constexpr (std::is_base_of_v<AnyController, H>)
    return *with(std::move(handler), [&] { return body(); });  // never dropped
  else return with(handler, std::forward<Body>(body));
}
/// Every operation performed by a loop, from outside.
template <class Body>
Tensor stepped(const Body& body) {
  auto operations = operations_of(body);
  int n = 0;
  for (PendingOperation& op : operations)
    if (++n % 2 && !op.call().op().carries_functions) op.answer(perform(op.call()));
  return *operations.result();
}
/// Both, by turns.
inline Tensor by_turns(const Fn& f, const Tensor& a, const Tensor& b) {
  const auto [first, second] = concurrently([&] { return f(a, b); }, [&] { return yield(), f(b, a); });
  return tame(first + second);
}
/// f(a, b), of which others are cancelled in the middle.
inline Tensor outrun(const Fn& f, const Tensor& a, const Tensor& b) {
  struct Enough {};
  const auto again = [&] {
    for (int i = 0; i < 3; ++i) f(b, a), yield();
  };
  Tensor value;
  try {
    concurrently(
        again, [&] { value = f(a, b), throw Enough(); }, again);
  } catch (const Enough&) {
  }
  return value;
}
struct Pause {
  using Result = void;
};
struct KeepsPause : Controls<Pause> {
  Resumption<Pause> rest;
  void handle(Pause&, Resumption<Pause> given) override { rest = std::move(given); }
  std::string describe() const override { return "KeepsPause"; }
  /// One that ends, though what it keeps would keep it.
  struct Ends {
    std::shared_ptr<KeepsPause> keeps = std::make_shared<KeepsPause>();
    ~Ends() { keeps->rest = {}; }
  };
};
/// f(a, b), which stands still inside of a checkpoint, and so in the handlers around, while something else is performed.
inline Tensor paused(const Fn& f, const Tensor& a, const Tensor& b) {
  const KeepsPause::Ends ends;
  Tensor value;
  with(ends.keeps, [&] {
    value = checkpoint([f](const Tensor& x, const Tensor& c) {
      perform(Pause());
      return f(x, c);
    })(a, b);
  });
  const Tensor meanwhile = sin(a) * b;
  while (ends.keeps->rest) std::exchange(ends.keeps->rest, {}).resume();  // once for each way of lanes
  return tame(value + meanwhile);
}
/// The same, dropped there.
inline Tensor dropped(const Fn& f, const Tensor& a, const Tensor& b) {
  const KeepsPause::Ends ends;
  with(ends.keeps, [&] {
    checkpoint([f](const Tensor& x, const Tensor& c) {
      const Tensor value = f(x, c);
      perform(Pause());
      return value;
    })(a, b);
  });
  const Tensor value = f(b, a);
  std::exchange(ends.keeps->rest, {}).drop();
  return value;
}
inline std::ostream& nowhere() {
  static thread_local std::ostream stream(nullptr);
  return stream;
}

// ---- derivatives and batches the plain way: jvp along unit vectors, loops over lanes --------------------------------

using Fn1 = std::function<Tensor(const Tensor&)>;

/// The Jacobian of f at x, [out, in].
inline Tensor plain_jacobian(const Fn1& f, const Tensor& x) {
  std::vector<Tensor> columns;
  for (Index i = 0; i < length; ++i) columns.push_back(jvp(f, x, unit_vector(i)).second);
  return stack(columns, 1);
}
inline Tensor plain_pull(const Fn1& f, const Tensor& x, const Tensor& cotangent) {
  return sum(expand_dims(cotangent, 1) * plain_jacobian(f, x), 0);
}
/// The gradient of sum(f(x)).
inline Tensor plain_grad(const Fn1& f, const Tensor& x) { return sum(plain_jacobian(f, x), 0); }
inline Tensor plain_hessian(const Fn1& f, const Tensor& x) {
  return plain_jacobian([&](const Tensor& y) { return plain_grad(f, y); }, x);
}
/// f of each lane, along axis 0.
inline Tensor plain_map(const Fn1& f, const Tensor& xs) {
  std::vector<Tensor> rows;
  for (Index i = 0; i < xs.shape(0); ++i) rows.push_back(f(xs(i)));
  return stack(rows);
}

/// What Ask is answered by, without a handler.
inline thread_local std::vector<Tensor> plain_answers;
template <class Body>
Tensor plainly_answered(const Tensor& answer, const Body& body) {
  struct Answering {
    explicit Answering(const Tensor& answer) { plain_answers.push_back(answer); }
    ~Answering() { plain_answers.pop_back(); }
  } answering(answer);
  return body();
}
inline Tensor plain_ask() { return plain_answers.empty() ? Ask().unhandled() : plain_answers.back(); }

}  // namespace stave_fuzz
