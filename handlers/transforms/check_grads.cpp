#include <stave/handlers/transforms/check_grads.h>

#include <algorithm>
#include <cmath>

#include <stave/core/ops/complex.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/random.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/transforms/check.h>
#include <stave/handlers/transforms/jvp_flat.h>

namespace stave_detail {

using namespace stave;

std::vector<Tensor> random_like(std::span<const Tensor> xs, std::uint64_t seed) {
  std::vector<Tensor> result;
  for (const Tensor& x : xs)
    result.push_back(
        is_inexact(x.dtype())
            ? normal(fold_in(Key(seed, x.device()), static_cast<std::uint32_t>(result.size())), x.shape(), x.dtype())
            : zeros_like(x));
  return result;
}

Outputs pulled_back(FlatFunction f, std::span<const Tensor> xs, std::vector<Tensor> cotangents) {
  for (Tensor& cotangent : cotangents)
    if (!is_inexact(cotangent.dtype())) cotangent = Tensor();
  const std::vector<Tensor> found = vjp_flat(f, xs, "check_grads").pullback(cotangents);
  return Outputs(found.begin(), found.end());
}

namespace {

bool all_float64(std::span<const Tensor> xs) {
  return std::all_of(xs.begin(), xs.end(), [](const Tensor& x) { return real_of(x.dtype()) == float64; });
}

}  // namespace

double tolerance_for(std::span<const Tensor> xs) { return all_float64(xs) ? 1e-6 : 1e-2; }

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

namespace {

using Tensors = std::vector<Tensor>;

// Returns the sum of the products over all floating and complex tensors, in float64. Of complex
// products it is the real part: the derivative of a real number along b, where a is its gradient.
double inner(std::span<const Tensor> a, std::span<const Tensor> b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Dtype wide = is_complex(a[i].dtype()) ? complex128 : float64;
    if (is_inexact(a[i].dtype())) total += real(sum(astype(a[i], wide) * astype(b[i], wide))).item<double>();
  }
  return total;
}

Outputs moved(FlatFunction f, std::span<const Tensor> xs, std::span<const Tensor> direction, double step) {
  Tensors at;
  for (std::size_t i = 0; i < xs.size(); ++i) at.push_back(xs[i] + step * direction[i]);
  return f(at);
}

void compare(const char* what, int order, double a, double b, double size, double tolerance) {
  if (std::abs(a - b) <= tolerance * (1 + size)) return;
  fail<TransformError>("check_grads: {} at order {} disagree: {} and {}, tolerance {}", what, order, a, b,
                       tolerance * (1 + size));
}

void check_order(FlatFunction f, std::span<const Tensor> primals, const CheckGradsOptions& options, int order) {
  const Tensors direction = random_like(primals, 1);
  const Outputs above = moved(f, primals, direction, options.step), below = moved(f, primals, direction, -options.step);
  const Tensors weights = random_like(above, 2);
  const double difference = (inner(weights, above) - inner(weights, below)) / (2 * options.step);
  double derivative = difference;
  if (options.forward) {
    derivative = inner(weights, jvp_flat(f, primals, direction).tangents);
    compare("jvp and the central difference", order, derivative, difference, std::abs(difference), options.tolerance);
  }
  if (options.reverse) {
    const double adjoint = inner(pulled_back(f, primals, weights), direction);
    compare(options.forward ? "vjp and jvp (the adjoint identity)" : "vjp and the central difference", order, adjoint,
            derivative, std::abs(derivative), options.tolerance);
  }

  if (order == options.order) return;
  if (options.forward)
    check_order([&](std::span<const Tensor> xs) { return jvp_flat(f, xs, direction).tangents; }, primals, options,
                order + 1);
  if (options.reverse)
    check_order([&](std::span<const Tensor> xs) { return pulled_back(f, xs, weights); }, primals, options, order + 1);
}

}  // namespace

void check_grads_flat(FlatFunction f, std::span<const Tensor> primals, const CheckGradsOptions& options) {
  if (options.order < 1) fail<TransformError>("check_grads: .order = {} should be at least 1", options.order);
  for (const Tensor& primal : primals)
    if (is_half_float(primal.dtype()))
      fail<DtypeError>("check_grads: {} has too few digits for differences: check in float32 or float64",
                       primal.dtype());
  CheckGradsOptions filled = options;
  const double epsilon = epsilon_of(all_float64(primals) ? float64 : float32);
  if (filled.step == 0) filled.step = std::cbrt(epsilon);
  if (filled.tolerance == 0) filled.tolerance = tolerance_for(primals);
  check_order(f, primals, filled, 1);
}

}  // namespace stave
