// Parallel loops over index ranges. parallel.cpp is the only file that uses oneTBB.
#pragma once

#include <stave/core/tensor/shape.h>

namespace stave_cpu {

using stave::Index;

/// A reference to a callable void(Index first, Index last). It does not own the callable,
/// has the size of two pointers, and allocates nothing.
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

/// The smallest part of a loop that is worth a second thread, as the number of elements of a cheap
/// operation (measured: to start and join parallel tasks costs 2 us).
inline constexpr Index cheap_grain = 1 << 16;

/// Returns the number of threads that a loop of the calling thread may use.
int thread_count();

void parallel_for_split(Index n, Index grain, RangeBody body);

/// Runs `body` on parts of [0, n), none shorter than about `grain`, on several threads.
/// The division into parts depends on the machine, so results must not depend on it.
/// Exceptions of `body` are rethrown to the caller.
inline void parallel_for(Index n, Index grain, RangeBody body) {
  if (n > grain) parallel_for_split(n, grain, body);
  else if (n > 0) body(0, n);
}

}  // namespace stave_cpu
