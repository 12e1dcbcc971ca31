// elementwise_op: elementwise operations of your own, composed of existing ones.
//
//   const auto hardshrink =
//       elementwise_op("hardshrink", [](auto x) { return where(abs(x) > 0.5, x, 0); });
//   Tensor y = hardshrink(x);                      // one pass over memory
//   auto dx = grad([&](Tensor t) { return sum(hardshrink(t)); })(x);
//
// The function runs once for each combination of dtypes, on symbolic values that represent every
// element. Its operations are recorded as a region (core/program/region.h), and from then on
// the region runs as one operation of this name. So the function must consist of elementwise
// operations and numbers, and must not read values: use where(condition, a, b) instead of if.
// Values that it captures are constants from its first run on. backends/cpu/own_kernels.h describes
// how to compile a loop for the CPU ahead of time.
#pragma once

#include <atomic>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <stave/handlers/transforms/record_region.h>

namespace stave_detail {

// The operands as tensors. A number gets the dtype that the tensors imply.
Inputs fused_operands(const Op& op, std::span<Operand> operands);

// The regions recorded for combinations of dtypes. The list only grows, and is thread-safe.
class RecordedRegions {
 public:
  RecordedRegions() = default;
  RecordedRegions(const RecordedRegions&) = delete;
  ~RecordedRegions();
  const RegionPtr& find(const Op& op, std::span<const Tensor> inputs, FlatFunction f, std::span<const Loop> loops);

 private:
  struct Entry {
    SmallVector<Dtype, 8> dtypes;
    Dtype floats;  // the default float dtype, to which integers are converted
    RegionPtr region;
    const Entry* next;
  };
  const Entry* look_up(std::span<const Tensor> inputs, Dtype floats) const;

  std::atomic<const Entry*> first_{nullptr};
  std::mutex mutex_;
};

// The type of a pointer to a function of n tensors.
template <int n, class... X>
struct TensorFunction : TensorFunction<n - 1, const Tensor&, X...> {};
template <class... X>
struct TensorFunction<0, X...> {
  using Pointer = Tensor (*)(X...);
};

}  // namespace stave_detail

namespace stave {

/// The callable that elementwise_op returns.
template <class F>
class ElementwiseFunction {
 public:
  ElementwiseFunction(std::string_view name, F f, std::vector<stave_detail::Loop> loops = {})
      : op_(stave_detail::fused_op(name)), f_(std::move(f)), loops_(std::move(loops)) {}
  ElementwiseFunction(const ElementwiseFunction&) = delete;

  /// Applies the operation. Operands broadcast; tensors keep their dtypes, numbers are weakly
  /// typed. The result may reuse the memory of an operand that nothing else holds. Throws
  /// TransformError if the function performs an operation that is not elementwise or reads a value,
  /// and ShapeError for shapes that do not broadcast.
  template <class... X>
    requires(sizeof...(X) > 0 && (std::is_convertible_v<X, Operand> && ...))
  Tensor operator()(X&&... xs) const {
    Operand operands[] = {Operand(std::forward<X>(xs))...};
    return apply(operands, std::index_sequence_for<X...>());
  }
  /// The operation's record, as handlers see it.
  const Op& op() const noexcept { return op_; }

 private:
  template <std::size_t... i>
  Tensor apply(std::span<Operand> operands, std::index_sequence<i...>) const {
    Inputs inputs = stave_detail::fused_operands(op_, operands);
    const auto f = [&](std::span<const Tensor> xs) { return Outputs(Tensor(f_(Tensor(xs[i])...))); };
    const RegionPtr& region = regions_.find(op_, inputs, f, loops_);
    return std::move(stave_detail::fused(op_, region, std::move(inputs))[0]);
  }

  const Op& op_;
  F f_;
  std::vector<stave_detail::Loop> loops_;
  mutable stave_detail::RecordedRegions regions_;
};

/// Returns f, a function of tensors that performs only elementwise operations, as one operation.
template <class F>
ElementwiseFunction<F> elementwise_op(std::string_view name, F f) {
  return ElementwiseFunction<F>(name, std::move(f));
}

/// An elementwise operation that a separate source file defines (backends/cpu/own_kernels.h). Its
/// type does not depend on the function, so other files can declare it:
///   extern const ElementwiseOperation<1> hardshrink;
template <int operands>
class ElementwiseOperation : public ElementwiseFunction<typename stave_detail::TensorFunction<operands>::Pointer> {
 public:
  using ElementwiseFunction<typename stave_detail::TensorFunction<operands>::Pointer>::ElementwiseFunction;
};

}  // namespace stave
