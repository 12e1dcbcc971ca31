// Sequences of numbers, and matrices of powers.

#include <stave/core/ops/sequences.h>

#include <cmath>

#include <stave/core/op/op.h>
#include <stave/core/ops/complex.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/layout_rules.h>
#include <stave/core/ops/scan.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

Tensor linspace(Scalar start, Scalar stop, Index count, SequenceOptions options) {
  return linspace(start, stop, count, complex_of(default_dtype()), options);
}

Tensor linspace(Scalar first, Scalar last, Index count, Dtype dtype, SequenceOptions options) {
  const ComplexElement<double> start = first.complex(), stop = last.complex();
  if (!is_complex(dtype)) fail<DtypeError>("linspace: {} does not hold complex numbers", dtype);
  const auto part = [&](double from, double to) {
    return linspace(from, to, count, real_of(dtype), options.device, options.endpoint);
  };
  return complex(part(start.real(), stop.real()), part(start.imag(), stop.imag()));
}

namespace {

// Numbers that are computed on the host in float64 and rounded once.
template <class F>
Tensor sequence_of(const char* function, Index count, Dtype dtype, const SequenceOptions& options, F number) {
  if (count < 0) fail<ShapeError>("{}: count is {}", function, count);
  if (!is_float(dtype)) fail<DtypeError>("{}: {} is not a floating dtype", function, dtype);
  const Index steps = options.endpoint ? count - 1 : count;
  std::vector<double> numbers;
  for (Index i = 0; i < count; ++i)
    numbers.push_back(number(steps > 0 ? static_cast<double>(i) / static_cast<double>(steps) : 0.));
  return astype(from(numbers, options.device), dtype);
}

}  // namespace

Tensor logspace(double start, double stop, Index count, double base, Dtype dtype, SequenceOptions options) {
  return sequence_of("logspace", count, dtype, options,
                     [&](double share) { return std::pow(base, share == 1 ? stop : start + share * (stop - start)); });
}

Tensor geomspace(double start, double stop, Index count, Dtype dtype, SequenceOptions options) {
  if (start == 0 || stop == 0 || (start < 0) != (stop < 0))
    fail<Error>("geomspace: {} and {} must have the same sign and not be 0", start, stop);
  return sequence_of("geomspace", count, dtype, options, [&](double share) {
    // Both ends are exact.
    return share == 0 ? start : share == 1 ? stop : start * std::pow(stop / start, share);
  });
}

Tensor vander(const Tensor& x, VanderOptions options) {
  return named(
      "vander",
      [&] {
        if (x.rank() < 1) fail<ShapeError>("vander: a tensor of rank 0 has no elements along an axis");
        if (options.columns < -1) fail<ShapeError>("vander: {} columns", options.columns);
        const Index columns = options.columns < 0 ? x.shape(-1) : options.columns;
        Shape shape = x.shape();
        shape.push_back(std::max<Index>(columns - 1, 0));
        const Tensor number = x.dtype() == bool_ ? astype(x, int32) : x;
        const Tensor factors = broadcast_to(expand_dims(number, Shape{-1}), shape);
        const Tensor powers = astype(cumulative_prod(factors, -1, {.include_initial = true}), number.dtype());
        const Tensor needed = entries(powers, powers.rank() - 1, 0, columns);
        return options.increasing ? needed : flip(needed, -1);
      },
      x);
}

}  // namespace stave
