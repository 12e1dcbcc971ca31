// Support for operations that have no kernels for sixteen-bit floats: they run on float32 copies of
// the operands, and their result is rounded.
#pragma once

#include <memory>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/elementwise.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

/// A dense float32 buffer of a view's shape. It is uninitialised, and receives a copy of the view's
/// elements or a result.
struct FloatCopy {
  std::unique_ptr<float[]> elements;
  stave::Strides strides;
  stave::View view;

  explicit FloatCopy(const stave::View& like)
      : elements(std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(element_count(like.shape)))),
        strides(stave::contiguous_strides(stave::Shape(like.shape))),
        view{elements.get(), stave::float32, like.shape, strides} {}
};

inline void convert(const stave::View& from, const stave::View& to) {
  const stave::View in[] = {from};
  run_elementwise(kernels().convert[static_cast<int>(from.dtype)][static_cast<int>(to.dtype)], in, to, cheap_grain);
}

/// Calls run(inputs, output). If the output has sixteen-bit floats, `run` gets float32 copies of
/// the inputs and a float32 buffer, whose contents are then rounded to `out`.
template <std::size_t count, class Run>
void in_floats(const stave::View (&inputs)[count], const stave::View& out, Run run) {
  if (!is_half_float(out.dtype)) return run(inputs, out);
  const FloatCopy result(out);
  const auto run_copies = [&]<std::size_t... i>(std::index_sequence<i...>) {
    const FloatCopy copies[] = {FloatCopy(inputs[i])...};
    (convert(inputs[i], copies[i].view), ...);
    const stave::View views[] = {copies[i].view...};
    run(views, result.view);
  };
  run_copies(std::make_index_sequence<count>());
  convert(result.view, out);
}

}  // namespace stave_cpu
