#include <stave/backends/cpu/native/functions.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include <stave/backends/cpu/dispatch.h>

// The functions of each instruction set (kernels/scalar.cpp). CMake writes the list.
#define STAVE_ISA(name)                                                         \
  namespace stave_kernels_##name {                                              \
    const void* function_by_value(stave_cpu::OpId op, stave_cpu::Dtype dtype);  \
    const void* function_on_vector(stave_cpu::OpId op, stave_cpu::Dtype dtype); \
  }
#include <isas.inc>
#undef STAVE_ISA

namespace stave_cpu {

using stave_detail::ScalarOp;

namespace {

template <class T>
T mantissa(T x) {
  int unused;
  return std::isfinite(x) ? std::frexp(x, &unused) : x;
}
template <class T>
T exponent(T x) {
  int found = 0;
  if (std::isfinite(x)) std::frexp(x, &found);
  return static_cast<T>(found);
}
template <class T>
T load_exponent(T a, T b) {
  return std::isnan(b) ? b : std::ldexp(a, static_cast<int>(std::clamp<T>(b, -10000, 10000)));
}

template <class T>
const void* library_function(ScalarOp op) {
  switch (op) {
    case ScalarOp::mantissa: return reinterpret_cast<const void*>(mantissa<T>);
    case ScalarOp::exponent: return reinterpret_cast<const void*>(exponent<T>);
    case ScalarOp::ldexp: return reinterpret_cast<const void*>(load_exponent<T>);
    case ScalarOp::fma: return reinterpret_cast<const void*>(+[](T a, T b, T c) { return std::fma(a, b, c); });
    case ScalarOp::floor: return reinterpret_cast<const void*>(+[](T x) { return std::floor(x); });
    case ScalarOp::ceil: return reinterpret_cast<const void*>(+[](T x) { return std::ceil(x); });
    case ScalarOp::trunc: return reinterpret_cast<const void*>(+[](T x) { return std::trunc(x); });
    case ScalarOp::rint: return reinterpret_cast<const void*>(+[](T x) { return std::nearbyint(x); });
    default: return nullptr;
  }
}

// clang-format off
// Returns the elementwise operation with the name of a ScalarOp, or OpId::count if there is none.
// OpId::gelu stands for erfc_of_root_half.
OpId operation_of(ScalarOp op) {
  if (op == ScalarOp::erfc_of_root_half) return OpId::gelu;
  const std::string_view wanted = stave_detail::name_of(op);
#define X(name, Struct) if (wanted == #name) return OpId::name;
  STAVE_UNARY_OPS(X) STAVE_BINARY_OPS(X)
#undef X
  return OpId::count;
}
// clang-format on

}  // namespace

const void* function_by_value(ScalarOp op, Dtype dtype) {
  if (dtype != stave::float32 && dtype != stave::float64) return nullptr;
  if (const void* const found = dtype == stave::float64 ? library_function<double>(op) : library_function<float>(op))
    return found;
  const std::string_view isa = kernels().isa;
#define STAVE_ISA(name) \
  if (isa == #name) return stave_kernels_##name::function_by_value(operation_of(op), dtype);
#include <isas.inc>
#undef STAVE_ISA
  return nullptr;
}

const void* function_on_vector(ScalarOp op, Dtype dtype) {
  const std::string_view isa = kernels().isa;
#define STAVE_ISA(name) \
  if (isa == #name) return stave_kernels_##name::function_on_vector(operation_of(op), dtype);
#include <isas.inc>
#undef STAVE_ISA
  return nullptr;
}

BlockKernel kernel_of_operation(ScalarOp op, Dtype dtype, Dtype result) {
  const auto of = static_cast<std::size_t>(dtype);
  if (op == ScalarOp::convert) return kernels().convert[of][static_cast<std::size_t>(result)];
  const OpId id = operation_of(op);
  return id != OpId::count ? kernels().elementwise[id][of] : nullptr;
}

}  // namespace stave_cpu
