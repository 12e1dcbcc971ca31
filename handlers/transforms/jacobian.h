// Jacobians, Hessians and Hessian-vector products, composed from jvp, vjp and vmap.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <vector>

#include <stave/handlers/transforms/grad.h>
#include <stave/handlers/transforms/jvp.h>
#include <stave/handlers/transforms/vmap.h>

namespace stave {

/// Options of Jacobians: jacfwd(f, {.holomorphic = true}).
struct JacobianOptions {
  [[no_unique_address]] ByName by_name{};
  /// The function is complex-differentiable, and its arguments and results are complex: the
  /// Jacobian is that of complex derivatives.
  bool holomorphic = false;
};

/// A Jacobian as blocks: [j][i] has the shape [output j's shape..., input i's shape...].
using FlatJacobian = std::vector<std::vector<Tensor>>;
/// Returns the Jacobian of f at xs by forward mode: for each input, one jvp for all directions
/// at once (by vmap). Prefer it if the outputs are larger than the inputs.
FlatJacobian jacfwd_flat(FlatFunction f, std::span<const Tensor> xs, InputNames names = numbered_inputs,
                         JacobianOptions options = {});
/// Returns the Jacobian of f at xs by reverse mode: one vjp, and for each output one pullback
/// for all its elements at once (by vmap). Prefer it if the inputs are larger than the outputs.
FlatJacobian jacrev_flat(FlatFunction f, std::span<const Tensor> xs, InputNames names = numbered_inputs,
                         JacobianOptions options = {});

/// The Jacobian of a tree R, such as a struct, by a tree A that is not a Tensor: one row for each
/// tensor of R, and each row is a tree A.
///   auto h = hessian(loss)(mlp);          // JacobianBlocks<Mlp, Mlp>
///   h[&Mlp::w1].b2                        // d^2 loss / dw1 db2, of shape [w1's..., b2's...]
template <class R, class A>
struct JacobianBlocks {
  R structure;          ///< the structure of the rows: R without tensors
  std::vector<A> rows;  ///< in the order of tree_leaves
  const A& operator[](Tensor R::*member) const {
    std::size_t row = 0, i = 0;
    visit_tensors(structure, [&](const Tensor& leaf) { (&leaf == &(structure.*member) ? row : i) = i, ++i; });
    return rows[row];
  }
};
template <class R, class A>
struct TreeTraits<JacobianBlocks<R, A>> {
  template <class B, class F>
  static void visit(B& blocks, F&& f) {
    f(blocks.rows);
  }
};

}  // namespace stave

namespace stave_detail {

// The type of a Jacobian: the result's tree R with the argument's tree A in place of each tensor.
// If A is a Tensor, R keeps its type. Otherwise R can change its elements to trees only if it is
// one of the containers below; a struct or another tree becomes JacobianBlocks<R, A>.
template <class R, class A>
struct JacobianTree {
  using type = JacobianBlocks<R, A>;
};
template <class R, class A>
using JacobianOf = typename JacobianTree<R, A>::type;
template <class A>
struct JacobianTree<Tensor, A> {
  using type = A;
};
template <class R>
  requires(!std::is_same_v<R, Tensor>)
struct JacobianTree<R, Tensor> {
  using type = R;
};
template <class... R, class A>
  requires(!std::is_same_v<A, Tensor>)
struct JacobianTree<std::tuple<R...>, A> {
  using type = std::tuple<JacobianOf<R, A>...>;
};
template <class R, class S, class A>
  requires(!std::is_same_v<A, Tensor>)
struct JacobianTree<std::pair<R, S>, A> {
  using type = std::pair<JacobianOf<R, A>, JacobianOf<S, A>>;
};
template <class R, class A>
  requires(!std::is_same_v<A, Tensor>)
struct JacobianTree<std::vector<R>, A> {
  using type = std::vector<JacobianOf<R, A>>;
};
template <class R, std::size_t n, class A>
  requires(!std::is_same_v<A, Tensor>)
struct JacobianTree<std::array<R, n>, A> {
  using type = std::array<JacobianOf<R, A>, n>;
};
template <class K, class R, class A>
  requires(!std::is_same_v<A, Tensor>)
struct JacobianTree<std::map<K, R>, A> {
  using type = std::map<K, JacobianOf<R, A>>;
};

// Builds a Jacobian as a tree that has the structure of `result`, with blocks that have
// the structure of `argument`. Takes the rows from `rows[next]` on, and advances `next`.
template <class R, class A>
JacobianOf<R, A> jacobian_tree(const R& result, const A& argument, const FlatJacobian& rows, std::size_t& next) {
  using J = JacobianOf<R, A>;
  const auto inside = [&](const auto& child) { return jacobian_tree(child, argument, rows, next); };
  if constexpr (std::is_same_v<R, Tensor>) return with_leaves(argument, rows[next++]);
  else if constexpr (std::is_same_v<A, Tensor>) {
    J blocks = copy_tree(result);
    visit_tensors(blocks, [&](Tensor& leaf) { leaf = rows[next++][0]; });
    return blocks;
  } else if constexpr (std::is_same_v<J, JacobianBlocks<R, A>>) {
    J blocks{structure_of(result), {}};
    visit_tensors(result, [&](const Tensor& leaf) { blocks.rows.push_back(inside(leaf)); });
    return blocks;
  } else if constexpr (tree_kind<R> == TreeKind::tuple) {
    return std::apply([&](const auto&... child) { return J{inside(child)...}; }, result);
  } else if constexpr (tree_kind<R> == TreeKind::map) {
    J blocks;
    for (const auto& [key, child] : result) blocks.emplace(key, inside(child));
    return blocks;
  } else if constexpr (requires(J j) { j.reserve(1); }) {
    J blocks;
    for (const auto& child : result) blocks.push_back(inside(child));
    return blocks;
  } else {
    J blocks;
    std::transform(result.begin(), result.end(), blocks.begin(), inside);
    return blocks;
  }
}

using AnyJacobian = FlatJacobian (*)(FlatFunction, std::span<const Tensor>, InputNames, JacobianOptions);

template <AnyJacobian jacobian, class F, int... argnums>
class JacobianFunction {
 public:
  JacobianFunction(F f, JacobianOptions options) : f_(std::move(f)), options_(options) {}

