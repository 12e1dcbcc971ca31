// Special functions of vectors. The other special functions are scalar
// (backends/cpu/special_functions.h).
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

/// Computes a function f of vectors. Its arguments are the inputs from number `first` on; the
/// inputs before them are orders.
template <class T, auto f, int first, int... k>
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
    const F64 y = f(load(k, i, count)...);
    if (count == lanes) {
      store_doubles(y, to + i);
    } else {
      T results[lanes];
      store_doubles(y, results);
      for (Index lane = 0; lane < count; ++lane) to[i + lane] = results[lane];
    }
  }
}

/// Computes a function f of vectors that takes longer for some arguments, which group_of tells from
/// the last argument: elements of one group are computed together.
template <class T, auto f, auto group_of, int groups, int... k>
void run_grouped(void* out, const void* const* in, const Index* steps, Index n) {
  constexpr Index most = 512, inputs = sizeof...(k);
  if (n == 1) return run<T, f, 0, k...>(out, in, steps, n);
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
      const int g = group_of(static_cast<double>(element(inputs - 1, i)));
      group[i] = static_cast<std::uint8_t>(g);
      ++ends[g + 1];
    }
    for (int g = 0; g < groups; ++g) ends[g + 1] += ends[g];
    for (Index i = 0; i < count; ++i) places[i] = static_cast<std::int16_t>(ends[group[i]]++);
    for (Index input = 0; input < inputs; ++input)
      for (Index i = 0; i < count; ++i) gathered[input][places[i]] = element(input, i);
    const void* const from[] = {gathered[k]...};
    const Index each[] = {(static_cast<void>(k), Index{1})...};
    run<T, f, 0, k...>(results, from, each, count);
    for (Index i = 0; i < count; ++i) static_cast<T*>(out)[start + i] = results[places[i]];
  }
}

template <class... X>
constexpr auto inputs_of(F64 (*)(X...)) {
  return std::make_integer_sequence<int, static_cast<int>(sizeof...(X))>();
}
template <class T, auto f, int first, int... k>
SpecialKernel kernel_of(std::integer_sequence<int, k...>) {
  return run<T, f, first, k...>;
}
/// Returns the kernel of f for operations with `first` orders that f does not take.
template <class T, auto f, int first = 0>
SpecialKernel kernel_of() {
  return kernel_of<T, f, first>(inputs_of(f));
}
template <class T, auto f, auto group, int groups, int... k>
SpecialKernel grouped_kernel_of(std::integer_sequence<int, k...>) {
  return run_grouped<T, f, group, groups, k...>;
}
template <class T, auto f, auto group, int groups>
SpecialKernel grouped_kernel_of() {
  return grouped_kernel_of<T, f, group, groups>(inputs_of(f));
}

template <class T>
SpecialKernel kernel_for(OpId op) {
  using namespace special;
  switch (op) {
    case OpId::gammaincc: return kernel_of<T, gammaincc>();
    case OpId::betaln: return kernel_of<T, betaln>();
    case OpId::poch: return kernel_of<T, poch>();
    case OpId::log_ndtr: return kernel_of<T, log_ndtr>();
    case OpId::ndtri: return kernel_of<T, ndtri>();
    case OpId::erfcinv: return kernel_of<T, erfcinv>();
    case OpId::sine_integral: return kernel_of<T, sine_integral>();
    case OpId::cosine_integral: return kernel_of<T, cosine_integral>();
    case OpId::fresnel_s: return kernel_of<T, fresnel_s>();
    case OpId::fresnel_c: return kernel_of<T, fresnel_c>();
    case OpId::hyp1f1: return grouped_kernel_of<T, hyp1f1, kummer_group, kummer_groups>();
    case OpId::hyp2f1: return grouped_kernel_of<T, hyp2f1, gauss_group, gauss_groups>();
    case OpId::rel_entr: return kernel_of<T, rel_entr>();
    case OpId::kl_div: return kernel_of<T, kl_div>();
    default: return nullptr;
  }
}

/// Returns the kernel of an operation of one order, as kernel_for does.
template <class T>
SpecialKernel kernel_for(OpId op, double order) {
  using namespace special;
  if (op == OpId::expn && order >= 2) return kernel_of<T, expn>();
  if (order == 0) switch (op) {
      case OpId::gammainc: return kernel_of<T, gammainc, 1>();
      case OpId::erfcx: return kernel_of<T, erfcx, 1>();
      case OpId::dawsn: return kernel_of<T, dawsn, 1>();
      case OpId::spence: return kernel_of<T, spence, 1>();
      case OpId::sinc: return kernel_of<T, sinc, 1>();
      case OpId::bessel_j: return kernel_of<T, bessel_j<0>, 1>();
      case OpId::bessel_y: return kernel_of<T, bessel_y<0>, 1>();
      case OpId::bessel_ie: return kernel_of<T, bessel_ie<0>, 1>();
      default: return nullptr;
    }
  if (order == 1) switch (op) {
      case OpId::bessel_j: return kernel_of<T, bessel_j<1>, 1>();
      case OpId::bessel_y: return kernel_of<T, bessel_y<1>, 1>();
      case OpId::bessel_ie: return kernel_of<T, bessel_ie<1>, 1>();
      default: return nullptr;
    }
  return nullptr;
}

template <class T>
SpecialKernel kernel_for(OpId op, const double* orders) {
  if (!orders) return kernel_for<T>(op);
  if (op == OpId::betainc && orders[0] == 0 && orders[1] == 0) return kernel_of<T, special::betainc, 2>();
  return kernel_for<T>(op, orders[0]);
}

SpecialKernel special_kernel(OpId op, Dtype dtype, const double* orders) {
  return dtype == Dtype::float64 ? kernel_for<double>(op, orders) : kernel_for<float>(op, orders);
}

}  // namespace

void fill_special(stave_cpu::Kernels& table) { table.special = special_kernel; }

}  // namespace STAVE_KERNELS
