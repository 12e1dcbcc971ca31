// Convolutions by the kernel of matrix products, without an im2col matrix.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include <stave/backends/cpu/convolution_shape.h>
#include <stave/backends/cpu/panel_products.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/scratch.h>

namespace stave_cpu {

/// The weights of a convolution as left matrices for blocks of channels. The terms of a block are
/// adjacent, in the order [channels][window]. They are used in place, or copied to
///   [groups][blocks of channels][result channels][panel_pitch]
template <class T>
class PanelWeights {
 public:
  explicit PanelWeights(const Convolution& p);

  static bool fit(const Convolution& p) { return volume(p.window) <= panel_terms; }
  Index channels() const { return channels_; }  // of a block; the last block may have fewer
  Index step() const { return step_; }          // from a result channel to the next one
  const T* block(Index group, Index c) const { return data_ + group * of_group_ + c / channels_ * of_block_; }

 private:
  void copy(const Convolution& p);

  Index channels_, step_, of_group_, of_block_;
  const T* data_;
  Scratch<T> copy_;
};

/// Each term of the sums is a weight times elements of x that are neighbours in a padded copy, if
/// the results are neighbours. So the copy takes the place of the right matrix of a product: the
/// row of a term begins at an offset in the copy. The copy has this layout:
///   [channels][window's depth][row remainders][column remainders][rows][columns]
/// Remainders are those of an index by the stride. Neighbouring rows share the zeros between them.
/// So the results of several rows are one long row, with a few columns between rows that are not
/// used.
template <class T>
class ConvolutionPanels {
 public:
  ConvolutionPanels(const Convolution& p, const PanelProduct& kernel, const PanelWeights<T>& weights)
      : p_(p), products_(kernel, panel_terms), weights_(weights), rows_(p.out[1]), columns_(p.out[2]), o_(p.o) {
    for (std::size_t axis = 1; axis < 3; ++axis) {
      remainders_[axis] = std::min(p.stride[axis], p.reach(axis));
      used_[axis].resize(static_cast<std::size_t>(remainders_[axis]));
      for (Index k = 0; k < p.window[axis]; ++k)
        used_[axis][static_cast<std::size_t>(k * p.dilation[axis] % p.stride[axis])] = true;
    }
    choose_tiles();
  }

  /// `finished`, unless it is null, receives the results.
  void run(const Finished* finished) const {
    const Index each = std::max<Index>(1, p_.work() / tasks());
    parallel_for(tasks(), std::max<Index>(1, least_work / each), [&](Index first, Index last) {
      const auto room = static_cast<std::size_t>(images_ * image_elements() + products_.panel());
      const Scratch<T> copy = scratch<T>(room);
      std::fill(copy.get() + room - products_.panel(), copy.get() + room, T{});
      const Scratch<T> sums =
          scratch<T>(static_cast<std::size_t>(in_place() ? 1 : images_ * o_ * positions(rows_, columns_)));
      std::array<Index, panel_terms> offsets;
      set_offsets(offsets);
      for (Index task = first; task < last; ++task) run_tile(tile_of(task), copy.get(), sums.get(), offsets, finished);
    });
  }

 private:
  // Bytes of the L2 cache for a tile's results, and for its part of x.
  static constexpr Index result_bytes = Index{3} << 17, copy_bytes = Index{1} << 18;
  // The least number of result channels of a tile, if tiles share the channels of an image.
  static constexpr Index least_channels = 48;
  static constexpr Index rows_at_once = 240;  // rows of weights that stay in the L2 cache

  /// Results [o, o + o_count) at rows [row, row + rows) and columns [column, column + columns) of
  /// depth `depth` of some images.
  struct Tile {
    Index group, n, images, depth, row, rows, column, columns, o, o_count;
  };

  /// The number of positions along an axis of the copy, for so many results.
  Index copied(std::size_t axis, Index results) const { return results + (p_.reach(axis) - 1) / p_.stride[axis]; }

