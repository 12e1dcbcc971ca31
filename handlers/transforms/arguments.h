// Conversion of functions of trees to functions of flat lists of tensors and back,
// which the templates of all transforms share.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <stave/core/op/op.h>
#include <stave/core/ops/tree_names.h>

namespace stave_detail {

template <class A>
using Decayed = std::remove_cvref_t<A>;

template <class T>
inline constexpr bool is_std_tuple = false;
template <class... T>
inline constexpr bool is_std_tuple<std::tuple<T...>> = true;

// Held is the type in which a transform holds an argument (see `hold`), and Passed the type in
// which it passes the argument to the function. An argument that the transform selects is an object
// of its own, whose tensors are replaced. Any other argument is passed as given.
template <bool selected, class A>
using Passed = std::conditional_t<selected, Decayed<A>&, A&&>;
template <bool selected, class A>
using Held = std::conditional_t<selected, Decayed<A>, A&&>;

// The arguments whose tensors a transform replaces: one flag for each argument.
template <bool... selected>
struct Selection {};

template <int i, int... argnums>
inline constexpr bool is_one_of = ((i == argnums) || ...);
template <class Indices, int... argnums>
struct SelectArguments;
template <std::size_t... i, int... argnums>
struct SelectArguments<std::index_sequence<i...>, argnums...> {
  using type = Selection<is_one_of<static_cast<int>(i), argnums...>...>;
};
/// Selects the arguments with the numbers `argnums` out of n.
template <std::size_t n, int... argnums>
using Select = typename SelectArguments<std::make_index_sequence<n>, argnums...>::type;
template <class>
inline constexpr bool true_for = true;
/// Selects all arguments.
template <class... A>
using SelectAll = Selection<true_for<A>...>;
/// Selects the arguments that are trees.
template <class... A>
using SelectTrees = Selection<is_tree<A>...>;

// Says whether F can be called with these arguments under a transform, and its result type.
template <class F, class S, class... A>
struct Calls;
template <class F, bool... selected, class... A>
struct Calls<F, Selection<selected...>, A...> {
  static constexpr bool valid = false;
};
template <class F, bool... selected, class... A>
  requires std::is_invocable_v<F&, Passed<selected, A>...>
struct Calls<F, Selection<selected...>, A...> {
  static constexpr bool valid = true;
  using Result = std::remove_cvref_t<std::invoke_result_t<F&, Passed<selected, A>...>>;
};

// ---- what a transform requires of a call --------------------------------------------------------

// The kind of result that a function under a transform must return.
enum class Returns { anything, tree, loss };

// The result of a loss function: Tensor, or std::pair<Tensor, Aux>.
template <class R>
struct LossResult {
  static constexpr bool valid = false;
};
template <>
struct LossResult<Tensor> {
  static constexpr bool valid = true;
  struct Aux {};
  static constexpr bool has_aux = false;
};
template <class A>
struct LossResult<std::pair<Tensor, A>> {
  static constexpr bool valid = true;
  using Aux = A;
  static constexpr bool has_aux = true;
};

// False if an argument holds tensors where transforms cannot find them, and so may not even pass
// through unchanged. A plain pointer may pass, like a captured variable.
template <class A>
inline constexpr bool may_pass = is_tree<A> || tree_kind<Decayed<A>> != TreeKind::unreachable ||
                                 std::is_pointer_v<std::decay_t<A>> || !holds_tensors<Decayed<A>>;

// Stands for the result type of a transform's call that does not compile. Outer transforms
// recognise this type and report no further errors.
struct Refused {};

/// Checks at compile time that a transform can call F with these arguments and replace the tensors
/// of the selected ones. The error texts name no transform; the "required from" lines of the
/// compiler's message do.
template <Returns returns, class F, class S, class... A>
struct CallCheck;
template <Returns returns, class F, bool... selected, class... A>
struct CallCheck<returns, F, Selection<selected...>, A...> {
  static constexpr bool numbers = ((selected && std::is_arithmetic_v<Decayed<A>>) || ...);
  static_assert(!numbers, "stave: a differentiated argument is a number: give a tensor, such as tensor(2.)");
  static constexpr bool trees = ((!selected || is_tree<A>)&&...);
  static_assert(trees || numbers,
                "stave: a differentiated argument is not a tree of tensors: give a tensor, a container of tensors, or "
                "a struct with public members only, without constructors and bases (see stave/core/ops/tree.h)");
  static constexpr bool arrays = ((selected && std::is_array_v<std::remove_reference_t<A>>) || ...);
  static_assert(!arrays,
                "stave: an argument is a C array of tensors, which transforms cannot copy: give a std::array or "
                "std::vector");
  static constexpr bool passing = (may_pass<A> && ...);
  static_assert(
      passing,
      "stave: an argument holds tensors where transforms cannot find them (a reference, view, set, std::any ...): "
      "hold them by value, in a container or in a smart pointer (see stave/core/ops/tree.h)");

