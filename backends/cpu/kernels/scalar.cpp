// Functions of single numbers and of vectors, which native code calls. They are the vector
// functions of the kernels, so that their results have the bits of the kernels' results.
#include <stave/backends/cpu/kernels/elementwise_kernel.h>

namespace STAVE_KERNELS {

using stave_detail::FloatFunction;

/// The part of Gelu that has no operation of its own.
struct ErfcOfRootHalf : FloatFunction {
  STAVE_VALUE(T x) { return erfc_of_root_half(x); }
};

// The number x or y is in every lane.
template <class S, class T>
T unary_by_value(T x) {
  return S::value(VecOf<T>(x))[0];
}
template <class S, class T>
T binary_by_value(T x, T y) {
  return S::value(VecOf<T>(x), VecOf<T>(y))[0];
}
template <class S, class T>
void unary_on_vector(T* x) {
  S::value(VecOf<T>::load(x)).store(x);
}
template <class S, class T>
void binary_on_vector(T* x, const T* y) {
  S::value(VecOf<T>::load(x), VecOf<T>::load(y)).store(x);
}

// clang-format off
template <class T>
const void* function_of(OpId op, bool on_vector) {
  switch (op) {
#define X(name, Struct)                                                                             \
  case OpId::name:                                                                                  \
    return on_vector ? reinterpret_cast<const void*>(unary_on_vector<Struct, T>)                    \
                     : reinterpret_cast<const void*>(unary_by_value<Struct, T>);
#define Y(name, Struct) X(name, stave_detail::Struct)
    Y(exp, Exp) Y(exp2, Exp2) Y(expm1, Expm1) Y(log, Log) Y(log2, Log2) Y(log10, Log10) Y(log1p, Log1p)
    Y(sin, Sin) Y(cos, Cos) Y(tan, Tan) Y(asin, Asin) Y(acos, Acos) Y(atan, Atan)
    Y(sinh, Sinh) Y(cosh, Cosh) Y(tanh, Tanh) Y(asinh, Asinh) Y(acosh, Acosh) Y(atanh, Atanh)
    Y(erf, Erf) Y(erfc, Erfc) Y(erfinv, Erfinv) Y(lgamma, Lgamma) Y(digamma, Digamma)
    X(gelu, ErfcOfRootHalf)
#undef Y
#undef X
#define X(name, Struct)                                                                             \
  case OpId::name:                                                                                  \
    return on_vector ? reinterpret_cast<const void*>(binary_on_vector<stave_detail::Struct, T>)     \
                     : reinterpret_cast<const void*>(binary_by_value<stave_detail::Struct, T>);
    X(pow, Pow) X(atan2, Atan2) X(hypot, Hypot) X(nextafter, Nextafter) X(zeta, Zeta)
    X(floor_divide, FloorDivide) X(remainder, Remainder)
#undef X
    default: return nullptr;
  }
}
// clang-format on

const void* function_of(OpId op, Dtype dtype, bool on_vector) {
  if (dtype == Dtype::float64) return function_of<double>(op, on_vector);
  if (dtype == Dtype::float32) return function_of<float>(op, on_vector);
  return nullptr;
}

/// Returns a function such as double (*)(double, double), or null. OpId::gelu stands for
/// ErfcOfRootHalf.
const void* function_by_value(OpId op, Dtype dtype) { return function_of(op, dtype, false); }
/// Returns the function on a vector of the same operation, or null (native/functions.h).
const void* function_on_vector(OpId op, Dtype dtype) { return function_of(op, dtype, true); }

}  // namespace STAVE_KERNELS
