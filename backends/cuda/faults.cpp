#include <stave/backends/cuda/faults.h>

#include <algorithm>
#include <atomic>

#include <stave/core/op/op.h>
#include <stave/core/tensor/fail.h>

namespace stave_cuda {

// ---- thread numbers ---------------------------------------------------------------------------

namespace {

// The numbers of living threads. Each thread takes the lowest free number. So numbers stay small,
// and a new thread takes over the faults that the ended thread of that number left. All threads
// that find no free number share the last number.
constexpr std::size_t shared_number = Faults::most_threads - 1;
constinit std::array<std::atomic<bool>, shared_number> living{};
constinit std::atomic<std::size_t> numbers_used = 0;

constinit thread_local std::size_t number = shared_number;
constinit thread_local bool numbered = false;

struct Numbered {
  Numbered() {
    for (std::size_t i = 0; i < shared_number; ++i) {
      if (living[i].exchange(true)) continue;
      number = i;
      std::size_t used = numbers_used;
      while (used <= i && !numbers_used.compare_exchange_weak(used, i + 1)) continue;
      return;
    }
  }
  ~Numbered() {
    if (number != shared_number) living[number] = false;
    // Destructors that run after this one may still launch kernels. Such kernels use the shared
    // number.
    number = shared_number;
  }
};

std::size_t number_of_this_thread() {
  if (!numbered) {
    numbered = true;
    static thread_local const Numbered here;
  }
  return number;
}

}  // namespace

// ---- faults -----------------------------------------------------------------------------------

IndexFault* Faults::place() const { return &places_[std::min(number_of_this_thread(), places_.size() - 1)]; }

unsigned Faults::ticket(stave::OpId op) { return remember({0, op}); }
unsigned Faults::ticket(stave::OpId op, stave::Shape stack, const char* failure) {
  return remember({0, op, failure, std::make_unique<const stave::Shape>(std::move(stack))});
}
unsigned Faults::remember(Launched launched) {
  const std::lock_guard lock(mutex_);
  if (++last_ == 0) ++last_;
  launched.ticket = last_;
  launches_[last_ % remembered] = std::move(launched);
  return last_;
}

namespace {

[[noreturn]] void fail_at_matrix(const char* op, Index matrix, const stave::Shape& stack, const char* failure) {
  constexpr const char* when = "(found on the device, and reported by the first wait for the device since then)";
  if (stack.empty()) stave_detail::fail<stave::LinalgError>("{}: the matrix {} {}", op, failure, when);
  stave::Shape position = stack;
  for (std::size_t axis = stack.size(); axis-- > 0; matrix /= stack[axis]) position[axis] = matrix % stack[axis];
  stave_detail::fail<stave::LinalgError>("{}: matrix {} of the stack {} {} {}", op, position, stack, failure, when);
}

}  // namespace

void Faults::raise() {
  raise(*place());
  const std::size_t used = std::min(numbers_used.load(), places_.size() - 1);
  for (std::size_t i = 0; i < used; ++i)
    if (!living[i]) raise(places_[i]);
  raise(places_.back());
}

void Faults::raise(IndexFault& place) {
  IndexFault found;
  const char* operation = "an operation on indices";
  const char* index = "index";
  {
    std::atomic_ref<unsigned> taken(place.taken);
    if (taken.load(std::memory_order_acquire) == 0) return;
    const std::lock_guard lock(mutex_);
    if (taken.load(std::memory_order_acquire) == 0) return;
    found = place;
    taken.store(0, std::memory_order_release);
    const Launched& launched = launches_[found.taken % remembered];
    if (launched.ticket == found.taken) {
      const stave::Op& op = *stave::all_ops()[static_cast<std::size_t>(launched.op)];
      if (launched.failure) fail_at_matrix(op.name, found.index, *launched.stack, launched.failure);
      operation = op.name;
      index = op.index_name;
    }
  }
  stave_detail::fail<stave::IndexError>(
      "{}: {} {} is out of range for axis {} with size {} (found on the device, and reported by the first wait for the "
      "device since then)",
      operation, index, found.index, found.axis, found.size);
}

}  // namespace stave_cuda
