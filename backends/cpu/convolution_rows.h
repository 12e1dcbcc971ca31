// Convolutions of few channels, or of wide rows, computed in registers.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include <stave/backends/cpu/convolution_shape.h>
#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/scratch.h>

namespace stave_cpu {

/// Computes rows of results from padded copies of rows of x. A task computes several rows of
/// results. It copies the rows of x that these results depend on, for several channels at a time,
/// in this layout:
///   [channels][window's depth][rows][remainders by the stride][columns]
/// Elements of x whose column indices are equal modulo the stride are neighbours in the copy. So
/// neighbouring results of a row use neighbouring elements, whatever the stride is.
template <class T>
class ConvolutionRows {
 public:
  explicit ConvolutionRows(const Convolution& p) : p_(p) {
    const Index most = is_float(p.dtype) ? kernels().weighed_results : 1;
    blocks_ = (p.o + most - 1) / most;
    columns_ = (p.out[2] - 1) + ((p.window[2] - 1) * p.dilation[2]) / p.stride[2] + 1;
    pitch_ = columns_ * std::min(p.stride[2], p.reach(2));
    // As in BLAS, a few hundred terms are summed before this sum is added to the result. For
    // windows with a large dilation, a task computes one row of results and copies only the rows of
    // x that this row uses.
    has_large_dilation_ = p.reach(1) > 4 * p.window[1];
    const Index seen = has_large_dilation_ ? p.window[1] : p.reach(1), one = p.window[0] * seen * pitch_ * p.size;
    channels_ = std::clamp<Index>(std::min(512 / volume(p.window), 4 * second_cache / one), 1, p.c);
    const Index plane = channels_ * p.window[0] * pitch_ * p_.size;
    const Index fit = has_large_dilation_ ? 1 : (second_cache / plane - seen) / p.stride[1];
    rows_ = std::clamp<Index>(fit, 1, p.out[1]);
    while (rows_ > 1 && tasks() < 4 * thread_count() && p.work() / tasks() > 2 * least_work) rows_ = (rows_ + 1) / 2;
    held_ = (rows_ - 1) * p.stride[1] + seen;
    pack_weights();
  }

  void run() const {
    const Index each = std::max<Index>(1, p_.work() / tasks());
    parallel_for(tasks(), std::max<Index>(1, least_work / each), [&](Index first, Index last) {
      const auto room = static_cast<std::size_t>(channels_ * p_.window[0] * held_ * pitch_) + 2 * widest_vector;
      const auto rows = scratch<T>(room);
      std::fill(rows.get() + room - 2 * widest_vector, rows.get() + room, T{});
      const Scratch<T> sums = in_place() ? nullptr : scratch<T>(static_cast<std::size_t>(p_.o * rows_ * p_.out[2]));
      std::vector<Index> offsets(static_cast<std::size_t>(channels_ * volume(p_.window)));
      for (Index task = first; task < last; ++task) band(task, rows.get(), sums.get(), offsets.data());
    });
  }

 private:
  Index bands() const { return (p_.out[1] + rows_ - 1) / rows_; }
  Index tasks() const { return p_.n * p_.groups * p_.out[0] * bands(); }
  bool in_place() const { return p_.y.step[2] == p_.size || p_.out[2] == 1; }
  Index block_first(Index block) const { return block * p_.o / blocks_; }

  /// Packs the weights as [groups][blocks of channels][blocks of results][taps][results].
  void pack_weights() {
    weights_ = scratch<T>(static_cast<std::size_t>(p_.groups * p_.o * p_.terms()));
    parallel_for(p_.groups, std::max<Index>(1, cheap_grain / std::max<Index>(1, p_.o * p_.terms())),
                 [&](Index first, Index last) {
                   for (Index g = first; g < last; ++g)
                     for (Index c = 0; c < p_.c; c += channels_)
                       for (Index b = 0; b < blocks_; ++b) pack_block(g, c, b);
                 });
  }
  T* weights(Index g, Index c, Index block) const {
    const Index channels = std::min(channels_, p_.c - c);
    return weights_.get() + ((g * p_.c + c) * p_.o + block_first(block) * channels) * volume(p_.window);
  }
  void pack_block(Index g, Index c_first, Index block) {
    T* to = weights(g, c_first, block);
    const Operand& w = p_.w;
    for (Index c = c_first; c < std::min(c_first + channels_, p_.c); ++c)
      for (Index i = 0; i < p_.window[0]; ++i)
        for (Index j = 0; j < p_.window[1]; ++j)
          for (Index k = 0; k < p_.window[2]; ++k)
            for (Index o = block_first(block); o < block_first(block + 1); ++o)
              *to++ = *reinterpret_cast<const T*>(w.data + g * w.lead[0] + o * w.lead[1] + c * w.lead[2] +
                                                  i * w.step[0] + j * w.step[1] + k * w.step[2]);
  }

