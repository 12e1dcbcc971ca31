#include <stave/backends/cuda/sort_pairs.h>

#include <cub/device/device_radix_sort.cuh>

namespace stave_cuda {

void sort_pairs(const Launch& launch, const std::uint32_t* keys, std::uint32_t* sorted_keys,
                const std::uint32_t* values, std::uint32_t* sorted_values, std::uint32_t n, int bits) {
  std::size_t bytes = 0;
  auto sort = [&](void* scratch) {
    check(cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, sorted_keys, values, sorted_values, n, 0, bits,
                                          launch.stream),
          "sort");
  };
  sort(nullptr);
  sort(launch.scratch.allocate(bytes));
}

}  // namespace stave_cuda
