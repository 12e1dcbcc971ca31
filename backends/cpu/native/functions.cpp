#include <stave/backends/cpu/native/functions.h>

#include <cmath>

#include <stave/backends/cpu/dispatch.h>

namespace stave_cpu {

using stave_detail::ScalarOp;

namespace {

template <class T>
const void* function_of(ScalarOp op) {
  switch (op) {
    case ScalarOp::fma: return reinterpret_cast<const void*>(+[](T a, T b, T c) { return std::fma(a, b, c); });
    case ScalarOp::floor: return reinterpret_cast<const void*>(+[](T x) { return std::floor(x); });
    case ScalarOp::ceil: return reinterpret_cast<const void*>(+[](T x) { return std::ceil(x); });
    case ScalarOp::trunc: return reinterpret_cast<const void*>(+[](T x) { return std::trunc(x); });
    case ScalarOp::rint: return reinterpret_cast<const void*>(+[](T x) { return std::nearbyint(x); });
    case ScalarOp::erfc_of_root_half:
      return reinterpret_cast<const void*>(
          +[](T x) { return static_cast<T>(std::erfc(static_cast<long double>(x) / std::sqrt(2.0L))); });
    default: return nullptr;
  }
}

}  // namespace

const void* function_by_value(ScalarOp op, Dtype dtype) {
  if (dtype == stave::float64) return function_of<double>(op);
  if (dtype == stave::float32) return function_of<float>(op);
  return nullptr;
}

BlockKernel kernel_of_operation(ScalarOp op, Dtype dtype, Dtype result) {
  const auto of = static_cast<std::size_t>(dtype);
  if (op == ScalarOp::convert) return kernels().convert[of][static_cast<std::size_t>(result)];
  switch (op) {
#define X(name, operands) \
  case ScalarOp::name: return kernels().elementwise[OpId::name][of];
#define STAVE_FUNCTIONS_WITH_KERNELS(X)                                                                              \
  X(exp, 1) X(exp2, 1) X(expm1, 1) X(log, 1) X(log2, 1) X(log10, 1) X(log1p, 1) X(sin, 1) X(cos, 1) X(tan, 1)        \
  X(asin, 1) X(acos, 1) X(atan, 1) X(sinh, 1) X(cosh, 1) X(tanh, 1) X(asinh, 1) X(acosh, 1) X(atanh, 1) X(erf, 1)    \
  X(erfc, 1) X(erfinv, 1) X(lgamma, 1) X(digamma, 1) X(pow, 2) X(atan2, 2) X(hypot, 2) X(nextafter, 2) X(zeta, 2)    \
  X(floor_divide, 2) X(remainder, 2) X(divide, 2) X(sqrt, 1) X(copysign, 2)
    STAVE_FUNCTIONS_WITH_KERNELS(X)
#undef STAVE_FUNCTIONS_WITH_KERNELS
#undef X
    default: return nullptr;
  }
}

}  // namespace stave_cpu
