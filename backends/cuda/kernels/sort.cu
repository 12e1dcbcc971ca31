// sort and argsort.
#include <stave/backends/cuda/sort.h>

#include <stave/backends/cuda/radix_sort.h>
#include <stave/backends/cuda/kernels/sort.cuh>

namespace stave_cuda {

using stave::Dtype;
using stave::SortAttributes;

namespace {

template <class T>
__global__ void __launch_bounds__(block_threads) make_keys(const __grid_constant__ SortArgs args) {
  make_keys_body<T>(DeviceBlock(), args);
}
__global__ void __launch_bounds__(block_threads) row_keys(const __grid_constant__ SortArgs args) {
  row_keys_body(DeviceBlock(), args);
}
template <class T>
__global__ void __launch_bounds__(block_threads) place_elements(const __grid_constant__ SortArgs args) {
  place_elements_body<T>(DeviceBlock(), args);
}
__global__ void __launch_bounds__(block_threads) place_positions(const __grid_constant__ SortArgs args) {
  place_positions_body(DeviceBlock(), args);
}

using Kernel = void (*)(SortArgs);

Kernel make_keys_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::bool_:
    case Dtype::uint8: return make_keys<std::uint8_t>;
    case Dtype::uint32:
    case Dtype::int32: return make_keys<std::uint32_t>;
    case Dtype::int64: return make_keys<std::uint64_t>;
    case Dtype::float32: return make_keys<float>;
    case Dtype::float64: break;
  }
  return make_keys<double>;
}
Kernel place_elements_of(Dtype dtype) {
  switch (stave::size_of(dtype)) {
    case 1: return place_elements<std::uint8_t>;
    case 4: return place_elements<std::uint32_t>;
    default: return place_elements<std::uint64_t>;
  }
}

void run(const Launch& launch, const SortArgs& args, Kernel kernel) {
  const std::int64_t tasks = (args.count + block_threads - 1) / block_threads;
  const auto blocks = static_cast<unsigned>(grid_size(tasks, launch.multiprocessors));
  kernel<<<blocks, block_threads, 0, launch.stream>>>(args);
  check_launch("a sort");
}

void sort_batch(const Launch& launch, const SortPlan& plan, SortArgs args, SortedPairs& pairs, Dtype dtype,
                Kernel place) {
  const auto refresh = [&] {
    args.keys = pairs.keys;
    args.values = pairs.values;
  };
  refresh();
  run(launch, args, make_keys_of(dtype));
  const bool at_once = args.row_shift != 0;
  sort_pairs(launch, pairs, args.count, plan.key_bits() + (at_once ? plan.row_bits() : 0));
  refresh();
  if (!at_once) {
    run(launch, args, row_keys);
    sort_pairs(launch, pairs, args.count, plan.row_bits());
    refresh();
  }
  run(launch, args, place);
}

void sort_rows(const Launch& launch, const SortAttributes& attributes, const View& in, const View& out, Kernel place) {
  const SortPlan plan(attributes, in, out);
  if (plan.batches() == 0) return;
  SortedPairs pairs = allocate_pairs(launch, plan.batch_elements());
  const IndexMap<2> elements = plan.elements().on_device(launch);
  for (Index i = 0; i < plan.batches(); ++i) {
    SortArgs args = plan.batch(i);
    args.elements = elements;
    sort_batch(launch, plan, args, pairs, in.dtype, place);
  }
}

}  // namespace

void run_sort(const Launch& launch, const SortAttributes& attributes, const View& in, const View& out) {
  sort_rows(launch, attributes, in, out, place_elements_of(in.dtype));
}

void run_argsort(const Launch& launch, const SortAttributes& attributes, const View& in, const View& out) {
  sort_rows(launch, attributes, in, out, place_positions);
}

}  // namespace stave_cuda
