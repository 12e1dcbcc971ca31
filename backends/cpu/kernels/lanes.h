// Lanes<T>: the type of the arguments when a user's elementwise function is compiled as a loop
// (own_kernels.h). It is a vector of elements that behaves like a tensor of dtype T. It computes
// the same values as the kernels, because it uses the same structs.
#pragma once

#include <stave/backends/cpu/kernels/vec_math.h>
#include <stave/core/op/all_ops.h>
#include <stave/core/ops/elementwise_ops.h>
#include <stave/core/program/kernel_loop.h>

#define STAVE_QUOTE_AGAIN(x) #x
#define STAVE_QUOTE(x) STAVE_QUOTE_AGAIN(x)

namespace STAVE_KERNELS {

template <class T>
struct Lanes;

/// The dtype of Lanes<T>, for astype.
template <class T>
struct LanesDtype {};

/// The result of a comparison: it behaves like a tensor of bool.
template <class T>
struct Truths {
  Mask<T> mask;

  STAVE_INLINE Truths(Mask<T> mask) : mask(mask) {}
#define X(operator_symbol, name, expression)                                   \
  friend STAVE_INLINE Truths name(Truths a, Truths b) { return {expression}; } \
  friend STAVE_INLINE Truths operator_symbol(Truths a, Truths b) { return {expression}; }
  X(operator&&, logical_and, a.mask& b.mask)
  X(operator||, logical_or, a.mask | b.mask)
  X(operator&, bitwise_and, a.mask& b.mask)
  X(operator|, bitwise_or, a.mask | b.mask)
  X(operator^, bitwise_xor, a.mask ^ b.mask)
  X(operator!=, not_equal, a.mask ^ b.mask)
  X(operator==, equal, ~(a.mask ^ b.mask))
#undef X
  friend STAVE_INLINE Truths logical_xor(Truths a, Truths b) { return {a.mask ^ b.mask}; }
  friend STAVE_INLINE Truths logical_not(Truths a) { return {~a.mask}; }
  friend STAVE_INLINE Truths bitwise_invert(Truths a) { return {~a.mask}; }
  friend STAVE_INLINE Truths operator!(Truths a) { return {~a.mask}; }
  friend STAVE_INLINE Truths operator~(Truths a) { return {~a.mask}; }
  template <class A, class B>
    requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
  friend Lanes<T> where(Truths a, A, B) {
    static_assert(
        !sizeof(A),
        "stave: where(condition, 1, 0) would not have the operands' dtype: write astype(condition, x.dtype())");
    return astype(a, LanesDtype<T>());
  }
  friend STAVE_INLINE Lanes<T> astype(Truths a, LanesDtype<T>) { return where(a, Lanes<T>(1), Lanes<T>(0)); }
};

template <class T>
struct Lanes {
  Vec<T> values;

  STAVE_INLINE Lanes(Vec<T> values) : values(values) {}
  /// Converts a C++ number to an operand of dtype T, as operations on tensors do.
  template <class N>
    requires(std::is_arithmetic_v<N>)
  STAVE_INLINE Lanes(N number) : values(static_cast<T>(static_cast<double>(number))) {}

  static constexpr LanesDtype<T> dtype() { return {}; }

  static STAVE_INLINE Lanes given(Vec<T> values) { return {values}; }
  static STAVE_INLINE Truths<T> given(Mask<T> mask) { return {mask}; }
#define X(name, Struct)                                               \
  friend STAVE_INLINE auto name(Lanes x)                              \
    requires(stave_detail::admits<T>(stave_detail::Struct::operands)) \
  {                                                                   \
    return given(stave_detail::Struct::value(x.values));              \
  }
  STAVE_UNARY_OPS(X)
#undef X
#define X(name, Struct)                                               \
  friend STAVE_INLINE auto name(Lanes a, Lanes b)                     \
    requires(stave_detail::admits<T>(stave_detail::Struct::operands)) \
  {                                                                   \
    return given(stave_detail::Struct::value(a.values, b.values));    \
  }
  STAVE_BINARY_OPS(X)
#undef X
#define X(symbol, name) \
  friend STAVE_INLINE auto operator symbol(Lanes a, Lanes b) { return name(a, b); }
  X(+, add)
  X(-, subtract)
  X(*, multiply)
  X(/, divide)
  X(%, remainder)
  X(==, equal)
  X(!=, not_equal)
  X(<, less)
  X(<=, less_equal)
  X(>, greater)
  X(>=, greater_equal)
#undef X
  friend STAVE_INLINE Lanes operator-(Lanes x) { return negative(x); }
  friend STAVE_INLINE Lanes operator+(Lanes x) { return x; }
  STAVE_INLINE Lanes& operator+=(Lanes b) { return *this = *this + b; }
  STAVE_INLINE Lanes& operator-=(Lanes b) { return *this = *this - b; }
  STAVE_INLINE Lanes& operator*=(Lanes b) { return *this = *this * b; }
  STAVE_INLINE Lanes& operator/=(Lanes b) { return *this = *this / b; }

