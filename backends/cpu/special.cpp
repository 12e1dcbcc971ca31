#include <stave/backends/cpu/special.h>

#include <algorithm>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/layout.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/scratch.h>
#include <stave/backends/cpu/special_functions.h>
#include <stave/backends/cpu/strided.h>
#include <stave/core/op/all_ops.h>

namespace stave_cpu {

using stave::OpId;
using stave::View;

namespace special {

namespace {

constexpr std::size_t most_inputs = 5, most_orders = 2;

template <class T, class... Numbers, class F, std::size_t... k>
SpecialKernel kernel_of(double (*)(Numbers...), F, std::index_sequence<k...>) {
  return [](void* out, const void* const* in, const Index* steps, Index n) {
    for (Index i = 0; i < n; ++i)
      static_cast<T*>(out)[i] = static_cast<T>(F()(static_cast<double>(static_cast<const T*>(in[k])[i * steps[k]])...));
  };
}
template <class T, class... Numbers, class F>
SpecialKernel kernel_of(double (*f)(Numbers...), F call) {
  return kernel_of<T>(f, call, std::index_sequence_for<Numbers...>());
}

template <class T>
SpecialKernel kernel_of(OpId op) {
  switch (op) {
#define X(name, ...) \
  case OpId::name: return kernel_of<T>(special::name, [](auto... x) { return special::name(x...); });
    STAVE_SPECIAL_OPS(X)
#undef X
    default: return nullptr;
  }
}

/// Returns how many of the first inputs of an operation are orders.
std::size_t order_count(OpId op) {
  switch (op) {
#define X(name, inputs, orders) \
  case OpId::name: return orders;
    STAVE_SPECIAL_OPS(X)
#undef X
    default: return 0;
  }
}

/// Returns the kernel of vectors where the instruction set has one for these orders, else that of
/// scalars.
template <class T>
SpecialKernel choose_kernel(OpId op, const void* const* in, const Index* steps) {
  double orders[most_orders];
  const std::size_t count = order_count(op);
  bool are_given = count > 0;
  for (std::size_t k = 0; k < count; ++k) {
    are_given = are_given && steps[k] == 0;
    if (are_given) orders[k] = static_cast<double>(*static_cast<const T*>(in[k]));
  }
  if (const auto find = kernels().special; find)
    if (const SpecialKernel kernel = find(op, stave::dtype_of<T>(), are_given ? orders : nullptr)) return kernel;
  return kernel_of<T>(op);
}

}  // namespace

}  // namespace special

void run_special(OpId op, std::span<const View> inputs, const View& out) {
  constexpr Index grain = 512;
  using special::most_inputs;
  const Index n = element_count(out.shape), size = static_cast<Index>(stave::size_of(out.dtype));
  const stave::Strides contiguous = stave::contiguous_strides(out.shape);
  const void* in[most_inputs];
  Index steps[most_inputs];
  Scratch<char> copies[most_inputs];
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const View& x = inputs[k];
    in[k] = x.data;
    steps[k] = is_repeated(x.shape, x.strides) ? 0 : 1;
    if (steps[k] == 0 || std::equal(x.strides.begin(), x.strides.end(), contiguous.begin())) continue;
    copies[k] = scratch<char>(static_cast<std::size_t>(n * size));
    run_copy(x, {copies[k].get(), x.dtype, out.shape, contiguous});
    in[k] = copies[k].get();
  }
  if (n == 0) return;
  const SpecialKernel kernel = out.dtype == stave::Dtype::float32 ? special::choose_kernel<float>(op, in, steps)
                                                                  : special::choose_kernel<double>(op, in, steps);
  parallel_for(n, grain, [&](Index first, Index last) {
    const void* from[most_inputs];
    for (std::size_t k = 0; k < inputs.size(); ++k) from[k] = static_cast<const char*>(in[k]) + first * steps[k] * size;
    kernel(static_cast<char*>(out.data) + first * size, from, steps, last - first);
  });
}

}  // namespace stave_cpu
