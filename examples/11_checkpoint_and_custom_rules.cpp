// Checkpoints and custom derivative rules. checkpoint(f) saves only the arguments of f, and
// computes f again for the derivative. custom_vjp and custom_jvp define a derivative where the
// chain rule gives a useless or a wasteful one. The resulting functions nest with every transform.
#include <iostream>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

Tensor layers(Tensor x) {
  for (int i = 0; i < 50; ++i) x = sin(std::move(x));
  return x;
}

// Returns the largest memory that `body` occupies at a time, in MiB.
template <class Body>
std::size_t peak(Body body) {
  const std::size_t before = memory_stats().live_bytes;
  reset_peak_memory();
  body();
  return (memory_stats().peak_bytes - before) >> 20;
}

// The sign of x. Its derivative is zero, so nothing could be learned through it. The rule passes
// the cotangent through unchanged where |x| <= 1: Hubara et al., Binarized Neural Networks, 2016.
const auto binary =
    custom_vjp([](const Tensor& x) { return sign(x); }, [](const Tensor& x) { return std::pair(sign(x), x); },
               [](const Tensor& x, const Tensor& cotangent) { return where(abs(x) <= 1, cotangent, 0); });

// The solution r of r^3 + r = a, by Newton's method.
Tensor root(const Tensor& a) {
  Tensor r = a;
  for (int step = 0; step < 30; ++step) r -= (r * r * r + r - a) / (3 * r * r + 1);
  return r;
}
// By the implicit function theorem, (3 r^2 + 1) dr = da: the thirty steps are not differentiated.
const auto implicit_root = custom_jvp(root, [](const Tensor& a, const Tensor& da) {
  const Tensor r = root(a);
  return std::pair(r, da / (3 * r * r + 1));
});

int main() {
  const Tensor x = linspace(0, 1, 1 << 18);  // 1 MiB
  const auto halves = [](const Tensor& v) { return sum(checkpoint(layers)(checkpoint(layers)(v))); };
  const auto plain = [](const Tensor& v) { return sum(layers(layers(v))); };
  Tensor gradient, recomputed;
  const std::size_t all = peak([&] { gradient = grad(plain)(x); });
  const std::size_t half = peak([&] { recomputed = grad(halves)(x); });
  std::cout << "100 layers: " << all << " MiB; in two checkpoints: " << half << " MiB\n";
  check(all >= 100 && half <= 60, "of half of the layers at a time the values are kept");
  check(array_equal(gradient, recomputed), "the gradient is the same, bit for bit");

  const Tensor xs = tensor({-2., -0.5, 0.25});
  std::cout << "signs " << vmap(binary)(xs) << ", slopes " << vmap(grad(binary))(xs) << "\n";
  check(array_equal(vmap(binary)(xs), sign(xs)), "the value is that of the function");
  check(array_equal(vmap(grad(binary))(xs), tensor({0., 1., 1.})), "the derivative is that of the rule");

  const Tensor a = tensor({2., 10., 30.}, float64);  // the roots are 1, 2, 3
  const Tensor slopes = vmap(grad(implicit_root))(a);
  std::cout << "roots " << implicit_root(a) << ", slopes " << slopes << "\n";
  check(allclose(slopes, 1 / tensor({4., 13., 28.}, float64)), "dr/da = 1 / (3 r^2 + 1)");
  check(allclose(slopes, vmap(grad(root))(a)), "as the chain rule finds through all steps");
}
