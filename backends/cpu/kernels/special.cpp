// Special functions of vectors. The other special functions, and those of instruction sets without
// a fused multiply-add, are scalar (backends/cpu/special_functions.h).
#include <stave/backends/cpu/kernels/fill.h>
#include <stave/backends/cpu/kernels/special_gamma.h>
#include <stave/backends/cpu/kernels/special_hypergeometric.h>
#include <stave/backends/cpu/kernels/special_unary.h>

namespace STAVE_KERNELS {

using stave_cpu::Dtype;
using stave_cpu::Index;
using stave_cpu::OpId;
using stave_cpu::SpecialKernel;

namespace {

template <class T>
STAVE_INLINE F64 load_doubles(const T* from) {
  if constexpr (std::is_same_v<T, double>) return F64::load(from);
  typedef T Part __attribute__((vector_size(F64::lanes * sizeof(T)), aligned(alignof(T)), may_alias));
  return {__builtin_convertvector(*reinterpret_cast<const Part*>(from), F64::Raw)};
}
template <class T>
STAVE_INLINE void store_doubles(F64 y, T* to) {
  typedef T Part __attribute__((vector_size(F64::lanes * sizeof(T)), aligned(alignof(T)), may_alias));
  if constexpr (std::is_same_v<T, double>) y.store(to);
  else *reinterpret_cast<Part*>(to) = __builtin_convertvector(y.raw, Part);
}

/// The kernel of f, a function of vectors, for inputs from `first` on.
template <class T, class F, int first, int... k>
void run(void* out, const void* const* in, const Index* steps, Index n) {
  constexpr Index lanes = F64::lanes;
  const T* const from[] = {static_cast<const T*>(in[first + k])...};
  T* const to = static_cast<T*>(out);
  const auto load = [&](int input, Index i, Index count) __attribute__((always_inline)) {
    const T* const x = from[input];
    if (steps[first + input] == 0) return F64(static_cast<double>(*x));
    if (count == lanes) return load_doubles(x + i);
    // The last element fills the vector.
    T padded[lanes];
    for (Index lane = 0; lane < lanes; ++lane) padded[lane] = x[i + (lane < count ? lane : count - 1)];
    return load_doubles(padded);
  };
  for (Index i = 0; i < n; i += lanes) {
    const Index count = n - i < lanes ? n - i : lanes;
    const F64 y = F()(load(k, i, count)...);
    if (count == lanes) {
      store_doubles(y, to + i);
    } else {
      T results[lanes];
      store_doubles(y, results);
      for (Index lane = 0; lane < count; ++lane) to[i + lane] = results[lane];
    }
  }
}

/// The kernel of f, where the last argument tells how long a vector takes: lanes of one group are
/// computed together.
template <class T, class F, class Group, int groups, int... k>
void run_grouped(void* out, const void* const* in, const Index* steps, Index n) {
  constexpr Index most = 512, inputs = sizeof...(k);
  if (n == 1) return run<T, F, 0, k...>(out, in, steps, n);
  T gathered[inputs][most], results[most];
  std::int16_t places[most];
  for (Index start = 0; start < n; start += most) {
    const Index count = n - start < most ? n - start : most;
    const auto element = [&](Index input, Index i) {
      return static_cast<const T*>(in[input])[steps[input] * (start + i)];
    };
    Index ends[groups + 1] = {};
    std::uint8_t group[most];
    for (Index i = 0; i < count; ++i) {
      const int g = Group()(static_cast<double>(element(inputs - 1, i)));
      group[i] = static_cast<std::uint8_t>(g);
      ++ends[g + 1];
    }
    for (int g = 0; g < groups; ++g) ends[g + 1] += ends[g];
    for (Index i = 0; i < count; ++i) places[i] = static_cast<std::int16_t>(ends[group[i]]++);
    for (Index input = 0; input < inputs; ++input)
      for (Index i = 0; i < count; ++i) gathered[input][places[i]] = element(input, i);
    const void* const from[] = {gathered[k]...};
    const Index each[] = {(static_cast<void>(k), Index{1})...};
    run<T, F, 0, k...>(results, from, each, count);
    for (Index i = 0; i < count; ++i) static_cast<T*>(out)[start + i] = results[places[i]];
  }
}

template <class T>
SpecialKernel kernel_for(OpId op, const double* orders) {
#define STAVE_KERNEL(first, f, ...) \
  run<T, decltype([](auto... x) __attribute__((always_inline)) { return special::f(x...); }), first, __VA_ARGS__>
#define STAVE_GROUPED(f, by, ...)                                                                     \
  run_grouped<T, decltype([](auto... x) __attribute__((always_inline)) { return special::f(x...); }), \
              decltype([](double x) { return special::by##_group(x); }), special::by##_groups, __VA_ARGS__>
  switch (op) {
    case OpId::log_ndtr: return STAVE_KERNEL(0, log_ndtr, 0);
    case OpId::ndtri: return STAVE_KERNEL(0, ndtri, 0);
    case OpId::erfcinv: return STAVE_KERNEL(0, erfcinv, 0);
    case OpId::sine_integral: return STAVE_KERNEL(0, sine_integral, 0);
    case OpId::cosine_integral: return STAVE_KERNEL(0, cosine_integral, 0);
    case OpId::fresnel_s: return STAVE_KERNEL(0, fresnel<true>, 0);
    case OpId::fresnel_c: return STAVE_KERNEL(0, fresnel<false>, 0);
    case OpId::gammaincc: return STAVE_KERNEL(0, gammaincc, 0, 1);
    case OpId::betaln: return STAVE_KERNEL(0, betaln, 0, 1);
    case OpId::poch: return STAVE_KERNEL(0, poch, 0, 1);
    case OpId::hyp1f1: return STAVE_GROUPED(hyp1f1, kummer, 0, 1, 2);
    case OpId::hyp2f1: return STAVE_GROUPED(hyp2f1, gauss, 0, 1, 2, 3);
    case OpId::rel_entr: return STAVE_KERNEL(0, rel_entr, 0, 1);
    case OpId::kl_div: return STAVE_KERNEL(0, kl_div, 0, 1);
    default: break;
  }
  if (!orders) return nullptr;
  const double order = orders[0];
  switch (op) {
    case OpId::gammainc: return order == 0 ? STAVE_KERNEL(1, gammainc, 0, 1) : nullptr;
    case OpId::betainc: return order == 0 && orders[1] == 0 ? STAVE_KERNEL(2, betainc, 0, 1, 2) : nullptr;
    case OpId::expn: return order >= 2 ? STAVE_KERNEL(0, expn, 0, 1) : nullptr;
    case OpId::erfcx: return order == 0 ? STAVE_KERNEL(1, erfcx, 0) : nullptr;
    case OpId::spence: return order == 0 ? STAVE_KERNEL(1, spence, 0) : nullptr;
    case OpId::sinc: return order == 0 ? STAVE_KERNEL(1, sinc, 0) : nullptr;
#define STAVE_BY_ORDER(f) order == 0 ? STAVE_KERNEL(1, f<0>, 0) : order == 1 ? STAVE_KERNEL(1, f<1>, 0) : nullptr
    case OpId::bessel_j: return STAVE_BY_ORDER(bessel_j);
    case OpId::bessel_y: return STAVE_BY_ORDER(bessel_y);
    case OpId::bessel_ie: return STAVE_BY_ORDER(bessel_ie);
#undef STAVE_BY_ORDER
    default: return nullptr;
  }
#undef STAVE_GROUPED
#undef STAVE_KERNEL
}

SpecialKernel special_kernel(OpId op, Dtype dtype, const double* orders) {
  return dtype == Dtype::float64 ? kernel_for<double>(op, orders) : kernel_for<float>(op, orders);
}

}  // namespace

void fill_special(stave_cpu::Kernels& table) {
  if constexpr (has_fma) table.special = special_kernel;
}

}  // namespace STAVE_KERNELS
