#include <stave/handlers/ranks/cotangent_sums.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <stave/core/effects/scope.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/ranks/processes.h>

namespace stave {

using namespace stave_detail;

// The queue of sums, and the thread that performs them by MPI, in the order of the queue. If MPI
// does not allow several threads, the thread that calls sow_cotangent performs the sum itself. Sums
// by NCCL are not queued: that thread enqueues them on the device's stream like other collectives,
// and the host does not wait for them.
class CotangentSums::Exchange {
 public:
  explicit Exchange(IntrusivePtr<Processes> axis)
      : axis_(std::move(axis)), processes_(axis_->again()), attributes_(axis_->name, axis_->size) {
    if (Processes::is_thread_multiple()) thread_ = std::thread([this] { work(); });
  }
  ~Exchange() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void add(const std::string& name, const Tensor& x) {
    for (const Sum& sum : sums_)
      if (sum.name == name) fail_sown_twice(name);
    if (on_device_.contains(name)) fail_sown_twice(name);
    UnderFrame past_all_handlers(nullptr);
    const Device device = axis_->exchanges_on(
        x.device(), [&](Device where) { return description_of(op_psum, attributes_, x.dtype(), x.shape(), where); });
    Tensor mine = contiguous(to(astype(x, computed_in(x.dtype())), device));
    if (device != cpu) {
      const Tensor all = apply(op_psum, {mine}, attributes_.bound(axis_));
      on_device_.emplace(name, astype(to(all, x.device()), x.dtype()));
      return;
    }
    // The storage of a constant may hold a single element; a copy stores all elements.
    if (mine.node().view().is_host_constant) mine = apply(op_copy, {mine});
    Sum sum{name, mine, apply(op_copy, {mine}), x.dtype(), x.device()};
    if (!thread_.joinable()) {
      exchange(sum);
      sums_.push_back(std::move(sum));
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      sums_.push_back(std::move(sum));
    }
    changed_.notify_all();
  }

  NamedTensors take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !thread_.joinable() || done_ == sums_.size() || threw_; });
    if (threw_) std::rethrow_exception(threw_);
    NamedTensors found = std::exchange(on_device_, {});
    for (Sum& sum : sums_) found.emplace(std::move(sum.name), to(astype(sum.all, sum.dtype), sum.device));
    sums_.clear();
    done_ = 0;
    return found;
  }

 private:
  struct Sum {
    std::string name;
    Tensor mine, all;
    Dtype dtype;
    Device device;
  };

  void exchange(const Sum& sum) {
    // The processes compare their scopes before an exchange, and so the names of their sums.
    const Scope named(sum.name);
    processes_->exchange(op_psum, attributes_, sum.mine.node().view(), sum.all.node().view());
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ends_ || done_ < sums_.size(); });
      if (done_ == sums_.size() || threw_) return;
      // `sums_` is a deque, so later additions do not move this element.
      const Sum& next = sums_[done_];
      lock.unlock();
      std::exception_ptr threw;
      try {
        exchange(next);
      } catch (...) {
        threw = std::current_exception();
      }
      lock.lock();
      threw_ = threw;
      ++done_;
      changed_.notify_all();
    }
  }

  const IntrusivePtr<Processes> axis_, processes_;
  const CollectiveAttributes attributes_;
  // Sums by NCCL, which may still be in progress on the device's stream.
  NamedTensors on_device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Sum> sums_;
  std::size_t done_ = 0;
  bool ends_ = false;
  std::exception_ptr threw_;
  std::thread thread_;
};

CotangentSums::CotangentSums(const Ranks& ranks, const std::string& tag)
    : SownHandler(tag), exchange_(std::make_unique<Exchange>(ranks.processes_)) {}
CotangentSums::~CotangentSums() = default;

NamedTensors CotangentSums::take() { return exchange_->take(); }

Tensor CotangentSums::sown(const SownValue& sown) {
  if (!sown.value.node().storage)
    fail<TransformError>(
        "CotangentSums: \"{}\" is a value that a transform outside traces: install CotangentSums outside of it",
        sown.name);
  if (!sown.again) exchange_->add(sown.name, sown.value);
  return sown.value;
}

}  // namespace stave
