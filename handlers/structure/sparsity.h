// The sparsity of Jacobians: which entries may differ from zero.
//
//   const SparsityPattern pattern = jacobian_sparsity(f)(x);
//   pattern.row_offsets, pattern.column_indices     // compressed sparse rows (CSR)
//
// f runs once, at x, under jvp and a handler that follows on which elements of x each element of
// a tangent depends (dependence.h). The rows are the elements of f's results in the order of
// tree_leaves, each in row-major order; the columns are those of the argument.
//
// By default the pattern is that of the path that f takes through its C++ control flow: it holds
// for all arguments at which f takes this path, whatever their values. Both operands of `where`
// count, and any element of an array that is indexed by a computed position. With `here` the values
// at x count, and the pattern holds for this point only. Tensors that f captures are constants,
// whose zeros and indices count in both cases. Answers of effects are not constants.
//
// No entry is ever missed: an operation of which nothing is known counts as dense, and
// `dense_operations` names it. f may not depend on other state that changes.
#pragma once

#include <string>
#include <vector>

#include <stave/handlers/structure/coloring.h>
#include <stave/handlers/transforms/grad.h>

namespace stave {

struct SparsityOptions {
  [[no_unique_address]] ByName by_name{};
  /// True: finds the pattern at this point alone, instead of that of the path. Rules may then use
  /// the values of f's argument.
  bool here = false;
};

/// The pattern of a matrix as compressed sparse rows: the entries of row r are in the columns
/// column_indices[row_offsets[r]], ..., column_indices[row_offsets[r + 1] - 1], in rising order.
struct SparsityPattern {
  Index rows = 0, columns = 0;
  Tensor row_offsets;     ///< int64 [rows + 1]
  Tensor column_indices;  ///< int32 [number of entries]
  /// The names of operations that count as dense, in alphabetical order.
  std::vector<std::string> dense_operations;
  /// f read values that its argument, or the answer of an effect, determines; so at other arguments
  /// f may take another path, with another pattern.
  bool depends_on_path = false;

  /// The number of entries.
  Index entries() const { return column_indices.size(); }
  /// The row of each entry: int32 [number of entries].
  Tensor row_indices() const;
  /// The matrix with `values`, [number of entries], as its entries and zeros elsewhere:
  /// [rows, columns].
  Tensor dense(const Tensor& values) const;
  /// True where the matrix has an entry: bool [rows, columns].
  Tensor dense() const;
};

}  // namespace stave

namespace stave_detail {

/// The result of a run of f: the pattern, and shapes and dtypes of the results.
struct FoundSparsity {
  CsrPattern pattern;
  std::vector<Abstract> outputs;
  std::vector<std::string> dense_operations;
  bool depends_on_path = false;
};

/// Finds the pattern of f at xs, which must be floating and real. Errors name `transform`.
FoundSparsity find_sparsity(FlatFunction f, std::span<const Tensor> xs, bool here, const char* transform,
                            InputNames names);
SparsityPattern public_pattern(const FoundSparsity& found);

template <class F, int... argnums>
class JacobianSparsityOf {
 public:
  JacobianSparsityOf(F f, SparsityOptions options) : f_(std::move(f)), options_(options) {}

  template <class... A>
  auto operator()(const A&... args) const {
    if constexpr (can_call_by<Returns::tree, const F, Numbers<argnums...>, const A&...>) {
      using Selected = Select<sizeof...(A), argnums...>;
      const std::vector<Tensor> leaves = selected_leaves(Selected(), args...);
      if (leaves.empty()) fail_no_tensors("jacobian_sparsity");
      std::optional<typename Calls<const F, Selected, const A&...>::Result> result;
      return public_pattern(find_sparsity(flat_function(Selected(), f_, result, args...), leaves, options_.here,
                                          "jacobian_sparsity",
                                          [&](std::size_t i) { return leaf_name(Selected(), i, args...); }));
    } else {
      return Refused();
    }
  }

 private:
  F f_;
  SparsityOptions options_;
};

}  // namespace stave_detail

namespace stave {

/// Returns a callable with f's arguments that finds the sparsity of the Jacobian of f with respect
/// to argument 0 or to `argnums`. Arguments and results are trees. Throws TransformError if the
/// differentiated arguments hold no tensors, and DtypeError if one of these tensors is not real and
/// floating, or if a result is not floating.
template <int... argnums, class F>
auto jacobian_sparsity(F f, SparsityOptions options = {}) {
  return stave_detail::by_arguments<stave_detail::JacobianSparsityOf, argnums...>(std::move(f), options);
}

#define STAVE_NAMES(Name)                                                                        \
  template <int... argnums>                                                                      \
  auto jacobian_sparsity(stave_detail::Name f, SparsityOptions options = {}) {                   \
    return stave_detail::by_arguments<stave_detail::JacobianSparsityOf, argnums...>(f, options); \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
