// expect: Result
#include <stave/stave.h>
using namespace stave;

struct Effect {};
void f() { perform(Effect{}); }