  /// The distance of rows in the copy. All zeros before a row and after it are shared, if both rows
  /// have them.
  Index pitch() const {
    const Index length = copied(2, columns_);
    if (columns_ < p_.out[2]) return length;
    Index shared = length - columns_;
    for (Index f = 0; f < remainders_[2]; ++f) {
      const Range inside(f - p_.low[2], p_.stride[2], p_.in[2], length);
      if (used_[2][static_cast<std::size_t>(f)]) shared = std::min({shared, inside.first, length - inside.last});
    }
    return length - shared;
  }
  Index plane() const { return copied(1, rows_) * pitch() + copied(2, columns_); }
  Index planes() const { return weights_.channels() * p_.window[0] * remainders_[1] * remainders_[2]; }
  Index image_elements() const { return planes() * plane(); }
  /// The length of the long row of results.
  Index positions(Index rows, Index columns) const { return (rows - 1) * pitch() + columns; }

  Index tasks() const {
    return ceil_divide(p_.n, images_) * p_.groups * p_.out[0] * ceil_divide(p_.out[1], rows_) *
           ceil_divide(p_.out[2], columns_) * ceil_divide(p_.o, o_);
  }

  /// Chooses tiles that the L2 cache holds, and that threads can share. Results do not depend on
  /// the tiles.
  void choose_tiles() {
    images_ = p_.n;
    const auto copy_is_large = [&] { return images_ * image_elements() * p_.size > copy_bytes; };
    const auto are_large = [&] { return images_ * o_ * positions(rows_, columns_) * p_.size > result_bytes; };
    while ((copy_is_large() && halve_places()) || (are_large() && halve())) {
    }
    while (has_few_tasks(p_, tasks()) && halve()) {
    }
  }
  bool halve_channels() {
    if (o_ < 2 * least_channels) return false;
    o_ = (o_ + 1) / 2;
    return true;
  }
  bool halve_places() {
    const bool is_long = columns_ >= 4 * products_.panel();
    Index& length = images_ > 1 ? images_ : rows_ > 1 ? rows_ : columns_;
    if (&length == &columns_ && !is_long) return false;
    length = (length + 1) / 2;
    return true;
  }
  /// Halves the tiles along the axis that adds less memory traffic. Tiles of other places read the
  /// same weights, and tiles of other result channels copy the same part of x, which takes about
  /// four times as long.
  bool halve() {
    const Index weights = tasks() / ceil_divide(p_.o, o_) / p_.groups * p_.o * p_.terms(),
                copies = 4 * ceil_divide(p_.o, o_) * p_.n * p_.c * volume(p_.in);
    return copies <= weights ? halve_channels() || halve_places() : halve_places() || halve_channels();
  }

  Tile tile_of(Index task) const {
    const auto take = [&task](Index whole, Index part, Index& first, Index& count) {
      const Index all = ceil_divide(whole, part);
      first = task % all * part;
      count = std::min(part, whole - first);
      task /= all;
    };
    Tile tile{};
    take(p_.o, o_, tile.o, tile.o_count);
    take(p_.out[2], columns_, tile.column, tile.columns);
    take(p_.out[1], rows_, tile.row, tile.rows);
    Index one;
    take(p_.out[0], 1, tile.depth, one);
    take(p_.groups, 1, tile.group, one);
    take(p_.n, images_, tile.n, tile.images);
    return tile;
  }

  /// Returns true if the long row of a tile's results lies in the output without gaps.
  bool in_place() const {
    const Operand& y = p_.y;
    if (y.step[2] != p_.size && p_.out[2] > 1) return false;
    return rows_ == 1 || (columns_ == p_.out[2] && pitch() == columns_ && y.step[1] == columns_ * p_.size);
  }

