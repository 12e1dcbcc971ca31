#include "cuda/complex_on_host.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <stave/backends/attributes.h>
#include <stave/backends/cuda/kernels/complex.cuh>
#include <stave/backends/cuda/kernels/reduce.cuh>
#include <stave/backends/cuda/kernels/scan.cuh>

#include "cuda/scan_on_host.h"

namespace stave_test {

namespace {

using namespace stave_cuda;
using stave::Dtype;

// ---- elementwise --------------------------------------------------------------------------------

using Run = void (*)(std::span<const View> in, const View& out);

template <class Body>
void run_body(std::span<const View> in, const View& out) {
  std::size_t widest = stave::size_of(out.dtype);
  for (const View& input : in) widest = std::max(widest, stave::size_of(input.dtype));
  const ElementwisePlan<Body::inputs> plan(in.data(), out, lanes_of(widest));
  if (plan.elements() == 0) return;
  const auto loop = plan.on_host();
  for (std::uint64_t block = 0; block < plan.blocks(); ++block)
    for (unsigned thread = 0; thread < block_threads; ++thread) Body::run(loop, {block, thread, block_threads});
}

template <class T>
Run elementwise_of(OpId op) {
  using C = ComplexElement<T>;
  switch (op) {
#define X(name, Struct)                                                                          \
  case OpId::name:                                                                               \
    if constexpr (stave::takes_complex(OpId::name)) return run_body<ComplexBody<OpId::name, C>>; \
    else return nullptr;
    STAVE_UNARY_OPS(X)
#undef X
#define X(name, Struct)                                                                             \
  case OpId::name:                                                                                  \
    if constexpr (stave::takes_complex(OpId::name)) return run_body<ComplexBody<OpId::name, C, C>>; \
    else return nullptr;
    STAVE_BINARY_OPS(X)
#undef X
    case OpId::conj: return run_body<ComplexBody<OpId::conj, C>>;
    case OpId::real: return run_body<ComplexBody<OpId::real, C>>;
    case OpId::imag: return run_body<ComplexBody<OpId::imag, C>>;
    case OpId::complex: return run_body<ComplexBody<OpId::complex, T, T>>;
    default: return nullptr;
  }
}
template <class T>
Run conversion_of(Dtype from, Dtype to) {
  using C = ComplexElement<T>;
  if (to == Dtype::bool_) return run_body<ComplexConversion<C, bool>>;
  return stave::visit_dtype(from, []<class From>(From) -> Run { return run_body<ComplexConversion<From, C>>; });
}

// ---- products and scans -------------------------------------------------------------------------

constexpr std::int64_t blocks_at_once = 8;

template <class Fold>
void reduce(const ReducePlan& plan) {
  ReduceArgs args = plan.on_host();
  std::vector<typename Fold::Accumulator> partials(static_cast<std::size_t>(plan.partials())), shared(block_threads);
  args.partials = partials.data();
  run_on_host(std::min(args.tasks(), blocks_at_once),
              [&](const HostBlock& block) { reduce_body<Fold>(block, args, shared.data()); });
  if (plan.partials() == 0) return;
  const unsigned bits = merge_lane_bits(args.parts());
  run_on_host(std::min<std::int64_t>(args.outputs, blocks_at_once),
              [&](const HostBlock& block) { merge_body<Fold>(block, args, bits, shared.data()); });
}

template <class Step>
void scan(const ScanPlan& plan) {
  scan_on_host<Step>(plan,
                     [](std::int64_t tasks, const auto& body) { run_on_host(std::min(tasks, blocks_at_once), body); });
}

template <class T>
bool run_as(const stave::Op& op, const stave::Attributes* attributes, std::span<const View> in, const View& out) {
  using C = ComplexElement<T>;
  if (const Run run = op.id == OpId::astype ? conversion_of<T>(in[0].dtype, out.dtype) : elementwise_of<T>(op.id))
    return run(in, out), true;
  if (op.id == OpId::prod) {
    const ReducePlan plan(op.id, stave_detail::as<stave::ReduceAttributes>(attributes).axes, in[0], out);
    if (plan.args().outputs > 0) reduce<Product<C>>(plan);
    return true;
  }
  if (op.id != OpId::cumulative_prod && op.id != OpId::linear_recurrence) return false;
  const ScanPlan plan(stave_detail::as<stave::ScanAttributes>(attributes), in, out);
  if (plan.args().row_count == 0 || plan.args().length == 0) return true;
  op.id == OpId::cumulative_prod ? scan<RunningProduct<C>>(plan) : scan<Recurrence<C>>(plan);
  return true;
}

}  // namespace

bool run_complex_on_host(const stave::Op& op, const stave::Attributes* attributes, std::span<const View> in,
                         const View& out) {
  if (in.empty()) return false;
  const Dtype dtype = stave::is_complex(out.dtype) ? out.dtype : in[0].dtype;
  if (dtype == Dtype::complex64) return run_as<float>(op, attributes, in, out);
  return dtype == Dtype::complex128 && run_as<double>(op, attributes, in, out);
}

}  // namespace stave_test
