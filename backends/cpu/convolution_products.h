// Convolutions as matrix products: tiles of the im2col matrix are built in a buffer and multiplied
// by BLAS. The im2col matrix has one column for each place (position of the result), with the
// elements of x in its window.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include <stave/backends/cpu/blas.h>
#include <stave/backends/cpu/convolution_shape.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/scratch.h>
#include <stave/backends/cpu/strided.h>
#include <stave/core/effects/fiber.h>

namespace stave_cpu {

/// Computes out [o, (n, places)] = w [o, (c, window)] times the im2col matrix, for each group, in
/// tiles of some columns. Long sums are computed in pieces, which are added in double. If there are
/// few tiles, several tasks share the pieces of each tile; these tasks are called the strands of
/// the tile. The number of strands and the order of summation depend on the shapes alone.
template <class T>
class ConvolutionProducts {
 public:
  explicit ConvolutionProducts(const Convolution& p) : p_(p), terms_(p.terms()), places_(volume(p.out)) {
    piece_ = std::min<Index>(terms_, 1024);
    const Index fit = std::clamp<Index>(second_cache * 2 / (piece_ * p.size), 32, 1024);
    images_ = std::clamp<Index>(fit / std::max<Index>(places_, 1), 1, p.n);
    tiles_ = (places_ + fit - 1) / fit;
    pieces_ = (terms_ + piece_ - 1) / piece_;
    tasks_per_tile_ = std::clamp<Index>(16 / (p.groups * tiles()), 1, pieces_);
    pack_weights();
  }

  void run() const {
    std::vector<Scratch<double>> sums(
        static_cast<std::size_t>(tasks_per_tile_ > 1 ? p_.groups * tiles() * tasks_per_tile_ : 0));
    const Index tasks = p_.groups * tiles() * tasks_per_tile_;
    SingleThreadedBlas guard;
    stave_detail::on_thread_stack([&] {  // BLAS may need more stack than a fiber has.
      const Index each = std::max<Index>(1, p_.work() / tasks);
      parallel_for(tasks, std::max<Index>(1, least_work / each), [&](Index first, Index last) {
        Buffers buffers(*this);
        for (Index task = first; task < last; ++task) {
          const Tile tile(*this, task / tasks_per_tile_);
          if (pieces_ == 1) multiply_once(tile, buffers);
          else if (tasks_per_tile_ == 1) write(tile, add_pieces(tile, 0, pieces_, buffers).get());
          else
            sums[static_cast<std::size_t>(task)] =
                add_pieces(tile, task % tasks_per_tile_ * pieces_ / tasks_per_tile_,
                           (task % tasks_per_tile_ + 1) * pieces_ / tasks_per_tile_, buffers);
        }
      });
    });
    for (Index tile = 0; tile * tasks_per_tile_ < static_cast<Index>(sums.size()); ++tile) {
      double* first = sums[static_cast<std::size_t>(tile * tasks_per_tile_)].get();
      const Tile at(*this, tile);
      for (Index s = 1; s < tasks_per_tile_; ++s)
        for (Index i = 0; i < p_.o * at.columns; ++i)
          first[i] += sums[static_cast<std::size_t>(tile * tasks_per_tile_ + s)][static_cast<std::size_t>(i)];
      write(at, first);
    }
  }

