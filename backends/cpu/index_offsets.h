// The offsets of the slices that index tensors address, for gather and scatter.
#pragma once

#include <algorithm>
#include <atomic>
#include <utility>

#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/strided.h>
#include <stave/core/op/attributes.h>
#include <stave/core/op/everywhere.h>

namespace stave_cpu {

/// The groups of axes in the shapes of gather and scatter: x is [batch, indexed, rest],
/// the indices are [batch, at, k], and the result is [batch, at, rest]. There is one index
/// tuple for each element of [batch, at]. It has k indices, one for each indexed axis of x,
/// and addresses a slice of shape `rest`. The members `batch`, `at` and `rest` are numbers of axes.
struct IndexLayout {
  std::size_t batch, at, k, rest;
  bool from_end;  // negative indices count from the end
  IndexLayout(const stave::GatherAttributes& attributes, const View& x, const View& indices)
      : batch(static_cast<std::size_t>(attributes.batch_dims)), at(indices.shape.size() - batch - 1),
        k(static_cast<std::size_t>(indices.shape.back())), rest(x.shape.size() - batch - k),
        from_end(attributes.from_end) {}
};

/// Computes the offset of each slice in x, in bytes, one block of [batch, at] at a time.
/// Indices are int32 or int64.
class SliceOffsets {
 public:
  static constexpr Index block = 1024;

  SliceOffsets(const char* operation, const IndexLayout& layout, const View& x, const View& indices,
               std::span<const Index> x_strides)
      : operation_(operation), layout_(layout), x_(x), indices_(indices), x_strides_(x_strides),
        x_size_(static_cast<Index>(stave::size_of(x.dtype))), axes_(axes_of(layout, x, indices, x_strides)),
        blocks_(axes_, 2, -1, 1, block) {
    count_ = element_count(indices.shape.first(layout.batch + layout.at));
  }
  /// The number of slices: the number of elements of [batch, at].
  Index count() const { return count_; }

  /// Calls f(first, offsets, n) for blocks of n slices, in parallel. `moved` is the number of
  /// elements that f moves for each slice. Blocks with an index out of range are skipped. If there
  /// are such blocks, the function throws IndexError for the first such index, after all other
  /// blocks.
  template <class F>
  void for_each_block(Index moved, F f) const {
    std::atomic<Index> bad{count_};
    const Index row = axes_.empty() ? 1 : axes_.back().length, blocks_in_row = (row + block - 1) / block;
    const Index in_block = std::min(block, row);
    parallel_for(blocks_.count(), std::max<Index>(1, cheap_grain / 4 / std::max<Index>(1, in_block * moved)),
                 [&](Index begin, Index end) {
                   Index offsets[block];
                   TileWalk walk = blocks_;
                   walk.seek(begin);
                   for (Index b = begin; b < end; ++b, walk.next()) {
                     const Index first = b / blocks_in_row * row + b % blocks_in_row * block;
                     if (fill(walk, offsets)) f(first, static_cast<const Index*>(offsets), walk.columns());
                     else lower(bad, first);
                   }
                 });
    if (bad < count_) refuse(bad);
  }

 private:
  static Axes axes_of(const IndexLayout& layout, const View& x, const View& indices, std::span<const Index> x_strides) {
    stave::Strides x_steps;
    x_steps.resize(layout.batch + layout.at, 0);
    for (std::size_t i = 0; i < layout.batch; ++i) x_steps[i] = x_strides[i];
    const Index* strides[] = {indices.strides.data(), x_steps.data()};
    const Index sizes[] = {static_cast<Index>(stave::size_of(indices.dtype)),
                           static_cast<Index>(stave::size_of(x.dtype))};
    return merged_axes(indices.shape.first(layout.batch + layout.at), strides, sizes);
  }
  static void lower(std::atomic<Index>& least, Index to) {
    Index now = least.load();
    while (to < now && !least.compare_exchange_weak(now, to)) {
    }
  }
  Index index_size() const { return static_cast<Index>(stave::size_of(indices_.dtype)); }
  const char* indices_at(const TileWalk& walk, std::size_t j) const {
    return static_cast<const char*>(indices_.data) + walk.offset(0) +
           static_cast<Index>(j) * indices_.strides.back() * index_size();
  }

