// Kernels of sort and argsort.
#include <stave/backends/cuda/sort.h>

#include <utility>

#include <stave/backends/cuda/sort_pairs.h>
#include <stave/backends/cuda/kernels/sort.cuh>

namespace stave_cuda {

using stave::Dtype;
using stave::SortAttributes;

namespace {

template <class T>
__global__ void __launch_bounds__(block_threads)
    make_keys(const __grid_constant__ SortArgs args, const __grid_constant__ SortPass pass) {
  make_keys_body<T>(DeviceBlock(), args, pass);
}
__global__ void __launch_bounds__(block_threads) number_places(const __grid_constant__ SortArgs args) {
  number_places_body(DeviceBlock(), args);
}
template <class T>
__global__ void __launch_bounds__(block_threads) place_elements(const __grid_constant__ SortArgs args) {
  place_elements_body<T>(DeviceBlock(), args);
}
__global__ void __launch_bounds__(block_threads) place_positions(const __grid_constant__ SortArgs args) {
  place_positions_body(DeviceBlock(), args);
}

using KeyKernel = void (*)(SortArgs, SortPass);
using PlaceKernel = void (*)(SortArgs);

KeyKernel make_keys_of(Dtype dtype) {
  return stave::visit_real_dtype(dtype, [](auto zero) -> KeyKernel { return make_keys<Signless<decltype(zero)>>; });
}
PlaceKernel place_elements_of(Dtype dtype) {
  return stave::visit_size(stave::size_of(dtype),
                           [](auto element) -> PlaceKernel { return place_elements<decltype(element)>; });
}

/// The arrays of keys and places, each with a second array into which they are sorted.
struct Pairs {
  std::uint32_t *keys, *sorted_keys, *places, *sorted_places;
  Pairs(const Launch& launch, Index count) {
    for (std::uint32_t** array : {&keys, &sorted_keys, &places, &sorted_places})
      *array = static_cast<std::uint32_t*>(launch.scratch.allocate(static_cast<std::size_t>(count) * sizeof **array));
  }
};

template <class Kernel, class... Args>
void run(const Launch& launch, Kernel kernel, const SortArgs& args, Args... more) {
  const std::int64_t tasks = (args.count + block_threads - 1) / block_threads;
  kernel<<<grid_for(launch, kernel, tasks), block_threads, 0, launch.stream>>>(args, more...);
  check_launch("a sort");
}

void sort_batch(const Launch& launch, std::span<const SortPass> passes, SortArgs args, Pairs& pairs,
                KeyKernel make_keys, PlaceKernel place) {
  args.keys = pairs.keys;
  args.places = pairs.places;
  run(launch, number_places, args);
  for (const SortPass& pass : passes) {
    run(launch, make_keys, args, pass);
    sort_pairs(launch, pairs.keys, pairs.sorted_keys, pairs.places, pairs.sorted_places,
               static_cast<std::uint32_t>(args.count), pass.bits);
    std::swap(pairs.places, pairs.sorted_places);
    args.places = pairs.places;
  }
  run(launch, place, args);
}

void sort_rows(const Launch& launch, const SortAttributes& attributes, const View& in, const View& out,
               PlaceKernel place) {
  const SortPlan plan(attributes, in, out);
  if (plan.batches() == 0) return;
  Pairs pairs(launch, plan.batch_elements());
  const IndexMap<2> elements = plan.elements().on_device(launch);
  for (Index i = 0; i < plan.batches(); ++i) {
    SortArgs args = plan.batch(i);
    args.elements = elements;
    sort_batch(launch, plan.passes(), args, pairs, make_keys_of(in.dtype), place);
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
