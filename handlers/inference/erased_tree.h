// The tensors inside of a value of an erased type. Distribution and Bijector hold such values, and
// are trees of the tensors of the held value.
#pragma once

#include <type_traits>
#include <vector>

#include <stave/core/ops/tree.h>
#include <stave/handlers/transforms/same_besides_tensors.h>

namespace stave_detail {

using namespace stave;

/// True if the tensors inside of a T can be listed and replaced. A class of a user may hide them,
/// or hold none: then the erased value is a tree without tensors.
template <class T>
constexpr bool can_replace_leaves() {
  if constexpr (is_tree<T> && std::is_copy_constructible_v<T>)
    return !Contains<TreeKind::unreachable, TreeKind::opaque>::template in<T>();
  else return false;
}

template <class T>
std::vector<Tensor> erased_leaves(const T& value) {
  if constexpr (can_replace_leaves<T>()) return tree_leaves(value);
  else return {};
}

/// Returns true if both values are equal except for their tensors. It is false if they cannot be
/// compared.
template <class T>
bool erased_same(const T& a, const T& b) {
  if constexpr (comparable_besides_tensors<T>()) return same_besides_tensors(a, b);
  else return false;
}

/// Calls f on each tensor of an erased value, and puts the tensors back unless it is const.
template <class E, class F>
void visit_erased(E& erased, F&& f) {
  std::vector<Tensor> leaves = erased.leaves();
  if (leaves.empty()) return;
  if constexpr (std::is_const_v<E>) {
    for (const Tensor& leaf : leaves) f(leaf);
  } else {
    for (Tensor& leaf : leaves) f(leaf);
    erased = erased.with_leaves(leaves);
  }
}

}  // namespace stave_detail
