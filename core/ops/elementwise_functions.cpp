// Elementwise functions composed of the operations of elementwise.h.

#include <stave/core/ops/elementwise_functions.h>

#include <array>
#include <limits>
#include <numbers>

#include <stave/core/op/op.h>
#include <stave/core/ops/complex.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// Calls the body with two operands as tensors of their common dtype and shape.
template <class Body>
auto with_common(const char* function, Operand a, Operand b, Body&& body) {
  check_defined(function, {&a, &b});
  return named(function, [&] {
    const Dtype dtype = dtype_of_both(a, b);
    const Device device = device_of({&a, &b});
    const Shape shape = broadcast_shapes(shape_of(a), shape_of(b), function);
    const Tensor x = as_tensor(std::move(a), dtype, &shape, device), y = as_tensor(std::move(b), dtype, &shape, device);
    return body(x, y);
  });
}

void check_integers(const Tensor& x, const char* function) {
  if (!is_integer(x.dtype()))
    fail<DtypeError>("{}: {} is not an integer dtype: convert with astype", function, x.dtype());
}

// Returns how many steps Euclid's algorithm takes at most for integers of this dtype: consecutive
// Fibonacci numbers take the most, and F(n) is about 1.618^n / 2.236.
int euclidean_steps(Dtype dtype) { return static_cast<int>(1.4405 * 8 * static_cast<double>(size_of(dtype))) + 3; }

Tensor gcd_of(Tensor a, Tensor b) {
  a = abs(a);
  b = abs(b);
  for (int step = euclidean_steps(a.dtype()); step > 0; --step) {
    const Tensor rest = a % b;  // An integer modulo 0 is 0.
    const Tensor done = b == 0;
    a = where(done, a, b);
    b = where(done, b, rest);
  }
  return a;
}

// The exponents of the least normal and of the greatest power of two.
int least_exponent(Dtype dtype) { return dtype == float64 ? -1022 : -126; }
int greatest_exponent(Dtype dtype) { return dtype == float64 ? 1023 : 127; }

// Returns x 2^e for floats e, which are integers. Only the last product may be rounded: the first
// one brings a result that is subnormal close to the normal numbers, and a large x away from the
// overflow.
Tensor times_power_of_two(const Tensor& x, const Tensor& e) {
  const int least = least_exponent(x.dtype()), greatest = greatest_exponent(x.dtype());
  const Tensor last = clip(e, least, greatest), first = clip(e - last, 2 * least, 2 * greatest);
  const Tensor half = floor(first * 0.5);
  return x * exp2(half) * exp2(first - half) * exp2(last);
}

}  // namespace

Tensor positive(const Tensor& x) {
  return named(
      "positive", [&] { return x.dtype() == bool_ ? astype(x, int32) : x; }, x);
}

Tensor fmax(Operand a, Operand b) {
  return with_common("fmax", std::move(a), std::move(b), [](const Tensor& x, const Tensor& y) {
    return where(isnan(x), y, where(isnan(y), x, maximum(x, y)));
  });
}
Tensor fmin(Operand a, Operand b) {
  return with_common("fmin", std::move(a), std::move(b), [](const Tensor& x, const Tensor& y) {
    return where(isnan(x), y, where(isnan(y), x, minimum(x, y)));
  });
}

Tensor heaviside(Operand x, Operand at_zero) {
  return with_common("heaviside", std::move(x), std::move(at_zero), [](const Tensor& t, const Tensor& middle) {
    const Tensor u = floating(t), v = floating(middle);
    return where(u == 0, v, where(isnan(u), not_a_number, astype(u > 0, u.dtype())));
  });
}

std::pair<Tensor, Tensor> divmod(Operand a, Operand b) {
  return with_common("divmod", std::move(a), std::move(b),
                     [](const Tensor& x, const Tensor& y) { return std::pair(floor_divide(x, y), remainder(x, y)); });
}

Tensor float_power(Operand a, Operand b) {
  return with_common("float_power", std::move(a), std::move(b), [](const Tensor& x, const Tensor& y) {
    const Dtype dtype = is_complex(x.dtype()) ? complex128 : float64;
    return pow(astype(x, dtype), astype(y, dtype));
  });
}

Tensor gcd(Operand a, Operand b) {
  return with_common("gcd", std::move(a), std::move(b), [](const Tensor& x, const Tensor& y) {
    check_integers(x, "gcd");
    return gcd_of(x, y);
  });
}
Tensor lcm(Operand a, Operand b) {
  return with_common("lcm", std::move(a), std::move(b), [](const Tensor& x, const Tensor& y) {
    check_integers(x, "lcm");
    return abs(floor_divide(x, maximum(gcd_of(x, y), 1)) * y);
  });
}

