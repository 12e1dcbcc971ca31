// Element types of tensors, and their promotion.
//
// Promotion follows the table of the Python array API standard. Where the table is silent, an
// integer with a float gives that float, an integer with a complex dtype gives that complex dtype,
// bool with any dtype gives that dtype (as in JAX), and float16 with bfloat16 gives float32. uint64
// with a signed integer is an error: no dtype holds both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <stave/core/tensor/complex.h>
#include <stave/core/tensor/half.h>

namespace stave {

// clang-format off
// X(dtype, type): every dtype with the C++ type of an element.
#define STAVE_DTYPES(X)                                                                                            \
  STAVE_REALS(X) STAVE_COMPLEX(X)
#define STAVE_REALS(X)                                                                                             \
  X(bool_, bool) STAVE_INTEGERS(X) STAVE_FLOATS(X)
#define STAVE_INTEGERS(X)                                                                                          \
  X(uint8, std::uint8_t) X(uint16, std::uint16_t) X(uint32, std::uint32_t) X(uint64, std::uint64_t)                \
  X(int8, std::int8_t) X(int16, std::int16_t) X(int32, std::int32_t) X(int64, std::int64_t)
#define STAVE_FLOATS(X)                                                                                            \
  X(float16, stave::Float16) X(bfloat16, stave::BFloat16) X(float32, float) X(float64, double)
#define STAVE_COMPLEX(X)                                                                                           \
  X(complex64, stave::ComplexElement<float>) X(complex128, stave::ComplexElement<double>)
// clang-format on

enum class Dtype : std::uint8_t {
#define X(name, type) name,
  STAVE_DTYPES(X)
#undef X
};
#define X(name, type) inline constexpr Dtype name = Dtype::name;
STAVE_DTYPES(X)
#undef X
#define X(name, type) +1
inline constexpr int dtype_count = STAVE_DTYPES(X);
inline constexpr int real_dtype_count = STAVE_REALS(X);  // these come first
#undef X

/// The properties of a dtype.
struct DtypeRecord {
  enum class Kind : std::uint8_t { boolean, unsigned_integer, signed_integer, floating, complex };
  const char* name;
  std::size_t size;  // the size of an element, in bytes
  Kind kind;
};
template <class T>
inline constexpr DtypeRecord::Kind kind_of_element = std::is_same_v<T, bool>  ? DtypeRecord::Kind::boolean
                                                     : ComplexNumber<T>       ? DtypeRecord::Kind::complex
                                                     : !std::is_integral_v<T> ? DtypeRecord::Kind::floating
                                                     : std::is_signed_v<T>    ? DtypeRecord::Kind::signed_integer
                                                                              : DtypeRecord::Kind::unsigned_integer;
inline constexpr DtypeRecord dtype_records[dtype_count] = {
#define X(name, type) {Dtype::name == Dtype::bool_ ? "bool" : #name, sizeof(type), kind_of_element<type>},
    STAVE_DTYPES(X)
#undef X
};
constexpr const DtypeRecord& record_of(Dtype dtype) { return dtype_records[static_cast<int>(dtype)]; }
constexpr std::size_t size_of(Dtype dtype) { return record_of(dtype).size; }
constexpr const char* name_of(Dtype dtype) { return record_of(dtype).name; }
constexpr bool is_float(Dtype dtype) { return record_of(dtype).kind == DtypeRecord::Kind::floating; }
constexpr bool is_complex(Dtype dtype) { return record_of(dtype).kind == DtypeRecord::Kind::complex; }
/// Returns true for floats and complex dtypes: values of these have derivatives.
constexpr bool is_inexact(Dtype dtype) { return is_float(dtype) || is_complex(dtype); }
constexpr bool is_unsigned(Dtype dtype) { return record_of(dtype).kind == DtypeRecord::Kind::unsigned_integer; }
constexpr bool is_signed(Dtype dtype) { return record_of(dtype).kind == DtypeRecord::Kind::signed_integer; }
constexpr bool is_integer(Dtype dtype) { return is_signed(dtype) || is_unsigned(dtype); }
/// Returns true for float16 and bfloat16.
constexpr bool is_half_float(Dtype dtype) { return is_float(dtype) && size_of(dtype) == 2; }
/// The dtype of the real part of a complex number; a real dtype itself.
constexpr Dtype real_of(Dtype dtype) {
  return dtype == Dtype::complex64 ? Dtype::float32 : dtype == Dtype::complex128 ? Dtype::float64 : dtype;
}
/// The complex dtype that holds numbers of `dtype`: complex128 for float64 and complex128, else
/// complex64.
constexpr Dtype complex_of(Dtype dtype) {
  return real_of(dtype) == Dtype::float64 ? Dtype::complex128 : Dtype::complex64;
}

}  // namespace stave