  /// Computes the rows of results of a task, at most rows_, for all result channels of a group.
  void band(Index task, T* rows, T* sums, Index* offsets) const {
    const Index q = task % bands() * rows_, r = task / bands(), depth = r % p_.out[0], g = r / p_.out[0] % p_.groups,
                n = r / p_.out[0] / p_.groups;
    const Index count = std::min(rows_, p_.out[1] - q);
    char* y = p_.y.data + n * p_.y.lead[0] + g * p_.y.lead[1] + depth * p_.y.step[0] + q * p_.y.step[1];
    T* to = sums;
    Index o_step = rows_ * p_.out[2], row_step = p_.out[2];
    if (in_place()) {
      to = reinterpret_cast<T*>(y);
      o_step = p_.y.lead[2] / p_.size;
      row_step = p_.y.step[1] / p_.size;
    }
    for (Index c = 0; c < p_.c; c += channels_) {
      const Index channels = std::min(channels_, p_.c - c);
      copy_rows(rows, p_.x.data + n * p_.x.lead[0] + g * p_.x.lead[1] + c * p_.x.lead[2], channels, depth, q, count);
      const Index taps = offsets_of(offsets, channels);
      weigh(to, o_step, row_step, rows, offsets, taps, g, c, count);
    }
    if (in_place()) return;
    for (Index o = 0; o < p_.o; ++o)
      for (Index row = 0; row < count; ++row)
        for (Index j = 0; j < p_.out[2]; ++j)
          *reinterpret_cast<T*>(y + o * p_.y.lead[2] + row * p_.y.step[1] + j * p_.y.step[2]) =
              sums[o * o_step + row * row_step + j];
  }

  void copy_rows(T* to, const char* x, Index channels, Index depth, Index q, Index count) const {
    const Index held = has_large_dilation_ ? held_ : (count - 1) * p_.stride[1] + p_.reach(1);
    for (Index c = 0; c < channels; ++c)
      for (Index i = 0; i < p_.window[0]; ++i) {
        const Index at = depth * p_.stride[0] + i * p_.dilation[0] - p_.low[0];
        const char* plane = x + c * p_.x.lead[2] + at * p_.x.step[0];
        T* row = to + (c * p_.window[0] + i) * held_ * pitch_;
        for (Index h = 0; h < held; ++h, row += pitch_) {
          const Index height = q * p_.stride[1] + h * (has_large_dilation_ ? p_.dilation[1] : 1) - p_.low[1];
          if (at < 0 || at >= p_.in[0] || height < 0 || height >= p_.in[1]) std::fill(row, row + pitch_, T{});
          else copy_row(row, plane + height * p_.x.step[1]);
        }
      }
  }
  void copy_row(T* to, const char* x) const {
    for (Index remainder = 0; remainder * columns_ < pitch_; ++remainder)
      copy_run(to + remainder * columns_, x, p_.x.step[2], remainder - p_.low[2], p_.stride[2], p_.in[2], columns_);
  }
  Index offsets_of(Index* to, Index channels) const {
    Index taps = 0;
    for (Index c = 0; c < channels; ++c)
      for (Index i = 0; i < p_.window[0]; ++i)
        for (Index j = 0; j < p_.window[1]; ++j)
          for (Index k = 0; k < p_.window[2]; ++k) {
            const Index along = k * p_.dilation[2];
            to[taps++] = ((c * p_.window[0] + i) * held_ + j * (has_large_dilation_ ? 1 : p_.dilation[1])) * pitch_ +
                         along % p_.stride[2] * columns_ + along / p_.stride[2];
          }
    return taps;
  }
  void weigh(T* to, Index o_step, Index row_step, const T* rows, const Index* offsets, Index taps, Index g, Index c,
             Index count) const {
    const auto weigh_rows = kernels().weigh_rows[static_cast<int>(p_.dtype)];
    const auto some = [&](Index row, Index block) {
      const Index o = block_first(block);
      weigh_rows(to + o * o_step + row * row_step, o_step, rows + row * p_.stride[1] * pitch_, weights(g, c, block),
                 offsets, taps, block_first(block + 1) - o, p_.out[2], c > 0);
    };
    // If the weights are larger than an eighth of what a task uses of the L2 cache, the outer loop
    // is over blocks of weights, so that the L1 cache loads each block only once.
    if (p_.o * taps * p_.size <= second_cache / 8) {
      for (Index row = 0; row < count; ++row)
        for (Index block = 0; block < blocks_; ++block) some(row, block);
    } else {
      for (Index block = 0; block < blocks_; ++block)
        for (Index row = 0; row < count; ++row) some(row, block);
    }
  }

  const Convolution& p_;
  Index blocks_, columns_, pitch_, channels_, rows_, held_;
  bool has_large_dilation_;
  Scratch<T> weights_;
};

}  // namespace stave_cpu
