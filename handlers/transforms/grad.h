// Reverse mode: grad and value_and_grad turn a function that returns one number into a function
// that computes its gradient. (vjp is in vjp.h.)
//
//   auto dw = grad(loss)(w, x, y);                 // d loss / d argument 0, of w's type
//   auto [gw, gx] = grad<0, 1>(loss)(w, x, y);     // by several arguments: a std::tuple
//   auto [value, g] = value_and_grad(loss)(w, x, y);
//   // a tape that computes nothing again: less time, more memory
//   auto kept = grad(loss, {.recompute = Recompute::never})(w, x, y);
//
// The differentiated arguments and their gradients are trees (core/ops/tree.h). Other arguments are
// passed to f unchanged. Under grad, values stay concrete: item(), printing, if, while
// and recursion work in f.
// The mechanism is in vjp_flat.h.
#pragma once

#include <optional>

#include <stave/handlers/transforms/arguments.h>
#include <stave/handlers/transforms/vjp_flat.h>

namespace stave {

/// The result of value_and_grad. `Grad` is the type of the differentiated argument, or a tuple
/// of types if there are several.
template <class Grad>
struct ValueAndGrad {
  Tensor value;
  Grad grad;
};
template <class Grad, class Aux>
struct ValueGradAndAux {
  Tensor value;
  Grad grad;
  Aux aux;
};

}  // namespace stave

namespace stave_detail {

/// Throws TransformError unless `loss` is a single number, of shape [], and DtypeError unless it is
/// floating, or complex if `holomorphic`.
void check_loss(const Tensor& loss, const char* transform, bool holomorphic);
Tensor one_like(const Tensor& loss);
[[noreturn]] void fail_no_tensors(const char* transform);

// Returns the gradients as trees with the structures of the differentiated arguments:
// one tree for a single argument, else a tuple. `leaves` is their flat list.
template <class... S>
auto gradient_trees(const std::vector<Tensor>& leaves, std::tuple<S...> structures) {
  PutLeaves put{leaves.data()};
  std::apply([&](auto&... tree) { (visit_tensors(tree, put), ...); }, structures);
  if constexpr (sizeof...(S) == 1) return std::get<0>(std::move(structures));
  else return structures;
}

template <class F, int... argnums>
class ValueAndGradOf {
 public:
  ValueAndGradOf(F f, GradOptions options) : f_(std::move(f)), options_(options) {}

  template <class... A>
  auto operator()(A&&... args) const {
    using Selected = Select<sizeof...(A), argnums...>;
    if constexpr (can_call_by<Returns::loss, const F, Numbers<argnums...>, A...>)
      return run<typename Calls<const F, Selected, A...>::Result>(Selected(), std::forward<A>(args)...);
    else return Refused();
  }

 private:
  template <class Result, class Selected, class... A>
  auto run(Selected selected, A&&... args) const {
    using Loss = LossResult<Result>;
    std::optional<typename Loss::Aux> aux;
    const std::vector<Tensor> leaves = selected_leaves(selected, args...);
    if (leaves.empty()) fail_no_tensors("grad");
    const auto arguments = std::tie(args...);
    std::tuple<Decayed<std::tuple_element_t<static_cast<std::size_t>(argnums), std::tuple<A...>>>...> structures(
        structure_of(std::get<argnums>(arguments))...);
    FlatVjp vjp = vjp_flat(
        [&](std::span<const Tensor> inputs) -> Outputs {
          Result result = call_with_leaves(selected, f_, inputs, std::forward<A>(args)...);
          if constexpr (Loss::has_aux) {
            aux.emplace(std::move(result.second));
            return std::move(result.first);
          } else {
            return result;
          }
        },
        leaves, "grad", [&](std::size_t i) { return leaf_name(selected, i, args...); }, options_, true);
    Tensor value = std::move(vjp.outputs[0]);
    check_loss(value, "grad", options_.holomorphic);
    const Tensor seed = one_like(value);
    auto grad = gradient_trees(vjp.pullback.consume({&seed, 1}), std::move(structures));
    if constexpr (Loss::has_aux)
      return ValueGradAndAux<decltype(grad), typename Loss::Aux>{value, std::move(grad), std::move(*aux)};
    else return ValueAndGrad<decltype(grad)>{value, std::move(grad)};
  }

  F f_;
  GradOptions options_;
};

template <class F, int... argnums>
class GradOf {
 public:
  GradOf(F f, GradOptions options) : value_and_grad_(std::move(f), options) {}

  template <class... A>
  auto operator()(A&&... args) const {
    if constexpr (requires { value_and_grad_(std::forward<A>(args)...).grad; }) {
      auto result = value_and_grad_(std::forward<A>(args)...);
      if constexpr (requires { result.aux; }) return std::pair{std::move(result.grad), std::move(result.aux)};
      else return std::move(result.grad);
    } else {
      return Refused();
    }
  }

 private:
  ValueAndGradOf<F, argnums...> value_and_grad_;
};

// Instantiates the function object `Of` for `argnums`, or for argument 0 if `argnums` is empty.
template <template <class, int...> class Of, int... argnums, class F, class... Options>
auto by_arguments(F f, Options... options) {
  if constexpr (sizeof...(argnums) == 0) return Of<F, 0>(std::move(f), options...);
  else return Of<F, argnums...>(std::move(f), options...);
}

}  // namespace stave_detail

namespace stave {

/// Returns a callable with f's arguments that computes the gradient of f, which returns one number,
/// by argument 0 or by `argnums`. The result has the argument's type and dtypes; it is a tuple
/// for several arguments. If f returns std::pair<Tensor, Aux>, the callable returns std::pair
/// of the gradient and the aux. Throws TransformError if the loss is not a single number (of shape
/// []) or the differentiated arguments hold no tensors, and DtypeError if the loss or a
/// differentiated argument does not have a floating dtype.
/// Keys in an argument stay as they are. The callable keeps a copy of f, and calls f only
/// when the callable itself is called.
template <int... argnums, class F>
auto grad(F f, GradOptions options = {}) {
  return stave_detail::by_arguments<stave_detail::GradOf, argnums...>(std::move(f), options);
}

// Rejects grad(f, {0, 1}): the numbers of arguments are template arguments.
template <class F>
auto grad(F, std::initializer_list<int>) {
  static_assert(sizeof(F) == 0, "stave: grad: argument numbers are template arguments: grad<0, 1>(f)");
}

/// Returns a callable like that of grad, which returns the value as well: {value, grad},
/// or {value, grad, aux}.
template <int... argnums, class F>
auto value_and_grad(F f, GradOptions options = {}) {
  return stave_detail::by_arguments<stave_detail::ValueAndGradOf, argnums...>(std::move(f), options);
}

// Overloads for the names of overloaded functions: grad(sum), grad<1>(maximum).
#define STAVE_NAMES(Name)                                                                    \
  template <int... argnums>                                                                  \
  auto grad(stave_detail::Name f, GradOptions options = {}) {                                \
    return stave_detail::by_arguments<stave_detail::GradOf, argnums...>(f, options);         \
  }                                                                                          \
  template <int... argnums>                                                                  \
  auto value_and_grad(stave_detail::Name f, GradOptions options = {}) {                      \
    return stave_detail::by_arguments<stave_detail::ValueAndGradOf, argnums...>(f, options); \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
