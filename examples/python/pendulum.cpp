// A function of tensors as a Python module: `import pendulum`. It takes and returns arrays of
// NumPy, PyTorch, JAX and other libraries.
#include "errors.h"
#include "function.h"

using namespace stave;

// Returns the state [2], angle and speed, after one second, by the method of Runge and Kutta. The
// pendulum [2] is given by its length in metres and its friction.
Tensor swing(const Tensor& state, const Tensor& pendulum) {
  const auto rate = [&](const Tensor& s) {
    return stack({s[1], -9.81 / pendulum[0] * sin(s[0]) - pendulum[1] * s[1]});
  };
  const auto step = [&](const Tensor& s) {
    constexpr double h = 0.01;
    const Tensor k1 = rate(s), k2 = rate(s + h / 2 * k1), k3 = rate(s + h / 2 * k2), k4 = rate(s + h * k3);
    return s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
  };
  return loop(100, step)(state);
}

PYBIND11_MODULE(pendulum, module) {
  arrays::add_errors(module);
  arrays::add_array(module);
  arrays::add_function(module);
  // the result has the shape and dtype of argument 0
  module.attr("swing") = arrays::function(swing, 0);
  module.def(
      "live_bytes", [] { return memory_stats().live_bytes; }, "What tensors occupy on the CPU.");
}