Tensor ldexp(Operand x, Operand exponent) {
  if (exponent.is_scalar() ? exponent.scalar().kind == Scalar::Kind::floating : is_inexact(exponent.tensor().dtype()))
    fail<DtypeError>("ldexp: the exponent must be an integer");
  const Device device = device_of({&x, &exponent});
  const Tensor t = x.is_scalar() ? constant(x.scalar(), x.scalar().alone(), {}, device) : std::move(x).tensor();
  const Tensor e = exponent.is_scalar() ? constant(exponent.scalar(), int64, {}, device) : std::move(exponent).tensor();
  return named(
      "ldexp",
      [&] {
        const Tensor number = floating(t);
        const Dtype dtype = number.dtype(), computed = computed_in(dtype);
        // Beyond these exponents every result is 0 or infinite.
        const Tensor bounded = astype(clip(astype(e, int64), -5000, 5000), computed);
        return astype(times_power_of_two(astype(number, computed), bounded), dtype);
      },
      t, e);
}

std::pair<Tensor, Tensor> frexp(const Tensor& x) {
  return named(
      "frexp",
      [&] {
        const Tensor number = floating(x);
        const Dtype dtype = number.dtype(), computed = computed_in(dtype);
        const Tensor t = astype(number, computed), size = abs(stop_gradient(t));
        const Tensor is_ordinary = logical_and(isfinite(size), size > 0);
        // Subnormal numbers are scaled up first.
        const int up = 64;
        const Tensor is_tiny = size < std::ldexp(1.0, least_exponent(computed));
        const Tensor base = where(is_tiny, size * std::ldexp(1.0, up), size);
        Tensor e = where(is_ordinary, floor(log2(where(is_ordinary, base, 1))) + 1, 0) - where(is_tiny, up, 0);
        e = where(is_ordinary, e, 0);
        // The logarithm is rounded, so the exponent may be wrong by one near powers of two.
        const Tensor mantissa = times_power_of_two(size, -e);
        e = where(is_ordinary, e + astype(mantissa >= 1, computed) - astype(mantissa < 0.5, computed), 0);
        return std::pair(astype(times_power_of_two(t, -e), dtype), astype(e, int32));
      },
      x);
}

std::pair<Tensor, Tensor> modf(const Tensor& x) {
  return named(
      "modf",
      [&] {
        const Tensor number = floating(x), whole = trunc(number);
        const Tensor rest = where(isinf(number), 0, number - whole);
        return std::pair(copysign(rest, number), copysign(whole, number));
      },
      x);
}

Tensor nan_to_num(const Tensor& x, NanToNumOptions options) {
  return named(
      "nan_to_num",
      [&] {
        const auto replaced = [&](const Tensor& t) -> Tensor {
          if (!is_float(t.dtype())) return t;
          const double most = t.dtype() == float64    ? std::numeric_limits<double>::max()
                              : t.dtype() == float16  ? 65504.
                              : t.dtype() == bfloat16 ? 0x1.FEp127
                                                      : std::numeric_limits<float>::max();
          const double high = options.posinf.value_or(most), low = options.neginf.value_or(-most);
          const double infinity = std::numeric_limits<double>::infinity();
          return where(isnan(t), options.nan, where(t == infinity, high, where(t == -infinity, low, t)));
        };
        return is_complex(x.dtype()) ? complex(replaced(real(x)), replaced(imag(x))) : replaced(x);
      },
      x);
}

Tensor real_if_close(const Tensor& z, double tolerance) {
  return named(
      "real_if_close",
      [&] {
        if (!is_complex(z.dtype())) return z;
        const double bound = tolerance > 1 ? tolerance * epsilon_of(z.dtype()) : tolerance;
        return all(abs(imag(stop_gradient(z))) < bound).item<bool>() ? real(z) : z;
      },
      z);
}

Tensor deg2rad(const Tensor& x) {
  return named(
      "deg2rad", [&] { return floating(x) * (std::numbers::pi / 180); }, x);
}
Tensor rad2deg(const Tensor& x) {
  return named(
      "rad2deg", [&] { return floating(x) * (180 / std::numbers::pi); }, x);
}

Tensor isclose(Operand a, Operand b, IsCloseOptions options) {
  return with_common("isclose", std::move(a), std::move(b), [&](const Tensor& x, const Tensor& y) {
    const Tensor t = floating(x), u = astype(t, computed_in(t.dtype())), v = astype(y, u.dtype());
    const Tensor is_near = abs(u - v) <= options.atol + options.rtol * abs(v);
    const Tensor is_close = where(logical_and(isfinite(u), isfinite(v)), is_near, u == v);
    return options.equal_nan ? logical_or(is_close, logical_and(isnan(u), isnan(v))) : is_close;
  });
}

}  // namespace stave
