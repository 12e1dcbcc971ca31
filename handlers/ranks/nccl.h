// Collectives of tensors on CUDA devices by NCCL. This header is internal to ranks;
// without_nccl.cpp implements it for a build without nccl.h.
//
// Collectives are enqueued on the stream of the CUDA backend, after its earlier work, and the host
// does not wait for them. The libraries of NCCL and of the CUDA driver are loaded when a tensor on
// a device is first exchanged. A "place" is the index of a process along the axis.
#pragma once

#include <array>

#include <stave/core/ops/named_axis.h>

struct ncclComm;

namespace stave_detail {

/// The data that each process sends to all others before they decide together whether to use NCCL.
struct NcclOffer {
  // The reason why this process cannot use NCCL; empty if it can.
  std::array<char, 200> why_not{};
  // The UUID of the GPU, which is unique among all machines.
  std::array<unsigned char, 16> gpu{};
  // NCCL's unique id for a new communicator. All processes use the id of place 0.
  std::array<char, 128> unique_id{};
};
NcclOffer nccl_offer(Device device, bool is_first) noexcept;

/// The NCCL communicator of one axis, with one device per process.
class Nccl {
 public:
  /// `first` is the offer of place 0. Every process must have offered to use NCCL.
  Nccl(Device device, const NcclOffer& first, int place, int size);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  /// Performs a collective of tensors on the device, as Communicator::exchange_on_device specifies.
  /// The first call connects all processes. Throws Error if an NCCL function fails, or if
  /// a collective enqueued earlier has failed since the last call.
  void exchange(void* stream, const Op& op, const CollectiveAttributes& attributes, const View& x, const View& result);

  const Device device;

 private:
  ncclComm* communicator(const Op& op);

  const std::array<char, 128> unique_id_;
  const int place_, size_;
  ncclComm* communicator_ = nullptr;
};

/// Aborts all NCCL collectives of this process that are in progress.
/// Called before the process ends all others, which then cannot complete them.
void abort_nccl() noexcept;

}  // namespace stave_detail