  friend STAVE_INLINE Lanes where(Truths<T> condition, Lanes a, Lanes b) {
    return {select(condition.mask, a.values, b.values)};
  }
  friend STAVE_INLINE Lanes clip(Lanes x, Lanes low, Lanes high) { return minimum(maximum(x, low), high); }
  friend STAVE_INLINE Lanes stop_gradient(Lanes x) { return x; }
  friend STAVE_INLINE Lanes astype(Lanes x, LanesDtype<T>) { return x; }
};

// ---- loops --------------------------------------------------------------------------------------

template <class T>
STAVE_INLINE void store_lanes(Lanes<T> y, void* out, std::int64_t i, std::int64_t n) {
  T* const to = static_cast<T*>(out) + i;
  if (n - i >= Vec<T>::lanes) y.values.store(to);
  else store_some(y.values, to, n - i);
}
template <class T>
STAVE_INLINE void store_lanes(Truths<T> y, void* out, std::int64_t i, std::int64_t n) {
  std::uint8_t* const to = static_cast<std::uint8_t*>(out) + i;
  std::uint8_t booleans[Vec<T>::lanes];
  if (n - i >= Vec<T>::lanes) return store_booleans(y.mask, to);
  store_booleans(y.mask, booleans);
  __builtin_memcpy(to, booleans, static_cast<std::size_t>(n - i));
}

/// The loop that applies F, a function of the operands with the indices k..., to elements of T.
template <class T, class F, int... k>
struct OwnLoop {
  // `flatten` inlines all calls. Otherwise vectors would be passed in memory, which takes longer
  // than the work on them.
  __attribute__((flatten)) static void run(void* out, const void* const* in, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += Vec<T>::lanes) {
      const auto load = [&](int operand) {
        const T* const from = static_cast<const T*>(in[operand]) + i;
        return Lanes<T>(n - i >= Vec<T>::lanes ? Vec<T>::load(from) : load_some<T>(from, n - i));
      };
      store_lanes<T>(F()(load(k)...), out, i, n);
    }
  }
};

/// Returns the loop of F. It finds the number of operands that F takes by trying one more at a
/// time: k... are the indices of the operands so far, and X... is a list of as many Lanes<T>.
template <class T, class F, class... X, int... k>
constexpr stave_detail::Loop loop_of(F f, std::integer_sequence<int, k...> = {}) {
  constexpr int next = sizeof...(k);
  constexpr bool takes_as_many = std::is_invocable_v<F, X..., Lanes<T>>;
  static_assert(takes_as_many || next + 1 < stave_detail::Loop::most_operands,
                "stave: the function must take one to eight operands, and apply only the supported operations to them");
  if constexpr (takes_as_many) {
    using Result = std::remove_cvref_t<std::invoke_result_t<F, X..., Lanes<T>>>;
    constexpr bool is_condition = std::is_same_v<Result, Truths<T>>;
    static_assert(is_condition || std::is_same_v<Result, Lanes<T>>,
                  "stave: the function must return a value computed from its operands, or a condition on them");
    constexpr stave::Dtype dtype = stave::dtype_of<T>();
    return {STAVE_QUOTE(STAVE_ISA), next + 1, dtype, is_condition ? stave::bool_ : dtype,
            OwnLoop<T, F, k..., next>::run};
  } else if constexpr (next + 1 < stave_detail::Loop::most_operands) {
    return loop_of<T, F, X..., Lanes<T>>(f, std::integer_sequence<int, k..., next>());
  } else {
    return {};
  }
}

}  // namespace STAVE_KERNELS
