// Creates, copies, pads and concatenates tensors. All operations but iota are fills and strided
// copies.
#include <stave/backends/cpu/layout.h>

#include <algorithm>

#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

using stave::Dtype;
using stave::Strides;
using stave::View;

namespace {

Index size_of(const View& view) { return static_cast<Index>(stave::size_of(view.dtype)); }
char* bytes_of(const View& view) { return static_cast<char*>(view.data); }

void fill(const View& out, const void* value) {
  Index size = size_of(out);
  parallel_for(element_count(out.shape), cheap_grain, [&](Index first, Index last) {
    fill_elements(bytes_of(out) + first * size, value, last - first, size);
  });
}

void fill_number(const View& out, stave::Scalar value) {
  stave::visit_dtype(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    T element;
    if constexpr (std::is_integral_v<T>) element = static_cast<T>(value.integer);
    else if constexpr (stave::ComplexNumber<T>) element = static_cast<T>(value.complex());
    else element = static_cast<T>(value.floating);
    fill(out, &element);
  });
}

}  // namespace

void run_full(const stave::FullAttributes& attributes, const View& out) { fill_number(out, attributes.value); }

void run_iota(const stave::IotaAttributes& attributes, const View& out) {
  stave::visit_real_dtype(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    // Integers are computed as int64 that wraps.
    using Wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;
    auto wide = [](stave::Scalar x) {
      if constexpr (std::is_integral_v<T>) return static_cast<Wide>(x.integer);
      else return x.floating;
    };
    Wide start = wide(attributes.start), step = wide(attributes.step);
    T* to = static_cast<T*>(out.data);
    parallel_for(attributes.length, cheap_grain, [&](Index first, Index last) {
      for (Index i = first; i < last; ++i) to[i] = static_cast<T>(start + static_cast<Wide>(i) * step);
    });
  });
}

void run_copy(const View& in, const View& out) {
  stave::Shape shape(in.shape);
  Strides dense = stave::contiguous_strides(shape);
  copy_strided({bytes_of(out), dense}, {bytes_of(in), in.strides}, in.shape, size_of(in));
}

void run_pad(const stave::PadAttributes& attributes, const View& in, const View& out) {
  fill_number(out, attributes.value);
  Strides strides(out.strides);
  Index start = 0;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    start += attributes.starts[i] * strides[i];
    strides[i] *= attributes.steps[i];
  }
  copy_strided({bytes_of(out) + start * size_of(out), strides}, {bytes_of(in), in.strides}, in.shape, size_of(in));
}

void run_concat(int axis, std::span<const View> inputs, const View& out) {
  const auto along = static_cast<std::size_t>(axis);
  const Index rows = out.shape[0], size = size_of(out);
  // Copies rows `first` to `last` of the first axis; all of them if it is the axis of the concat.
  const auto copy_rows = [&](Index first, Index last) {
    char* to = bytes_of(out) + first * out.strides[0] * size;
    for (const View& in : inputs) {
      stave::Shape shape(in.shape);
      if (along != 0) shape[0] = last - first;
      copy_strided({to, out.strides}, {bytes_of(in) + first * in.strides[0] * size, in.strides}, shape, size);
      to += in.shape[along] * out.strides[along] * size;
    }
  };
  // A row of the result has elements of all inputs. They are copied for some rows after the other,
  // so that these rows stay in the cache (stack_columns in tests/bench/short_rows.cpp).
  constexpr Index cached_bytes = Index{1} << 17;
  const Index bytes = element_count(out.shape) * size;
  if (along == 0 || inputs.size() <= 2 || bytes <= 2 * cached_bytes) return copy_rows(0, rows);
  const Index block = std::max(Index{1}, rows * cached_bytes / bytes), blocks = (rows + block - 1) / block;
  parallel_for(blocks, std::max(Index{1}, cheap_grain * size / cached_bytes), [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) copy_rows(i * block, std::min(rows, (i + 1) * block));
  });
}

}  // namespace stave_cpu
