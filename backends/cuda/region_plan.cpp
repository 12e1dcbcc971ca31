#include <stave/backends/cuda/region_plan.h>

#include <algorithm>

#include <stave/backends/cuda/region_text.h>

namespace stave_cuda {

using stave::View;

namespace {

Neighbours neighbours_in(const View& in, const LoopAxes<1>& axes, Index lanes) {
  if (axes.empty()) return Neighbours::broadcast;
  const LoopAxis<1>& inner = axes.back();
  // True if the elements of no thread cross the end of the innermost axis.
  const bool fits = axes.size() == 1 || inner.length % lanes == 0;
  if (inner.step[0] == 0) return fits ? Neighbours::broadcast : Neighbours::scattered;
  const auto pack = static_cast<std::uintptr_t>(lanes) * stave::size_of(in.dtype);
  bool aligned = reinterpret_cast<std::uintptr_t>(in.data) % pack == 0;
  for (std::size_t i = 0; i + 1 < axes.size(); ++i) aligned &= axes[i].step[0] % lanes == 0;
  if (inner.step[0] != 1 || !fits || !aligned) return Neighbours::scattered;
  return axes.size() == 1 ? Neighbours::flat : Neighbours::packed;
}

}  // namespace

RegionPlan::RegionPlan(const stave::Region& region, std::span<const View> inputs, std::span<const View> written)
    : region_(region), lanes_(region_lanes(region)) {
  for (const Index length : inputs[0].shape) elements_ *= static_cast<std::uint64_t>(length);
  for (const View& in : inputs) {
    LoopAxes<1> axes = merged_axes<1>(in.shape, {in.strides});
    inputs_.push_back({in.data, neighbours_in(in, axes, lanes_), {}});
    maps_.emplace_back(std::move(axes));
  }
  for (const View& out : written) outputs_.push_back(out.data);
}

unsigned RegionPlan::blocks() const {
  const std::uint64_t each = region_threads * static_cast<std::uint64_t>(lanes_);
  return static_cast<unsigned>((elements_ + each - 1) / each);
}

std::size_t RegionPlan::argument_bytes() const {
  constexpr std::size_t word_bytes = sizeof(std::uint64_t);
  const auto numbers =
      std::count_if(region_.steps().begin(), region_.steps().end(), [](const auto& s) { return !s.op; });
  return word_bytes + inputs_.size() * sizeof(RegionInput) + outputs_.size() * sizeof(void*) +
         static_cast<std::size_t>(numbers) * word_bytes;
}

std::vector<void*> RegionPlan::arguments() {
  std::vector<void*> found{&elements_};
  for (RegionInput& input : inputs_) found.push_back(&input);
  for (void*& output : outputs_) found.push_back(&output);
  for (const stave::Region::Step& step : region_.steps())
    // The kernel only reads its arguments, so the const_cast is safe.
    if (!step.op) found.push_back(const_cast<stave::Bytes16*>(&step.bytes));
  return found;
}
std::vector<void*> RegionPlan::on_host() {
  for (std::size_t i = 0; i < inputs_.size(); ++i) inputs_[i].map = maps_[i].on_host();
  return arguments();
}
std::vector<void*> RegionPlan::on_device(const Launch& launch) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) inputs_[i].map = maps_[i].on_device(launch);
  return arguments();
}

}  // namespace stave_cuda
