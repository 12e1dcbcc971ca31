// Complex numbers: values, the gradient of a real loss, derivatives of holomorphic functions, and a
// transform of Fourier. The gradient by z = x + iy is dL/dx - i dL/dy, as in JAX; the direction in
// which the loss grows is its conjugate.
#include <complex>
#include <iostream>

#include <stave/stave.h>

#include "check.h"

using namespace stave;
using namespace std::complex_literals;

int main() {
  const Tensor z = tensor({3. + 4i, 1i}, complex128);
  std::cout << "abs " << abs(z) << ", real part " << real(z) << "\n";
  std::cout << "exp(i pi) = " << exp(1i * tensor(3.141592653589793, float64)) << "\n";

  const auto energy = [](const Tensor& x) { return sum(square(abs(x))); };
  std::cout << "gradient of |z|^2 " << grad(energy)(z) << "\n";

  // A root of z^3 - 2z + 2 by Newton's method: the derivative of a holomorphic function is a
  // complex number.
  const auto f = [](const Tensor& x) { return x * x * x - 2 * x + 2; };
  const auto slope = grad(f, {.holomorphic = true});
  Tensor root = tensor(1. + 1i, complex128);
  for (int step = 0; step < 20; ++step) root = root - f(root) / slope(root);
  std::cout << "root " << root << "\n";
  check(abs(f(root)).item<double>() < 1e-12, "the root is one");

  // The phases of a signal's spectrum, found by gradient descent: against the conjugate.
  const Tensor signal = sin(arange(0, 8, 1, float64)), target = rfft(signal);
  const auto loss = [&](const Tensor& spectrum) { return sum(square(irfft(spectrum) - signal)); };
  Tensor spectrum = zeros({5}, complex128);
  for (int step = 0; step < 200; ++step) spectrum = spectrum - conj(grad(loss)(spectrum));
  check(allclose(abs(spectrum - target), zeros({5}, float64), 1e-6, 1e-6), "the spectrum is that of the signal");

  // Each lane of vmap has its own frequency.
  const auto mode = [](const Tensor& k) { return ifft(fft(exp(1i * k * arange(0, 8, 1, float64)))); };
  check(vmap(mode)(tensor({0.5, 1.5}, float64)).shape() == Shape(2, 8), "a row for each frequency");
}
