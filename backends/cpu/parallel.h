// Parallel loops over index ranges: the only door to oneTBB, kept out of templates and of every other file.
#pragma once

#include <stave/core/tensor/shape.h>

namespace stave_cpu {

using stave::Index;

/// A borrowed callable void(Index first, Index last): two words, no allocation.
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

/// What pays for waking a second thread, in elements of a cheap operation (measured: a fork and join costs 2 us).
inline constexpr Index cheap_grain = 1 << 16;

/// How many threads a loop may use here.
int thread_count();

void parallel_for_split(Index n, Index grain, RangeBody body);

/// Runs `body` over parts of [0, n), none shorter than about `grain`; where a range is cut depends on the machine, so a
/// body must not. Its exceptions reach the caller.
inline void parallel_for(Index n, Index grain, RangeBody body) {
  if (n > grain) parallel_for_split(n, grain, body);
  else if (n > 0) body(0, n);
}

}  // namespace stave_cpu
