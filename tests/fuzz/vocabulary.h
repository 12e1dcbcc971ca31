// The functions and handlers that random programs consist of, in addition to Stave. A program that
// a fuzzer prints compiles with this header.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <ostream>
#include <utility>
#include <vector>

#include <stave/stave.h>

namespace stave_fuzz {

using namespace stave;

// All values are float64 vectors of this length. A function has an argument and a second value,
// which its callers pass as an argument, too, or capture.
constexpr Index length = 3;
using Fn = std::function<Tensor(const Tensor& x, const Tensor& c)>;

/// The device of all values.
inline thread_local Device place = cpu;

/// Maps numbers to between -1/2 and 1/2, so that they do not overflow at any depth of nesting.
inline Tensor tame(const Tensor& x) { return x / (1 + square(x)); }
inline Tensor vector(std::initializer_list<NestedList> entries) { return tensor(entries, float64, place); }
inline Tensor indices(std::initializer_list<NestedList> entries) { return tensor(entries, int32, place); }
inline Tensor matrix() { return vector({{0.5, -0.2, 0.1}, {0.3, 0.4, -0.6}, {-0.1, 0.7, 0.2}}); }
inline Tensor unit_vector(Index i) { return one_hot(tensor(i, int32, place), length, float64); }
/// Four lanes made of x, along axis 0. At a split, two of them usually take the same path, so that
/// some lanes are alone and others are not.
inline Tensor lanes(const Tensor& x) { return stack({flip(x) * 0.5, x, x * 0.9, x * -0.6}); }
#define OF_X [&](const Tensor& x)
#define OF_Y [&](const Tensor& y)
inline Tensor both(const std::pair<Tensor, Tensor>& pair) { return tame(pair.first) + pair.second; }

/// A branch, and a loop of branches, on values: under vmap lanes split there.
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

/// An operation that throws each time, and whose error is caught.
inline Tensor caught(const Tensor& x) {
  try {
    return take(x, astype(x * 0., int32) + length, 0);
  } catch (const IndexError&) {
    return x * 0.5;
  }
}

/// `step_near` is true if a value came close to a step of a function. The plain route looks for
/// steps, because none of its values belongs to a lane.
inline thread_local bool looks_for_steps = false, step_near = false;
inline Tensor floored(const Tensor& x) {
  if (looks_for_steps) {
    const double value = stop_gradient(x).item<double>();
    step_near = step_near || std::abs(value - std::round(value)) < 1e-3;
  }
  return astype(floor(x), int32);
}
inline Tensor factor(const Tensor& x) {  // for x > 0
  if (looks_for_steps) step_near = step_near || std::abs(stop_gradient(x).item<double>()) < 1e-3;
  return cholesky(x * eye(2, float64, place) + 0.1 * x * x);
}
template <class F, class... A>
Tensor looking_for_steps(F f, const A&... arguments) {
  const bool before = std::exchange(looks_for_steps, true);
  const Tensor result = f(arguments...);
  looks_for_steps = before;
  return result;
}

/// An operation throws for some lanes, because of an index or a matrix. Each lane catches its error
/// as in a loop over the lanes.
inline Tensor caught_by_index(const Tensor& a, const Tensor& b) {
  const Tensor product = a * b;
  try {
    return tame(take(a, floored(a(0) * 2. + 2.5), 0) * product);
  } catch (const IndexError&) {
    return sin(product) - b;
  }
}
inline Tensor caught_by_matrix(const Tensor& a, const Tensor& b) {
  for (double shift = 0;; shift += 0.75) try {
      return tame(sum(factor(a(1) + shift)) * a - b);
    } catch (const LinalgError&) {
    }
}
inline Tensor caught_by_either(const Tensor& a, const Tensor& b) {
  Tensor y = b;
  for (Index i = 0; i < 2; ++i) try {
      y = tame(y * caught_by_index(y, a) + sum(factor(y(i) + 0.25)));
      y = y + take(y, floored(y(0) * 4. + 1.5), 0);
    } catch (const LinalgError&) {
      y = y * a;
    } catch (const IndexError&) {
      y = sin(y) * 0.5;
    }
  return tame(y);
}
/// The same as `caught_by_index`, for a function in a checkpoint, or (`plainly`) without one.
inline Tensor caught_around(const Fn& f, const Tensor& a, const Tensor& b, bool plainly) {
  const Tensor y = sin(a);
  const auto part = [f](const Tensor& x, const Tensor& c) {
    const Tensor z = f(x, c);
    return tame(z * take(x, floored(x(2) * 2. + 1.), 0));
  };
  try {
    return plainly ? part(y, b) : checkpoint(part)(y, b);
  } catch (const IndexError&) {
    return f(b, y) * 0.5;
  }
}

// ---- user-defined effects and handlers ----------------------------------------------------------

/// An effect that asks for a value; without a handler the answer is a constant.
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

/// An effect that hands over a value and asks for another one; without a handler the answer is the
/// same value.
struct Hand {
  using Result = Tensor;
  Tensor x;
  Tensor unhandled() const { return x; }
};
/// Answers by a value of its own.
struct Exchanges : Handles<Hand> {
  Tensor answer;
  explicit Exchanges(Tensor answer) : answer(std::move(answer)) {}
  Tensor handle(Hand&) override { return answer; }
  std::string describe() const override { return "Exchanges"; }
};
inline Tensor halved(const Tensor& x) { return x * 0.5; }
/// Answers by a computation with the value. Outside a transform that differentiates the value, this
/// is an error if the result depends on the answer.
struct Halves : Handles<Hand> {
  Tensor handle(Hand& hand) override { return halved(hand.x); }
  std::string describe() const override { return "Halves"; }
};
struct HalvesLater : Controls<Hand> {
  void handle(Hand& hand, Resumption<Hand> rest) override { rest.resume_last(halved(hand.x)); }
  std::string describe() const override { return "HalvesLater"; }
};
/// Returns true if the error says that a derivative would be lost by Halves, or that a lane's value
/// was used outside vmap.
inline bool is_of_halving(const std::string& error) {
  return error.find("its derivative would be lost") != std::string::npos ||
         error.find("is used outside of it") != std::string::npos;
}

struct Passes : Handler {
  Outputs handle(Call& call) override { return perform(std::move(call)); }
  std::string describe() const override { return "Passes"; }
};
/// Performs a copy of the call, so that it can still read the inputs afterwards.
struct Lends : Handler {
  Outputs handle(Call& call) override {
    Outputs outputs = perform(std::as_const(call));
    for (const Tensor& input : call.inputs()) (void)input.shape();
    return outputs;
  }
  std::string describe() const override { return "Lends"; }
};
/// Attaches to every value a note with the depth of the computation that made it.
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
/// Resumes within `handle`, so that each operation is deeper on the stack, up to 40 levels.
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
/// Performs every operation of body in a loop outside of it.
template <class Body>
Tensor stepped(const Body& body) {
  auto operations = operations_of(body);
  int n = 0;
  for (PendingOperation& op : operations)
    if (++n % 2 && !op.call().op().is_higher_order) op.answer(perform(op.call()));
  return *operations.result();
}
/// Two calls of f that take turns.
inline Tensor by_turns(const Fn& f, const Tensor& a, const Tensor& b) {
  const auto [first, second] = concurrently([&] { return f(a, b); }, [&] { return yield(), f(b, a); });
  return tame(first + second);
}
/// Returns f(a, b), which runs concurrently with two computations that are cancelled in the middle.
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
  /// Ends its controller, although the kept resumption would keep the controller alive.
  struct Ends {
    std::shared_ptr<KeepsPause> keeps = std::make_shared<KeepsPause>();
    ~Ends() { keeps->rest = {}; }
  };
};
/// Returns f(a, b), computed in a checkpoint that is suspended, with the handlers around it, while
/// another operation is performed.
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
  // Once for each group of lanes.
  while (ends.keeps->rest) std::exchange(ends.keeps->rest, {}).resume();
  return tame(value + meanwhile);
}
/// The same, but dropped while it is suspended.
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

