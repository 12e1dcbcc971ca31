#include <stave/backends/cpu/native/functions.h>

#include <algorithm>
#include <array>
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

constexpr std::size_t scalar_ops = 0
#define X(name, operands) +1
    STAVE_SCALAR_OPS(X)
#undef X
    ;

// clang-format off
// Returns the elementwise operation with this name, or OpId::count if there is none.
OpId operation_named(std::string_view name) {
#define X(operation, Struct) if (name == #operation) return OpId::operation;
  STAVE_UNARY_OPS(X) STAVE_BINARY_OPS(X)
#undef X
  return OpId::count;
}
// clang-format on

// Returns the elementwise operation with the name of a ScalarOp, or OpId::count if there is none.
// OpId::gelu stands for erfc_of_root_half.
OpId operation_of(ScalarOp op) {
  static const auto operations = [] {
    std::array<OpId, scalar_ops> found{};
    for (std::size_t k = 0; k < scalar_ops; ++k) {
      const auto each = static_cast<ScalarOp>(k);
      found[k] = each == ScalarOp::erfc_of_root_half ? OpId::gelu : operation_named(stave_detail::name_of(each));
    }
    return found;
  }();
  return operations[static_cast<std::size_t>(op)];
}

// The functions of an instruction set, by the operation and by whether floats have 64 bits.
struct Functions {
  const Kernels* kernels;  // null if the processor lacks the instruction set
  const void *by_value[scalar_ops][2], *on_vector[scalar_ops][2];

  using Find = const void* (*)(OpId op, Dtype dtype);
  Functions(const char* isa, Find find_by_value, Find find_on_vector) : kernels(kernels_for(isa)) {
    for (std::size_t k = 0; k < scalar_ops; ++k)
      for (const bool wide : {false, true}) {
        const auto op = static_cast<ScalarOp>(k);
        const Dtype dtype = wide ? stave::float64 : stave::float32;
        const void* const found = wide ? library_function<double>(op) : library_function<float>(op);
        by_value[k][wide] = found ? found : find_by_value(operation_of(op), dtype);
        on_vector[k][wide] = find_on_vector(operation_of(op), dtype);
      }
  }
};

// Returns the functions of the kernels in use.
const Functions& functions() {
  static const Functions all[] = {
#define STAVE_ISA(name) \
  Functions(#name, stave_kernels_##name::function_by_value, stave_kernels_##name::function_on_vector),
#include <isas.inc>
#undef STAVE_ISA
  };
  return *std::find_if(std::begin(all), std::end(all),
                       [in_use = &kernels()](const Functions& it) { return it.kernels == in_use; });
}

bool has_functions(Dtype dtype) { return dtype == stave::float32 || dtype == stave::float64; }

}  // namespace

const void* function_by_value(ScalarOp op, Dtype dtype) {
  if (!has_functions(dtype)) return nullptr;
  return functions().by_value[static_cast<std::size_t>(op)][dtype == stave::float64];
}

const void* function_on_vector(ScalarOp op, Dtype dtype) {
  if (op < ScalarOp::exp || !has_functions(dtype)) return nullptr;  // arithmetic has no function
  return functions().on_vector[static_cast<std::size_t>(op)][dtype == stave::float64];
}

BlockKernel kernel_of_operation(ScalarOp op, Dtype dtype, Dtype result) {
  const auto of = static_cast<std::size_t>(dtype);
  if (op == ScalarOp::convert) return kernels().convert[of][static_cast<std::size_t>(result)];
  const OpId id = operation_of(op);
  return id != OpId::count ? kernels().elementwise[id][of] : nullptr;
}

}  // namespace stave_cpu