  void set_offsets(std::array<Index, panel_terms>& offsets) const {
    const Index row = pitch(), each = plane();
    std::size_t term = 0;
    for (Index c = 0; c < weights_.channels(); ++c)
      for (Index i = 0; i < p_.window[0]; ++i)
        for (Index j = 0; j < p_.window[1]; ++j)
          for (Index k = 0; k < p_.window[2]; ++k) {
            const Index down = j * p_.dilation[1], along = k * p_.dilation[2];
            const Index at =
                ((c * p_.window[0] + i) * remainders_[1] + down % p_.stride[1]) * remainders_[2] + along % p_.stride[2];
            offsets[term++] = at * each + down / p_.stride[1] * row + along / p_.stride[2];
          }
  }

  void run_tile(const Tile& tile, T* copy, T* sums, const std::array<Index, panel_terms>& offsets,
                const Finished* finished) const {
    const Index length = positions(tile.rows, tile.columns), image_sums = o_ * positions(rows_, columns_);
    for (Index c = 0; c < p_.c; c += weights_.channels()) {
      const Index channels = std::min(weights_.channels(), p_.c - c), terms = channels * volume(p_.window);
      for (Index i = 0; i < tile.images; ++i) copy_image(copy + i * image_elements(), tile, tile.n + i, c, channels);
      const T* const weights = weights_.block(tile.group, c) + tile.o * weights_.step();
      for (Index o = 0; o < tile.o_count; o += rows_at_once) {
        const Index count = std::min(rows_at_once, tile.o_count - o);
        for (Index i = 0; i < tile.images; ++i) {
          char* const y = place(tile, tile.n + i, tile.o + o);
          T* const to = in_place() ? reinterpret_cast<T*>(y) : sums + i * image_sums + o * length;
          const Index step = in_place() ? p_.y.lead[2] / p_.size : length;
          for (Index j = 0; j < length; j += products_.panel())
            products_.multiply_block(to + j, step, weights + o * weights_.step(), weights_.step(), count,
                                     copy + i * image_elements() + j, offsets.data(), terms,
                                     std::min(products_.panel(), length - j), c > 0);
          if (c + channels < p_.c) continue;
          if (!in_place()) write(tile, y, to, count);
          if (finished) report(tile, tile.n + i, tile.o + o, count, *finished);
        }
      }
    }
  }
  void report(const Tile& tile, Index n, Index o, Index count, const Finished& finished) const {
    const Index all = volume(p_.out);
    const Index first =
        ((n * p_.groups + tile.group) * p_.o + o) * all + (tile.depth * p_.out[1] + tile.row) * p_.out[2] + tile.column;
    if (tile.columns == p_.out[2]) return finished(first, count, all, tile.rows * tile.columns);
    for (Index row = 0; row < tile.rows; ++row) finished(first + row * p_.out[2], count, all, tile.columns);
  }

  char* place(const Tile& tile, Index n, Index o) const {
    const Operand& y = p_.y;
    return y.data + n * y.lead[0] + tile.group * y.lead[1] + o * y.lead[2] + tile.depth * y.step[0] +
           tile.row * y.step[1] + tile.column * y.step[2];
  }
  /// Copies results from long rows to their places.
  void write(const Tile& tile, char* y, const T* from, Index count) const {
    const Index length = positions(tile.rows, tile.columns), row = pitch();
    for (Index o = 0; o < count; ++o, y += p_.y.lead[2], from += length)
      for (Index r = 0; r < tile.rows; ++r) {
        char* const to = y + r * p_.y.step[1];
        if (p_.y.step[2] == p_.size) {
          std::memcpy(to, from + r * row, static_cast<std::size_t>(tile.columns * p_.size));
        } else {
          for (Index j = 0; j < tile.columns; ++j) *reinterpret_cast<T*>(to + j * p_.y.step[2]) = from[r * row + j];
        }
      }
  }