// ---- derivatives and batches the plain way: jvp along unit vectors, loops over lanes ------------

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

// ---- recursive rules ----------------------------------------------------------------------------

inline Tensor endless_exp(const Tensor& x) {
  return custom_jvp([](const Tensor& y) { return exp(y); },
                    [](const Tensor& y, const Tensor& dy) {
                      const Tensor e = endless_exp(y);
                      return std::pair(e, e * dy);
                    })(x);
}
inline Tensor endless_cos(const Tensor& x);
inline Tensor endless_sin(const Tensor& x) {
  return custom_vjp([](const Tensor& y) { return sin(y); },
                    [](const Tensor& y) { return std::pair(endless_sin(y), endless_cos(y)); },
                    [](const Tensor& c, const Tensor& ct) { return c * ct; })(x);
}
inline Tensor endless_cos(const Tensor& x) {
  return custom_jvp(
      [](const Tensor& y) { return cos(y); },
      [](const Tensor& y, const Tensor& dy) { return std::pair(endless_cos(y), -endless_sin(y) * dy); })(x);
}
// Solves y^3 + y = x for y.
inline Tensor by_newton(const Tensor& x) {
  Tensor y = x;
  for (int i = 0; i < 8; ++i) y = y - (y * y * y + y - x) / (3 * y * y + 1);
  return y;
}
inline Tensor cubic_root(const Tensor& x) {
  return custom_root([](const Tensor& y, const Tensor& v) { return y * y * y + y - v; }, by_newton)(x);
}
inline Tensor solved(const Tensor& a, const Tensor& b) {
  return custom_linear_solve([](const Tensor& y, const Tensor& d) { return d * y; },
                             [](const Tensor& v, const Tensor& d) { return v / d; })(a, 1.5 + sin(b));
}
// Solves x = sin(x) / 4 + c for x.
inline Tensor settled(const Tensor& c) {
  return fixed_point([](const Tensor& x, const Tensor& v) { return sin(x) * 0.25 + v; })(zeros_like(c), c);
}
inline Tensor plainly_settled(const Tensor& c) {
  Tensor x = c;
  for (int i = 0; i < 30; ++i) x = sin(x) * 0.25 + c;
  return x;
}
// Returns exp(-rate / 4) y, in a few integration steps.
inline Tensor decayed(const Tensor& y, const Tensor& rate) {
  const auto path =
      odeint([](const Tensor& z, const Tensor&, const Tensor& r) { return -r * z; }, {.rtol = 1e-7, .atol = 1e-9});
  return path(y, tensor({0., 0.25}, float64, place), rate)(1);
}

/// Answers to Ask, innermost last, without a handler.
inline thread_local std::vector<Tensor> plain_answers;
template <class Body>
Tensor plainly_answered(const Tensor& answer, const Body& body) {
  struct Answering {
    explicit Answering(const Tensor& answer) { plain_answers.push_back(answer); }
    ~Answering() { plain_answers.pop_back(); }
  } answering(answer);
  return body();
}
/// Answers to Hand, innermost last, without a handler.
inline thread_local std::vector<std::function<Tensor(const Tensor&)>> plain_hands;
template <class Body>
Tensor plainly_handed(std::function<Tensor(const Tensor&)> answer, const Body& body) {
  struct Answering {
    explicit Answering(std::function<Tensor(const Tensor&)> answer) { plain_hands.push_back(std::move(answer)); }
    ~Answering() { plain_hands.pop_back(); }
  } answering(std::move(answer));
  return body();
}
inline Tensor plain_hand(const Tensor& x) { return plain_hands.empty() ? x : plain_hands.back()(x); }

inline Tensor plain_ask() { return plain_answers.empty() ? Ask().unhandled() : plain_answers.back(); }

}  // namespace stave_fuzz
