// Options that do not exist. The error names the options' type; if the type is written before
// the list, the error names the wrong member.
#include <stave/stave.h>
using namespace stave;

Tensor one(const Tensor& x) { return sum(x); }
const Tensor x;

void f() {
#if CASE == 1
  // expect: VmapOptions
  vmap(one, {.in_axis = 0});
#elif CASE == 2
  // expect: in_axis
  vmap(one, VmapOptions{.in_axis = 0});
#elif CASE == 3
  // expect: SortOptions
  sort(x, 0, {.descend = true});
#elif CASE == 4
  // expect: descend
  sort(x, 0, SortOptions{.descend = true});
#elif CASE == 5
  // expect: snapshot
  loop(3, one, LoopOptions{.snapshot = 2});
#endif
}
