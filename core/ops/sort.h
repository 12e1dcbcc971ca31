// Sorting along an axis. Stable: equal elements keep their order, in both directions. NaN is the largest of all, as in JAX and
// for argmax: it comes last, or first if descending. -0 equals 0.
#pragma once

#include <concepts>

#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

struct SortOptions {
  [[no_unique_address]] ByName by_name{};
  bool descending = false;
};

/// The elements along an axis (the last one) in order. Derivatives follow the elements; among equal ones, by their order in x.
Tensor sort(const Tensor& x);
Tensor sort(const Tensor& x, Index axis, SortOptions options = {});
/// Where in x the elements of sort(x) stand: take_along_axis(x, argsort(x, axis), axis) is sort(x, axis). int32, or int64
/// along axes of 2^31 elements and more. Zero derivative.
Tensor argsort(const Tensor& x);
Tensor argsort(const Tensor& x, Index axis, SortOptions options = {});

template <std::same_as<bool> B>
void sort(const Tensor&, B) = delete;  // sort(x, axis, {.descending = true})
template <std::same_as<bool> B>
void argsort(const Tensor&, B) = delete;  // argsort(x, axis, {.descending = true})

}  // namespace stave
