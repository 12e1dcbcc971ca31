// argmax and argmin. Positions are in row-major order over the reduced axes, so axes are merged but
// never reordered.
#include <algorithm>

#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/reduce.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

using stave::Shape;
using stave::View;

namespace {

constexpr Index block_length = 1024;
constexpr Index most_columns = 512;
constexpr Index most_parts = 64;

/// Returns the reduced axes of `in`, merged; if `reduced` is false, the axes that are kept. Operand
/// 0 is the input, operand 1 the output.
Axes axes_where(bool reduced, const Shape& axes, const View& in, Index size, Index out_size) {
  stave::Shape lengths, in_strides, out_strides;
  Index out_stride = 1;
  for (std::size_t i = in.shape.size(); i-- > 0;) {
    bool is_reduced = std::find(axes.begin(), axes.end(), static_cast<Index>(i)) != axes.end();
    if (is_reduced == reduced) {
      lengths.push_back(in.shape[i]);
      in_strides.push_back(in.strides[i]);
      out_strides.push_back(reduced ? 0 : out_stride);
    }
    if (!is_reduced) out_stride *= in.shape[i];
  }
  std::reverse(lengths.begin(), lengths.end());
  std::reverse(in_strides.begin(), in_strides.end());
  std::reverse(out_strides.begin(), out_strides.end());
  const Index* strides[] = {in_strides.data(), out_strides.data()};
  Index sizes[] = {size, out_size};
  return merged_axes(lengths, std::span<const Index* const>(strides, reduced ? 1 : 2), sizes);
}

struct Best {
  alignas(8) char value[8];
  Index position = -1;
};

class ArgReduce {
 public:
  ArgReduce(const ArgReduction& reduction, const Shape& axes, const View& in, const View& out)
      : reduction_(reduction), in_(static_cast<const char*>(in.data)), out_(static_cast<char*>(out.data)),
        wide_(out.dtype == stave::int64), size_(static_cast<Index>(stave::size_of(in.dtype))),
        kept_(axes_where(false, axes, in, size_, wide_ ? 8 : 4)), reduced_(axes_where(true, axes, in, size_, 0)),
        length_(1) {
    for (const Axis& axis : reduced_) length_ *= axis.length;
  }

  void run() const {
    bool columns =
        reduced_.size() == 1 && !kept_.empty() && kept_.back().step[0] == size_ && reduced_.back().step[0] != size_;
    if (columns) run_columns();
    else run_rows();
  }

 private:
  void store(char* at, Index position) const {
    if (wide_) *reinterpret_cast<std::int64_t*>(at) = position;
    else *reinterpret_cast<std::int32_t*>(at) = static_cast<std::int32_t>(position);
  }

  void run_rows() const {
    TileWalk outputs(kept_, 2, -1, 1, 1);
    if (outputs.count() == 1 && length_ > 2 * cheap_grain) return store(out_, search_in_parts());
    parallel_for(outputs.count(), std::max<Index>(1, cheap_grain / length_), [&](Index first, Index last) {
      TileWalk walk = outputs;
      walk.seek(first);
      for (Index i = first; i < last; ++i, walk.next()) {
        Best best;
        search(in_ + walk.offset(0), 0, length_, best);
        store(out_ + walk.offset(1), best.position);
      }
    });
  }
  Index search_in_parts() const {
    Best parts[most_parts];
    Index each = (length_ + most_parts - 1) / most_parts;
    parallel_for(most_parts, std::max<Index>(1, cheap_grain / each), [&](Index first, Index last) {
      for (Index p = first; p < last; ++p)
        if (p * each < length_) search(in_, p * each, std::min(length_, (p + 1) * each), parts[p]);
    });
    Best best = parts[0];
    for (const Best& part : parts)
      if (part.position >= 0 && reduction_.beats(part.value, best.value)) best = part;
    return best.position;
  }
  /// Finds the largest (argmin: smallest) of elements [first, last), counted in row-major order
  /// over the reduced axes.
  void search(const char* in, Index first, Index last, Best& best) const {
    Index inner = reduced_.empty() ? 1 : reduced_.back().length,
          step = reduced_.empty() ? size_ : reduced_.back().step[0];
    TileWalk rows(reduced_, 1, -1, 1, inner);
    rows.seek(first / inner);
    for (Index i = first; i < last; rows.next()) {
      Index at = i % inner, n = std::min(inner - at, last - i);
      search_run(in + rows.offset(0) + at * step, step, n, i, best);
      i += n;
    }
  }
  void search_run(const char* in, Index step, Index n, Index position, Best& best) const {
    if (step == size_) return offer(in, n, position, best);
    alignas(64) char buffer[block_length * 8];
    for (Index i = 0; i < n; i += block_length) {
      Index count = std::min(block_length, n - i);
      copy_tile(buffer, 0, size_, in + i * step, 0, step, 1, count, size_);
      offer(buffer, count, position + i, best);
    }
  }
  void offer(const char* in, Index n, Index position, Best& best) const {
    Best candidate;
    candidate.position = position + reduction_.row(in, n, candidate.value);
    if (best.position < 0 || reduction_.beats(candidate.value, best.value)) best = candidate;
  }

  void run_columns() const {
    TileWalk tiles(kept_, 2, -1, 1, std::min(most_columns, kept_.back().length));
    Index grain = std::max<Index>(1, cheap_grain / (length_ * std::min(most_columns, kept_.back().length)));
    parallel_for(tiles.count(), grain, [&](Index first, Index last) {
      TileWalk walk = tiles;
      walk.seek(first);
      for (Index t = first; t < last; ++t, walk.next()) search_columns(walk);
    });
  }
  void search_columns(const TileWalk& walk) const {
    alignas(64) char best[most_columns * 8];
    Index where[most_columns] = {};
    const char* in = in_ + walk.offset(0);
    Index n = walk.columns();
    std::copy_n(in, n * size_, best);
    for (Index i = 1; i < length_; ++i) reduction_.columns(in + i * reduced_.back().step[0], n, i, best, where);
    for (Index c = 0; c < n; ++c) store(out_ + walk.offset(1) + c * kept_.back().step[1], where[c]);
  }

  const ArgReduction& reduction_;
  const char* in_;
  char* out_;
  bool wide_;
  Index size_;
  Axes kept_, reduced_;
  Index length_;
};

}  // namespace

void run_arg_reduce(const ArgReduction& reduction, const Shape& axes, const View& in, const View& out) {
  if (element_count(out.shape) == 0) return;
  ArgReduce(reduction, axes, in, out).run();
}

}  // namespace stave_cpu
