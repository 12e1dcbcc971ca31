// Sparse Jacobians and Hessians: the pattern is found once, the values as often as needed.
//
//   const auto jacobian = sparse_jacobian(f, x);            // pattern and colours
//   const Tensor values = jacobian.values(x2);              // [number of entries], at any x2
//   const SparsityPattern& pattern = jacobian.pattern();    // where they are, row by row
//   const auto hessian = sparse_hessian(loss, x);
//
// Columns that share no row are found together, from one jvp along the sum of their unit vectors;
// or rows that share no column, from one pullback. A tridiagonal Jacobian of any size takes three
// jvps. `values` consists of tensor operations alone, so it works under vmap, grad and compile.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <stave/handlers/structure/sparsity.h>
#include <stave/handlers/transforms/arguments.h>

namespace stave {

/// How the entries of a Jacobian are found.
///   automatic   by columns or by rows, whichever takes fewer steps, where a pullback counts as two
///               jvps. A few dense rows (or columns) are found one by one in the other mode.
///   columns     by forward mode alone
///   rows        by reverse mode alone
///   symmetric   by forward mode, for a symmetric Jacobian: each entry may be found at either of
///               two places, which takes fewer jvps. sparse_hessian does so by default.
enum class SparseBy { automatic, columns, rows, symmetric };

struct SparseOptions {
  [[no_unique_address]] ByName by_name{};
  SparseBy by = SparseBy::automatic;
  /// True: finds the pattern at the given point alone, instead of that of the path that f takes
  /// there.
  bool here = false;
  /// True: `values` also finds the derivative along a random direction, and throws TransformError
  /// if it is not that of the entries. Then the pattern lacks an entry, because f took another path
  /// than where the pattern was found. A difference counts if it is above 1e-3 of the entries of
  /// its row (0.1 for 16-bit floats), and above 1e4 eps of the largest row, with the eps of the
  /// results' dtype: what is smaller is taken for rounding errors of terms that cancel. (So where
  /// the terms of all rows cancel, rounding errors count.) For entries found by pullbacks, the same
  /// holds for columns.
  bool check = false;
};

}  // namespace stave

namespace stave_detail {

/// The part of a sparse Jacobian that does not depend on the type of the function.
class SparseJacobianCore {
 public:
  /// Finds the pattern of f at xs, and colours for it. Errors name `transform`.
  SparseJacobianCore(FlatFunction f, std::span<const Tensor> xs, InputNames names, SparseOptions options,
                     const char* transform);
  Tensor values(FlatFunction f, std::span<const Tensor> xs, InputNames names) const;

  SparsityPattern pattern;
  Index jvps = 0, pullbacks = 0;

 private:
  // Products with the Jacobian, by jvp, or with its transpose, by pullbacks. Each chunk is computed
  // at once: it has a tensor [products, shape...] for each input, or for each output.
  struct Products {
    bool by_rows = false;
    std::vector<std::vector<Tensor>> chunks;
  };
  void add_products(const Coloring& coloring, bool by_rows, Tensor direction);
  Tensor compute(const Products& products, FlatFunction f, std::span<const Tensor> xs, InputNames names) const;
  Tensor flat(std::span<const Tensor> leaves, const std::vector<Abstract>& expected, Index count) const;
  void check_inputs(std::span<const Tensor> xs, InputNames names) const;
  void check_outputs(const Outputs& outputs) const;
  void check_type(const Tensor& x, const Abstract& expected, const std::string& name) const;
  void check_direction(const Tensor& values, const Tensor& found) const;

  const char* transform_;
  std::vector<Abstract> inputs_, outputs_;
  Dtype dtype_ = float32;  // the dtype of the values
  Device device_;
  std::vector<Products> products_;
  Tensor places_;  // the place of each entry in the list of all products
  // For SparseOptions::check: a random direction of the whole argument (by rows: of the result),
  // its place in the list of products, and for each entry the elements of the direction and of the
  // product that belong to it.
  Tensor direction_, multiplied_, summed_;
  Index direction_place_ = 0;
};

// The arguments of a function: the elements of a std::tuple, or x itself.
template <class X>
auto arguments_of(const X& x) {
  if constexpr (is_std_tuple<X>) return std::apply([](const auto&... args) { return std::tie(args...); }, x);
  else return std::tie(x);
}

}  // namespace stave_detail

