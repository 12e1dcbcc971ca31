// expect: abstract class|abstract type|pure virtual
#include <stave/stave.h>
using namespace stave;

struct Forgetful : Handler {};
Tensor f() {
  return with(Forgetful(), [] { return ones({1}); });
}