  /// Computes the offsets of one block. Returns false if some index is out of range.
  bool fill(const TileWalk& walk, Index* offsets) const {
    const Index n = walk.columns(), step = axes_.empty() ? 0 : axes_.back().step[1];
    if (layout_.k == 0)
      for (Index i = 0; i < n; ++i) offsets[i] = walk.offset(1) + i * step;
    bool in_range = true;
    for (std::size_t j = 0; j < layout_.k; ++j) {
      const Start start{walk.offset(1), step, j > 0};
      in_range &= indices_.dtype == stave::int64 ? add<std::int64_t>(indices_at(walk, j), j, n, start, offsets)
                                                 : add<std::int32_t>(indices_at(walk, j), j, n, start, offsets);
    }
    return in_range;
  }
  /// The offset to which the contribution of an index is added. If `others` is true, it is the sum
  /// of the contributions of the tuple's earlier indices. Otherwise it is the position along the
  /// batch axes.
  struct Start {
    Index offset, step;
    bool others;
  };
  /// Adds the contribution of index j of each tuple to the offsets. Returns false if an index is
  /// out of range.
  template <class I>
  bool add(const char* indices, std::size_t j, Index n, const Start& start, Index* offsets) const {
    const Index step = axes_.empty() ? 0 : axes_.back().step[0];
    const Index length = x_.shape[layout_.batch + j], stride = x_strides_[layout_.batch + j] * x_size_;
    const Index wrap = layout_.from_end ? length : 0, from = start.offset, batch_step = start.step;
    const auto dense = reinterpret_cast<const I*>(indices);
    // An index far out of range may overflow, so offsets are computed as unsigned integers.
    using Wrapping = std::uint64_t;
    const auto run = [=](auto index_of, auto before) {
      bool beyond = false;
      for (Index i = 0; i < n; ++i) {
        const Index index = index_of(i), place = index + (index < 0 ? wrap : 0);
        beyond |= static_cast<Wrapping>(place) >= static_cast<Wrapping>(length);
        offsets[i] = static_cast<Index>(static_cast<Wrapping>(before(i)) +
                                        static_cast<Wrapping>(place) * static_cast<Wrapping>(stride));
      }
      return !beyond;
    };
    const auto run_from = [=](auto index_of) {
      if (start.others) return run(index_of, [=](Index i) { return offsets[i]; });
      return run(index_of, [=](Index i) { return from + i * batch_step; });
    };
    if (step == Index{sizeof(I)}) return run_from([=](Index i) { return Index{dense[i]}; });
    return run_from([=](Index i) { return Index{*reinterpret_cast<const I*>(indices + i * step)}; });
  }
  /// Returns index j of the tuple at the walk's position, and true if this index is out of range.
  std::pair<Index, bool> index_at(const TileWalk& walk, std::size_t j) const {
    const char* const at = indices_at(walk, j);
    const Index index = indices_.dtype == stave::int64 ? *reinterpret_cast<const std::int64_t*>(at)
                                                       : *reinterpret_cast<const std::int32_t*>(at);
    const Index length = x_.shape[layout_.batch + j];
    return {index, index < (layout_.from_end ? -length : 0) || index >= length};
  }
  bool all_out_of_range() const {
    TileWalk walk(axes_, 2, -1, 1, 1);
    walk.seek(0);
    for (Index i = 0; i < count_; ++i, walk.next()) {
      bool any = false;
      for (std::size_t j = 0; j < layout_.k; ++j) any |= index_at(walk, j).second;
      if (!any) return false;
    }
    return true;
  }
  /// Throws IndexError for the first index out of range at or after slice `from`. The caller has
  /// found that there is one.
  [[noreturn]] void refuse(Index from) const {
    TileWalk walk(axes_, 2, -1, 1, 1);
    walk.seek(from);
    for (;; walk.next())
      for (std::size_t j = 0; j < layout_.k; ++j)
        if (const auto [index, out] = index_at(walk, j); out)
          stave_detail::fail_at<stave::IndexError>(from == 0 && all_out_of_range(),
                                                   "{}: index {} is out of range for axis {} with size {}", operation_,
                                                   index, layout_.batch + j, x_.shape[layout_.batch + j]);
  }

  const char* operation_;
  const IndexLayout& layout_;
  const View &x_, &indices_;
  std::span<const Index> x_strides_;
  Index x_size_;
  // The axes [batch, at]. Operand 0 is the indices. Operand 1 is x, with step 0 along `at`.
  Axes axes_;
  TileWalk blocks_;
  Index count_ = 0;
};

}  // namespace stave_cpu