namespace stave_detail {
[[noreturn]] void throw_no_common_dtype(stave::Dtype a, stave::Dtype b);
[[noreturn]] void throw_complex(stave::Dtype dtype);
template <class T, class... Others>
inline constexpr bool is_among = (std::is_same_v<T, Others> || ...);
}  // namespace stave_detail

namespace stave {

/// The dtype that holds values of both dtypes, by the rules at the top of this file.
/// Throws DtypeError if there is none.
constexpr Dtype promote(Dtype a, Dtype b) {
  if (a == b || b == Dtype::bool_) return a;
  if (a == Dtype::bool_) return b;
  if (is_complex(a) || is_complex(b)) {
    const bool is_wide = real_of(a) == Dtype::float64 || real_of(b) == Dtype::float64;
    return is_wide ? Dtype::complex128 : Dtype::complex64;
  }
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (is_half_float(a) && is_half_float(b)) return Dtype::float32;
  if (is_float(a) || is_unsigned(a) == is_unsigned(b)) return size_of(a) > size_of(b) ? a : b;
  const Dtype positive = is_unsigned(a) ? a : b, other = is_unsigned(a) ? b : a;
  if (size_of(other) > size_of(positive)) return other;
  if (positive == Dtype::uint8) return Dtype::int16;
  if (positive == Dtype::uint16) return Dtype::int32;
  if (positive == Dtype::uint32) return Dtype::int64;
  stave_detail::throw_no_common_dtype(a, b);
}

/// True if a C++ type is the element type of a dtype: bool; an integer type of at most 8 bytes that
/// is not a character type; float, double; Float16, BFloat16; std::complex<float> and
/// std::complex<double>.
template <class T>
inline constexpr bool has_dtype = (std::is_integral_v<T> && sizeof(T) <= 8 &&
                                   !stave_detail::is_among<T, char, wchar_t, char8_t, char16_t, char32_t>) ||
                                  std::is_same_v<T, float> || std::is_same_v<T, double> || is_half<T>;
template <ComplexNumber T>
inline constexpr bool has_dtype<T> =
    std::is_trivially_copyable_v<T> && sizeof(T) == 2 * sizeof(std::declval<const T&>().real()) && sizeof(T) <= 16;

template <class T>
constexpr Dtype dtype_of() {
  static_assert(has_dtype<T>,
                "no Stave dtype for this type: use bool, an integer type such as int8_t or uint64_t, "
                "stave::Float16, stave::BFloat16, float, double, std::complex<float> or std::complex<double>");
  for (int i = 0; i < dtype_count; ++i) {
    constexpr DtypeRecord::Kind kind = kind_of_element<T>;
    const bool same_half = !is_half<T> || (static_cast<Dtype>(i) == Dtype::float16) == std::is_same_v<T, Float16>;
    if (dtype_records[i].kind == kind && dtype_records[i].size == sizeof(T) && same_half) return static_cast<Dtype>(i);
  }
  return Dtype::bool_;  // not reached
}

/// Calls f with a value of the C++ type of `dtype`: visit_dtype(d, [](auto zero) { using T =
/// decltype(zero); ... }). For complex dtypes T is ComplexElement<float> or ComplexElement<double>.
template <class F>
constexpr decltype(auto) visit_dtype(Dtype dtype, F&& f) {
  switch (dtype) {
#define X(name, type) \
  case Dtype::name: return f(type{});
    STAVE_DTYPES(X)
#undef X
  }
  __builtin_unreachable();
}
/// The same for code that is only reached with real dtypes. Throws DtypeError for a complex one.
template <class F>
constexpr decltype(auto) visit_real_dtype(Dtype dtype, F&& f) {
  switch (dtype) {
#define X(name, type) \
  case Dtype::name: return f(type{});
    STAVE_REALS(X)
#undef X
    case Dtype::complex64:
    case Dtype::complex128: break;
  }
  stave_detail::throw_complex(dtype);
}

/// The unsigned integer type of T's size.
template <class T>
using BitsOf = std::conditional_t<sizeof(T) <= 2, std::conditional_t<sizeof(T) == 1, std::uint8_t, std::uint16_t>,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;

/// An element of sixteen bytes.
struct Bytes16 {
  std::uint64_t words[2];
};
/// Calls f with an element of `bytes` bytes (1, 2, 4, 8 or 16), for code that only moves elements:
/// visit_size(n, [](auto element) { ... }).
template <class F>
constexpr decltype(auto) visit_size(std::size_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f(std::uint8_t{});
    case 2: return f(std::uint16_t{});
    case 4: return f(std::uint32_t{});
    case 8: return f(std::uint64_t{});
    default: return f(Bytes16{});
  }
}

}  // namespace stave
