#include <stave/stave.h>
using namespace stave;

const Tensor x;

void f() {
#if CASE == 1
  // expect: stave: concurrently: each argument must be a function without parameters
  concurrently([] { return x; }, [](const Tensor& y) { return y; });
#elif CASE == 2
  // expect: stave: concurrently: each argument must be a function without parameters
  concurrently([] { return x; }, std::vector<std::function<Tensor()>>());
#elif CASE == 3
  // expect: no matching function|could not convert|no viable conversion|cannot convert
  concurrently({false}, [] { return x; });
#endif
}
