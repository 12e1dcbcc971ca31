// Checks the answers to higher-order operations where they are given: an answer must have
// the shapes, dtypes and devices of the results of the call's function.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include <stave/core/op/higher_order.h>

namespace stave_detail {

/// The shapes, dtypes and devices of the outputs of one call, as the last function of the call that
/// ran returned them; unknown as long as none has run.
class HigherOrderResults {
 public:
  struct Result {
    Abstract abstract;
    std::optional<Device> device;  // nothing: any device
  };
  void set(SmallVector<Result, 1> results);
  /// Stores the shapes, dtypes and devices of these outputs. If `of_lanes` is true, axis 0 of the
  /// outputs has the lanes, and the shapes of one lane are stored.
  void set(std::span<const Tensor> outputs, bool of_lanes = false);
  std::optional<SmallVector<Result, 1>> get() const;

 private:
  mutable std::mutex mutex_;
  std::optional<SmallVector<Result, 1>> results_;
};

/// Wraps the functions of a call so that each of them, except `backward`, stores the shapes, dtypes
/// and devices of its outputs in `functions.results`, against which the call's answer is checked.
void record_results(FunctionAttributes& functions);

/// Throws TransformError if an answer does not match `functions.results`, or if none of the call's
/// functions has run. If `functions.results` is null, only empty tensors are an error. The error
/// names the handler that answered (null: a resumption).
void check_higher_order_answer(const FunctionAttributes& functions, std::span<const Tensor> outputs,
                               const AnyHandler* who);

/// The dtype, shape and device of a tensor as text: "float32 [3] on cpu".
std::string description_of(const Tensor& x);

}  // namespace stave_detail
