// Elements as unsigned integers in the order of sort: for whatever sorts, selects or searches.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include <stave/core/tensor/dtype.h>

namespace stave_cpu {

template <class T>
using KeyOf = stave::BitsOf<T>;
template <class K>
constexpr K top_bit = static_cast<K>(K{1} << (8 * sizeof(K) - 1));

/// An element as a key. Floats: the bits of a positive number are in its order, those of a negative one in the reverse order.
template <class T>
inline KeyOf<T> key_of(T x) {
  using K = KeyOf<T>;
  if constexpr (!std::is_integral_v<T>) {
    if (x != x) return static_cast<K>(~K{0});
    const K bits = std::bit_cast<K>(x == 0 ? T(0) : x);
    return bits & top_bit<K> ? static_cast<K>(~bits) : static_cast<K>(bits | top_bit<K>);
  } else {
    const K bits = static_cast<K>(x);
    return std::is_signed_v<T> ? static_cast<K>(bits ^ top_bit<K>) : bits;
  }
}
template <class T>
inline T element_of(KeyOf<T> key) {
  using K = KeyOf<T>;
  if constexpr (!std::is_integral_v<T>)
    return std::bit_cast<T>(key & top_bit<K> ? static_cast<K>(key ^ top_bit<K>) : static_cast<K>(~key));
  else return static_cast<T>(std::is_signed_v<T> ? static_cast<K>(key ^ top_bit<K>) : key);
}
/// An element and where it stands: among equal ones the first comes first.
template <class K, class P>
struct KeyAt {
  K key;
  P position;
  friend bool operator<(const KeyAt& a, const KeyAt& b) {
    return a.key != b.key ? a.key < b.key : a.position < b.position;
  }
};
/// bool lies in memory as bytes.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

template <class T>
T read(const char* from) {
  return *reinterpret_cast<const T*>(from);
}

}  // namespace stave_cpu
