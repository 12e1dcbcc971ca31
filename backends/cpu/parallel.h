// Parallel loops over index ranges. This is the only place that uses oneTBB, which stays out
// of templates and of every other file.
#pragma once

#include <stave/core/tensor/shape.h>

namespace stave_cpu {

using stave::Index;

/// A reference to a callable void(Index first, Index last), which it does not own: two words,
/// no allocation.
class RangeBody {
 public:
  template <class F>
  RangeBody(const F& f)
      : object_(&f),
        call_([](const void* object, Index first, Index last) { (*static_cast<const F*>(object))(first, last); }) {}
  void operator()(Index first, Index last) const { call_(object_, first, last); }

 private:
  const void* object_;
  void (*call_)(const void*, Index, Index);
};

/// The smallest part of a loop that is worth a second thread, in elements of a cheap operation
/// (measured: a fork and join costs 2 us).
inline constexpr Index cheap_grain = 1 << 16;

/// Returns how many threads a loop may use here.
int thread_count();

void parallel_for_split(Index n, Index grain, RangeBody body);

/// Runs `body` over parts of [0, n), none shorter than about `grain`, on several threads.
/// The cuts depend on the machine, so the results of `body` must not depend on them. Exceptions
/// of `body` reach the caller.
inline void parallel_for(Index n, Index grain, RangeBody body) {
  if (n > grain) parallel_for_split(n, grain, body);
  else if (n > 0) body(0, n);
}

}  // namespace stave_cpu