  static constexpr bool callable = [] {
    if constexpr (trees && passing && !arrays) return Calls<F, Selection<selected...>, A...>::valid;
    else return false;
  }();
  static_assert(callable || !trees || !passing || arrays, "stave: the function cannot be called with these arguments");

  static constexpr bool valid = [] {
    if constexpr (callable) {
      using Result = typename Calls<F, Selection<selected...>, A...>::Result;
      constexpr bool refused = std::is_same_v<Result, Refused>;
      constexpr bool tree = refused || returns != Returns::tree || is_tree<Result>;
      static_assert(tree, "stave: the function must return a tree of tensors (see stave/core/ops/tree.h)");
      constexpr bool loss = refused || returns != Returns::loss || LossResult<Result>::valid;
      static_assert(loss, "stave: the function must return Tensor or std::pair<Tensor, Aux>");
      return tree && loss && !refused;
    } else {
      return false;
    }
  }();
};
template <Returns returns, class F, class S, class... A>
inline constexpr bool can_call = CallCheck<returns, F, S, A...>::valid;

template <int... argnums>
using Numbers = std::integer_sequence<int, argnums...>;

// Performs CallCheck for a transform that differentiates by the arguments with the numbers N. The
// numbers must ascend without repetition, because leaves are collected argument by argument.
template <Returns returns, class F, class N, class... A>
struct NumbersCheck;
template <Returns returns, class F, int... argnums, class... A>
struct NumbersCheck<returns, F, Numbers<argnums...>, A...> {
  static constexpr bool in_range = ((argnums >= 0 && argnums < static_cast<int>(sizeof...(A))) && ...);
  static_assert(in_range, "stave: an argument number is out of range of the call's arguments");
  static constexpr bool rising = [] {
    int previous = -1;
    return ((std::exchange(previous, argnums) < argnums) && ...);
  }();
  static_assert(rising, "stave: argument numbers must be in rising order, as in grad<0, 2>");
  static constexpr bool valid = [] {
    if constexpr (in_range && rising) return can_call<returns, F, Select<sizeof...(A), argnums...>, A...>;
    else return false;
  }();
};
template <Returns returns, class F, class N, class... A>
inline constexpr bool can_call_by = NumbersCheck<returns, F, N, A...>::valid;

template <class T>
inline constexpr bool holds_keys = Contains<TreeKind::key, TreeKind::custom>::template in<T>();

// ---- to and from flat lists ---------------------------------------------------------------------

/// Returns the tensors of the selected arguments, in order, without the data of random-number keys.
template <bool... selected, class... A>
std::vector<Tensor> selected_leaves(Selection<selected...>, const A&... args) {
  std::vector<Tensor> leaves;
  [[maybe_unused]] const auto collect = [&]<bool s>(std::bool_constant<s>, const auto& arg) {
    if constexpr (s) visit_tensors(arg, CollectLeaves{leaves});
  };
  (collect(std::bool_constant<selected>(), args), ...);
  return leaves;
}

// A visitor of a tree's leaves that counts `leaf` down to 0 and stores the path of that leaf.
struct FindPath {
  std::size_t& leaf;
  std::optional<std::string>& path;
  void operator()(const std::string& at, const Tensor&) const {
    if (leaf-- == 0) path = at;
  }
};
std::string name_of_argument(std::size_t argument, const std::string& path);

/// Returns the name of leaf i of the selected arguments for error messages:
/// "argument 0 (its member 1)". If `keys`, random-number keys count as leaves.
template <bool keys = false, bool... selected, class... A>
std::string leaf_name(Selection<selected...>, std::size_t i, const A&... args) {
  std::optional<std::string> path;
  std::size_t argument = 0;
  [[maybe_unused]] const auto search = [&]<bool s, class T>(std::bool_constant<s>, const T& arg) {
    if (path) return;
    if constexpr (s) {
      FindPath find{i, path};
      if constexpr (keys && holds_keys<T>) {
        WithKeys find_all(find);
        visit_named<AnyKeys>(arg, "", find_all);
      } else {
        visit_named<AnyKeys>(arg, "", find);
      }
    }
    if (!path) ++argument;
  };
  (search(std::bool_constant<selected>(), args), ...);
  return name_of_argument(argument, *path);
}

// Returns the argument in the form in which a transform holds it. A selected argument is held as
// a deep copy, with an object of its own for each shared_ptr. A selected argument that is moved in
// is kept, and its shared_ptrs get objects of their own. Any other argument is held by reference.
template <bool selected, class A>
Held<selected, A> hold(A&& arg) {
  if constexpr (!selected) return std::forward<A>(arg);
  else if constexpr (std::is_lvalue_reference_v<A>) return copy_tree(arg);
  else {
    Decayed<A> tree = std::move(arg);
    unshare(tree);
    return tree;
  }
}

// Replaces the tensors of a tree. If `keys`, also replaces the data of its random-number keys.
template <bool keys, class T>
void put_leaves(T& tree, PutLeaves& put) {
  if constexpr (keys && holds_keys<T>) visit_tensors(tree, WithKeys([&](Tensor& leaf) { put(leaf); }));
  else visit_tensors(tree, put);
}

/// Returns f(args...), with `leaves` in place of the tensors of the selected arguments. If `keys`,
/// `leaves` also replace the data of the random-number keys in these arguments.
template <bool keys = false, bool... selected, class F, class... A>
auto call_with_leaves(Selection<selected...>, F& f, std::span<const Tensor> leaves, A&&... args) {
  std::tuple<Held<selected, A>...> held(hold<selected, A>(std::forward<A>(args))...);
  PutLeaves put{leaves.data()};
  [[maybe_unused]] const auto replace = [&]<bool s, class T>(std::bool_constant<s>, T& arg) {
    if constexpr (s) put_leaves<keys>(arg, put);
  };
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    (replace(std::bool_constant<selected>(), std::get<i>(held)), ...);
    return std::invoke(f, static_cast<Passed<selected, A>>(std::get<i>(held))...);
  }(std::index_sequence_for<A...>());
}

