#include <stave/core/ops/complex.h>

#include <stave/core/op/op.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/element_sets.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

void check_complex(const Call& call) {
  if (const Dtype dtype = call.input(0).dtype(); !is_complex(dtype))
    fail<DtypeError>("{}: the operation has a complex input here, not {}", call.op().name, dtype);
}

void infer_part(const Call& call, SmallVector<Abstract, 1>& outputs) {
  check_complex(call);
  outputs.push_back({call.input(0).shape(), real_of(call.input(0).dtype())});
}

}  // namespace

// With z = x + iy, the cotangent of z is that of x minus i times that of y.
constinit const Op op_complex{
    .id = OpId::complex,
    .name = "complex",
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          const Tensor &re = call.input(0), &im = call.input(1);
          if (re.shape() != im.shape() || re.dtype() != im.dtype() || (re.dtype() != float32 && re.dtype() != float64))
            fail<ShapeError>("complex: operands {} {} and {} {} must have one shape and be float32 or float64 here",
                             re.dtype(), re.shape(), im.dtype(), im.shape());
          outputs.push_back({re.shape(), complex_of(re.dtype())});
        },
    .derivative = Derivative::linear,
    .vjp = [](const VjpContext& c, int input) { return input == 0 ? real(c.ct()) : negative(imag(c.ct())); },
    .batch = batch_elementwise,
    .depends = depends_elementwise,
    .is_cheap_arithmetic = true,
    .flops = no_flops,
};

constinit const Op op_real{
    .id = OpId::real,
    .name = "real",
    .takes_complex = true,
    .infer = infer_part,
    .derivative = Derivative::linear,
    .vjp = [](const VjpContext& c, int) { return astype(c.ct(), c.dtype(0)); },
    .batch = batch_elementwise,
    .depends = depends_elementwise,
    .is_cheap_arithmetic = true,
    .flops = no_flops,
};

constinit const Op op_imag{
    .id = OpId::imag,
    .name = "imag",
    .takes_complex = true,
    .infer = infer_part,
    .derivative = Derivative::linear,
    .vjp = [](const VjpContext& c, int) { return complex(0, negative(c.ct())); },
    .batch = batch_elementwise,
    .depends = depends_elementwise,
    .is_cheap_arithmetic = true,
    .flops = no_flops,
};

constinit const Op op_conj{
    .id = OpId::conj,
    .name = "conj",
    .takes_complex = true,
    .infer =
        [](const Call& call, SmallVector<Abstract, 1>& outputs) {
          check_complex(call);
          outputs.push_back({call.input(0).shape(), call.input(0).dtype()});
        },
    .derivative = Derivative::linear,
    .vjp = [](const VjpContext& c, int) { return conj(c.ct()); },
    .batch = batch_elementwise,
    .depends = depends_elementwise,
    .is_cheap_arithmetic = true,
    .flops = no_flops,
};

Tensor real(const Tensor& z) { return is_complex(require_defined(z, "real").dtype()) ? apply(op_real, {z}) : z; }
Tensor imag(const Tensor& z) {
  if (is_complex(require_defined(z, "imag").dtype())) return apply(op_imag, {z});
  return named(
      "imag", [&] { return zeros_like(z); }, z);
}
Tensor conj(const Tensor& z) { return is_complex(require_defined(z, "conj").dtype()) ? apply(op_conj, {z}) : z; }
Tensor angle(const Tensor& z) {
  require_defined(z, "angle");
  return named(
      "angle",
      [&] {
        if (is_complex(z.dtype())) return atan2(imag(z), real(z));
        const Tensor x = floating(z);
        return where(isnan(x), x, 3.141592653589793 * astype(x < 0, x.dtype()));
      },
      z);
}

}  // namespace stave
