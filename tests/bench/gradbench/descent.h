// GradBench's `saddle` and `particle`: derivatives inside gradient descent, which is itself
// differentiated. Each derivative is taken in a mode of its own.
//
// Loops that are differentiated end where their state says so. Their steps are performed in chunks:
// a chunk is a `loop`, one operation, whose steps change nothing once the loop has ended.
#pragma once

#include <utility>

#include <stave/stave.h>

namespace gradbench {

using namespace stave;

struct Forward {
  template <class F>
  static auto derivative(const F& f) {
    return jacfwd(f);
  }
};
struct Reverse {
  template <class F>
  static auto derivative(const F& f) {
    return grad(f);
  }
};

/// The length of a vector, [n]. `norm` takes longer: it does not overflow.
inline Tensor length(const Tensor& x) { return sqrt(sum(square(x))); }

/// Performs steps until the state is `done`, which is [] of bool. A step must not change a state
/// that is done. A read after each chunk takes as long as some steps do.
template <class Step, class State>
State repeat_until_done(Index chunk, const Step& step, State state) {
  const auto steps = loop(chunk, step);
  do state = steps(state);
  while (!state.done);
  return state;
}

/// The state of a gradient descent: where it is, [n], the value and the gradient there, the length
/// of a step, and how many steps in a row succeeded.
struct Descent {
  Tensor x, value, slope, rate, successes, done;
};

/// Returns the next state of a gradient descent on f. Ten steps that succeed double the step's
/// length, and one that fails halves it. The search ends where the gradient or a step is short. The
/// paths of control flow, and so the result, are those of GradBench's other tools.
template <class F, class Gradient>
Descent descended(const F& f, const Gradient& gradient, const Descent& s) {
  const Tensor doubles = s.successes == 10, next = s.x - s.rate * s.slope;
  const Tensor is_short = !doubles & (length(s.x - next) <= 1e-5);
  const Tensor done = s.done | (length(s.slope) <= 1e-5) | is_short;
  const Tensor next_value = f(next), better = !done & !doubles & (next_value < s.value);
  return {where(better, next, s.x),
          where(better, next_value, s.value),
          where(better, gradient(next), s.slope),
          where(done | better, s.rate, where(doubles, 2 * s.rate, s.rate / 2)),
          where(better, s.successes + 1, 0),
          done};
}

template <class F, class Gradient>
Descent descent_from(const F& f, const Gradient& gradient, const Tensor& x) {
  return {x, f(x), gradient(x), tensor(1e-5, float64), tensor(0), tensor(false)};
}

/// Returns where f is least, from x, by gradient descent that can be compiled and differentiated.
template <class F, class Gradient>
Tensor argmin(const F& f, const Gradient& gradient, const Tensor& x) {
  const auto step = [=](const Descent& state) { return descended(f, gradient, state); };
  return repeat_until_done(32, step, descent_from(f, gradient, x)).x;
}

/// Returns the same for compiled functions, which are not called in steps without effect.
template <class F, class Gradient>
Tensor argmin_of_compiled(const F& f, const Gradient& gradient, Tensor x) {
  Tensor value = f(x), slope = gradient(x);
  double rate = 1e-5;
  for (int successes = 0; !(length(slope) <= 1e-5);) {
    if (successes == 10) {
      rate *= 2;
      successes = 0;
      continue;
    }
    const Tensor next = x - rate * slope;
    if (length(x - next) <= 1e-5) break;
    const Tensor next_value = f(next);
    if (next_value < value) {
      x = next;
      value = next_value;
      slope = gradient(x);
      ++successes;
    } else {
      rate /= 2;
      successes = 0;
    }
  }
  return x;
}

/// The height whose saddle is sought.
inline Tensor saddle_height(const Tensor& x, const Tensor& y) { return sum(square(x)) - sum(square(y)); }

/// Returns the y for which the height is greatest, from y = start.
template <class Inner>
Tensor highest(const Tensor& x, const Tensor& start) {
  const auto depth = [=](const Tensor& y) { return -saddle_height(x, y); };
  return argmin(depth, Inner::derivative(depth), start);
}

/// saddle: returns a function that computes the x and y, [4], of min_x max_y |x|^2 - |y|^2. Both
/// searches begin at its argument, [2].
template <class Outer, class Inner>
auto saddle() {
  const auto height = [](const Tensor& x, const Tensor& start) { return saddle_height(x, highest<Inner>(x, start)); };
  const auto value = compile(height);
  const auto gradient = compile(Outer::derivative(height));
  const auto search = compile(highest<Inner>);
  return [=](const Tensor& start) {
    const Tensor x = argmin_of_compiled([&](const Tensor& at) { return value(at, start); },
                                        [&](const Tensor& at) { return gradient(at, start); }, start);
    return concat({x, search(x, start)});
  };
}

/// particle: the potential at x, [2], of charges at `first` and (10, 0).
inline Tensor potential(const Tensor& x, const Tensor& first) {
  return 1 / length(x - first) + 1 / length(x - tensor({10., 0.}, float64));
}

/// The place and the velocity of a particle, [2].
struct Motion {
  Tensor x, velocity, done;
};

/// particle: the square of where a charged particle crosses the x axis. It is repelled by charges
/// at (10, 10 - w) and (10, 0), and moved by steps of Euler's method.
template <class Inner>
Tensor crossing(const Tensor& w) {
  constexpr double dt = 0.1;
  const Tensor first = concat({tensor({10.}, float64), 10. - w});
  const auto step = [=](const Motion& m) -> Motion {
    const Tensor force = -Inner::derivative(potential)(m.x, first), moved = m.x + dt * m.velocity;
    const Tensor done = m.done | (moved(1) <= 0);
    return {where(m.done, m.x, moved), where(done, m.velocity, m.velocity + dt * force), done};
  };
  const Motion end =
      repeat_until_done(64, step, Motion{tensor({0., 8.}, float64), tensor({0.75, 0.}, float64), tensor(false)});
  return square(end.x(0) - end.x(1) / end.velocity(1) * end.velocity(0));
}

/// particle: returns a function that computes the w, [1], for which the particle meets the origin,
/// from a first w.
template <class Outer, class Inner>
auto particle() {
  const auto value = compile(crossing<Inner>);
  const auto gradient = compile(Outer::derivative(crossing<Inner>));
  return [=](const Tensor& w) { return argmin_of_compiled(value, gradient, w); };
}

}  // namespace gradbench