/// Returns argument A for a function that may run again. A run that may move the argument away gets
/// a copy of it. `used` is set to true if an argument that cannot be copied was given away.
template <bool selected, class A>
decltype(auto) for_a_run(std::remove_reference_t<A>& arg, [[maybe_unused]] bool& used) {
  using Given = std::remove_cv_t<std::remove_reference_t<A>>;
  if constexpr (selected || std::is_lvalue_reference_v<A>) {
    return (arg);
  } else if constexpr (std::is_copy_constructible_v<Given>) {
    return Given(std::as_const(arg));
  } else {
    used = true;
    return std::move(arg);
  }
}

/// Returns the tensors of a tree as outputs of a flat function. If `keys`, the outputs include the
/// data of the tree's random-number keys.
template <bool keys = false, class T>
Outputs flat_outputs(const T& tree) {
  std::vector<Tensor> leaves;
  if constexpr (keys && holds_keys<T>) visit_tensors(tree, WithKeys(CollectLeaves{leaves}));
  else visit_tensors(tree, CollectLeaves{leaves});
  return Outputs(leaves.begin(), leaves.end());
}

/// Returns f as a function of the selected arguments' tensors, which stores f's own result in
/// `result`. The returned function holds references to f, `result` and the arguments. Its first
/// call moves from arguments that are rvalues, so it may be called again only if all are lvalues.
template <bool keys = false, class S, class F, class Result, class... A>
auto flat_function(S selection, F& f, std::optional<Result>& result, A&&... args) {
  return [&, selection](std::span<const Tensor> inputs) {
    result.emplace(call_with_leaves<keys>(selection, f, inputs, std::forward<A>(args)...));
    return flat_outputs<keys>(*result);
  };
}

// A function that is given by its name, as in grad(sum). Named is a class and not a function
// pointer, because a generic lambda converts to a function pointer. That conversion would
// instantiate the lambda's body for tensors, even if the lambda is written for other trees.
template <class Signature>
class Named;
template <class... A>
class Named<Tensor(A...)> {
 public:
  Named(Tensor (*function)(A...)) noexcept : function_(function) {}
  Tensor operator()(A... args) const { return function_(std::forward<A>(args)...); }

 private:
  Tensor (*function_)(A...);
};

// The types among which the name of an overloaded function is resolved, as in grad(sum)
// or vmap(sin).
using Unary = Named<Tensor(Tensor)>;
using UnaryRef = Named<Tensor(const Tensor&)>;
using Binary = Named<Tensor(Operand, Operand)>;
using BinaryRef = Named<Tensor(const Tensor&, const Tensor&)>;

}  // namespace stave_detail

/// Expands to X(Name) for each of these types.
#define STAVE_OVERLOADED_NAMES(X) X(Unary) X(UnaryRef) X(Binary) X(BinaryRef)
