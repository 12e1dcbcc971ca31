// expect: deleted function.*maximum\(a, b\); of two C
#include <stave/stave.h>
using namespace stave;

int x = max(1, 2);
