// Two devices. A function runs where its tensors are stored. `to` moves a tensor and is an
// operation like any other, so its derivative moves the cotangent back. Without a GPU both halves
// run on the CPU.
#include <iostream>
#include <sstream>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

const Device gpu = cuda_available() ? cuda() : cpu;

// Computes the features of x on the CPU, and the rest on the GPU.
Tensor f(const Tensor& x, const Tensor& w) {
  const Tensor features = concat({sin(x), cos(x)}, 1);
  const Tensor there = to(features, gpu);
  return to(sum(tanh(matmul(there, w))), cpu);
}

Tensor on_cpu(const Tensor& x, const Tensor& w) { return sum(tanh(matmul(concat({sin(x), cos(x)}, 1), w))); }

int main() {
  if (gpu == cpu) std::cout << "there is no GPU here: both halves run on the CPU\n\n";

  const Tensor x = reshape(linspace(-1, 1, 12), {4, 3});
  const Tensor w = to(reshape(linspace(-0.5, 0.5, 12), {6, 2}), gpu);

  std::ostringstream trace;
  const auto [dx, dw] = debug(grad<0, 1>(f), {.out = &trace, .time = true})(x, w);
  std::cout << trace.str() << "\n";

  check(dx.device() == cpu && dw.device() == gpu, "a gradient lives where its input does");
  check_grads([&](const Tensor& at) { return f(at, w); }, x);
  check_grads([&](const Tensor& at) { return f(x, at); }, w);

  // The reference computes the same on one device.
  const auto [expected_dx, expected_dw] = grad<0, 1>(on_cpu)(x, to(w, cpu));
  check(allclose(dx, expected_dx, 1e-4, 1e-5), "dx is that of the CPU");
  check(allclose(to(dw, cpu), expected_dw, 1e-4, 1e-5), "dw is that of the CPU");
  std::cout << "dx " << dx << "\n";
}
