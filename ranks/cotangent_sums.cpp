#include <stave/ranks/cotangent_sums.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include <stave/core/fail.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/transfer.h>
#include <stave/ranks/processes.h>

namespace stave {

using namespace stave_detail;

// What is to be summed, in order, and the thread that does it; where MPI does not take threads, the one that sows.
class CotangentSums::Exchange {
 public:
  explicit Exchange(IntrusivePtr<Processes> processes)
      : processes_(std::move(processes)), attributes_(processes_->name, processes_->size) {
    if (Processes::takes_threads()) thread_ = std::thread([this] { work(); });
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
    UnderFrame past_all_handlers(nullptr);
    Tensor mine = contiguous(to(astype(x, computed_in(x.dtype())), cpu));
    // A number may be viewed without storage of its size: a copy is not.
    if (mine.node().view().number) mine = apply(op_copy, {mine});
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
    NamedTensors found;
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
    processes_->exchange(op_psum, attributes_, sum.mine.node().view(), sum.all.node().view());
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ends_ || done_ < sums_.size(); });
      if (done_ == sums_.size() || threw_) return;
      const Sum& next = sums_[done_];  // a deque: it stays where it is
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

  const IntrusivePtr<Processes> processes_;
  const CollectiveAttributes attributes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Sum> sums_;
  std::size_t done_ = 0;
  bool ends_ = false;
  std::exception_ptr threw_;
  std::thread thread_;
};

CotangentSums::CotangentSums(const Ranks& ranks, const std::string& tag)
    : SownHandler(tag), exchange_(std::make_unique<Exchange>(ranks.processes_->again())) {}
CotangentSums::~CotangentSums() = default;

NamedTensors CotangentSums::take() { return exchange_->take(); }

Tensor CotangentSums::sown(const SownValue& sown) {
  if (!sown.value.node().storage)
    fail<TransformError>(
        "CotangentSums: \"{}\" is a value that a transform outside follows: install CotangentSums outside of it",
        sown.name);
  if (!sown.again) exchange_->add(sown.name, sown.value);
  return sown.value;
}

}  // namespace stave
