#include <stave/backends/cuda/faults.h>

#include <atomic>

#include <stave/core/fail.h>
#include <stave/core/op.h>

namespace stave_cuda {

unsigned Faults::ticket(stave::OpId op) {
  const std::lock_guard lock(mutex_);
  if (++last_ == 0) ++last_;
  launches_[last_ % remembered] = {last_, op};
  return last_;
}

void Faults::raise() {
  IndexFault found;
  const char* operation = "an operation on indices";
  bool of_slice = false;
  {
    const std::lock_guard lock(mutex_);
    std::atomic_ref<unsigned> taken(fault_->taken);
    if (taken.load(std::memory_order_acquire) == 0) return;
    found = *fault_;
    taken.store(0, std::memory_order_release);
    const Launched& launched = launches_[found.taken % remembered];
    if (launched.ticket == found.taken) {
      operation = stave::all_ops()[static_cast<std::size_t>(launched.op)]->name;
      of_slice = launched.op == stave::OpId::dynamic_slice || launched.op == stave::OpId::dynamic_update_slice;
    }
  }
  stave_detail::fail<stave::IndexError>(
      "{}: {} {} is out of range for axis {} with size {} (the device found it, and this is the first wait for it "
      "since)",
      operation, of_slice ? "a slice that starts at index" : "index", found.index, found.axis, found.size);
}

}  // namespace stave_cuda
