// expect: deleted function.*maximum\(a, b\); two numbers
#include <stave/stave.h>
using namespace stave;

int x = max(1, 2);
