// Functions of single numbers, which native code calls by value. Each is the vector function of the
// kernels with the number in every lane, so that its result has the bits of the kernels' results.
#include <stave/backends/cpu/kernels/elementwise_kernel.h>

namespace STAVE_KERNELS {

using stave_detail::FloatFunction;

/// The part of Gelu that has no operation of its own.
struct ErfcOfRootHalf : FloatFunction {
  STAVE_VALUE(T x) { return erfc_of_root_half(x); }
};

template <class S, class T>
T unary_by_value(T x) {
  return S::value(VecOf<T>(x))[0];
}
template <class S, class T>
T binary_by_value(T x, T y) {
  return S::value(VecOf<T>(x), VecOf<T>(y))[0];
}

// clang-format off
template <class T>
const void* function_of(OpId op) {
  switch (op) {
#define X(name, Struct) \
  case OpId::name: return reinterpret_cast<const void*>(unary_by_value<stave_detail::Struct, T>);
    X(exp, Exp) X(exp2, Exp2) X(expm1, Expm1) X(log, Log) X(log2, Log2) X(log10, Log10) X(log1p, Log1p)
    X(sin, Sin) X(cos, Cos) X(tan, Tan) X(asin, Asin) X(acos, Acos) X(atan, Atan)
    X(sinh, Sinh) X(cosh, Cosh) X(tanh, Tanh) X(asinh, Asinh) X(acosh, Acosh) X(atanh, Atanh)
    X(erf, Erf) X(erfc, Erfc) X(erfinv, Erfinv) X(lgamma, Lgamma) X(digamma, Digamma)
#undef X
#define X(name, Struct) \
  case OpId::name: return reinterpret_cast<const void*>(binary_by_value<stave_detail::Struct, T>);
    X(pow, Pow) X(atan2, Atan2) X(hypot, Hypot) X(nextafter, Nextafter) X(zeta, Zeta)
    X(floor_divide, FloorDivide) X(remainder, Remainder)
#undef X
    case OpId::gelu: return reinterpret_cast<const void*>(unary_by_value<ErfcOfRootHalf, T>);
    default: return nullptr;
  }
}
// clang-format on

/// Returns a function such as double (*)(double, double), or null. OpId::gelu stands for
/// ErfcOfRootHalf.
const void* function_by_value(OpId op, Dtype dtype) {
  if (dtype == Dtype::float64) return function_of<double>(op);
  if (dtype == Dtype::float32) return function_of<float>(op);
  return nullptr;
}

}  // namespace STAVE_KERNELS
