// The parts of the standard library that the headers of kernels use, for NVRTC, which has no
// standard library. NVRTC receives this file under the name of each standard header that these
// headers include (region_headers.cmake).
#ifndef STAVE_STANDARD_CUH
#define STAVE_STANDARD_CUH

// NVRTC 12.1 does not have __builtin_bit_cast.
#if !__has_builtin(__builtin_bit_cast)
template <class To, class From>
constexpr To stave_bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  union {
    From from;
    To to;
  } bits{from};
  return bits.to;
}
#define __builtin_bit_cast(To, from) stave_bit_cast<To>(from)
#endif

#define HUGE_VAL __builtin_bit_cast(double, 0x7ff0000000000000)
#define __builtin_inf() HUGE_VAL
#define __builtin_nan(tag) __builtin_bit_cast(double, 0x7ff8000000000000)

namespace std {

using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned;
using uint64_t = unsigned long;
using size_t = decltype(sizeof 0);
static_assert(sizeof(int64_t) == 8);

template <class A, class B>
inline constexpr bool is_same_v = false;
template <class A>
inline constexpr bool is_same_v<A, A> = true;

template <bool condition, class A, class B>
struct conditional {
  using type = A;
};
template <class A, class B>
struct conditional<false, A, B> {
  using type = B;
};
template <bool condition, class A, class B>
using conditional_t = typename conditional<condition, A, B>::type;

template <class T>
inline constexpr bool is_floating_point_v = is_same_v<T, float> || is_same_v<T, double>;
template <class T>
inline constexpr bool is_integral_v = false;
#define STAVE_INTEGRAL(type) \
  template <>                \
  inline constexpr bool is_integral_v<type> = true;
STAVE_INTEGRAL(bool)
STAVE_INTEGRAL(char)
STAVE_INTEGRAL(signed char)
STAVE_INTEGRAL(unsigned char)
STAVE_INTEGRAL(short)
STAVE_INTEGRAL(unsigned short)
STAVE_INTEGRAL(int)
STAVE_INTEGRAL(unsigned)
STAVE_INTEGRAL(long)
STAVE_INTEGRAL(unsigned long)
STAVE_INTEGRAL(long long)
STAVE_INTEGRAL(unsigned long long)
#undef STAVE_INTEGRAL
template <class T>
inline constexpr bool is_arithmetic_v = is_integral_v<T> || is_floating_point_v<T>;
template <class T>
constexpr bool below_zero() {
  if constexpr (is_arithmetic_v<T>) return T(-1) < T(0);
  else return false;
}
template <class T>
inline constexpr bool is_signed_v = below_zero<T>();

template <class T>
struct make_unsigned {
  static_assert(is_integral_v<T> && !is_same_v<T, bool>);
  using type = conditional_t<sizeof(T) <= 2, conditional_t<sizeof(T) == 1, uint8_t, uint16_t>,
                             conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
};
template <class T>
using make_unsigned_t = typename make_unsigned<T>::type;

template <class From, class To>
inline constexpr bool is_convertible_v = __is_convertible_to(From, To);
template <class T, class... Arguments>
inline constexpr bool is_constructible_v = __is_constructible(T, Arguments...);
template <class T>
inline constexpr bool is_trivially_copyable_v = __is_trivially_copyable(T);

template <class T>
concept floating_point = is_floating_point_v<T>;

template <class T>
T&& declval() noexcept;

}  // namespace std

#endif
