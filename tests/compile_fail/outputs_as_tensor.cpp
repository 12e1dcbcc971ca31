// perform() returns the outputs of an operation, which may be several, not a Tensor.
#include <stave/stave.h>
using namespace stave;

Tensor f(Call& call) {
#if CASE == 1
  // expect: use perform\(call\)\[0\] or apply\(call\)
  Tensor y = perform(call);
  return y;
#elif CASE == 2
  // expect: use perform\(call\)\[0\] or apply\(call\)
  return perform(std::move(call));
#elif CASE == 3
  // expect: use perform\(call\)\[0\] or apply\(call\)
  return sin(perform(std::move(call)));
#endif
}
