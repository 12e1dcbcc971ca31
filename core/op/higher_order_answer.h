// Checks the answers to higher-order operations where they are given: an answer must have
// the shapes, dtypes and devices of the results of the call's function.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include <stave/core/op/higher_order.h>

namespace stave_detail {

/// The shapes, dtypes and devices that the functions of one call returned: those of the last
/// function that ran, or unknown as long as none has run.
class HigherOrderResults {
 public:
  struct Result {
    Abstract abstract;
    std::optional<Device> device;  // nothing: any device
  };
  void set(SmallVector<Result, 1> results);
  /// Stores the shapes, dtypes and devices of these outputs. `of_lanes`: axis 0 of the outputs are
  /// lanes, and the shapes of one lane are stored.
  void set(std::span<const Tensor> outputs, bool of_lanes = false);
  std::optional<SmallVector<Result, 1>> get() const;

 private:
  mutable std::mutex mutex_;
  std::optional<SmallVector<Result, 1>> results_;
};

/// Wraps all functions of a call so that they store the shapes, dtypes and devices of their results
/// in `functions.results`, against which the call's answer is checked.
void record_results(FunctionAttributes& functions);

/// Throws TransformError if an answer does not match the results of the call's function,
/// or if these are unknown. The error names the handler that answered (null: a resumption).
void check_higher_order_answer(const FunctionAttributes& functions, std::span<const Tensor> outputs,
                               const AnyHandler* who);

/// The dtype, shape and device of a tensor as text: "float32 [3] on cpu".
std::string description_of(const Tensor& x);

}  // namespace stave_detail
