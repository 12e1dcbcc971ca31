// expect: no viable conversion|conversion from .*requested
#include <stave/stave.h>
using namespace stave;

Tensor x = 1.0;  // tensor(1.0) is correct
