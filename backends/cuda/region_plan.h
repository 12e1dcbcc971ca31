// The plan of launching a region's kernel on given arrays. This is host arithmetic, tested without
// a device.
#pragma once

#include <vector>

#include <stave/backends/cuda/index_map.h>
#include <stave/backends/cuda/region_input.h>
#include <stave/core/program/region.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

class RegionPlan {
 public:
  /// `written` has a contiguous view of the inputs' shape for each value that the kernel writes.
  /// All views must outlive the plan.
  RegionPlan(const stave::Region& region, std::span<const stave::View> inputs, std::span<const stave::View> written);

  Index elements() const { return elements_; }
  unsigned blocks() const;
  /// Returns the total size of the arguments in bytes.
  std::size_t argument_bytes() const;
  const RegionInput& input(std::size_t i) const { return inputs_[i]; }
  /// Returns pointers to the kernel's arguments in the order of its parameters, for a kernel on the
  /// host. They are valid while the plan lives.
  std::vector<void*> on_host();
  /// Returns pointers to the arguments, in the same order, for a kernel of this launch.
  std::vector<void*> on_device(const Launch& launch);

 private:
  std::vector<void*> arguments();

  const stave::Region& region_;
  const int lanes_;
  std::uint64_t elements_ = 1;
  std::vector<IndexPlan<1>> maps_;
  std::vector<RegionInput> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace stave_cuda
