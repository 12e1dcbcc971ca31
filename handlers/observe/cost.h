// cost: what a function would take to run, before anything runs.
//
//   const Cost c = cost(grad(loss))(w, x, y);   // the arguments may be abstract
//   std::cout << c;
//
//   operation     calls      flops      read   written
//   matmul            3  12.58 M    432 KiB   288 KiB
//   tanh              1   16.38 k   64 KiB    64 KiB
//   ...
//   total            14  12.71 M    ...
//
//   scope ...
//
//   arguments 1.2 MiB, result 1.0 MiB, peak 2.1 MiB beyond the arguments
//
// The function runs on abstract tensors; eval_shape.h says what it may do.
//
// - Operations are those that reach the backend: outside of grad also those of the backward pass,
//   outside of vmap those of all lanes. Higher-order operations, such as checkpoint, are not
//   counted themselves; the operations of their functions are, each time that they run.
// - Flops: Op::flops_of, which is 2 n m k for a matrix product and 1 per element of an elementwise
//   operation, also of exp. `without_flops` counts the calls of operations whose record has no
//   formula, such as factorisations; the tables show them as "+ ?".
// - Bytes read and written: those of the operands' and the results' elements. Repetitions of a
//   broadcast count once. A view reads and writes nothing.
// - Peak: the largest number of bytes of results that are alive at one time, by their reference
//   counts, as when the function is called without handlers around it. Arguments and captured
//   tensors do not count, nor do the temporary memory of kernels and the nodes and tapes
//   (MemoryStats::object_bytes). A compiled function is counted as it is without compiling.
// - Scopes: as in profile.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

#include <stave/handlers/observe/eval_shape.h>
#include <stave/handlers/observe/totals.h>

namespace stave {

struct Cost {
  struct Totals {
    std::uint64_t calls = 0, flops = 0, bytes_read = 0, bytes_written = 0;
    std::uint64_t without_flops = 0;  ///< Calls of operations without a formula for their flops.
    Totals& operator+=(const Totals& other);
  };

  Totals total() const { return sums.total(); }
  /// Returns the totals of an operation, by its name; zero if it was not performed.
  Totals operation(std::string_view name) const { return sums.operation(name); }
  /// Returns the totals of a scope: "backward of grad/layer1", as Profile::scope.
  Totals scope(std::string_view path) const { return sums.scope(path); }
  /// Returns tables of operations and scopes, and a line about memory, as at the top of this file.
  std::string str() const;

  std::size_t argument_bytes = 0, result_bytes = 0;
  std::size_t peak_bytes = 0;  ///< Beyond the arguments.
  stave_detail::TotalsByName<Totals> sums;
};
std::ostream& operator<<(std::ostream& out, const Cost& cost);

}  // namespace stave

namespace stave_detail {

/// Adds the operations that reach it to a Cost, and passes them on.
class CostCounter final : public Handler {
 public:
  explicit CostCounter(Cost& cost) : cost_(cost) {}
  Outputs handle(Call& call) override;
  std::string describe() const override { return "cost"; }
  HandlerProperties properties() const noexcept override { return {.runs_no_user_code = true, .only_observes = true}; }

 private:
  Cost& cost_;
};

/// The result of cost(f).
template <class F>
class CostFunction {
 public:
  explicit CostFunction(F f) : f_(std::move(f)) {}

  template <class... A>
  auto operator()(A&&... args) const {
    if constexpr (can_call<Returns::tree, const F, SelectTrees<A...>, A...>) {
      Cost cost;
      cost.argument_bytes = bytes_of(selected_leaves(SelectTrees<A...>(), args...));
      ShapesOnly shapes;
      CostCounter counter(cost);
      const auto run = [&] { return call_on_abstract(f_, std::forward<A>(args)...); };
      const auto result = with(shapes, [&] { return with(counter, run); });
      cost.result_bytes = bytes_of(tree_leaves(result));
      cost.peak_bytes = shapes.peak_bytes();
      return cost;
    } else {
      return Refused();
    }
  }

 private:
  F f_;
};

}  // namespace stave_detail

namespace stave {

/// Returns a callable that takes the arguments of f, abstract or not, and returns the Cost of
/// f(arguments). f must return a tree of tensors. Throws as eval_shape does.
template <class F>
auto cost(F f) {
  return stave_detail::CostFunction<F>(std::move(f));
}
// Overloads for overloaded functions: cost(sin), cost(sum).
#define STAVE_NAMES(Name) \
  inline auto cost(stave_detail::Name f) { return stave_detail::CostFunction<stave_detail::Name>(std::move(f)); }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
