#include <stave/backends/cuda/radix_sort.h>

#include <cub/device/device_radix_sort.cuh>

namespace stave_cuda {

SortedPairs allocate_pairs(const Launch& launch, Index count) {
  const auto n = static_cast<std::size_t>(count);
  const auto keys = [&] { return static_cast<std::uint64_t*>(launch.scratch.allocate(n * sizeof(std::uint64_t))); };
  const auto values = [&] { return static_cast<std::uint32_t*>(launch.scratch.allocate(n * sizeof(std::uint32_t))); };
  SortedPairs pairs{};
  pairs.keys = keys();
  pairs.spare_keys = keys();
  pairs.values = values();
  pairs.spare_values = values();
  return pairs;
}

void sort_pairs(const Launch& launch, SortedPairs& pairs, Index count, int bits) {
  if (bits == 0 || count < 2) return;
  cub::DoubleBuffer<std::uint64_t> keys(pairs.keys, pairs.spare_keys);
  cub::DoubleBuffer<std::uint32_t> values(pairs.values, pairs.spare_values);
  const auto sort = [&](void* memory, std::size_t& bytes) {
    check(cub::DeviceRadixSort::SortPairs(memory, bytes, keys, values, count, 0, bits, launch.stream),
          "a sort by radix");
  };
  std::size_t bytes = 0;
  sort(nullptr, bytes);  // asks how much memory it needs
  sort(launch.scratch.allocate(bytes), bytes);
  pairs = {keys.Current(), keys.Alternate(), values.Current(), values.Alternate()};
}

}  // namespace stave_cuda
