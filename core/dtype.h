// Element types of tensors, and how two of them meet.
//
// Promotion follows the Python array API standard within a kind (bool < integers < floats). Where the
// standard is silent, an integer with a float gives that float (as in JAX), and bool gives way to anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace stave {

enum class Dtype : std::uint8_t { bool_, uint8, uint32, int32, int64, float32, float64 };

inline constexpr Dtype bool_ = Dtype::bool_;
inline constexpr Dtype uint8 = Dtype::uint8;
inline constexpr Dtype uint32 = Dtype::uint32;
inline constexpr Dtype int32 = Dtype::int32;
inline constexpr Dtype int64 = Dtype::int64;
inline constexpr Dtype float32 = Dtype::float32;
inline constexpr Dtype float64 = Dtype::float64;
inline constexpr int dtype_count = 7;

/// All that is known of a dtype.
struct DtypeRecord {
  enum class Kind : std::uint8_t { boolean, integer, floating };
  const char* name;
  std::size_t size;  // of an element, in bytes
  Kind kind;
};
inline constexpr DtypeRecord dtype_records[dtype_count] = {
    {"bool", 1, DtypeRecord::Kind::boolean},     {"uint8", 1, DtypeRecord::Kind::integer},
    {"uint32", 4, DtypeRecord::Kind::integer},   {"int32", 4, DtypeRecord::Kind::integer},
    {"int64", 8, DtypeRecord::Kind::integer},    {"float32", 4, DtypeRecord::Kind::floating},
    {"float64", 8, DtypeRecord::Kind::floating},
};
constexpr const DtypeRecord& record_of(Dtype dtype) { return dtype_records[static_cast<int>(dtype)]; }
constexpr std::size_t size_of(Dtype dtype) { return record_of(dtype).size; }
constexpr const char* name_of(Dtype dtype) { return record_of(dtype).name; }
constexpr bool is_float(Dtype dtype) { return record_of(dtype).kind == DtypeRecord::Kind::floating; }
constexpr bool is_integer(Dtype dtype) { return record_of(dtype).kind == DtypeRecord::Kind::integer; }

/// The dtype that holds values of both, by the rules at the top of this file.
constexpr Dtype promote(Dtype a, Dtype b) {
  if (a > b) return promote(b, a);
  // In the enum's order the later dtype holds the earlier one, but for uint32 with int32.
  if (a == Dtype::uint32 && b == Dtype::int32) return Dtype::int64;
  return b;
}

/// The C++ type of one element is the dtype's; other arithmetic types have none.
template <class T>
inline constexpr bool has_dtype =
    std::is_same_v<T, bool> || std::is_same_v<T, std::uint8_t> || std::is_same_v<T, std::uint32_t> ||
    std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t> || std::is_same_v<T, long long> ||
    std::is_same_v<T, float> || std::is_same_v<T, double>;

template <class T>
constexpr Dtype dtype_of() {
  static_assert(has_dtype<T>,
                "no Stave dtype for this type: use bool, uint8_t, uint32_t, int32_t, int64_t, float or double");
  if constexpr (std::is_same_v<T, bool>) return Dtype::bool_;
  else if constexpr (std::is_same_v<T, std::uint8_t>) return Dtype::uint8;
  else if constexpr (std::is_same_v<T, std::uint32_t>) return Dtype::uint32;
  else if constexpr (std::is_same_v<T, std::int32_t>) return Dtype::int32;
  else if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? Dtype::float32 : Dtype::float64;
  else return Dtype::int64;
}

/// Calls f with a value of the C++ type of `dtype`: visit_dtype(d, [](auto zero) { using T = decltype(zero); ... }).
template <class F>
constexpr decltype(auto) visit_dtype(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::bool_: return f(bool{});
    case Dtype::uint8: return f(std::uint8_t{});
    case Dtype::uint32: return f(std::uint32_t{});
    case Dtype::int32: return f(std::int32_t{});
    case Dtype::int64: return f(std::int64_t{});
    case Dtype::float32: return f(float{});
    case Dtype::float64: break;
  }
  return f(double{});
}

/// An element of sixteen bytes.
struct alignas(16) Bytes16 {
  std::uint64_t words[2];
};
/// Calls f with an element of so many bytes (1, 2, 4, 8 or 16), for what moves elements: visit_size(n, [](auto element) { ... }).
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
