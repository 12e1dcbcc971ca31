// CotangentSums: gradients of all processes are summed while the backward pass goes on.
//
//   Tensor loss(const Model& m, const Tensor& x) {
//     Tensor h = tanh(matmul(x, sow_cotangent("w1", m.w1)));      // where the layer begins
//     return sum(matmul(h, sow_cotangent("w2", m.w2)));
//   }
//
//   CotangentSums sums(ranks);
//   with(sums, [&] { return grad(loss)(m, my_part); });
//   NamedTensors gradients = sums.take();                          // "w1", "w2": of all processes' losses
//
// The backward pass comes to the last layer first: what it says there is on its way to the others, by a thread of its own, while
// the layers before it are computed. Of tensors on devices that go by NCCL it is the thread that sows which asks for the sum: it stands in the
// order of the device's work, and nobody waits for it.
#pragma once

#include <memory>

#include <stave/handlers/ranks/ranks.h>
#include <stave/handlers/transforms/sow.h>

namespace stave {

/// Takes what sow_cotangent says under a tag. It stands outside of grad; lanes and derivatives of what it takes are not followed. To be made by all
/// processes of the axis, each of which is to sow the same names in the same order.
class CotangentSums final : public SownHandler {
 public:
  explicit CotangentSums(const Ranks& ranks, const std::string& tag = "");
  ~CotangentSums() override;

  /// The sums, by name, scopes included; waits for those that are under way. Afterwards it takes anew. Throws what went wrong there.
  NamedTensors take();

  std::string describe() const override { return "CotangentSums"; }

 protected:
  Tensor sown(const SownValue& sown) override;

 private:
  class Exchange;
  const std::unique_ptr<Exchange> exchange_;
};

}  // namespace stave
