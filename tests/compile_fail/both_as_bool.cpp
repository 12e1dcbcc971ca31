// expect: deleted.*bool\(all\(a\)\) && bool\(all\(b\)\)
#include <stave/stave.h>
using namespace stave;

bool f(const Tensor& a, const Tensor& b) {
  const bool both = all(a) && all(b);
  return both;
}