namespace stave {

/// A sparse Jacobian, or with `hessian` the sparse Hessian of a function that returns one number.
/// It keeps a copy of the function. X is the type of the argument, or a std::tuple of several
/// arguments.
template <class F, class X, bool hessian = false>
class SparseJacobian {
 public:
  SparseJacobian(F f, const X& x, SparseOptions options)
      : f_(std::move(f)), core_(call(x, [&](FlatFunction flat, const std::vector<Tensor>& leaves, InputNames names) {
          return stave_detail::SparseJacobianCore(flat, leaves, names, options, name);
        })) {}

  /// The entries of the Jacobian at x in the order of the pattern: [number of entries], of the
  /// dtype of f's results (the promoted one, if they differ). Throws ShapeError or DtypeError if x
  /// or f(x) has other shapes or dtypes than where the pattern was found, and TransformError if
  /// `check` finds that the pattern lacks an entry.
  Tensor values(const X& x) const {
    return call(x, [&](FlatFunction flat, const std::vector<Tensor>& leaves, InputNames names) {
      return core_.values(flat, leaves, names);
    });
  }
  /// The Jacobian at x as a dense matrix [rows, columns].
  Tensor dense(const X& x) const { return pattern().dense(values(x)); }
  const SparsityPattern& pattern() const { return core_.pattern; }
  /// The numbers of jvps and of pullbacks that `values` takes, without that of `check`.
  Index jvps() const { return core_.jvps; }
  Index pullbacks() const { return core_.pullbacks; }

 private:
  static constexpr const char* name = hessian ? "sparse_hessian" : "sparse_jacobian";

  // Returns body(flat function, tensors of x, their names).
  template <class Body>
  auto call(const X& x, Body body) const {
    using namespace stave_detail;
    return std::apply(
        [&]<class... A>(const A&... args) {
          using Selected = SelectTrees<A...>;
          static_assert(can_call < hessian ? Returns::loss : Returns::tree, const F, Selected, const A&... >);
          const std::vector<Tensor> leaves = selected_leaves(Selected(), args...);
          if (leaves.empty()) fail_no_tensors(name);
          const auto names = [&](std::size_t i) { return leaf_name(Selected(), i, args...); };
          std::optional<typename Calls<const F, Selected, const A&...>::Result> result;
          const auto flat = flat_function(Selected(), f_, result, args...);
          if constexpr (!hessian) {
            return body(FlatFunction(flat), leaves, InputNames(names));
          } else {
            const auto gradient = [&](std::span<const Tensor> xs) {
              FlatVjp vjp = vjp_flat(flat, xs, name, names);
              check_loss(vjp.outputs[0], name, false);
              const Tensor seed = one_like(vjp.outputs[0]);
              const std::vector<Tensor> found = vjp.pullback.consume({&seed, 1});
              return Outputs(found.begin(), found.end());
            };
            return body(FlatFunction(gradient), leaves, InputNames(names));
          }
        },
        arguments_of(x));
  }

  F f_;
  stave_detail::SparseJacobianCore core_;
};

/// Returns the sparse Jacobian of f with respect to x, a tree, with the pattern of the path that f
/// takes at x (sparsity.h). If x is a std::tuple, f is called with its elements, and those that are
/// not trees are passed unchanged. The entries are found as `options.by` says. Throws the errors of
/// jacobian_sparsity, and ShapeError for SparseBy::symmetric if the Jacobian is not square.
template <class F, class X>
auto sparse_jacobian(F f, const X& x, SparseOptions options = {}) {
  return SparseJacobian<F, X>(std::move(f), x, options);
}
/// Returns the sparse Hessian, with respect to x, of f, which returns one number. It is found as
/// the symmetric Jacobian of the gradient. For a function with custom rules that are not its
/// derivatives, the gradient may have a Jacobian that is not symmetric: then set `by` to
/// SparseBy::columns.
template <class F, class X>
auto sparse_hessian(F f, const X& x, SparseOptions options = {}) {
  if (options.by == SparseBy::automatic) options.by = SparseBy::symmetric;
  return SparseJacobian<F, X, true>(std::move(f), x, options);
}

#define STAVE_NAMES(Name)                                                              \
  template <class X>                                                                   \
  auto sparse_jacobian(stave_detail::Name f, const X& x, SparseOptions options = {}) { \
    return sparse_jacobian<stave_detail::Name, X>(f, x, options);                      \
  }                                                                                    \
  template <class X>                                                                   \
  auto sparse_hessian(stave_detail::Name f, const X& x, SparseOptions options = {}) {  \
    return sparse_hessian<stave_detail::Name, X>(f, x, options);                       \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
