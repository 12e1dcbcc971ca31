#include <stave/backends/cuda/sort_plan.h>

#include <algorithm>
#include <bit>
#include <limits>

#include <stave/core/tensor/fail.h>

namespace stave_cuda {

namespace {

stave::Shape axis_last(std::span<const Index> all, std::size_t axis) {
  stave::Shape moved;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i != axis) moved.push_back(all[i]);
  moved.push_back(all[axis]);
  return moved;
}

IndexPlan<2> elements_of(std::size_t axis, const View& in, const View& out) {
  const stave::Shape shape = axis_last(in.shape, axis), from = axis_last(in.strides, axis),
                     to = axis_last(out.strides, axis);
  return IndexPlan<2>(shape, {from, to});
}

std::uint32_t length_of(const stave::SortAttributes& attributes, const View& in) {
  const Index length = in.shape[static_cast<std::size_t>(attributes.axis)];
  constexpr Index most = std::numeric_limits<std::uint32_t>::max();
  if (length > most)
    stave_detail::fail<stave::Error>(
        "cuda: sort: axis {} has {} elements, and no more than {} are sorted on a GPU: sort it on the CPU",
        attributes.axis, length, most);
  return static_cast<std::uint32_t>(length);
}

/// Returns the bits to flip in every key. Flipping the sign bit of signed integers gives unsigned
/// integers in the same order. Flipping all bits gives descending order.
std::uint64_t key_mask(bool descending, stave::Dtype dtype) {
  const int bits = 8 * static_cast<int>(stave::size_of(dtype));
  return (descending ? ~std::uint64_t{0} >> (64 - bits) : 0) ^ (is_signed(dtype) ? std::uint64_t{1} << (bits - 1) : 0);
}

}  // namespace

SortPlan::SortPlan(const stave::SortAttributes& attributes, const View& in, const View& out, Index most)
    : elements_(elements_of(static_cast<std::size_t>(attributes.axis), in, out)) {
  args_.in = in.data;
  args_.out = out.data;
  args_.length = length_of(attributes, in);
  args_.mask = key_mask(attributes.descending, in.dtype);
  args_.wide_positions = out.dtype == stave::int64;
  rows_ = args_.length == 0 ? 0 : elements_.elements() / args_.length;
  if (rows_ == 0) return;
  batch_rows_ = std::clamp<Index>(most / args_.length, 1, rows_);
  choose_passes(8 * static_cast<int>(stave::size_of(in.dtype)),
                std::bit_width(static_cast<std::uint64_t>(batch_rows_ - 1)));
}

void SortPlan::choose_passes(int key_bits, int row_bits) {
  if (args_.length == 1) row_bits = key_bits = 0;  // Such rows are sorted already.
  for (int shift = 0; shift < key_bits; shift += 32) {
    const int bits = std::min(32, key_bits - shift);
    passes_[pass_count_++] = {.shift = shift, .bits = bits, .element_bits = bits};
  }
  if (row_bits == 0) return;
  if (key_bits + row_bits <= 32) {
    passes_[0].rows = true;
    passes_[0].bits += row_bits;
  } else {
    passes_[pass_count_++] = {.bits = row_bits, .elements = false, .rows = true};
  }
}

SortArgs SortPlan::batch(Index index) const {
  SortArgs args = args_;
  const Index first = index * batch_rows_;
  args.first = first * args.length;
  args.count = std::min(batch_rows_, rows_ - first) * args.length;
  return args;
}

}  // namespace stave_cuda
