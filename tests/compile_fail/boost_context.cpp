// expect: stave: STAVE_BOOST_CONTEXT changes how a computation is suspended.*other_layout.*(terminated|file not found)
// with: -DSTAVE_BOOST_CONTEXT
#include <stave/core/effects/controller.h>

int main() { return 0; }
