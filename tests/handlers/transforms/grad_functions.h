// Functions whose derivatives are known from JAX, for the tests of grad and of jacobians.
#pragma once

#include <stave/stave.h>

namespace grad_test {

using namespace stave;

inline Tensor number(double x) { return full({}, x, float64); }

// JAX's values below are for
//   f = lambda x: jnp.sum(jnp.tanh(x)**2 * jnp.exp(-x) / (1 + x**2))
//   x = jnp.array([.3, -1.2, 2.5])
inline Tensor f(const Tensor& x) { return sum(square(tanh(x)) * exp(-x) / (1 + square(x))); }
inline const Tensor at = tensor({.3, -1.2, 2.5}, float64);
inline const Tensor gradient = tensor({0.2729508991549907, -0.707505710778694, -0.018027574616019962}, float64);
inline const Tensor curvature = tensor({-0.14615243758847812, -0.7378701775663163, 0.03050186351000973}, float64);

//   loss = lambda w, x, y: jnp.mean(jnp.square(x @ w - y))
inline Tensor loss(const Tensor& w, const Tensor& x, const Tensor& y) { return mean(square(matmul(x, w) - y)); }
inline const Tensor W = tensor({{.1, .2}, {-.3, .4}, {.5, -.6}}, float64);
inline const Tensor X = tensor({{1., 2., 3.}, {4., 5., 6.}}, float64);
inline const Tensor Y = tensor({{.5, -1.}, {2., 0.}}, float64);
inline const Tensor dW = tensor({{.05, -1.5}, {.25, -1.8}, {.45, -2.1}}, float64);
inline const Tensor dX = tensor({{.045, -.035, .065}, {-.085, -.145, .215}}, float64);
inline const Tensor dY = tensor({{-.25, -.1}, {.05, .4}}, float64);

struct Coordinates {
  Tensor x, y;
};
inline Coordinates coordinates() { return {tensor({1., 2.}, float64), tensor(3., float64)}; }

}  // namespace grad_test
