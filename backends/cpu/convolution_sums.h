// Convolutions with large windows, which give few results.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>

#include <stave/backends/cpu/convolution_shape.h>
#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/scratch.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

/// Computes convolutions with few places (positions of the result) and a large window, such as
/// cotangents of weights. Each result is a sum over rows of w times rows of x, shifted by the
/// position of the result. A task copies padded rows of x as ConvolutionRows does, but groups
/// columns by the remainder by the dilation instead of the stride. The results are divided into
/// blocks of images and result channels. A block is computed by one task or by several tasks,
/// called its strands, each of which sums over some channels of x. The number of strands depends on
/// the shapes alone.
template <class T>
class ConvolutionSums {
 public:
  explicit ConvolutionSums(const Convolution& p) : p_(p) {
    images_ = std::min<Index>(8, p.n);
    results_ = std::min<Index>(64, p.o);
    blocks_ = p.groups * ceil_divide(p.n, images_) * ceil_divide(p.o, results_);
    tasks_per_tile_ = std::clamp<Index>(16 / blocks_, 1, p.c);
    columns_ = (p.window[2] - 1) + ((p.out[2] - 1) * p.stride[2]) / p.dilation[2] + 1;
    pitch_ = columns_ * std::min(p.dilation[2], (p.out[2] - 1) * p.stride[2] + 1);
    rows_ = std::clamp<Index>(first_cache / (multiplied_results * p.window[2] * p.size), 1, p.window[1]);
    held_ = (rows_ - 1) * p.dilation[1] + (p.out[1] - 1) * p.stride[1] + 1;
    pack_weights();
  }

  void run() const {
    const Index tasks = blocks_ * tasks_per_tile_, places = volume(p_.out);
    const auto sums_of_one = static_cast<std::size_t>(images_ * results_ * places);
    const auto sums = std::make_unique<double[]>(static_cast<std::size_t>(tasks) * sums_of_one);
    const Index each = std::max<Index>(1, p_.work() / tasks);
    parallel_for(tasks, std::max<Index>(1, least_work / each), [&](Index first, Index last) {
      const auto rows = scratch<T>(static_cast<std::size_t>(images_ * held_ * pitch_));
      const auto lanes = scratch<double>(sums_of_one * sum_lanes);
      for (Index task = first; task < last; ++task) {
        const Block block(*this, task / tasks_per_tile_);
        std::fill(lanes.get(), lanes.get() + sums_of_one * sum_lanes, 0.0);
        add(block, task % tasks_per_tile_, rows.get(), lanes.get());
        add_lanes(block, lanes.get(), sums.get() + static_cast<std::size_t>(task) * sums_of_one);
      }
    });
    for (Index block = 0; block < blocks_; ++block)
      write(Block(*this, block), sums.get() + static_cast<std::size_t>(block * tasks_per_tile_) * sums_of_one,
            sums_of_one);
  }

 private:
  struct Block {
    Index group, n, images, o, results;
    Block(const ConvolutionSums& s, Index block) {
      const Convolution& p = s.p_;
      const Index down = ceil_divide(p.o, s.results_), across = ceil_divide(p.n, s.images_);
      o = block % down * s.results_;
      n = block / down % across * s.images_;
      group = block / down / across;
      images = std::min(s.images_, p.n - n);
      results = std::min(s.results_, p.o - o);
    }
  };

  /// Copies w if its rows are not dense.
  void pack_weights() {
    w_ = p_.w;
    if (w_.step[2] == p_.size) return;
    const stave::Shape shape{p_.groups, p_.o, p_.c, p_.window[0], p_.window[1], p_.window[2]};
    stave::Strides strides{w_.lead[0], w_.lead[1], w_.lead[2], w_.step[0], w_.step[1], w_.step[2]};
    for (Index& stride : strides) stride /= p_.size;
    const stave::Strides dense = stave::contiguous_strides(shape);
    packed_ = scratch<T>(static_cast<std::size_t>(shape.elements()));
    w_.data = reinterpret_cast<char*>(packed_.get());
    copy_strided({w_.data, dense}, {p_.w.data, strides}, shape, p_.size);
    for (std::size_t i = 0; i < 3; ++i) {
      w_.lead[i] = dense[i] * p_.size;
      w_.step[i] = dense[i + 3] * p_.size;
    }
  }

