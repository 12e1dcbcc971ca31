// Replaces nccl.cpp in a build without nccl.h: tensors on devices are exchanged via the host's
// memory.
#include <cstring>

#include <stave/core/tensor/fail.h>
#include <stave/handlers/ranks/nccl.h>

namespace stave_detail {

NcclOffer nccl_offer(Device, bool) noexcept {
  NcclOffer offer;
  std::strcpy(offer.why_not.data(), "its stave::ranks was built without NCCL");
  return offer;
}

Nccl::Nccl(Device device, const NcclOffer& first, int place, int size)
    : device(device), unique_id_(first.unique_id), place_(place), size_(size) {}
Nccl::~Nccl() = default;
void Nccl::exchange(void*, const Op& op, const CollectiveAttributes&, const View&, const View&) {
  fail<DeviceError>("{}: stave::ranks was built without NCCL", op.name);
}
void abort_nccl() noexcept {}

}  // namespace stave_detail
