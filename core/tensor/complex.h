// The elements of complex dtypes: two floats of one type, the real part first, as in std::complex.
//
// All functions are inlined, and no object file contains a call of them: the kernels of each
// instruction set include this file (backends/cpu/kernels/isa.h). The functions of std::complex
// would not be, and the header <complex> is long.
#pragma once

#include <concepts>
#include <type_traits>

namespace stave {

/// std::complex of a floating-point type, and types with the same members.
template <class T>
concept ComplexNumber = requires(const T& z) {
  { z.real() } -> std::floating_point;
  { z.imag() } -> std::floating_point;
};

template <class T>
struct ComplexElement {
  using Real = T;
  T re, im;

  ComplexElement() = default;
  [[gnu::always_inline]] constexpr ComplexElement(T re_, T im_) : re(re_), im(im_) {}
  /// A real number; the imaginary part is 0.
  template <class N>
    requires std::is_convertible_v<N, double>
  [[gnu::always_inline]] constexpr explicit ComplexElement(N number) : re(static_cast<T>(number)), im(0) {}
  template <ComplexNumber Z>
  [[gnu::always_inline]] constexpr explicit(sizeof(Z) != 2 * sizeof(T)) ComplexElement(const Z& z)
      : re(static_cast<T>(z.real())), im(static_cast<T>(z.imag())) {}
  template <ComplexNumber Z>
    requires std::is_constructible_v<Z, T, T>
  [[gnu::always_inline]] constexpr operator Z() const {
    return Z(re, im);
  }

  [[gnu::always_inline]] constexpr T real() const { return re; }
  [[gnu::always_inline]] constexpr T imag() const { return im; }

  [[gnu::always_inline]] constexpr friend ComplexElement operator+(ComplexElement a, ComplexElement b) {
    return {a.re + b.re, a.im + b.im};
  }
  [[gnu::always_inline]] constexpr friend ComplexElement operator-(ComplexElement a, ComplexElement b) {
    return {a.re - b.re, a.im - b.im};
  }
  [[gnu::always_inline]] constexpr friend ComplexElement operator-(ComplexElement a) { return {-a.re, -a.im}; }
  [[gnu::always_inline]] constexpr friend ComplexElement operator*(ComplexElement a, ComplexElement b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  [[gnu::always_inline]] constexpr friend bool operator==(ComplexElement a, ComplexElement b) {
    return a.re == b.re && a.im == b.im;
  }
};

}  // namespace stave
