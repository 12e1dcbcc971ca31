// Bodies of the kernels of convolution and pooling.
#pragma once

#include <stave/backends/cuda/convolution_plan.h>
#include <stave/backends/cuda/kernels/element.cuh>

namespace stave_cuda {

template <class Unit>
STAVE_BOTH void im2col(const WindowLoop& loop, Position p) {
  const std::uint64_t i = p.block * p.threads + p.thread;
  if (i >= loop.elements) return;
  Index at[3] = {-loop.low[0], -loop.low[1], -loop.low[2]}, offset = 0;
  std::uint64_t rest = i;
  for (const WindowAxis& axis : loop.axes) {
    const std::uint64_t next = axis.length.wide(rest);
    const auto digit = static_cast<Index>(rest - next * axis.length.divisor);
    rest = next;
    offset += digit * axis.step;
    for (int s = 0; s < 3; ++s)
      if (axis.spatial == s) at[s] += digit * axis.scale;
  }
  bool inside = true;
  for (int s = 0; s < 3; ++s) {
    const Index element = loop.apart[s] == 1 ? at[s] : at[s] / loop.apart[s];
    inside = inside && at[s] >= 0 && element * loop.apart[s] == at[s] && element < loop.length[s];
    offset += element * loop.step[s];
  }
  static_cast<Unit*>(loop.to)[i] = inside ? static_cast<const Unit*>(loop.from)[offset] : Unit{};
}

/// Writes the position, within the plane, of the first of the largest elements of a window. A NaN
/// counts as the largest element.
template <class E>
STAVE_BOTH void find_largest(const PoolLoop& loop, Position p) {
  using T = stave::Computed<E>;
  const std::uint64_t i = p.block * p.threads + p.thread;
  if (i >= loop.elements) return;
  Index start[3];
  std::uint64_t plane = i;
  for (int s = 3; s-- > 0;) {
    const Divider& places = loop.places[2 - s];
    const std::uint64_t next = places.wide(plane);
    start[s] = static_cast<Index>(plane - next * places.divisor) * loop.stride[s] - loop.low[s];
    plane = next;
  }
  const Element<E>* x = static_cast<const Element<E>*>(loop.from) +
                        static_cast<Index>(plane) * loop.length[0] * loop.length[1] * loop.length[2];
  Index best_at = -1;
  T best{};
  for (Index a = 0; a < loop.window[0]; ++a) {
    const Index depth = start[0] + a * loop.dilation[0];
    if (depth < 0 || depth >= loop.length[0]) continue;
    for (Index b = 0; b < loop.window[1]; ++b) {
      const Index height = start[1] + b * loop.dilation[1];
      if (height < 0 || height >= loop.length[1]) continue;
      for (Index c = 0; c < loop.window[2]; ++c) {
        const Index width = start[2] + c * loop.dilation[2];
        if (width < 0 || width >= loop.length[2]) continue;
        const Index at = (depth * loop.length[1] + height) * loop.length[2] + width;
        const T value = static_cast<T>(computed(x[at]));
        if (best_at >= 0 && !(value > best || (value != value && best == best))) continue;
        best = value;
        best_at = at;
      }
    }
  }
  if (loop.wide) static_cast<std::int64_t*>(loop.to)[i] = best_at;
  else static_cast<std::int32_t*>(loop.to)[i] = static_cast<std::int32_t>(best_at);
}

}  // namespace stave_cuda
