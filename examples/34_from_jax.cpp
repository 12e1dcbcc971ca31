// Code ported from JAX, and code that is simpler here. docs/guides/porting_from_jax.md shows both
// side by side, and explains the differences.
#include <iostream>
#include <utility>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

// ---- control flow that asks a value -------------------------------------------------------------

// Returns the x for which x exp(x) is a, by Newton's method.
Tensor lambert(const Tensor& a) {
  Tensor x = log1p(a), step = ones_like(a);
  while (abs(step) > 1e-10) {
    step = (x * exp(x) - a) / (exp(x) * (1 + x));
    x = x - step;
  }
  return x;
}

void loops() {
  const Tensor as = tensor({0.1, 1., 2.5, 40.}, float64);
  const Tensor xs = vmap(lambert)(as), slopes = vmap(grad(lambert))(as);
  check(allclose(xs * exp(xs), as, 1e-12), "lanes end when they have converged");
  check(allclose(slopes, xs / (as * (1 + xs)), 1e-12), "the derivative is that of the function");
  std::cout << xs << "\n";
}

// ---- programs -----------------------------------------------------------------------------------

void programs() {
  const auto f = [](const Tensor& x) {
    if (sum(x) > 0) return sum(square(x));
    return sum(x);
  };
  const auto compiled = compile(f);
  for (const double sign : {1., -1., 1., -1.}) {  // recorded once for each path, then replayed
    const Tensor x = sign * tensor({1., 2., 3.});
    check(array_equal(compiled(x), f(x)), "a program branches where the function does");
  }
  const auto with_aux = [](const Tensor& x) { return std::pair(sum(square(x)), std::pair(x.rank(), 2 * x)); };
  const auto [value, slope, aux] = value_and_grad(with_aux)(tensor({1., 2.}));
  check(allclose(slope, tensor({2., 4.})) && value.item<float>() == 5 && aux.first == 1,
        "what comes beside a value may be anything");
}

// ---- what differs in meaning --------------------------------------------------------------------

void differences() {
  const Tensor x = arange(0., 3.);
  check(throws<IndexError>([&] { x(5); }) && throws<IndexError>([&] { take(x, tensor({5})); }),
        "an index out of range is an error");
  check(x.at(tensor({5})).get(7)[0].item<float>() == 7, "unless it asks for another number there");
  check(throws<Error>([] { cholesky(tensor({{1., 2.}, {2., 1.}})); }), "so is a matrix that is not positive definite");

  const auto root = [](const Tensor& v) { return where(v > 0, sqrt(v), 0.); };
  check(grad(root)(tensor(0.)).item<float>() == 0, "the branch not taken leaves no NaN");

  const Tensor drawn = uniform(Key(0), {3});
  const auto size = [](const Tensor& z) { return square(abs(z)); };
  const auto cube = [](const Tensor& z) { return z * z * z; };
  const Tensor z = complex(tensor(3.), tensor(4.));
  check(allclose(grad(size)(z), complex(6, -8)), "the gradient by x + iy is dL/dx - i dL/dy");
  check(allclose(grad(cube, {.holomorphic = true})(z), 3 * z * z), "a complex derivative is asked for");
  check(allclose(drawn, tensor({0.947667, 0.9785799, 0.33229148})), "random numbers are JAX's");

  const Tensor doubled = with(DefaultDtype(float64), [] { return ones({2}); });
  check(doubled.dtype() == float64 && ones({2}).dtype() == float32, "a default dtype is for a while");
}

int main() {
  loops();
  programs();
  differences();
}