  /// Adds the sums over the channels of one strand to `lanes`.
  void add(const Block& block, Index strand, T* rows, double* lanes) const {
    for (Index c = strand * p_.c / tasks_per_tile_; c < (strand + 1) * p_.c / tasks_per_tile_; ++c)
      for (Index depth = 0; depth < p_.window[0]; ++depth)
        for (Index row = 0; row < p_.window[1]; row += rows_)
          for (Index q = 0; q < p_.out[0]; ++q) {
            const Index at = q * p_.stride[0] + depth * p_.dilation[0] - p_.low[0];
            if (at < 0 || at >= p_.in[0]) continue;
            const Index count = std::min(rows_, p_.window[1] - row);
            const char* x =
                p_.x.data + block.n * p_.x.lead[0] + block.group * p_.x.lead[1] + c * p_.x.lead[2] + at * p_.x.step[0];
            for (Index i = 0; i < block.images; ++i)
              copy_rows(rows + i * held_ * pitch_, x + i * p_.x.lead[0], row, count);
            const char* w = w_.data + block.group * w_.lead[0] + block.o * w_.lead[1] + c * w_.lead[2] +
                            depth * w_.step[0] + row * w_.step[1];
            multiply(block, lanes, q * p_.out[1] * p_.out[2], rows, w, count);
          }
  }
  void copy_rows(T* to, const char* plane, Index row, Index count) const {
    const Index held = (count - 1) * p_.dilation[1] + (p_.out[1] - 1) * p_.stride[1] + 1;
    for (Index h = 0; h < held; ++h, to += pitch_) {
      const Index height = row * p_.dilation[1] + h - p_.low[1];
      if (height < 0 || height >= p_.in[1]) {
        std::fill(to, to + pitch_, T{});
        continue;
      }
      for (Index remainder = 0; remainder * columns_ < pitch_; ++remainder)
        copy_run(to + remainder * columns_, plane + height * p_.x.step[1], p_.x.step[2], remainder - p_.low[2],
                 p_.dilation[2], p_.in[2], columns_);
    }
  }
  /// Adds the products of `count` rows of the window to the partial sums `lanes`, for all images
  /// and result channels of a block and for the places of one depth, the first of which is `place`.
  /// The L1 cache holds these rows of w meanwhile. The partial sums are stored in the order in
  /// which they are computed:
  ///   [images][results by multiplied_results][places by multiplied_taps][result][place][sum_lanes]
  void multiply(const Block& block, double* lanes, Index place, const T* rows, const char* w, Index count) const {
    const auto multiply_rows = kernels().multiply_rows[static_cast<int>(p_.dtype)];
    const Index parts = ceil_divide(p_.out[2], multiplied_taps), places = volume(p_.out);
    for (Index o = 0; o < block.results; o += multiplied_results) {
      const Index some = std::min(multiplied_results, block.results - o);
      for (Index i = 0; i < block.images; ++i)
        for (Index q = 0; q < p_.out[1]; ++q)
          for (Index part = 0; part < parts; ++part) {
            const Index first = part * p_.out[2] / parts, taps = (part + 1) * p_.out[2] / parts - first;
            Index offsets[multiplied_taps];
            for (Index t = 0; t < taps; ++t) {
              const Index along = (first + t) * p_.stride[2];
              offsets[t] = q * p_.stride[1] * pitch_ + along % p_.dilation[2] * columns_ + along / p_.dilation[2];
            }
            double* sums =
                lanes + ((i * block.results + o) * places + some * (place + q * p_.out[2] + first)) * sum_lanes;
            multiply_rows(sums, rows + i * held_ * pitch_, p_.dilation[1] * pitch_, offsets, taps, w + o * w_.lead[1],
                          w_.step[1] / p_.size, w_.lead[1] / p_.size, some, count, p_.window[2]);
          }
    }
  }
  /// Adds the sum_lanes partial sums of each result: sums [images, results, places].
  void add_lanes(const Block& block, const double* lanes, double* sums) const {
    const Index parts = ceil_divide(p_.out[2], multiplied_taps), places = volume(p_.out);
    for (Index i = 0; i < block.images; ++i)
      for (Index o = 0; o < block.results; o += multiplied_results)
        for (Index row = 0; row < places; row += p_.out[2])
          for (Index part = 0; part < parts; ++part) {
            const Index first = part * p_.out[2] / parts, last = (part + 1) * p_.out[2] / parts;
            for (Index r = o; r < std::min(o + multiplied_results, block.results); ++r)
              for (Index place = row + first; place < row + last; ++place, lanes += sum_lanes)
                sums[(i * results_ + r) * places + place] = std::accumulate(lanes, lanes + sum_lanes, 0.0);
          }
  }
  /// Adds the sums of all strands of a block, which are `apart` numbers apart, and writes the
  /// results.
  void write(const Block& block, double* sums, std::size_t apart) const {
    for (Index strand = 1; strand < tasks_per_tile_; ++strand)
      for (std::size_t i = 0; i < apart; ++i) sums[i] += sums[static_cast<std::size_t>(strand) * apart + i];
    const Operand& y = p_.y;
    for (Index i = 0; i < block.images; ++i)
      for (Index o = 0; o < block.results; ++o) {
        char* to = y.data + (block.n + i) * y.lead[0] + block.group * y.lead[1] + (block.o + o) * y.lead[2];
        const double* from = sums + (i * results_ + o) * volume(p_.out);
        for (Index a = 0; a < p_.out[0]; ++a)
          for (Index b = 0; b < p_.out[1]; ++b)
            for (Index c = 0; c < p_.out[2]; ++c)
              *reinterpret_cast<T*>(to + a * y.step[0] + b * y.step[1] + c * y.step[2]) = static_cast<T>(*from++);
      }
  }

  const Convolution& p_;
  Index images_, results_, blocks_, tasks_per_tile_;
  Index columns_, pitch_, rows_, held_;
  Operand w_;
  Scratch<T> packed_;
};

}  // namespace stave_cpu
