// Elementwise operations of one's own, made of those that there are:
//
//   const auto hardshrink = elementwise_op("hardshrink", [](auto x) { return where(abs(x) > 0.5, x, 0); });
//   Tensor y = hardshrink(x);                      // one pass over memory
//   auto dx = grad([&](Tensor t) { return sum(hardshrink(t)); })(x);
//
// The function runs once for each combination of dtypes, on values that stand for every element, and what it performs is recorded
// (core/program/region.h): from then on the recording is performed, as one operation of this name. So it must be made of elementwise
// operations and numbers, and must not look at values: where(condition, a, b) in place of if. What it captures is a constant from its
// first run on. A loop of its own for the CPU: backends/cpu/own_kernels.h.
#pragma once

#include <atomic>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <stave/handlers/transforms/record_region.h>

namespace stave_detail {

// Operands as tensors (numbers have the dtype that the tensors give them).
Inputs fused_operands(const Op& op, std::span<Operand> operands);

// What a function performs on values of these and those dtypes: a list that only grows.
class RecordedRegions {
 public:
  RecordedRegions() = default;
  RecordedRegions(const RecordedRegions&) = delete;
  ~RecordedRegions();
  const RegionPtr& find(const Op& op, std::span<const Tensor> inputs, FlatFunction f, std::span<const Loop> loops);

 private:
  struct Entry {
    SmallVector<Dtype, 8> dtypes;
    Dtype floats;  // to which integers go
    RegionPtr region;
    const Entry* next;
  };
  const Entry* look_up(std::span<const Tensor> inputs, Dtype floats) const;

  std::atomic<const Entry*> first_{nullptr};
  std::mutex mutex_;
};

// So many operands of a function.
template <int n, class... X>
struct TensorFunction : TensorFunction<n - 1, const Tensor&, X...> {};
template <class... X>
struct TensorFunction<0, X...> {
  using Pointer = Tensor (*)(X...);
};

}  // namespace stave_detail

namespace stave {

/// See elementwise_op.
template <class F>
class ElementwiseFunction {
 public:
  ElementwiseFunction(std::string_view name, F f, std::vector<stave_detail::Loop> loops = {})
      : op_(stave_detail::fused_op(name)), f_(std::move(f)), loops_(std::move(loops)) {}
  ElementwiseFunction(const ElementwiseFunction&) = delete;

  /// Operands broadcast; each keeps its dtype, numbers are weak. What nobody else holds may give
  /// its memory to the result. Throws TransformError where the function performs what is no
  /// elementwise operation or looks at a value, ShapeError for shapes that do not broadcast.
  template <class... X>
    requires(sizeof...(X) > 0 && (std::is_convertible_v<X, Operand> && ...))
  Tensor operator()(X&&... xs) const {
    Operand operands[] = {Operand(std::forward<X>(xs))...};
    return apply(operands, std::index_sequence_for<X...>());
  }
  /// The operation as handlers see it.
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

/// f, a function of tensors that performs elementwise operations alone, as one operation.
template <class F>
ElementwiseFunction<F> elementwise_op(std::string_view name, F f) {
  return ElementwiseFunction<F>(name, std::move(f));
}

/// An elementwise operation that a file of its own defines (backends/cpu/own_kernels.h), so that it has one type everywhere:
///   extern const ElementwiseOperation<1> hardshrink;
template <int operands>
class ElementwiseOperation : public ElementwiseFunction<typename stave_detail::TensorFunction<operands>::Pointer> {
 public:
  using ElementwiseFunction<typename stave_detail::TensorFunction<operands>::Pointer>::ElementwiseFunction;
};

}  // namespace stave
