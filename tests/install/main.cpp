#include <cstdio>

#include <stave/stave.h>

using namespace stave;

// An operation that the project defines.
const Op op_twice = define_op({
    .name = "twice",
    .infer = [](const Call& call, SmallVector<Abstract, 1>& outputs) { outputs.push_back(abstract(call.input(0))); },
    .derivative = Derivative::linear,
    .vjp = [](const VjpContext& c, int) { return 2. * c.ct(); },
    .batch = batch_elementwise,
    .cpu =
        [](const Attributes*, std::span<const View> in, std::span<const View> out) {
          const auto from = elements<const double>(in[0]);
          const auto to = elements<double>(out[0]);
          for (std::size_t i = 0; i < to.size(); ++i) to[i] = 2 * from[i];
        },
});

int main() {
  check_op(op_twice, {{.inputs = {tensor({1., 2., 3.}, float64)}}});
  const Tensor x = tensor({1., 2., 3.});
  const Tensor dx = grad([](const Tensor& y) { return sum(square(y)); })(x);  // 2x
  const bool right = bool(array_equal(dx, tensor({2., 4., 6.})));
  std::puts(right ? "the gradient is right" : "the gradient is wrong");
  return right ? 0 : 1;
}