  template <class... A>
  auto operator()(const A&... args) const {
    if constexpr (can_call_by<Returns::tree, const F, Numbers<argnums...>, const A&...>) {
      using Selected = Select<sizeof...(A), argnums...>;
      using Result = typename Calls<const F, Selected, const A&...>::Result;
      const std::vector<Tensor> leaves = selected_leaves(Selected(), args...);
      if (leaves.empty()) fail_no_tensors("jacobian");
      std::optional<Result> result;
      const FlatJacobian rows = jacobian(
          flat_function(Selected(), f_, result, args...), leaves,
          [&](std::size_t i) { return leaf_name(Selected(), i, args...); }, options_);
      const auto arguments = std::tie(args...);
      std::size_t next = 0;
      const Result structure = structure_of(*result);
      if constexpr (sizeof...(argnums) == 1)
        return jacobian_tree(structure, structure_of(std::get<argnums...>(arguments)), rows, next);
      else return jacobian_tree(structure, std::tuple(structure_of(std::get<argnums>(arguments))...), rows, next);
    } else {
      return Refused();
    }
  }

 private:
  F f_;
  JacobianOptions options_;
};

template <class F, int... argnums>
using JacfwdOf = JacobianFunction<jacfwd_flat, F, argnums...>;
template <class F, int... argnums>
using JacrevOf = JacobianFunction<jacrev_flat, F, argnums...>;

}  // namespace stave_detail

namespace stave {

/// Returns a callable with f's arguments that computes the Jacobian of f by argument 0
/// or by `argnums`, in forward mode. For tensors its shape is [f's shape..., argument's shape...].
/// For trees it consists of such blocks, as in JAX: f's result with a tree like the argument
/// (a tuple for several arguments) in place of each tensor. By a single Tensor, the Jacobian has
/// the type of f's result. By any other tree, a std::tuple, pair, vector, array or map of tensors
/// becomes such a container of trees, and a struct or another tree becomes JacobianBlocks.
/// Throws TransformError if the differentiated arguments hold no tensors, and DtypeError if one
/// of these tensors, or of f's result, is not floating. With `holomorphic` they must be complex;
/// without, the arguments of jacfwd and the results of jacrev must not be.
template <int... argnums, class F>
auto jacfwd(F f, JacobianOptions options = {}) {
  return stave_detail::by_arguments<stave_detail::JacfwdOf, argnums...>(std::move(f), options);
}
/// The same in reverse mode.
template <int... argnums, class F>
auto jacrev(F f, JacobianOptions options = {}) {
  return stave_detail::by_arguments<stave_detail::JacrevOf, argnums...>(std::move(f), options);
}
/// Returns a callable that computes the Hessian of f, forward over reverse. For tensors its shape
/// is [f's shape..., argument's shape..., argument's shape...]. If f returns a Tensor, it is
/// JacobianBlocks<A, A> for a struct A, and a tuple of tuples for several arguments.
template <int... argnums, class F>
auto hessian(F f, JacobianOptions options = {}) {
  return jacfwd<argnums...>(jacrev<argnums...>(std::move(f), options), options);
}

/// Returns the product of f's Hessian at x with v, without forming the Hessian. It is
/// the derivative of grad(f) along v. f has one argument and returns one number, without aux.
/// x and v are trees of one type, which is not a std::tuple.
template <class F, class T>
T hvp(F f, const T& x, const T& v) {
  return jvp(grad(std::move(f)), x, v).second;
}

#define STAVE_NAMES(Name)                                                              \
  template <int... argnums>                                                            \
  auto jacfwd(stave_detail::Name f, JacobianOptions options = {}) {                    \
    return stave_detail::by_arguments<stave_detail::JacfwdOf, argnums...>(f, options); \
  }                                                                                    \
  template <int... argnums>                                                            \
  auto jacrev(stave_detail::Name f, JacobianOptions options = {}) {                    \
    return stave_detail::by_arguments<stave_detail::JacrevOf, argnums...>(f, options); \
  }                                                                                    \
  template <int... argnums>                                                            \
  auto hessian(stave_detail::Name f, JacobianOptions options = {}) {                   \
    return jacfwd<argnums...>(jacrev<argnums...>(f, options), options);                \
  }                                                                                    \
  template <class T>                                                                   \
  T hvp(stave_detail::Name f, const T& x, const T& v) {                                \
    return hvp<stave_detail::Name>(f, x, v);                                           \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
