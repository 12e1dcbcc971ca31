#include <stave/handlers/ranks/watchdog.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include <stave/core/tensor/fail.h>

namespace stave_detail {

using Seconds = std::chrono::duration<double>;

class Watchdog {
 public:
  explicit Watchdog(Seconds timeout) : timeout_(timeout), thread_([this] { watch(); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void add(Waiting& waiting) {
    const std::lock_guard lock(mutex_);
    waiting.next_report_ = timeout_;
    waiting.next_ = first_;
    first_ = &waiting;
  }
  void remove(const Waiting& waiting) {
    const std::lock_guard lock(mutex_);
    Waiting** link = &first_;
    while (*link != &waiting) link = &(*link)->next_;
    *link = waiting.next_;
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    const auto period = std::chrono::duration_cast<std::chrono::steady_clock::duration>(timeout_ / 4);
    while (!changed_.wait_for(lock, period, [this] { return ends_; })) {
      for (Waiting* waiting = first_; waiting; waiting = waiting->next_) {
        const Seconds waited = std::chrono::steady_clock::now() - waiting->since_;
        if (waited < waiting->next_report_) continue;
        waiting->next_report_ *= 2;
        const std::string text = waiting->say_(fmt::format("{:.3g} s", waited.count()));
        std::fprintf(stderr, "stave: %s\n", text.c_str());
        std::fflush(stderr);
      }
    }
  }

  const Seconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Waiting* first_ = nullptr;
  bool ends_ = false;
  // The last member, so that the other members exist for as long as the thread runs.
  std::thread thread_;
};

namespace {

// The running watchdog. It is null if reports are disabled, and after stop_watchdog.
std::atomic<Watchdog*> watchdog{nullptr};

Seconds timeout() {
  const char* const asked = std::getenv("STAVE_RANKS_TIMEOUT");
  if (!asked || !*asked) return Seconds(60);
  char* end = nullptr;
  const double seconds = std::strtod(asked, &end);
  if (*end || !std::isfinite(seconds) || seconds < 0)
    fail<stave::Error>(
        "Ranks: STAVE_RANKS_TIMEOUT is \"{}\": give a number of seconds, or 0 for no reports of long waits", asked);
  return Seconds(std::min(seconds, 1e6));
}

}  // namespace

void start_watchdog() {
  const Seconds after = timeout();
  if (!watchdog && after.count() > 0) watchdog = new Watchdog(after);
}

void stop_watchdog() noexcept { delete watchdog.exchange(nullptr); }

Waiting::Waiting(stave::FunctionRef<std::string(const std::string& duration)> say) : say_(say), watchdog_(watchdog) {
  if (watchdog_) watchdog_->add(*this);
}
Waiting::~Waiting() {
  if (watchdog_ && watchdog_ == watchdog) watchdog_->remove(*this);
}

}  // namespace stave_detail
