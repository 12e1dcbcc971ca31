// Collectives of tensors on CUDA devices, by NCCL. Internal to ranks; without_nccl.cpp is its other half, for a build without nccl.h.
//
// All is put on the backend's own stream, in the order of its other work, and nobody waits for it. The libraries, NCCL's and the
// driver's, are loaded when a tensor on a device first comes.
#pragma once

#include <array>

#include <stave/core/ops/named_axis.h>

struct ncclComm;

namespace stave_detail {

/// What each place tells the others before they decide whether to go by NCCL, in bytes.
struct NcclOffer {
  std::array<char, 200> why_not{};      // text; empty: this place could
  std::array<unsigned char, 16> gpu{};  // of all there are: the UUID
  std::array<char, 128> meeting{};      // place 0's is where all meet
};
NcclOffer nccl_offer(Device device, bool is_first) noexcept;

/// Of one axis, on one device in each place.
class Nccl {
 public:
  /// After all places have offered to: the first one's offer.
  Nccl(Device device, const NcclOffer& first, int place, int size);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  /// As Communicator's on a device. They meet at the first call. Throws Error, also for what went wrong since the call before.
  void exchange(void* stream, const Op& op, const CollectiveAttributes& attributes, const View& x, const View& result);

  const Device device;

 private:
  ncclComm* communicator(const Op& op);

  const std::array<char, 128> meeting_;
  const int place_, size_;
  ncclComm* communicator_ = nullptr;
};

/// Ends what is under way, of all there are: the others will not come.
void abort_nccl() noexcept;

}  // namespace stave_detail
