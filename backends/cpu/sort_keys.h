// Sort keys: unsigned integers in the same order as the elements. They serve all code that sorts,
// selects or searches.
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

/// Returns the key of an element: x sorts before y if and only if key_of(x) < key_of(y). NaN has
/// the largest key. Read as integers, positive floats have the order of the floats, and negative
/// floats the reverse order.
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
/// A key and the position of its element. Items with equal keys are in the order of their
/// positions.
template <class K, class P>
struct KeyAt {
  K key;
  P position;
  friend bool operator<(const KeyAt& a, const KeyAt& b) {
    return a.key != b.key ? a.key < b.key : a.position < b.position;
  }
};
/// The type with which an element is stored: bool is stored as a byte.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

template <class T>
T read(const char* from) {
  return *reinterpret_cast<const T*>(from);
}

}  // namespace stave_cpu
