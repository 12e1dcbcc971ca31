// Control flow under vmap: plain functions with if, while and recursion on values are mapped over a
// batch, and compared with a loop over it. Lanes that take the same path are computed together. The
// more paths there are, the closer the cost is to that of the loop.
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

// Returns the root of x^3 + x = a.
Tensor newton(const Tensor& a) {
  Tensor x = a;
  while (bool(abs(x * x * x + x - a) > 1e-9 * (1. + abs(a)))) x = x - (x * x * x + x - a) / (3. * x * x + 1.);
  return x;
}

// Draws a number in [0, 1) with density proportional to exp(-8 (x - 0.3)^2), by rejection.
Tensor rejection(Key key) {
  for (;;) {
    const auto [next, for_x, for_u] = split<3>(key);
    const Tensor x = uniform(for_x, {}, float64);
    if (uniform(for_u, {}, float64) < exp(-8. * square(x - 0.3))) return x;
    key = next;
  }
}

// A network that follows the parse tree of a sentence. Row i of `children` names the two nodes
// below node i. A leaf has no children, but a word.
struct Composer {
  Tensor left, right, bias;
};
Tensor meaning(const Composer& c, const Tensor& children, const Tensor& words, int node) {
  const int left = children(node, 0).item<int>(), right = children(node, 1).item<int>();
  if (left < 0) return words[node];
  return tanh(matmul(c.left, meaning(c, children, words, left)) + matmul(c.right, meaning(c, children, words, right)) +
              c.bias);
}
Tensor tree_loss(const Composer& c, const Tensor& children, const Tensor& words) {
  return sum(square(meaning(c, children, words, 0)));
}

// Huber's loss, written as its definition.
Tensor huber(const Tensor& w, const Tensor& x, const Tensor& y) {
  const Tensor error = sum(w * x) - y;
  if (abs(error) < 1.) return 0.5 * square(error);
  return abs(error) - 0.5;
}

// Van der Pol's oscillator from t = 0 to 2, by the pair of orders 3 and 2 of Bogacki and Shampine
// (Appl. Math. Lett. 2, 1989). The error estimate controls the step size.
Tensor oscillator(const Tensor& stiffness) {
  const auto slope = [&](const Tensor& y) { return stack({y[1], stiffness * (1. - square(y[0])) * y[1] - y[0]}); };
  Tensor y = tensor({2., 0.}, float64), t = zeros({}, float64), h = full({}, 0.125, float64);
  while (t < 2.) {
    h = minimum(h, 2. - t);
    const Tensor k1 = slope(y), k2 = slope(y + 0.5 * h * k1), k3 = slope(y + 0.75 * h * k2);
    const Tensor next = y + h * (2. / 9 * k1 + 1. / 3 * k2 + 4. / 9 * k3), k4 = slope(next);
    const Tensor error = max(abs(h * (-5. / 72 * k1 + 1. / 12 * k2 + 1. / 9 * k3 - 1. / 8 * k4))) / 1e-4;
    if (error <= 1.) {
      y = next;
      t = t + h;
      if (error < 0.05) h = h * 2.;
    } else {
      h = h * 0.5;
    }
  }
  return y;
}

// Applies f to the entries along the first axis of xs, one after another.
template <class F>
Tensor loop(F f, const Tensor& xs) {
  std::vector<Tensor> results;
  for (Index i = 0; i < xs.shape(0); ++i) results.push_back(f(xs[i]));
  return stack(results);
}

template <class F, class G>
void compare(const std::string& name, F together, G one_by_one) {
  const auto timed = [](auto& run) {
    // The first run wakes the threads and allocates memory.
    run();
    const auto start = std::chrono::steady_clock::now();
    const Tensor result = run();
    return std::pair(result, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  };
  const auto [paths, time] = timed(together);
  const auto [expected, time_of_loop] = timed(one_by_one);
  check(allclose(paths, expected, 1e-9, 1e-12), name + " is the loop over the lanes");
  std::cout << name << ": " << time / time_of_loop << " of the loop's time\n";
}

int main() {
  const Tensor as = normal(Key(0), {1024}, float64) * 10.;
  compare(
      "newton", [&] { return vmap(newton)(as); }, [&] { return loop(newton, as); });
  compare(
      "its gradient", [&] { return vmap(grad(newton))(as); }, [&] { return loop(grad(newton), as); });

  const Tensor keys = split(Key(1), 512);
  const auto drawn = [&] { return vmap(rejection)(keys); };
  compare("rejection", drawn, [&] { return loop([](const Tensor& key) { return rejection(Key(key)); }, keys); });

  // Parse trees of sentences of four words: ((a b) (c d)) and (a (b (c d))).
  const Tensor balanced = tensor({{1, 2}, {3, 4}, {5, 6}, {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}});
  const Tensor to_the_right = tensor({{1, 2}, {-1, -1}, {3, 4}, {-1, -1}, {5, 6}, {-1, -1}, {-1, -1}});
  std::vector<Tensor> trees;
  for (int i = 0; i < 64; ++i) trees.push_back(i % 3 ? balanced : to_the_right);
  const Tensor children = stack(trees), words = normal(Key(2), {64, 7, 8}, float64);
  const Composer composer{normal(Key(3), {8, 8}, float64) * 0.3, normal(Key(4), {8, 8}, float64) * 0.3,
                          zeros({8}, float64)};
  const auto gradient = [&](const Tensor& tree, const Tensor& sentence) {
    return grad(tree_loss)(composer, tree, sentence).left;
  };
  compare(
      "gradients of trees", [&] { return vmap(gradient)(children, words); },
      [&] {
        std::vector<Tensor> all;
        for (Index i = 0; i < 64; ++i) all.push_back(gradient(children[i], words[i]));
        return stack(all);
      });

  const Tensor w = normal(Key(5), {16}, float64), xs = normal(Key(6), {1000, 16}, float64),
               ys = normal(Key(7), {1000}, float64);
  compare(
      "gradients of Huber's loss",
      [&] {
        return vmap(grad(huber), {.in_axes = {unmapped, 0, 0}})(w, xs, ys);
      },
      [&] {
        std::vector<Tensor> all;
        for (Index i = 0; i < 1000; ++i) all.push_back(grad(huber)(w, xs[i], ys[i]));
        return stack(all);
      });

  const Tensor stiffness = linspace(0.5, 4., 256, float64);
  compare(
      "oscillators", [&] { return vmap(oscillator)(stiffness); }, [&] { return loop(oscillator, stiffness); });
}