  /// Copies channels [c, c + channels) of the part of image n that a tile depends on, in the layout
  /// of the largest tile.
  void copy_image(T* to, const Tile& tile, Index n, Index c, Index channels) const {
    const Index each = plane();
    for (Index channel = c; channel < c + channels; ++channel)
      for (Index i = 0; i < p_.window[0]; ++i) {
        const Index depth = tile.depth * p_.stride[0] + i * p_.dilation[0] - p_.low[0];
        const char* const x =
            p_.x.data + n * p_.x.lead[0] + tile.group * p_.x.lead[1] + channel * p_.x.lead[2] + depth * p_.x.step[0];
        for (Index down = 0; down < remainders_[1]; ++down)
          for (Index along = 0; along < remainders_[2]; ++along, to += each)
            if (used_[1][static_cast<std::size_t>(down)] && used_[2][static_cast<std::size_t>(along)])
              copy_plane(to, tile, depth >= 0 && depth < p_.in[0] ? x : nullptr, down, along);
      }
  }
  void copy_plane(T* to, const Tile& tile, const char* x, Index down, Index along) const {
    const Index rows = copied(1, tile.rows), columns = copied(2, tile.columns), row = pitch();
    for (Index r = 0; r < rows; ++r, to += row) {
      const Index height = (tile.row + r) * p_.stride[1] + down - p_.low[1];
      if (!x || height < 0 || height >= p_.in[1]) std::fill(to, to + columns, T{});
      else
        copy_run(to, x + height * p_.x.step[1], p_.x.step[2], tile.column * p_.stride[2] + along - p_.low[2],
                 p_.stride[2], p_.in[2], columns);
    }
  }

  const Convolution& p_;
  const PanelProducts<T> products_;
  const PanelWeights<T>& weights_;
  Triple remainders_{};
  std::array<std::vector<bool>, 3> used_;  // the remainders that occur
  // The size of a tile. A tile of several images has all rows and columns.
  Index images_ = 1, rows_, columns_, o_;
};

template <class T>
PanelWeights<T>::PanelWeights(const Convolution& p) {
  const Index taps = volume(p.window), most = std::clamp<Index>(panel_terms / taps, 1, p.c);
  channels_ = ceil_divide(p.c, ceil_divide(p.c, most));
  const Operand& w = p.w;
  const auto adjacent = [](Index length, Index step, Index expected) { return length == 1 || step == expected; };
  const bool dense =
      adjacent(p.window[2], w.step[2], p.size) && adjacent(p.window[1], w.step[1], p.window[2] * p.size) &&
      adjacent(p.window[0], w.step[0], p.window[1] * p.window[2] * p.size) && adjacent(p.c, w.lead[2], taps * p.size);
  if (!dense || !PanelProducts<T>::reads_rows(w.lead[1] / p.size, 1)) {
    copy(p);
    return;
  }
  data_ = reinterpret_cast<const T*>(w.data);
  step_ = w.lead[1] / p.size;
  of_group_ = w.lead[0] / p.size;
  of_block_ = channels_ * taps;
}

template <class T>
void PanelWeights<T>::copy(const Convolution& p) {
  const Index blocks = ceil_divide(p.c, channels_), taps = volume(p.window);
  step_ = panel_pitch;
  of_block_ = p.o * step_;
  of_group_ = blocks * of_block_;
  copy_ = scratch<T>(static_cast<std::size_t>(p.groups * of_group_));
  data_ = copy_.get();
  const Index grain = std::max<Index>(1, cheap_grain / (channels_ * taps));
  parallel_for(p.groups * blocks * p.o, grain, [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      const Index o = row % p.o, c = row / p.o % blocks * channels_, g = row / p.o / blocks;
      const Operand& w = p.w;
      const char* from = w.data + g * w.lead[0] + o * w.lead[1] + c * w.lead[2];
      T* to = copy_.get() + row * step_;
      for (Index channel = c; channel < std::min(c + channels_, p.c); ++channel, from += w.lead[2])
        for (Index i = 0; i < p.window[0]; ++i)
          for (Index j = 0; j < p.window[1]; ++j)
            for (Index k = 0; k < p.window[2]; ++k)
              *to++ = *reinterpret_cast<const T*>(from + i * w.step[0] + j * w.step[1] + k * w.step[2]);
    }
  });
}

}  // namespace stave_cpu
