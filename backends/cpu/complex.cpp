#include <stave/backends/cpu/complex.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

#include <stave/core/op/op.h>

namespace stave_cpu {

using stave::ComplexElement;
using Z = std::complex<double>;

namespace {

// ---- functions ----------------------------------------------------------------------------------
// They are computed in double. complex64 rounds the result once.

// x^2 + 2x + y^2, accurate also where the terms cancel: products and sums are exact pairs of
// doubles.
double squared_radius_minus_one(double x, double y) {
  const double square = x * x, square_rest = std::fma(x, x, -square);
  const double other = y * y, other_rest = std::fma(y, y, -other);
  const auto sum = [](double a, double b, double& rest) {
    const double total = a + b, added = total - a;
    rest += (a - (total - added)) + (b - added);
    return total;
  };
  double rest = square_rest + other_rest;
  const double pair = sum(square, other, rest);
  return sum(2 * x, pair, rest) + rest;
}

Z log1p(Z z) {
  const double x = z.real(), y = z.imag();
  if (!(std::abs(x) < 1 && std::abs(y) < 1)) return std::log(1.0 + z);
  return {0.5 * std::log1p(squared_radius_minus_one(x, y)), std::atan2(y, 1 + x)};
}

Z expm1(Z z) {
  const double x = z.real(), y = z.imag();
  if (!std::isfinite(x) || !std::isfinite(y)) return std::exp(z) - 1.0;
  if (y == 0) return {std::expm1(x), y};
  const double half = std::sin(y / 2);
  return {std::expm1(x) * std::cos(y) - 2 * half * half, std::exp(x) * std::sin(y)};
}

// The sum of these two is log(2).
constexpr double log_2 = 0.6931471805599453, log_2_rest = 2.3190468138462996e-17;

Z exp2(Z z) {
  const double x = z.real(), y = z.imag();
  if (!std::isfinite(x) || !std::isfinite(y)) return std::exp(Z(x, y * log_2));
  if (y == 0) return {std::exp2(x), y};
  const double angle = y * log_2, rest = std::fma(y, log_2, -angle) + y * log_2_rest;
  const double c = std::cos(angle), s = std::sin(angle);
  const double root = std::exp2(x / 2);  // of the length, which may overflow where a part does not
  return root * (root * Z(c - rest * s, s + rest * c));
}

Z log2(Z z) {
  const Z natural = std::log(z);
  return {natural.real() * 1.4426950408889634, natural.imag() * 1.4426950408889634};
}
Z log10(Z z) {
  const Z natural = std::log(z);
  return {natural.real() * 0.4342944819032518, natural.imag() * 0.4342944819032518};
}

// 1 / (1 + e^-z), with an exponential that does not overflow.
Z sigmoid(Z z) {
  if (z.real() >= 0) return 1.0 / (1.0 + std::exp(-z));
  const Z e = std::exp(z);
  return e / (1.0 + e);
}
Z logistic_density(Z z) {
  const Z e = std::exp(z.real() >= 0 ? -z : z), sum = 1.0 + e;
  return e / (sum * sum);
}
Z sech_squared(Z z) {
  const Z e = std::exp(z.real() >= 0 ? -2.0 * z : 2.0 * z), sum = 1.0 + e;
  return 4.0 * (e / (sum * sum));
}

// The inverses of odd functions are computed for parts that are not negative, so that their
// symmetries are exact.
template <class F>
Z with_signs_of(Z z, F f) {
  const Z y = f(Z(std::abs(z.real()), std::abs(z.imag())));
  return {std::copysign(y.real(), z.real()), std::copysign(y.imag(), z.imag())};
}

// Small integer powers are products, as in NumPy: they are exact where the products are.
Z pow(Z a, Z b) {
  if (b == Z(0)) return 1;
  if (a == Z(0)) {
    if (b.real() > 0) return 0;
    return {std::nan(""), std::nan("")};
  }
  constexpr double most = 100;
  if (b.imag() == 0 && std::abs(b.real()) <= most && b.real() == std::trunc(b.real())) {
    Z power = 1, factor = a;
    for (int n = static_cast<int>(std::abs(b.real())); n > 0; n /= 2) {
      if (n % 2) power *= factor;
      if (n > 1) factor *= factor;
    }
    return b.real() < 0 ? 1.0 / power : power;
  }
  return std::pow(a, b);
}
Z power_rule(Z a, Z b) { return b == Z(0) ? 0 : b * pow(a, b - 1.0); }

template <class T>
bool is_zero(ComplexElement<T> z) {
  return z.re == 0 && z.im == 0;
}
template <class T>
bool is_infinite(ComplexElement<T> z) {
  return std::isinf(z.re) || std::isinf(z.im);
}
template <class T>
bool is_finite(ComplexElement<T> z) {
  return std::isfinite(z.re) && std::isfinite(z.im);
}
// Infinite parts become 1 or -1, and finite ones become 0.
template <class T>
ComplexElement<T> direction_of_infinite(ComplexElement<T> z) {
  return {std::copysign(T(std::isinf(z.re)), z.re), std::copysign(T(std::isinf(z.im)), z.im)};
}

// a / b by Smith's method ("Algorithm 116: Complex division", 1962), which neither overflows nor
// underflows in the squares of the parts. As in Annex G of C99, a number divided by 0 is infinite,
// and so is an infinite number divided by a finite one; a finite number divided by an infinite one
// is 0.
template <class T>
ComplexElement<T> divided(ComplexElement<T> a, ComplexElement<T> b) {
  if (is_infinite(b) && is_finite(a)) {
    const ComplexElement<T> d = direction_of_infinite(b);
    return {T(0) * (a.re * d.re + a.im * d.im), T(0) * (a.im * d.re - a.re * d.im)};
  }
  if (is_infinite(a) && is_finite(b) && !is_zero(b)) {
    const ComplexElement<T> d = direction_of_infinite(a);
    const T infinity = std::numeric_limits<T>::infinity();
    return {infinity * (d.re * b.re + d.im * b.im), infinity * (d.im * b.re - d.re * b.im)};
  }
  if (std::abs(b.re) >= std::abs(b.im)) {
    if (b.re == 0) return {a.re / std::abs(b.re), a.im / std::abs(b.re)};
    const T ratio = b.im / b.re, whole = b.re + b.im * ratio;
    return {(a.re + a.im * ratio) / whole, (a.im - a.re * ratio) / whole};
  }
  const T ratio = b.re / b.im, whole = b.re * ratio + b.im;
  return {(a.re * ratio + a.im) / whole, (a.im * ratio - a.re) / whole};
}

// ---- kernels ------------------------------------------------------------------------------------

// `f` has no state, and so it is a parameter of the kernel's type.
template <class T, class Result, class F>
BlockKernel unary_kernel(F) {
  return [](void* out, const void* const* in, Index n) {
    for (Index i = 0; i < n; ++i) static_cast<Result*>(out)[i] = F()(static_cast<const T*>(in[0])[i]);
  };
}
template <class T, class Result, class F>
BlockKernel binary_kernel(F) {
  return [](void* out, const void* const* in, Index n) {
    for (Index i = 0; i < n; ++i)
      static_cast<Result*>(out)[i] = F()(static_cast<const T*>(in[0])[i], static_cast<const T*>(in[1])[i]);
  };
}

/// Returns the kernel of a function that is computed in double.
template <class T, class F>
BlockKernel function_kernel(F) {
  return unary_kernel<ComplexElement<T>, ComplexElement<T>>(
      [](ComplexElement<T> z) { return ComplexElement<T>(F()(Z(z.re, z.im))); });
}

template <class T>
BlockKernel kernel_of(OpId op) {
  using C = ComplexElement<T>;
  switch (op) {
    case OpId::negative: return unary_kernel<C, C>([](C z) { return -z; });
    case OpId::square: return unary_kernel<C, C>([](C z) { return z * z; });
    case OpId::reciprocal: return unary_kernel<C, C>([](C z) { return divided(C(T(1), T(0)), z); });
    case OpId::sqrt: return function_kernel<T>([](Z z) { return std::sqrt(z); });
    case OpId::rsqrt: return function_kernel<T>([](Z z) { return 1.0 / std::sqrt(z); });
    case OpId::exp: return function_kernel<T>([](Z z) { return std::exp(z); });
    case OpId::exp2: return function_kernel<T>([](Z z) { return exp2(z); });
    case OpId::expm1: return function_kernel<T>([](Z z) { return expm1(z); });
    case OpId::log: return function_kernel<T>([](Z z) { return std::log(z); });
    case OpId::log2: return function_kernel<T>([](Z z) { return log2(z); });
    case OpId::log10: return function_kernel<T>([](Z z) { return log10(z); });
    case OpId::log1p: return function_kernel<T>([](Z z) { return log1p(z); });
    case OpId::sin: return function_kernel<T>([](Z z) { return std::sin(z); });
    case OpId::cos: return function_kernel<T>([](Z z) { return std::cos(z); });
    case OpId::tan: return function_kernel<T>([](Z z) { return std::tan(z); });
    case OpId::asin: return function_kernel<T>([](Z z) { return std::asin(z); });
    case OpId::acos: return function_kernel<T>([](Z z) { return std::acos(z); });
    case OpId::atan: return function_kernel<T>([](Z z) { return with_signs_of(z, [](Z a) { return std::atan(a); }); });
    case OpId::sinh: return function_kernel<T>([](Z z) { return std::sinh(z); });
    case OpId::cosh: return function_kernel<T>([](Z z) { return std::cosh(z); });
    case OpId::tanh: return function_kernel<T>([](Z z) { return std::tanh(z); });
    case OpId::asinh: return function_kernel<T>([](Z z) { return std::asinh(z); });
    case OpId::acosh: return function_kernel<T>([](Z z) { return std::acosh(z); });
    case OpId::atanh:
      return function_kernel<T>([](Z z) { return with_signs_of(z, [](Z a) { return std::atanh(a); }); });
    case OpId::sech_squared: return function_kernel<T>([](Z z) { return sech_squared(z); });
    case OpId::sigmoid: return function_kernel<T>([](Z z) { return sigmoid(z); });
    case OpId::logistic_density: return function_kernel<T>([](Z z) { return logistic_density(z); });
    case OpId::pow: return binary_kernel<C, C>([](C a, C b) { return C(pow(Z(a.re, a.im), Z(b.re, b.im))); });
    case OpId::power_rule:
      return binary_kernel<C, C>([](C a, C b) { return C(power_rule(Z(a.re, a.im), Z(b.re, b.im))); });
    case OpId::conj: return unary_kernel<C, C>([](C z) { return C(z.re, -z.im); });
    case OpId::add: return binary_kernel<C, C>([](C a, C b) { return a + b; });
    case OpId::subtract: return binary_kernel<C, C>([](C a, C b) { return a - b; });
    case OpId::multiply: return binary_kernel<C, C>([](C a, C b) { return a * b; });
    case OpId::scale: return binary_kernel<C, C>([](C a, C b) { return is_zero(a) || is_zero(b) ? C(0) : a * b; });
    case OpId::divide: return binary_kernel<C, C>([](C a, C b) { return divided(a, b); });
    case OpId::scale_by_inverse:
      return binary_kernel<C, C>(
          [](C a, C b) { return is_zero(a) || std::isinf(b.re) || std::isinf(b.im) ? C(0) : divided(a, b); });
    case OpId::equal: return binary_kernel<C, bool>([](C a, C b) { return a == b; });
    case OpId::not_equal: return binary_kernel<C, bool>([](C a, C b) { return !(a == b); });
    default: return nullptr;
  }
}

template <class T>
BlockKernel part_kernel(OpId op) {
  switch (op) {
    case OpId::real: return unary_kernel<ComplexElement<T>, T>([](ComplexElement<T> z) { return z.re; });
    case OpId::imag: return unary_kernel<ComplexElement<T>, T>([](ComplexElement<T> z) { return z.im; });
    default: return binary_kernel<T, ComplexElement<T>>([](T re, T im) { return ComplexElement<T>(re, im); });
  }
}

// ---- products -----------------------------------------------------------------------------------

/// Products of complex numbers, accumulated in double.
template <class T>
struct Products {
  using C = ComplexElement<T>;
  using Sum = ComplexElement<double>;
  static void start(void* accumulator, Index n) {
    for (Index c = 0; c < n; ++c) static_cast<Sum*>(accumulator)[c] = Sum(1);
  }
  static void fold(const C* x, Index n, Sum& product) {
    for (Index i = 0; i < n; ++i) product = product * Sum(x[i]);
  }
  static void row(const void* in, Index n, void* accumulator) {
    fold(static_cast<const C*>(in), n, *static_cast<Sum*>(accumulator));
  }
  static void rows(const void* in, Index count, Index stride, Index n, void* accumulator) {
    for (Index r = 0; r < count; ++r)
      fold(static_cast<const C*>(in) + r * stride, n, static_cast<Sum*>(accumulator)[r]);
  }
  static void columns(const void* in, Index count, Index stride, Index n, void* accumulator) {
    for (Index r = 0; r < count; ++r)
      for (Index c = 0; c < n; ++c)
        fold(static_cast<const C*>(in) + r * stride + c, 1, static_cast<Sum*>(accumulator)[c]);
  }
  static void merge(void* accumulator, const void* other, Index n) {
    for (Index c = 0; c < n; ++c) {
      Sum& product = static_cast<Sum*>(accumulator)[c];
      product = product * static_cast<const Sum*>(other)[c];
    }
  }
  static void finish(const void* accumulator, Index n, void* out) {
    for (Index c = 0; c < n; ++c) static_cast<C*>(out)[c] = C(static_cast<const Sum*>(accumulator)[c]);
  }
};

/// Scans of complex numbers, computed in double: h = h * a + b, or h = h * a.
template <class T, bool adds>
struct Recurrences {
  using C = ComplexElement<T>;
  using State = ComplexElement<double>;
  static void start(void* state, Index n) {
    for (Index c = 0; c < n; ++c) static_cast<State*>(state)[c] = State(adds ? 0 : 1);
  }
  static C next(State& h, C a, C b) {
    const bool vanishes = adds && (is_zero(a) || is_zero(h));
    h = vanishes ? State(0) : State(a) * h;
    if (adds) h = h + State(b);
    return C(h);
  }
  static void row(const void* const* in, Index n, void* state, void* out) {
    const auto *a = static_cast<const C*>(in[0]), *b = static_cast<const C*>(in[adds]);
    for (Index i = 0; i < n; ++i) static_cast<C*>(out)[i] = next(*static_cast<State*>(state), a[i], b[i]);
  }
  static void columns(const void* const* in, Index n, void* state, void* out) {
    const auto *a = static_cast<const C*>(in[0]), *b = static_cast<const C*>(in[adds]);
    for (Index c = 0; c < n; ++c) static_cast<C*>(out)[c] = next(static_cast<State*>(state)[c], a[c], b[c]);
  }
};

void where_16_bytes(void* out, const void* const* in, Index n) {
  const auto* const condition = static_cast<const std::uint8_t*>(in[0]);
  using stave::Bytes16;
  for (Index i = 0; i < n; ++i)
    static_cast<Bytes16*>(out)[i] = static_cast<const Bytes16*>(in[condition[i] ? 1 : 2])[i];
}

/// Calls f with the type of the parts of a complex dtype.
template <class F>
auto visit_parts(Dtype dtype, F f) {
  return stave::size_of(dtype) == sizeof(ComplexElement<float>) ? f(float()) : f(double());
}

}  // namespace

BlockKernel complex_kernel(OpId op, Dtype dtype) {
  return visit_parts(dtype, [&]<class T>(T) { return kernel_of<T>(op); });
}

BlockKernel parts_kernel(OpId op, Dtype parts) {
  return parts == Dtype::float32 ? part_kernel<float>(op) : part_kernel<double>(op);
}

BlockKernel complex_conversion(Dtype from, Dtype to) {
  if (to == Dtype::bool_)
    return visit_parts(from, []<class T>(T) {
      return unary_kernel<ComplexElement<T>, bool>([](ComplexElement<T> z) { return !is_zero(z); });
    });
  if (!stave::is_complex(to)) return nullptr;
  return visit_parts(to, [&]<class T>(T) {
    return stave::visit_dtype(from, []<class From>(From) {
      return unary_kernel<From, ComplexElement<T>>([](From x) { return ComplexElement<T>(x); });
    });
  });
}

BlockKernel where_kernel(Dtype dtype) {
  if (!stave::is_complex(dtype)) return kernels().where[static_cast<int>(dtype)];
  // An element of eight bytes is moved as a double.
  return dtype == Dtype::complex128 ? where_16_bytes : kernels().where[static_cast<int>(Dtype::float64)];
}

Reduction complex_product(Dtype dtype) {
  return visit_parts(dtype, []<class T>(T) -> Reduction {
    using P = Products<T>;
    return {1, sizeof(typename P::Sum), P::start, P::row, P::rows, P::columns, P::merge, P::finish};
  });
}

Scan complex_scan(OpId op, Dtype dtype) {
  return visit_parts(dtype, [&]<class T>(T) -> Scan {
    using Product = Recurrences<T, false>;
    using Sum = Recurrences<T, true>;
    if (op == OpId::cumulative_prod)
      return {1, sizeof(typename Product::State), Product::start, Product::row, Product::columns};
    return {1, sizeof(typename Sum::State), Sum::start, Sum::row, Sum::columns};
  });
}

WithPartsApart::WithPartsApart(const stave::View& z) : shape(z.shape), strides(z.strides) {
  for (Index& stride : strides) stride *= 2;
  shape.push_back(2);
  strides.push_back(1);
  view = {z.data, stave::real_of(z.dtype), shape, strides, z.is_host_constant};
}

}  // namespace stave_cpu
