// Convolutions without the whole matrix of windows.
//
//   phases    where x is dilated, results are taken by their remainder: those of one need every so many-th element of w, and see x
//             without zeros in between. So what follows knows of no input dilation
//   rows      few channels, or wide rows: a padded copy of some rows of x stays in the second cache; a row of results is a sum of its
//             rows, weighted and moved, in registers (kernels/convolution.cpp). Integers too
//   sums      large windows, which give few results: rows of w times rows of x, moved
//   products  else: tiles of the matrix of windows are laid out in the second cache, and multiplied by BLAS
#include <stave/backends/cpu/convolution.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include <stave/backends/cpu/blas.h>
#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/matmul.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/strided.h>
#include <stave/core/effects/fiber.h>

namespace stave_cpu {

using stave::ConvolutionAttributes;
using stave::Dtype;
using stave::Shape;
using stave::Strides;
using stave::View;

namespace {

using Triple = std::array<Index, 3>;

constexpr Index paying = Index{1} << 17;  // multiplications that pay for a task of their own
constexpr Index vector_part = 48;         // bytes of a row that are worth being taken as vectors
constexpr Index first_cache = Index{1} << 14, second_cache = Index{1} << 18;  // bytes of them that one task takes

Index volume(const Triple& lengths) { return lengths[0] * lengths[1] * lengths[2]; }

/// x, w or the result: its data and steps, in bytes, along its first three axes and the spatial ones.
struct Operand {
  char* data;
  Triple lead, step;
};

/// A convolution of three spatial axes, of which the first may have length 1; x is not dilated.
struct Convolution {
  Dtype dtype;
  Index size;             // of an element
  Index n, groups, o, c;  // o and c: of each group
  Triple in, window, out, stride, dilation, low;
  Operand x, w, y;  // x [n, groups, c, in], w [groups, o, c, window], y [n, groups, o, out]
  Index terms() const { return c * volume(window); }
  Index work() const { return n * groups * o * terms() * volume(out); }
};

/// The last entries of a list, after `fill` for the axes that it does not have.
Triple spatial(std::span<const Index> all, std::size_t axes, Index fill) {
  Triple result{fill, fill, fill};
  std::copy(all.end() - static_cast<std::ptrdiff_t>(axes), all.end(), result.end() - static_cast<std::ptrdiff_t>(axes));
  return result;
}

Operand operand(const View& view, std::size_t axes, Index size) {
  Operand result{static_cast<char*>(view.data), {}, spatial(view.strides, axes, 0)};
  for (std::size_t i = 0; i < 3; ++i) result.lead[i] = view.strides[i] * size;
  for (Index& step : result.step) step *= size;
  return result;
}

Convolution convolution_of(const ConvolutionAttributes& a, const View& x, const View& w, const View& out) {
  const std::size_t axes = a.strides.size();
  const auto size = static_cast<Index>(stave::size_of(out.dtype));
  return {.dtype = out.dtype,
          .size = size,
          .n = x.shape[0],
          .groups = w.shape[0],
          .o = w.shape[1],
          .c = w.shape[2],
          .in = spatial(x.shape, axes, 1),
          .window = spatial(w.shape, axes, 1),
          .out = spatial(out.shape, axes, 1),
          .stride = spatial(a.strides, axes, 1),
          .dilation = spatial(a.dilations, axes, 1),
          .low = spatial(a.low, axes, 0),
          .x = operand(x, axes, size),
          .w = operand(w, axes, size),
          .y = operand(out, axes, size)};
}

Index ceil_divide(Index a, Index b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }
Index floor_divide(Index a, Index b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/// The places j in [0, count) for which first + j * step lies in [0, length).
struct Range {
  Index first, last;
  Range(Index first_, Index step, Index length, Index count)
      : first(std::clamp<Index>(ceil_divide(-first_, step), 0, count)),
        last(std::clamp<Index>(floor_divide(length - 1 - first_, step) + 1, first, count)) {}
};

/// dst[j] = x[first + j * step] for j < count, 0 where x, of so many elements, has none. x_step in bytes.
template <class T>
void copy_run(T* dst, const char* x, Index x_step, Index first, Index step, Index length, Index count) {
  const Range range(first, step, length, count);
  Index j = 0;
  for (; j < range.first; ++j) dst[j] = T{};
  const char* from = x + (first + j * step) * x_step;
  const Index each = step * x_step;
  if (each == static_cast<Index>(sizeof(T))) {
    std::memcpy(dst + j, from, static_cast<std::size_t>(range.last - j) * sizeof(T));
    j = range.last;
  } else {
    for (; j < range.last; ++j, from += each) dst[j] = *reinterpret_cast<const T*>(from);
  }
  for (; j < count; ++j) dst[j] = T{};
}

// ---- rows --------------------------------------------------------------------------------------------------

/// Rows of results from padded rows of x. Of x a task keeps, for some channels, the rows that some rows of results see:
/// [channels][window's depth][rows][stride's remainders][columns], so that neighbours along a row of results are neighbours here.
template <class T>
class Rows {
 public:
  explicit Rows(const Convolution& p) : p_(p) {
    const Index most = is_float(p.dtype) ? weighed_results : 1;
    blocks_ = (p.o + most - 1) / most;
    columns_ = (p.out[2] - 1) + ((p.window[2] - 1) * p.dilation[2]) / p.stride[2] + 1;
    pitch_ = columns_ * std::min(p.stride[2], (p.window[2] - 1) * p.dilation[2] + 1);
    // Sums are of some hundred terms before they meet others, as BLAS has them.
    // Of far dilated ones only the rows that a row of results sees are kept.
    sparse_ = reach(1) > 4 * p.window[1];
    const Index seen = sparse_ ? p.window[1] : reach(1), one = p.window[0] * seen * pitch_ * p.size;
    channels_ = std::clamp<Index>(std::min(512 / volume(p.window), 4 * second_cache / one), 1, p.c);
    const Index plane = channels_ * p.window[0] * pitch_ * p_.size;
    const Index fit = sparse_ ? 1 : (second_cache / plane - seen) / p.stride[1];
    rows_ = std::clamp<Index>(fit, 1, p.out[1]);
    while (rows_ > 1 && tasks() < 4 * thread_count() && p.work() / tasks() > 2 * paying) rows_ = (rows_ + 1) / 2;
    held_ = (rows_ - 1) * p.stride[1] + seen;
    pack_weights();
  }

  void run() const {
    const Index each = std::max<Index>(1, p_.work() / tasks());
    parallel_for(tasks(), std::max<Index>(1, paying / each), [&](Index first, Index last) {
      const auto room = static_cast<std::size_t>(channels_ * p_.window[0] * held_ * pitch_) + 2 * widest_vector;
      const auto rows = std::make_unique_for_overwrite<T[]>(room);
      std::fill(rows.get() + room - 2 * widest_vector, rows.get() + room, T{});
      const std::unique_ptr<T[]> sums =
          in_place() ? nullptr
                     : std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(p_.o * rows_ * p_.out[2]));
      std::vector<Index> offsets(static_cast<std::size_t>(channels_ * volume(p_.window)));
      for (Index task = first; task < last; ++task) band(task, rows.get(), sums.get(), offsets.data());
    });
  }

 private:
  /// From the first element that a window sees to the last one.
  Index reach(std::size_t axis) const { return (p_.window[axis] - 1) * p_.dilation[axis] + 1; }
  Index bands() const { return (p_.out[1] + rows_ - 1) / rows_; }
  Index tasks() const { return p_.n * p_.groups * p_.out[0] * bands(); }
  bool in_place() const { return p_.y.step[2] == p_.size || p_.out[2] == 1; }
  Index block_first(Index block) const { return block * p_.o / blocks_; }

  /// [groups][blocks of channels][blocks of results][taps][results]
  void pack_weights() {
    weights_ = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(p_.groups * p_.o * p_.terms()));
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

  /// All results o of some rows.
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
    const Index held = sparse_ ? held_ : (count - 1) * p_.stride[1] + reach(1);
    for (Index c = 0; c < channels; ++c)
      for (Index i = 0; i < p_.window[0]; ++i) {
        const Index at = depth * p_.stride[0] + i * p_.dilation[0] - p_.low[0];
        const char* plane = x + c * p_.x.lead[2] + at * p_.x.step[0];
        T* row = to + (c * p_.window[0] + i) * held_ * pitch_;
        for (Index h = 0; h < held; ++h, row += pitch_) {
          const Index height = q * p_.stride[1] + h * (sparse_ ? p_.dilation[1] : 1) - p_.low[1];
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
            to[taps++] = ((c * p_.window[0] + i) * held_ + j * (sparse_ ? 1 : p_.dilation[1])) * pitch_ +
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
    // What is larger goes through the first cache once.
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
  bool sparse_;
  std::unique_ptr<T[]> weights_;
};

// ---- sums --------------------------------------------------------------------------------------------------

/// Few places and a large window, as in cotangents of weights: each result is a sum over rows of w, times rows of x that are moved
/// to where the result stands. Of x a task keeps padded rows as Rows does, of remainders by the dilation. A block of images and
/// results is one task, or shared by so many strands, each for some channels; the strands' number comes from the shapes alone.
template <class T>
class Sums {
 public:
  explicit Sums(const Convolution& p) : p_(p) {
    images_ = std::min<Index>(8, p.n);
    results_ = std::min<Index>(64, p.o);
    blocks_ = p.groups * ceil_divide(p.n, images_) * ceil_divide(p.o, results_);
    strands_ = std::clamp<Index>(16 / blocks_, 1, p.c);
    columns_ = (p.window[2] - 1) + ((p.out[2] - 1) * p.stride[2]) / p.dilation[2] + 1;
    pitch_ = columns_ * std::min(p.dilation[2], (p.out[2] - 1) * p.stride[2] + 1);
    rows_ = std::clamp<Index>(first_cache / (multiplied_results * p.window[2] * p.size), 1, p.window[1]);
    held_ = (rows_ - 1) * p.dilation[1] + (p.out[1] - 1) * p.stride[1] + 1;
    pack_weights();
  }

  void run() const {
    const Index tasks = blocks_ * strands_, places = volume(p_.out);
    const auto sums_of_one = static_cast<std::size_t>(images_ * results_ * places);
    const auto sums = std::make_unique<double[]>(static_cast<std::size_t>(tasks) * sums_of_one);
    const Index each = std::max<Index>(1, p_.work() / tasks);
    parallel_for(tasks, std::max<Index>(1, paying / each), [&](Index first, Index last) {
      const auto rows = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(images_ * held_ * pitch_));
      const auto lanes = std::make_unique_for_overwrite<double[]>(sums_of_one * sum_lanes);
      for (Index task = first; task < last; ++task) {
        const Block block(*this, task / strands_);
        std::fill(lanes.get(), lanes.get() + sums_of_one * sum_lanes, 0.0);
        add(block, task % strands_, rows.get(), lanes.get());
        add_lanes(block, lanes.get(), sums.get() + static_cast<std::size_t>(task) * sums_of_one);
      }
    });
    for (Index block = 0; block < blocks_; ++block)
      write(Block(*this, block), sums.get() + static_cast<std::size_t>(block * strands_) * sums_of_one, sums_of_one);
  }

 private:
  struct Block {
    Index group, n, images, o, results;
    Block(const Sums& s, Index block) {
      const Convolution& p = s.p_;
      const Index down = ceil_divide(p.o, s.results_), across = ceil_divide(p.n, s.images_);
      o = block % down * s.results_;
      n = block / down % across * s.images_;
      group = block / down / across;
      images = std::min(s.images_, p.n - n);
      results = std::min(s.results_, p.o - o);
    }
  };

  /// Rows of w that are dense.
  void pack_weights() {
    w_ = p_.w;
    if (w_.step[2] == p_.size) return;
    const Shape shape{p_.groups, p_.o, p_.c, p_.window[0], p_.window[1], p_.window[2]};
    Strides strides{w_.lead[0], w_.lead[1], w_.lead[2], w_.step[0], w_.step[1], w_.step[2]};
    for (Index& stride : strides) stride /= p_.size;
    const Strides dense = stave::contiguous_strides(shape);
    packed_ = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(shape.elements()));
    w_.data = reinterpret_cast<char*>(packed_.get());
    copy_strided({w_.data, dense}, {p_.w.data, strides}, shape, p_.size);
    for (std::size_t i = 0; i < 3; ++i) {
      w_.lead[i] = dense[i] * p_.size;
      w_.step[i] = dense[i + 3] * p_.size;
    }
  }

  /// Channels of one strand.
  void add(const Block& block, Index strand, T* rows, double* lanes) const {
    for (Index c = strand * p_.c / strands_; c < (strand + 1) * p_.c / strands_; ++c)
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
  /// Some rows of the window, for all images and results and the places of one depth, from `place` on. A few rows of w stay in the
  /// first cache meanwhile. The sums' parts are in the order in which they are made:
  /// [images][results by multiplied_results][places by multiplied_taps][result][place][sum_lanes].
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
  /// sums, [images, results, places], from their parts.
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
  /// Adds the strands' sums to those of the first.
  void write(const Block& block, double* sums, std::size_t apart) const {
    for (Index strand = 1; strand < strands_; ++strand)
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
  Index images_, results_, blocks_, strands_;
  Index columns_, pitch_, rows_, held_;
  Operand w_;
  std::unique_ptr<T[]> packed_;
};

// ---- products ----------------------------------------------------------------------------------------------

/// For each group, out [o, (n, places)] = w [o, (c, window)] times the matrix of windows, in tiles of some columns; sums that are
/// long are taken in pieces, which are added in double. Where there are few tiles, so many strands share the pieces of each:
/// their number, like all that decides what is added to what, comes from the shapes alone.
template <class T>
class Products {
 public:
  explicit Products(const Convolution& p) : p_(p), terms_(p.terms()), places_(volume(p.out)) {
    piece_ = std::min<Index>(terms_, 1024);
    const Index fit = std::clamp<Index>(second_cache * 2 / (piece_ * p.size), 32, 1024);
    images_ = std::clamp<Index>(fit / std::max<Index>(places_, 1), 1, p.n);
    tiles_ = (places_ + fit - 1) / fit;
    pieces_ = (terms_ + piece_ - 1) / piece_;
    strands_ = std::clamp<Index>(16 / (p.groups * tiles()), 1, pieces_);
    pack_weights();
  }

  void run() const {
    std::vector<std::unique_ptr<double[]>> sums(
        static_cast<std::size_t>(strands_ > 1 ? p_.groups * tiles() * strands_ : 0));
    const Index tasks = p_.groups * tiles() * strands_;
    SingleThreadedBlas guard;
    stave_detail::on_thread_stack([&] {  // how much stack BLAS takes is its own affair
      const Index each = std::max<Index>(1, p_.work() / tasks);
      parallel_for(tasks, std::max<Index>(1, paying / each), [&](Index first, Index last) {
        Buffers buffers(*this);
        for (Index task = first; task < last; ++task) {
          const Tile tile(*this, task / strands_);
          if (pieces_ == 1) multiply_once(tile, buffers);
          else if (strands_ == 1) write(tile, add_pieces(tile, 0, pieces_, buffers).get());
          else
            sums[static_cast<std::size_t>(task)] = add_pieces(tile, task % strands_ * pieces_ / strands_,
                                                              (task % strands_ + 1) * pieces_ / strands_, buffers);
        }
      });
    });
    for (Index tile = 0; tile * strands_ < static_cast<Index>(sums.size()); ++tile) {
      double* first = sums[static_cast<std::size_t>(tile * strands_)].get();
      const Tile at(*this, tile);
      for (Index s = 1; s < strands_; ++s)
        for (Index i = 0; i < p_.o * at.columns; ++i)
          first[i] += sums[static_cast<std::size_t>(tile * strands_ + s)][static_cast<std::size_t>(i)];
      write(at, first);
    }
  }

 private:
  /// A part of a row of results: `count` places from (n; at) on, which are columns `column`, ... of a tile.
  struct Run {
    Index n, column, count;
    Triple at;
  };
  /// Some images whole, or some places of one.
  struct Tile {
    Index group, n, columns;
    bool one_image;
    std::vector<Run> runs;
    Tile(const Products& products, Index tile) {
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
    std::unique_ptr<T[]> panel, product;
    explicit Buffers(const Products& p) {
      const Index columns = p.images_ * ((p.places_ + p.tiles_ - 1) / p.tiles_);
      panel = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(p.piece_ * columns));
      product = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(p.p_.o * columns));
    }
  };

  Index image_blocks() const { return (p_.n + images_ - 1) / images_; }
  Index tiles() const { return tiles_ * image_blocks(); }

  /// w as a matrix for each group, [o, terms].
  void pack_weights() {
    const Operand& w = p_.w;
    Shape shape{p_.groups, p_.o, p_.c, p_.window[0], p_.window[1], p_.window[2]};
    Strides strides{w.lead[0], w.lead[1], w.lead[2], w.step[0], w.step[1], w.step[2]};
    for (Index& stride : strides) stride /= p_.size;
    weights_ = reinterpret_cast<const T*>(w.data);
    if (is_contiguous(shape, strides)) return;
    packed_ = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(shape.elements()));
    const Strides dense = stave::contiguous_strides(shape);
    copy_strided({reinterpret_cast<char*>(packed_.get()), dense}, {w.data, strides}, shape, p_.size);
    weights_ = packed_.get();
  }

  Matrix weights(Index group, Index first, Index count) const {
    return {reinterpret_cast<const char*>(weights_ + group * p_.o * terms_ + first), p_.o, count, terms_, 1};
  }

  /// Whether columns follow one another in the result as they do in a tile.
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
  std::unique_ptr<double[]> add_pieces(const Tile& tile, Index first, Index last, Buffers& buffers) const {
    const auto count = static_cast<std::size_t>(p_.o * tile.columns);
    auto sums = std::make_unique<double[]>(count);
    for (Index piece = first; piece < last; ++piece) {
      const Index from = piece * piece_;
      multiply(buffers.product.get(), tile.columns, tile, from, std::min(piece_, terms_ - from), buffers);
      for (std::size_t i = 0; i < count; ++i) sums[i] += static_cast<double>(buffers.product[i]);
    }
    return sums;
  }
  /// Terms [first, first + count) of a tile's columns.
  void multiply(T* out, Index out_step, const Tile& tile, Index first, Index count, Buffers& buffers) const {
    T* panel = buffers.panel.get();
    const bool along_window = p_.window[2] > p_.out[2];
    Matrix windows{reinterpret_cast<const char*>(panel), count, tile.columns, tile.columns, 1};
    if (along_window) {
      lay_columns(panel, tile, first, count);
      windows.row_step = 1;
      windows.column_step = count;
    } else {
      lay_rows(panel, tile, first, count);
    }
    multiply_floats(out, out_step, weights(tile.group, first, count), windows);
  }

  /// What term `term` is: its channel, and its place in the window.
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
  /// The row of x that a window sees at (at, k) along the first two axes; null: padding.
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

  /// panel[term, column]: runs of places.
  void lay_rows(T* panel, const Tile& tile, Index first, Index count) const {
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
  /// panel[column, term]: runs of the window.
  void lay_columns(T* panel, const Tile& tile, Index first, Index count) const {
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
  Index piece_, pieces_;  // terms that one product sums, and how many such
  Index images_, tiles_;  // a tile: so many images, or one of so many parts of an image
  Index strands_;
  std::unique_ptr<T[]> packed_;
  const T* weights_;
};

// ---- choosing ----------------------------------------------------------------------------------------------

template <class T>
void run_one(const Convolution& p) {
  if constexpr (std::is_floating_point_v<T>) {
    const auto fills = [&](Index row) { return row * p.size >= vector_part; };
    if (p.window[2] > p.out[2]) {
      const bool few =
          p.o <= 4 * volume(p.out);  // what is laid out for a product is a copy for each place, for all results
      const bool near = (p.out[1] - 1) * p.stride[1] <= 64 && (p.out[2] - 1) * p.stride[2] <= 64;
      return few && near && fills(p.window[2]) ? Sums<T>(p).run() : Products<T>(p).run();
    }
    if ((!fills(p.out[2]) && p.o * p.c > 1) || p.terms() > 4096) return Products<T>(p).run();
  }
  Rows<T>(p).run();
}

void run_phase(const Convolution& p) {
  stave::visit_dtype(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!stave::is_half<T> && !std::is_same_v<T, bool>) run_one<T>(p);
  });
}

/// The results whose place along `axis` leaves the same remainder, and the part of w that meets x there. With s, d and e the stride,
/// dilation and input dilation: place r + j e / gcd(s, e) and window's element k + t e / gcd(d, e) meet element
/// (r s + k d - low) / e + j s / gcd(s, e) + t d / gcd(d, e) of x, where k is the first one for which that is whole.
/// False: there is none, and the sums are empty.
bool take_phase(Convolution& p, std::size_t axis, Index apart, Index r) {
  const Index results = apart / std::gcd(p.stride[axis], apart), taps = apart / std::gcd(p.dilation[axis], apart);
  Index k = 0;
  const auto at = [&] { return r * p.stride[axis] + k * p.dilation[axis] - p.low[axis]; };
  while (k < taps && at() % apart != 0) ++k;
  p.y.data += r * p.y.step[axis];
  p.y.step[axis] *= results;
  p.out[axis] = (p.out[axis] - r + results - 1) / results;
  if (k >= std::min(taps, p.window[axis])) return false;
  p.low[axis] = -(at() / apart);
  p.w.data += k * p.w.step[axis];
  p.w.step[axis] *= taps;
  p.window[axis] = (p.window[axis] - k + taps - 1) / taps;
  p.stride[axis] = p.stride[axis] * results / apart;
  p.dilation[axis] = p.dilation[axis] * taps / apart;
  return true;
}

/// All phases along `axis` and those after it. What no phase fills is zero already.
void run_phases(const Convolution& p, const Triple& apart, std::size_t axis) {
  if (axis == 3) return run_phase(p);
  const Index phases = std::min(apart[axis] / std::gcd(p.stride[axis], apart[axis]), p.out[axis]);
  for (Index r = 0; r < phases; ++r) {
    Convolution phase = p;
    if (take_phase(phase, axis, apart[axis], r)) run_phases(phase, apart, axis + 1);
  }
}

/// A window of one element in its place: the product of matrices [o, c] and [c, places]. False: it is none, or x does not lie so.
bool run_as_product(const Convolution& p, const View& out) {
  const Operand &x = p.x, &w = p.w;
  if (volume(p.window) != 1 || p.stride != Triple{1, 1, 1} || p.low != Triple{} || p.in != p.out) return false;
  Index each = 0, step = 0;  // of the places that are merged so far: how many, and how far apart
  for (std::size_t axis = 3; axis-- > 0;) {
    if (p.in[axis] == 1) continue;
    if (each == 0) step = x.step[axis], each = p.in[axis];
    else if (x.step[axis] == step * each) each *= p.in[axis];
    else return false;
  }
  const Index places = volume(p.out);
  const Index a_shape[] = {p.n, p.groups, p.o, p.c}, b_shape[] = {p.n, p.groups, p.c, places},
              y_shape[] = {p.n, p.groups, p.o, places};
  const Index a_strides[] = {0, w.lead[0] / p.size, w.lead[1] / p.size, w.lead[2] / p.size};
  const Index b_strides[] = {x.lead[0] / p.size, x.lead[1] / p.size, x.lead[2] / p.size, step / p.size};
  const Strides y_strides = stave::contiguous_strides(Shape(std::span(y_shape)));
  run_matmul({w.data, p.dtype, a_shape, a_strides}, {x.data, p.dtype, b_shape, b_strides},
             {out.data, p.dtype, y_shape, y_strides});
  return true;
}

}  // namespace

void run_convolution(const ConvolutionAttributes& attributes, const View& x, const View& w, const View& out) {
  const Convolution p = convolution_of(attributes, x, w, out);
  const Index elements = element_count(out.shape);
  if (elements == 0) return;
  const Triple apart = spatial(attributes.input_dilations, attributes.strides.size(), 1);
  const bool empty = p.c == 0 || volume(p.in) == 0;
  if (empty || apart != Triple{1, 1, 1}) std::memset(out.data, 0, static_cast<std::size_t>(elements * p.size));
  if (empty) return;
  if (apart != Triple{1, 1, 1}) return run_phases(p, apart, 0);
  if (!run_as_product(p, out)) run_phase(p);
}

}  // namespace stave_cpu
