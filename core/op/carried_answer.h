// An answer to an operation that carries functions is checked where it is given: it is
// to be like what a function of it gave.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include <stave/core/op/carried.h>

namespace stave_detail {

/// The results of the functions of one call: none has run yet, and nobody has said so; or as the
/// last that ran.
class CarriedResults {
 public:
  struct Result {
    Abstract abstract;
    std::optional<Device> device;  // nothing: any
  };
  void set(SmallVector<Result, 1> results);
  /// These outputs; of those of lanes, along axis 0, one lane's.
  void set(std::span<const Tensor> outputs, bool of_lanes = false);
  std::optional<SmallVector<Result, 1>> get() const;

 private:
  mutable std::mutex mutex_;
  std::optional<SmallVector<Result, 1>> results_;
};

/// A function that tells what it gives.
struct ToldFunction {
  CarriedFunction function;
  std::shared_ptr<CarriedResults> results;
  Outputs operator()(std::span<const Tensor> xs) const {
    Outputs outputs = function(xs);
    results->set(outputs);
    return outputs;
  }
};

/// Makes all functions of a call tell what they give, to who will check its answer.
void tell_results(FunctionAttributes& functions);

/// Throws TransformError for an answer that is not like what the call's function gave, or if that
/// is not known; it names who answered (null: who resumes).
void check_carried_answer(const FunctionAttributes& functions, std::span<const Tensor> outputs, const AnyHandler* who);

/// "float32 [3] on cpu"
std::string in_words(const Tensor& x);

}  // namespace stave_detail