 private:
  /// A part of a row of results: `count` places from position `at` of image n on. They are columns
  /// `column`, `column` + 1, ... of a tile.
  struct Run {
    Index n, column, count;
    Triple at;
  };
  /// A tile of columns of the im2col matrix: all places of some images, or some places of one
  /// image.
  struct Tile {
    Index group, n, columns;
    bool one_image;
    std::vector<Run> runs;
    Tile(const ConvolutionProducts& products, Index tile) {
      const Convolution& p = products.p_;
      const Index part = tile % products.tiles_, image = tile / products.tiles_ % products.image_blocks();
      group = tile / products.tiles_ / products.image_blocks();
      n = image * products.images_;
      const Index images = std::min(products.images_, p.n - n);
      one_image = images == 1;
      const Index first = part * products.places_ / products.tiles_,
                  last = (part + 1) * products.places_ / products.tiles_;
      columns = 0;
      for (Index i = 0; i < images; ++i)
        for (Index place = first; place < last;) {
          const Triple at{place / p.out[2] / p.out[1], place / p.out[2] % p.out[1], place % p.out[2]};
          const Index count = std::min(last - place, p.out[2] - at[2]);
          runs.push_back({n + i, columns, count, at});
          columns += count;
          place += count;
        }
    }
  };
  struct Buffers {
    Scratch<T> panel, product;
    explicit Buffers(const ConvolutionProducts& p) {
      const Index columns = p.images_ * ((p.places_ + p.tiles_ - 1) / p.tiles_);
      panel = scratch<T>(static_cast<std::size_t>(p.piece_ * columns));
      product = scratch<T>(static_cast<std::size_t>(p.p_.o * columns));
    }
  };

  Index image_blocks() const { return (p_.n + images_ - 1) / images_; }
  Index tiles() const { return tiles_ * image_blocks(); }

  /// Copies w to a matrix [o, terms] for each group, or uses it in place if it has this layout.
  void pack_weights() {
    const Operand& w = p_.w;
    stave::Shape shape{p_.groups, p_.o, p_.c, p_.window[0], p_.window[1], p_.window[2]};
    stave::Strides strides{w.lead[0], w.lead[1], w.lead[2], w.step[0], w.step[1], w.step[2]};
    for (Index& stride : strides) stride /= p_.size;
    weights_ = reinterpret_cast<const T*>(w.data);
    if (is_contiguous(shape, strides)) return;
    packed_ = scratch<T>(static_cast<std::size_t>(shape.elements()));
    const stave::Strides dense = stave::contiguous_strides(shape);
    copy_strided({reinterpret_cast<char*>(packed_.get()), dense}, {w.data, strides}, shape, p_.size);
    weights_ = packed_.get();
  }

  Matrix weights(Index group, Index first, Index count) const {
    return {reinterpret_cast<const char*>(weights_ + group * p_.o * terms_ + first), p_.o, count, terms_, 1};
  }

  /// Returns true if the columns of a tile are also contiguous in the result.
  bool in_place(const Tile& tile) const {
    return tile.one_image && p_.y.step[2] == p_.size && (p_.out[1] == 1 || p_.y.step[1] == p_.out[2] * p_.size) &&
           (p_.out[0] == 1 || p_.y.step[0] == p_.out[1] * p_.out[2] * p_.size) &&
           p_.y.lead[2] / p_.size <= std::numeric_limits<int>::max();
  }
  char* place(const Run& run, Index group) const {
    const Operand& y = p_.y;
    return y.data + run.n * y.lead[0] + group * y.lead[1] + run.at[0] * y.step[0] + run.at[1] * y.step[1] +
           run.at[2] * y.step[2];
  }
  template <class From>
  void write(const Tile& tile, const From* from) const {
    for (Index o = 0; o < p_.o; ++o)
      for (const Run& run : tile.runs) {
        char* to = place(run, tile.group) + o * p_.y.lead[2];
        for (Index j = 0; j < run.count; ++j, to += p_.y.step[2])
          *reinterpret_cast<T*>(to) = static_cast<T>(from[o * tile.columns + run.column + j]);
      }
  }

