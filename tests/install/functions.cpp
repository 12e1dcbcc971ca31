// Functions that become C (stave_generate).
#include <stave/handlers/compile/write_c.h>
#include <stave/stave.h>

namespace {

stave::Tensor norm_of(const stave::Tensor& x) { return sqrt(sum(square(x))); }

}  // namespace

stave::CFunction norm() { return {trace(norm_of)(stave::ones({2}, stave::float64))}; }
stave::CFunction norm_gradient() {
  return {trace(stave::grad(norm_of))(stave::ones({2}, stave::float64)), {.outputs = {"gradient"}}};
}
