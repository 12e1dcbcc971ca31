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

/// Computes a function f of vectors. Its arguments are the inputs from number `first` on; the
/// inputs before them are orders.
template <auto f, int first, int... k>
void run(void* out, const void* const* in, const Index* steps, Index n) {
  constexpr Index lanes = F64::lanes;
  const double* const from[] = {static_cast<const double*>(in[first + k])...};
  double* const to = static_cast<double*>(out);
  const auto load = [&](int input, Index i, Index count) __attribute__((always_inline)) {
    const double* const x = from[input];
    if (steps[first + input] == 0) return F64(*x);
    if (count == lanes) return F64::load(x + i);
    // The last element fills the vector.
    double padded[lanes];
    for (Index lane = 0; lane < lanes; ++lane) padded[lane] = x[i + (lane < count ? lane : count - 1)];
    return F64::load(padded);
  };
  for (Index i = 0; i < n; i += lanes) {
    const Index count = n - i < lanes ? n - i : lanes;
    const F64 y = f(load(k, i, count)...);
    if (count == lanes) {
      y.store(to + i);
    } else {
      double results[lanes];
      y.store(results);
      for (Index lane = 0; lane < count; ++lane) to[i + lane] = results[lane];
    }
  }
}

constexpr Index block = 512;

/// Computes a function f of vectors that takes longer for some arguments, which group_of tells from
/// the last argument: elements of one group are computed together.
template <auto f, auto group_of, int groups, int... k>
void run_grouped(void* out, const void* const* in, const Index* steps, Index n) {
  constexpr Index inputs = sizeof...(k);
  if (n == 1) return run<f, 0, k...>(out, in, steps, n);
  double gathered[inputs][block], results[block];
  std::int16_t places[block];
  for (Index start = 0; start < n; start += block) {
    const Index count = n - start < block ? n - start : block;
    const auto element = [&](Index input, Index i) {
      return static_cast<const double*>(in[input])[steps[input] * (start + i)];
    };
    Index ends[groups + 1] = {};
    std::uint8_t group[block];
    for (Index i = 0; i < count; ++i) {
      const int g = group_of(element(inputs - 1, i));
      group[i] = static_cast<std::uint8_t>(g);
      ++ends[g + 1];
    }
    for (int g = 0; g < groups; ++g) ends[g + 1] += ends[g];
    for (Index i = 0; i < count; ++i) places[i] = static_cast<std::int16_t>(ends[group[i]]++);
    for (Index input = 0; input < inputs; ++input)
      for (Index i = 0; i < count; ++i) gathered[input][places[i]] = element(input, i);
    const void* const from[] = {gathered[k]...};
    const Index each[] = {(static_cast<void>(k), Index{1})...};
    run<f, 0, k...>(results, from, each, count);
    for (Index i = 0; i < count; ++i) static_cast<double*>(out)[start + i] = results[places[i]];
  }
}

typedef float Floats __attribute__((vector_size(F64::lanes * sizeof(float)), aligned(alignof(float)), may_alias));

STAVE_OUTLINE void widen(const float* from, Index n, double* to) {
  Index i = 0;
  for (; i + F64::lanes <= n; i += F64::lanes)
    F64{__builtin_convertvector(*reinterpret_cast<const Floats*>(from + i), F64::Raw)}.store(to + i);
  for (; i < n; ++i) to[i] = static_cast<double>(from[i]);
}
STAVE_OUTLINE void narrow(const double* from, Index n, float* to) {
  Index i = 0;
  for (; i + F64::lanes <= n; i += F64::lanes)
    *reinterpret_cast<Floats*>(to + i) = __builtin_convertvector(F64::load(from + i).raw, Floats);
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}
/// The kernel of float32: all special functions are computed in float64, a block of elements at a
/// time.
template <SpecialKernel in_float64, int first, int inputs>
void run_float32(void* out, const void* const* in, const Index* steps, Index n) {
  double x[inputs][block], y[block];
  const void* from[first + inputs] = {};
  for (int k = 0; k < inputs; ++k) from[first + k] = x[k];
  for (Index start = 0; start < n; start += block) {
    const Index count = n - start < block ? n - start : block;
    for (int k = 0; k < inputs; ++k) {
      const Index step = steps[first + k];
      widen(static_cast<const float*>(in[first + k]) + step * start, step == 0 ? 1 : count, x[k]);
    }
    in_float64(y, from, steps, count);
    narrow(y, count, static_cast<float*>(out) + start);
  }
}

template <class T, SpecialKernel in_float64, int first, int inputs>
SpecialKernel in_dtype() {
  if constexpr (std::is_same_v<T, double>) return in_float64;
  else return run_float32<in_float64, first, inputs>;
}

template <class... X>
constexpr auto inputs_of(F64 (*)(X...)) {
  return std::make_integer_sequence<int, static_cast<int>(sizeof...(X))>();
}
template <class T, auto f, int first, int... k>
SpecialKernel kernel_of(std::integer_sequence<int, k...>) {
  return in_dtype<T, run<f, first, k...>, first, sizeof...(k)>();
}
/// Returns the kernel of f for operations with `first` orders that f does not take.
template <class T, auto f, int first = 0>
SpecialKernel kernel_of() {
  return kernel_of<T, f, first>(inputs_of(f));
}
template <class T, auto f, auto group, int groups, int... k>
SpecialKernel grouped_kernel_of(std::integer_sequence<int, k...>) {
  return in_dtype<T, run_grouped<f, group, groups, k...>, 0, sizeof...(k)>();
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
