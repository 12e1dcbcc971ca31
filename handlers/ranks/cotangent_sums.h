// CotangentSums: sums the gradients of all processes during the backward pass.
//
//   Tensor loss(const Model& m, const Tensor& x) {
//     Tensor h = tanh(matmul(x, sow_cotangent("w1", m.w1)));      // where the layer begins
//     return sum(matmul(h, sow_cotangent("w2", m.w2)));
//   }
//
//   CotangentSums sums(ranks);
//   with(sums, [&] { return grad(loss)(m, my_part); });
//   NamedTensors gradients = sums.take();              // "w1", "w2": summed over all processes
//
// The backward pass reaches the last layer first. A separate thread sums the last layer's
// cotangents over the processes, while this thread computes those of earlier layers. Tensors on
// devices that use NCCL need no second thread: the thread that sows them enqueues the sum on the
// device's stream, and the host does not wait for it.
#pragma once

#include <memory>

#include <stave/handlers/ranks/ranks.h>
#include <stave/handlers/transforms/sow.h>

namespace stave {

/// Handler that sums the cotangents of sow_cotangent(name, x, tag) over all processes, for one tag.
/// Install it outside of grad. Lanes and derivatives of the sown values are not supported: an outer
/// transform that traces them is an error. All processes of the axis must create a CotangentSums,
/// and must sow the same names in the same order.
class CotangentSums final : public SownHandler {
 public:
  explicit CotangentSums(const Ranks& ranks, const std::string& tag = "");
  ~CotangentSums() override;

  /// Waits for the sums in progress, and returns all sums by name: "scope/name" within a Scope.
  /// Afterwards the object is empty and can be used again. Rethrows errors of the
  /// exchange between processes.
  NamedTensors take();

  std::string describe() const override { return "CotangentSums"; }

 protected:
  Tensor sown(const SownValue& sown) override;

 private:
  class Exchange;
  const std::unique_ptr<Exchange> exchange_;
};

}  // namespace stave
