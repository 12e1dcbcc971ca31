// gather, scatter, dynamic_slice and dynamic_update_slice on the CPU.
//
// Index tuples are converted to byte offsets and checked at the same time. scatter checks all
// tuples before it writes, so that an error leaves the output untouched. Slices are copied, or
// combined in the order of the updates. So several updates of one element are always rounded in the
// same way.
#include <stave/backends/cpu/index.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include <stave/backends/cpu/complex.h>
#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/index_offsets.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/strided.h>
#include <stave/core/op/op.h>
#include <stave/core/tensor/fail.h>

namespace stave_cpu {

using stave::Dtype;
using stave::View;

namespace {

std::int64_t read_index(const char* at, Dtype dtype) {
  switch (dtype) {
    case Dtype::int64: return *reinterpret_cast<const std::int64_t*>(at);
    case Dtype::int32: return *reinterpret_cast<const std::int32_t*>(at);
    case Dtype::uint32: return *reinterpret_cast<const std::uint32_t*>(at);
    default: return *reinterpret_cast<const std::uint8_t*>(at);
  }
}

/// Returns the entries of a shape or of strides that belong to the axes of one slice.
std::span<const Index> rest_of(std::span<const Index> all, const IndexLayout& layout) { return all.last(layout.rest); }

/// Sets to[i] = from[indices[i] * step] for indices in [-wrap, length). For an index out of range,
/// it reads element 0 instead and returns false.
template <class T, class I>
bool gather_numbers(const T* from, Index step, Index length, Index wrap, const I* indices, Index n, T* to) {
  bool in_range = true;
  for (Index i = 0; i < n; ++i) {
    const Index index = indices[i], place = index + (index < 0 ? wrap : 0);
    const bool there = static_cast<std::uint64_t>(place) < static_cast<std::uint64_t>(length);
    in_range &= there;
    to[i] = from[(there ? place : 0) * step];
  }
  return in_range;
}
/// Gathers numbers from a vector by dense indices, and checks the indices as it reads them. Returns
/// false if an index is out of range.
bool gather_from_vector(const View& x, const View& indices, bool from_end, const View& out) {
  const Index length = x.shape[0], step = x.strides[0], n = element_count(out.shape);
  std::atomic<bool> in_range{true};
  stave::visit_size(stave::size_of(x.dtype), [&]<class T>(T) {
    const auto run = [&]<class I>(I) {
      parallel_for(n, cheap_grain / 4, [&](Index first, Index last) {
        if (!gather_numbers(static_cast<const T*>(x.data), step, length, from_end ? length : 0,
                            static_cast<const I*>(indices.data) + first, last - first,
                            static_cast<T*>(out.data) + first))
          in_range = false;
      });
    };
    if (indices.dtype == stave::int64) run(std::int64_t());
    else run(std::int32_t());
  });
  return in_range;
}

}  // namespace

void run_gather(const stave::GatherAttributes& attributes, const View& x, const View& indices, const View& out) {
  const IndexLayout layout(attributes, x, indices);
  const SliceOffsets slices("gather", layout, x, indices, x.strides);
  const Index size = static_cast<Index>(stave::size_of(x.dtype));
  const std::span<const Index> shape = rest_of(x.shape, layout), strides = rest_of(x.strides, layout);
  const Index elements = element_count(shape), bytes = elements * size;
  if (elements == 0 || slices.count() == 0) return;
  if (x.shape.size() == 1 && layout.k == 1 && x.shape[0] > 0 && is_contiguous(indices.shape, indices.strides) &&
      gather_from_vector(x, indices, layout.from_end, out))
    return;
  const char* const from = static_cast<const char*>(x.data);
  const bool dense = is_contiguous(shape, strides);
  slices.for_each_block(elements, [&](Index first, const Index* offsets, Index n) {
    char* const to = static_cast<char*>(out.data) + first * bytes;
    if (elements == 1) {
      stave::visit_size(static_cast<std::size_t>(size), [&]<class T>(T) {
        for (Index i = 0; i < n; ++i) reinterpret_cast<T*>(to)[i] = *reinterpret_cast<const T*>(from + offsets[i]);
      });
    } else if (dense) {
      for (Index i = 0; i < n; ++i) std::memcpy(to + i * bytes, from + offsets[i], static_cast<std::size_t>(bytes));
    } else {
      for (Index i = 0; i < n; ++i)
        copy_strided({to + i * bytes, rest_of(out.strides, layout)}, {const_cast<char*>(from) + offsets[i], strides},
                     shape, size);
    }
  });
}

namespace {

/// Returns the offsets of all slices. Throws IndexError if an index is out of range.
std::unique_ptr<Index[]> all_offsets(const SliceOffsets& slices) {
  auto all = std::make_unique_for_overwrite<Index[]>(static_cast<std::size_t>(slices.count()));
  slices.for_each_block(1, [&](Index first, const Index* offsets, Index n) { std::copy_n(offsets, n, &all[first]); });
  return all;
}

/// Visits the updates one after the other. Each is a dense slice, read in place or copied.
class UpdateWalk {
 public:
  UpdateWalk(const View& updates, const IndexLayout& layout)
      : size_(static_cast<Index>(stave::size_of(updates.dtype))), shape_(rest_of(updates.shape, layout)),
        strides_(rest_of(updates.strides, layout)), data_(static_cast<char*>(updates.data)),
        walk_(lead_axes(updates, layout, size_), 1, -1, 1, 1) {
    if (!is_contiguous(shape_, strides_)) dense_strides_ = stave::contiguous_strides(stave::Shape(shape_));
  }
  void seek(Index i) { walk_.seek(i); }
  void next() { walk_.next(); }
  const void* update() {
    char* const update = data_ + walk_.offset(0);
    if (dense_strides_.empty()) return update;
    dense_.resize(static_cast<std::size_t>(element_count(shape_) * size_));
    copy_strided({dense_.data(), dense_strides_}, {update, strides_}, shape_, size_);
    return dense_.data();
  }

