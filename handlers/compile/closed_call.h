// ClosedCall: a program as one operation, whose rules are programs (JAX's closed_call).
//
//   without handlers     an Executable (executable.h) runs it
//   grad, jvp, vmap      receive the operation `call` (core/op/higher_order.h). Forward and
//                        backward pass, tangents and batched forms are programs again
//                        (derive.h), made at the first use and kept; outer transforms receive
//                        them as closed calls
//   other handlers       see its operations, one by one
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <stave/core/program/executable.h>
#include <stave/handlers/compile/derive.h>

namespace stave_detail {

/// Returns true if all handlers of operations around this point accept closed calls.
bool takes_closed_calls() noexcept;
/// The description, for errors, of the nearest handler that does not accept closed calls.
std::string describe_handler_without_closed_calls();
/// Returns the order of the derivatives that are being taken with respect to these values: the
/// number of running transforms that differentiate one of them.
int orders_of_derivative(std::span<const Tensor> xs);

class ClosedCall;
using ClosedCallPtr = std::shared_ptr<const ClosedCall>;

struct ClosedCallSettings {
  const char* name = "compile";  // for errors and reports; it is not copied
  Native native = Native::automatic;
  bool for_inference = false;
};

class ClosedCall : public std::enable_shared_from_this<ClosedCall> {
 public:
  /// The program must have no reads.
  explicit ClosedCall(Program program, const ClosedCallSettings& settings = {});

  /// Performs the program. Rethrows the errors of its operations. Thread-safe.
  Outputs operator()(std::span<const Tensor> inputs) const;

 private:
  // A partition of the program as two closed calls.
  struct Partitioned {
    ClosedCallPtr first, rest;  // the known and the unknown part of a Partition
    Partitioned(Partition parts, const ClosedCallSettings& settings);
  };
  /// A partition of the program by lanes: its first part computes the outputs that depend on no
  /// lane.
  struct LaneFree {
    /// A mask of the outputs that depend on no lane.
    Mask outputs;
    Partitioned parts;
  };
  struct Lanes {
    Index count;
    Mask batched;
    friend bool operator==(const Lanes&, const Lanes&) = default;
  };
  /// A cache of the last few results.
  template <class Key, class Value>
  class RecentResults {
   public:
    template <class Make>
    Value find(const Key& key, Make make);

   private:
    static constexpr std::size_t most = 8;
    std::vector<std::pair<Key, Value>> kept_;
  };

  Outputs run(std::span<const Tensor> inputs) const;
  // Computes the outputs that depend on no lane by a closed call of their own, without lanes. So
  // the caller may read their values, as it may without compile.
  static Outputs run_lane_free(const LaneFree& apart, std::span<const Tensor> inputs, const Mask& lanes);
  // Returns a mask of the outputs to which a derivative flows from these inputs.
  Mask differentiable_in(const Mask& inputs) const;
  // Performs the program as the operation `call`, with derivatives with respect to the wanted
  // inputs.
  Outputs call(std::span<const Tensor> inputs, const Mask& wanted) const;
  void add_derivatives(FunctionAttributes& functions, const Mask& wanted) const;
  // The next functions make programs at their first use and cache them.
  Partitioned reverse(const Mask& wanted, std::span<const Tensor> inputs) const;
  Partitioned tangents(const Mask& wanted, std::span<const Tensor> inputs) const;
  // Returns null if all outputs depend on lanes.
  std::shared_ptr<const LaneFree> lane_free_part(const Mask& lanes) const;
  ClosedCallPtr batched(const Lanes& lanes, std::span<const Tensor> inputs) const;

  const Program program_;
  const ClosedCallSettings settings_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Program> optimized_;  // null: not made yet
  mutable RecentResults<std::vector<Strides>, std::shared_ptr<const Executable>> executables_;
  mutable RecentResults<Mask, Partitioned> reverse_, tangents_;
  mutable RecentResults<Mask, std::shared_ptr<const LaneFree>> lane_free_;
  mutable RecentResults<Mask, Mask> differentiable_;
  mutable RecentResults<Lanes, ClosedCallPtr> batched_;
};

}  // namespace stave_detail
