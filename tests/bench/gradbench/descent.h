// GradBench's `saddle` and `particle`: derivatives inside gradient descent, which is itself
// differentiated. Each derivative is taken in a mode of its own.
#pragma once

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

/// Returns where f is least, from x [n], by gradient descent. Ten steps that succeed double the
/// step's length, and one that fails halves it. The paths of control flow, and so the result, are
/// those of GradBench's other tools.
template <class F, class Gradient>
Tensor argmin(const F& f, const Gradient& gradient, Tensor x) {
  Tensor value = f(x), slope = gradient(x);
  double rate = 1e-5;
  for (int successes = 0; !(norm(slope) <= 1e-5);) {
    if (successes == 10) {
      rate *= 2;
      successes = 0;
      continue;
    }
    const Tensor next = x - rate * slope;
    if (norm(x - next) <= 1e-5) break;
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
  const auto depth = [&](const Tensor& y) { return -saddle_height(x, y); };
  return argmin(depth, Inner::derivative(depth), start);
}

/// saddle: returns a function that computes the x and y, [4], of min_x max_y |x|^2 - |y|^2. Both
/// searches begin at its argument, [2]. The inner search and its derivative are compiled; the outer
/// one calls them. All of it together has more operations than compile records.
template <class Outer, class Inner>
auto saddle() {
  const auto height = [](const Tensor& x, const Tensor& start) { return saddle_height(x, highest<Inner>(x, start)); };
  const auto value = compile(height);
  const auto gradient = compile(Outer::derivative(height));
  const auto search = compile(highest<Inner>);
  return [=](const Tensor& start) {
    const Tensor x = argmin([&](const Tensor& at) { return value(at, start); },
                            [&](const Tensor& at) { return gradient(at, start); }, start);
    return concat({x, search(x, start)});
  };
}

/// particle: the potential at x, [2], of charges at `first` and (10, 0).
inline Tensor potential(const Tensor& x, const Tensor& first) {
  return 1 / norm(x - first) + 1 / norm(x - tensor({10., 0.}, float64));
}

/// particle: the square of where a charged particle crosses the x axis. It is repelled by charges
/// at (10, 10 - w) and (10, 0), and moved by steps of Euler's method. `slope` is the derivative of
/// the potential.
template <class Slope>
Tensor crossing(const Slope& slope, const Tensor& w) {
  const Tensor first = concat({tensor({10.}, float64), 10. - w});
  Tensor x = tensor({0., 8.}, float64), velocity = tensor({0.75, 0.}, float64);
  constexpr double dt = 0.1;
  for (;;) {
    const Tensor force = -slope(x, first);
    x = x + dt * velocity;
    if (x(1) <= 0) break;
    velocity = velocity + dt * force;
  }
  return square(x(0) - x(1) / velocity(1) * velocity(0));
}

/// particle: returns a function that computes the w, [1], for which the particle meets the origin,
/// from a first w. Only the force is compiled: the paths of all w differ in their lengths.
template <class Outer, class Inner>
auto particle() {
  const auto distance = [slope = compile(Inner::derivative(potential))](const Tensor& w) { return crossing(slope, w); };
  return [=](const Tensor& w) { return argmin(distance, Outer::derivative(distance), w); };
}

}  // namespace gradbench