 private:
  static Axes lead_axes(const View& updates, const IndexLayout& layout, Index size) {
    const Index* strides[] = {updates.strides.data()};
    return merged_axes(updates.shape.first(layout.batch + layout.at), strides, &size);
  }

  Index size_;
  std::span<const Index> shape_, strides_;
  char* data_;
  TileWalk walk_;
  stave::Strides dense_strides_;
  std::vector<char> dense_;
};

/// Returns the kernel that combines an element with its update, or null if the update replaces
/// the element.
BlockKernel combining(OpId scatter, Dtype dtype) {
  const auto kernel = [&](OpId op) { return elementwise_kernel(op, dtype); };
  switch (scatter) {
    case OpId::scatter_add: return kernel(OpId::add);
    case OpId::scatter_multiply: return kernel(OpId::multiply);
    case OpId::scatter_min: return kernel(OpId::minimum);
    case OpId::scatter_max: return kernel(OpId::maximum);
    default: return nullptr;
  }
}

/// A range of updates and a range of the output. Updates that address other parts of the output are
/// skipped.
struct UpdateRange {
  Index first, last;  // the range of updates
  Index begin, end;   // the range of the output, in bytes
  bool whole;         // true if all updates of the range address this part of the output
};

/// Calls f(address in the output, update) for the updates of an UpdateRange, in order.
template <class F>
void for_updates(const Index* offsets, const View& updates, const IndexLayout& layout, Index bytes,
                 const UpdateRange& part, char* to, F f) {
  if (is_contiguous(updates.shape, updates.strides)) {
    const char* const from = static_cast<const char*>(updates.data);
    if (part.whole)
      for (Index i = part.first; i < part.last; ++i) f(to + offsets[i], from + i * bytes);
    else
      for (Index i = part.first; i < part.last; ++i)
        if (offsets[i] >= part.begin && offsets[i] < part.end) f(to + offsets[i], from + i * bytes);
    return;
  }
  UpdateWalk walk(updates, layout);
  walk.seek(part.first);
  for (Index i = part.first; i < part.last; ++i, walk.next())
    if (offsets[i] >= part.begin && offsets[i] < part.end) f(to + offsets[i], walk.update());
}

/// Applies updates whose slices have one element, without kernel calls. Returns false if it does
/// not support the operation and dtype.
template <class Each>
bool put_elements(OpId scatter, Dtype dtype, Each each) {
  const auto put = [&]<class T>(T) {
    each([](char* to, const void* update) { *reinterpret_cast<T*>(to) = *static_cast<const T*>(update); });
  };
  const auto add = [&]<class T>(T) {
    each([](char* to, const void* update) {
      T& sum = *reinterpret_cast<T*>(to);
      sum = static_cast<T>(sum + *static_cast<const T*>(update));
    });
  };
  if (scatter == OpId::scatter) stave::visit_size(stave::size_of(dtype), put);
  else if (scatter != OpId::scatter_add || stave::is_complex(dtype)) return false;
  else if (dtype == Dtype::float32) add(float());
  else if (dtype == Dtype::float64) add(double());
  else
    stave::visit_size(stave::size_of(dtype), [&](auto element) {  // Sums of integers wrap.
      if constexpr (std::is_integral_v<decltype(element)>) add(element);
    });
  return true;
}

// The least size of a slice in bytes for which several threads share the updates. Each thread reads
// all indices, which would cost too much for smaller slices.
constexpr Index shared_bytes = 64;

}  // namespace

void run_scatter(OpId scatter, const stave::GatherAttributes& attributes, const View& x, const View& indices,
                 const View& updates, const View& out) {
  const IndexLayout layout(attributes, x, indices);
  const SliceOffsets slices(record_of(scatter).name, layout, x, indices, out.strides);
  const auto offsets = all_offsets(slices);
  const Index size = static_cast<Index>(stave::size_of(x.dtype));
  char* const to = static_cast<char*>(out.data);
  if (out.data != x.data) copy_strided({to, out.strides}, {static_cast<char*>(x.data), x.strides}, x.shape, size);

  // Slices of the output are contiguous.
  const Index elements = element_count(rest_of(x.shape, layout)), bytes = elements * size, count = slices.count();
  if (elements == 0 || count == 0) return;
  const BlockKernel combine = combining(scatter, x.dtype);
  const auto run = [&](const UpdateRange& part) {
    const auto each = [&](auto f) { for_updates(offsets.get(), updates, layout, bytes, part, to, f); };
    if (elements == 1 && put_elements(scatter, x.dtype, each)) return;
    if (!combine)
      return each(
          [&](char* place, const void* update) { std::memcpy(place, update, static_cast<std::size_t>(bytes)); });
    each([&](char* place, const void* update) {
      const void* in[] = {place, update};
      combine(place, in, elements);
    });
  };
  // Entries of the batch do not overlap, so they are divided among threads. If there is only one
  // entry, each thread writes a part of the output and reads the offsets of all updates.
  const Index entries = element_count(x.shape.first(layout.batch)), whole = element_count(out.shape) * size;
  if (entries > 1) {
    const Index updates_each = count / entries, bytes_each = whole / entries;
    return parallel_for(entries, std::max<Index>(1, cheap_grain / 4 / (updates_each * elements)),
                        [&](Index first, Index last) {
                          run({first * updates_each, last * updates_each, first * bytes_each, last * bytes_each, true});
                        });
  }
  const Index parts = bytes >= shared_bytes && count * elements > cheap_grain ? thread_count() : 1;
  const Index places = whole / bytes;
  parallel_for(parts, 1, [&](Index first, Index last) {
    run({0, count, places * first / parts * bytes, places * last / parts * bytes, parts == 1});
  });
}

// ---- slices -------------------------------------------------------------------------------------

namespace {

/// Returns the offset in bytes at which the slice of each entry of the batch starts in
/// `whole` [batch, dims]. Throws IndexError if a slice is out of range.
std::vector<Index> slice_offsets(const char* operation, const stave::DynamicSliceAttributes& attributes,
                                 const View& starts, const View& whole) {
  const std::span<const Index> batch = whole.shape.first(static_cast<std::size_t>(attributes.batch_dims));
  const Index* strides[] = {starts.strides.data(), whole.strides.data()};
  Index start_size = static_cast<Index>(stave::size_of(starts.dtype)),
        size = static_cast<Index>(stave::size_of(whole.dtype));
  Index sizes[] = {start_size, size};
  std::vector<Index> offsets(static_cast<std::size_t>(element_count(batch)));
  if (offsets.empty()) return offsets;
  TileWalk walk(merged_axes(batch, strides, sizes), 2, -1, 1, 1);
  walk.seek(0);
  for (Index& offset : offsets) {
    offset = walk.offset(1);
    for (std::size_t axis = 0; axis < attributes.sizes.size(); ++axis) {
      Index at = walk.offset(0) + static_cast<Index>(axis) * starts.strides.back() * start_size;
      Index start = read_index(static_cast<const char*>(starts.data) + at, starts.dtype);
      Index length = whole.shape[batch.size() + axis], taken = attributes.sizes[axis];
      Index first = start < 0 ? start + length : start;
      if (first < 0 || first > length - taken)
        stave_detail::fail<stave::IndexError>(
            "{}: a slice of {} that starts at index {} is out of range for axis {} with size {}", operation, taken,
            start, axis, length);
      offset += first * whole.strides[batch.size() + axis] * size;
    }
    walk.next();
  }
  return offsets;
}

/// Copies between `part` [batch, sizes] and the slices of `whole`, which start at the offsets.
void copy_slices(const View& whole, std::span<const Index> offsets, const View& part, std::size_t batch, bool to_part) {
  std::span<const Index> shape = part.shape.subspan(batch);
  Index elements = element_count(shape), size = static_cast<Index>(stave::size_of(part.dtype));
  if (elements == 0 || offsets.empty()) return;
  const Index* strides[] = {part.strides.data()};
  TileWalk lanes(merged_axes(part.shape.first(batch), strides, &size), 1, -1, 1, 1);
  parallel_for(static_cast<Index>(offsets.size()), std::max<Index>(1, cheap_grain / elements),
               [&](Index first, Index last) {
                 TileWalk walk = lanes;
                 walk.seek(first);
                 for (Index i = first; i < last; ++i, walk.next()) {
                   Placed slice{static_cast<char*>(whole.data) + offsets[static_cast<std::size_t>(i)],
                                whole.strides.subspan(batch)};
                   Placed piece{static_cast<char*>(part.data) + walk.offset(0), part.strides.subspan(batch)};
                   copy_strided(to_part ? piece : slice, to_part ? slice : piece, shape, size);
                 }
               });
}

}  // namespace

void run_dynamic_slice(const stave::DynamicSliceAttributes& attributes, const View& x, const View& starts,
                       const View& out) {
  std::vector<Index> offsets = slice_offsets("dynamic_slice", attributes, starts, x);
  copy_slices(x, offsets, out, static_cast<std::size_t>(attributes.batch_dims), true);
}

void run_dynamic_update_slice(const stave::DynamicSliceAttributes& attributes, const View& x, const View& update,
                              const View& starts, const View& out) {
  std::vector<Index> offsets = slice_offsets("dynamic_update_slice", attributes, starts, out);
  Index size = static_cast<Index>(stave::size_of(x.dtype));
  if (out.data != x.data)
    copy_strided({static_cast<char*>(out.data), out.strides}, {static_cast<char*>(x.data), x.strides}, x.shape, size);
  copy_slices(out, offsets, update, static_cast<std::size_t>(attributes.batch_dims), false);
}

}  // namespace stave_cpu
