// The kernels that make the pairs of a sort and that move elements after it, as bodies that run on
// the device and on the host (see sort_plan.h).
#pragma once

#include <cstring>
#include <type_traits>

#include <stave/backends/cuda/sort_plan.h>
#include <stave/backends/cuda/kernels/block.cuh>
#include <stave/backends/cuda/kernels/element.cuh>

namespace stave_cuda {

/// Returns the key of an element. NaN has the largest key, and -0 has the key of 0. The bits of
/// positive floats, read as unsigned numbers, have the order of the floats. The bits of negative
/// floats have the reverse order.
template <class T>
STAVE_BOTH std::uint64_t key_of(T element) {
  if constexpr (!std::is_integral_v<T>) {
    using Bits = BitsOf<T>;
    constexpr Bits sign = Bits{1} << (8 * sizeof(T) - 1);
    const stave::Computed<T> x = computed(element);
    if (x != x) return static_cast<Bits>(~Bits{0});
    if (x == 0) return sign;
    Bits bits;
    std::memcpy(&bits, &element, sizeof element);
    return bits & sign ? static_cast<Bits>(~bits) : static_cast<Bits>(bits | sign);
  } else {
    return element;
  }
}

/// Calls f(i) for all 0 <= i < count.
template <class Block, class F>
STAVE_BOTH void for_each_index(const Block& block, Index count, F f) {
  STAVE_UNROLL(1)
  for (Index first = block.index() * block_threads; first < count; first += block.count() * block_threads)
    block.for_threads([&](unsigned t) {
      if (first + t < count) f(first + t);
    });
}

/// Makes the keys of one sort, for the places in their current order. For integers, T is an
/// unsigned type.
template <class T, class Block>
STAVE_BOTH void make_keys_body(const Block& block, const SortArgs& args, const SortPass& pass) {
  for_each_index(block, args.count, [&](Index i) {
    const std::uint32_t place = args.places[i];
    std::uint32_t key = 0;
    if (pass.elements) {
      const Index at = args.elements(static_cast<std::uint64_t>(args.first + place))[0];
      key = static_cast<std::uint32_t>((key_of(static_cast<const T*>(args.in)[at]) ^ args.mask) >> pass.shift);
    }
    if (pass.rows) key |= place / args.length << pass.element_bits;
    args.keys[i] = key;
  });
}

/// Sets the places to 0, 1, ..., the order of the input.
template <class Block>
STAVE_BOTH void number_places_body(const Block& block, const SortArgs& args) {
  for_each_index(block, args.count, [&](Index i) { args.places[i] = static_cast<std::uint32_t>(i); });
}

/// Moves each element to its sorted position. T is a type of the element's size.
template <class T, class Block>
STAVE_BOTH void place_elements_body(const Block& block, const SortArgs& args) {
  for_each_index(block, args.count, [&](Index i) {
    const Index from = args.elements(static_cast<std::uint64_t>(args.first + args.places[i]))[0];
    const Index to = args.elements(static_cast<std::uint64_t>(args.first + i))[1];
    static_cast<T*>(args.out)[to] = static_cast<const T*>(args.in)[from];
  });
}

template <class Block>
STAVE_BOTH void place_positions_body(const Block& block, const SortArgs& args) {
  for_each_index(block, args.count, [&](Index i) {
    const std::uint32_t position = args.places[i] % args.length;
    const Index to = args.elements(static_cast<std::uint64_t>(args.first + i))[1];
    if (args.wide_positions) static_cast<std::int64_t*>(args.out)[to] = position;
    else static_cast<std::int32_t*>(args.out)[to] = static_cast<std::int32_t>(position);
  });
}

}  // namespace stave_cuda
