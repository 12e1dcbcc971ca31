// Options can be given by name only.
#include <stave/stave.h>
using namespace stave;

Tensor one(const Tensor& x) { return sum(x); }
const Tensor x;

void f() {
#if CASE == 1
  // expect: no matching function
  vmap(one, {0, 1});
#elif CASE == 2
  // expect: explicit constructor|no matching function
  vmap(one, {{}, 0, 1});
#elif CASE == 3
  // expect: no matching function
  debug(one, {nullptr, true});
#elif CASE == 4
  // expect: no matching function|could not convert|no viable conversion|cannot convert
  check_grads(one, x, {2});
#elif CASE == 5
  // expect: no matching function|could not convert|no viable conversion|cannot convert
  sort(x, 0, {true});
#elif CASE == 6
  // expect: no matching function|could not convert|no viable conversion|cannot convert
  cumulative_sum(x, 0, {true, false});
#elif CASE == 7
  // expect: no matching function|could not convert|no viable conversion|cannot convert
  linear_recurrence(x, x, 0, {true});
#elif CASE == 8
  // expect: no matching function|could not convert|no viable conversion|cannot convert
  save_npz("x.npz", x, {true});
#elif CASE == 9
  // expect: no matching function|could not convert|no viable conversion|cannot convert
  read_csv("x.csv", {';', 1});
#endif
}
