// Sorting along an axis. Sorts are stable: equal elements keep their order, in both directions.
// NaN is the largest element, as in JAX and in argmax: it comes last, or first if descending.
// -0 equals 0.
#pragma once

#include <concepts>

#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

struct SortOptions {
  [[no_unique_address]] ByName by_name{};
  bool descending = false;
};

/// The elements along an axis (by default the last one) in order. Derivatives follow the elements;
/// equal elements are in the order of x.
Tensor sort(const Tensor& x);
Tensor sort(const Tensor& x, Index axis, SortOptions options = {});
/// The positions in x of the elements of sort(x): take_along_axis(x, argsort(x, axis), axis) is
/// sort(x, axis). They are int32, or int64 along axes of 2^31 elements and more. The derivative is
/// 0.
Tensor argsort(const Tensor& x);
Tensor argsort(const Tensor& x, Index axis, SortOptions options = {});

template <std::same_as<bool> B>
void sort(const Tensor&, B) = delete;  // sort(x, axis, {.descending = true})
template <std::same_as<bool> B>
void argsort(const Tensor&, B) = delete;  // argsort(x, axis, {.descending = true})

}  // namespace stave