  void multiply_once(const Tile& tile, Buffers& buffers) const {
    if (in_place(tile))
      return multiply(reinterpret_cast<T*>(place(tile.runs[0], tile.group)), p_.y.lead[2] / p_.size, tile, 0, terms_,
                      buffers);
    multiply(buffers.product.get(), tile.columns, tile, 0, terms_, buffers);
    write(tile, buffers.product.get());
  }
  Scratch<double> add_pieces(const Tile& tile, Index first, Index last, Buffers& buffers) const {
    const auto count = static_cast<std::size_t>(p_.o * tile.columns);
    auto sums = scratch<double>(count);
    std::fill_n(sums.get(), count, 0.0);
    for (Index piece = first; piece < last; ++piece) {
      const Index from = piece * piece_;
      multiply(buffers.product.get(), tile.columns, tile, from, std::min(piece_, terms_ - from), buffers);
      for (std::size_t i = 0; i < count; ++i) sums[i] += static_cast<double>(buffers.product[i]);
    }
    return sums;
  }
  /// Multiplies the weights of terms [first, first + count) by these terms of a tile's columns.
  void multiply(T* out, Index out_step, const Tile& tile, Index first, Index count, Buffers& buffers) const {
    T* panel = buffers.panel.get();
    const bool along_window = p_.window[2] > p_.out[2];
    Matrix windows{reinterpret_cast<const char*>(panel), count, tile.columns, tile.columns, 1};
    if (along_window) {
      im2col_columns(panel, tile, first, count);
      windows.row_step = 1;
      windows.column_step = count;
    } else {
      im2col_rows(panel, tile, first, count);
    }
    multiply_floats(out, out_step, weights(tile.group, first, count), windows);
  }

  /// A term of the sums: its channel and its position in the window. It is a row of the im2col
  /// matrix.
  struct Term {
    Index c;
    Triple k;
  };
  Term term_at(Index term) const {
    const Triple& k = p_.window;
    return {term / volume(k), {term / k[2] / k[1] % k[0], term / k[2] % k[1], term % k[2]}};
  }
  void next(Term& term) const {
    for (std::size_t axis = 3; axis-- > 0; term.k[axis] = 0)
      if (++term.k[axis] < p_.window[axis]) return;
    ++term.c;
  }
  /// Returns the row of x that holds a term of the result whose first two spatial coordinates are
  /// those of `at`. Returns null if that row is padding.
  const char* row_of(Index n, Index group, const Triple& at, const Term& term) const {
    const Operand& x = p_.x;
    const char* row = x.data + n * x.lead[0] + group * x.lead[1] + term.c * x.lead[2];
    for (std::size_t axis = 0; axis < 2; ++axis) {
      const Index i = at[axis] * p_.stride[axis] + term.k[axis] * p_.dilation[axis] - p_.low[axis];
      if (i < 0 || i >= p_.in[axis]) return nullptr;
      row += i * x.step[axis];
    }
    return row;
  }

  /// Fills panel[term, column], a part of the im2col matrix, in runs of places.
  void im2col_rows(T* panel, const Tile& tile, Index first, Index count) const {
    Term term = term_at(first);
    for (Index i = 0; i < count; ++i, next(term))
      for (const Run& run : tile.runs) {
        T* to = panel + i * tile.columns + run.column;
        const Index start = run.at[2] * p_.stride[2] + term.k[2] * p_.dilation[2] - p_.low[2];
        if (const char* row = row_of(run.n, tile.group, run.at, term))
          copy_run(to, row, p_.x.step[2], start, p_.stride[2], p_.in[2], run.count);
        else std::fill(to, to + run.count, T{});
      }
  }
  /// Fills panel[column, term], the transpose of a part of the im2col matrix, in runs along the
  /// window.
  void im2col_columns(T* panel, const Tile& tile, Index first, Index count) const {
    for (const Run& run : tile.runs) {
      Term term = term_at(first);
      for (Index i = 0; i < count;) {
        const Index length = std::min(p_.window[2] - term.k[2], count - i);
        T* to = panel + run.column * count + i;
        const char* row = row_of(run.n, tile.group, run.at, term);
        for (Index j = 0; j < run.count; ++j, to += count) {
          const Index start = (run.at[2] + j) * p_.stride[2] + term.k[2] * p_.dilation[2] - p_.low[2];
          if (row) copy_run(to, row, p_.x.step[2], start, p_.dilation[2], p_.in[2], length);
          else std::fill(to, to + length, T{});
        }
        i += length;
        term.k[2] = p_.window[2] - 1;
        next(term);
      }
    }
  }

  const Convolution& p_;
  Index terms_, places_;
  // The number of terms of a piece, and the number of pieces of a sum.
  Index piece_, pieces_;
  Index images_, tiles_;  // A tile is `images_` whole images, or one of `tiles_` parts of an image.
  Index tasks_per_tile_;
  Scratch<T> packed_;
  const T* weights_;
};

}  // namespace stave_cpu
