#include <stave/backends/cpu/complex.h>

#include <complex>
#include <cstring>
#include <type_traits>

#include <stave/core/op/op.h>
#include <stave/core/ops/complex_functions.h>

namespace stave_cpu {

using stave::ComplexElement;
using stave_detail::complex_exp2, stave_detail::complex_expm1, stave_detail::complex_log10, stave_detail::complex_log1p,
    stave_detail::complex_log2, stave_detail::complex_logistic_density, stave_detail::complex_pow,
    stave_detail::complex_power_rule, stave_detail::complex_sech_squared, stave_detail::complex_sigmoid,
    stave_detail::divided, stave_detail::is_zero, stave_detail::scaled, stave_detail::scaled_by_inverse;
using Z = std::complex<double>;

namespace {

// The inverses of odd functions are computed for parts that are not negative, so that their
// symmetries are exact.
template <class F>
Z with_signs_of(Z z, F f) {
  const Z y = f(Z(std::abs(z.real()), std::abs(z.imag())));
  return {std::copysign(y.real(), z.real()), std::copysign(y.imag(), z.imag())};
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
    case OpId::exp2: return function_kernel<T>([](Z z) { return complex_exp2(z); });
    case OpId::expm1: return function_kernel<T>([](Z z) { return complex_expm1(z); });
    case OpId::log: return function_kernel<T>([](Z z) { return std::log(z); });
    case OpId::log2: return function_kernel<T>([](Z z) { return complex_log2(z); });
    case OpId::log10: return function_kernel<T>([](Z z) { return complex_log10(z); });
    case OpId::log1p: return function_kernel<T>([](Z z) { return complex_log1p(z); });
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
    case OpId::sech_squared: return function_kernel<T>([](Z z) { return complex_sech_squared(z); });
    case OpId::sigmoid: return function_kernel<T>([](Z z) { return complex_sigmoid(z); });
    case OpId::logistic_density: return function_kernel<T>([](Z z) { return complex_logistic_density(z); });
    case OpId::pow: return binary_kernel<C, C>([](C a, C b) { return C(complex_pow(Z(a.re, a.im), Z(b.re, b.im))); });
    case OpId::power_rule:
      return binary_kernel<C, C>([](C a, C b) { return C(complex_power_rule(Z(a.re, a.im), Z(b.re, b.im))); });
    case OpId::conj: return unary_kernel<C, C>([](C z) { return C(z.re, -z.im); });
    case OpId::add: return binary_kernel<C, C>([](C a, C b) { return a + b; });
    case OpId::subtract: return binary_kernel<C, C>([](C a, C b) { return a - b; });
    case OpId::multiply: return binary_kernel<C, C>([](C a, C b) { return a * b; });
    case OpId::scale: return binary_kernel<C, C>([](C a, C b) { return scaled(a, b); });
    case OpId::divide: return binary_kernel<C, C>([](C a, C b) { return divided(a, b); });
    case OpId::scale_by_inverse: return binary_kernel<C, C>([](C a, C b) { return scaled_by_inverse(a, b); });
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
  static void merge(void* accumulator, Index, const void* other, Index, Index n) {
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

}  // namespace stave_cpu
