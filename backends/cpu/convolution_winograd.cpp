#include <stave/backends/cpu/convolution_winograd.h>

#include <algorithm>
#include <array>
#include <vector>

#include <stave/backends/cpu/convolution_shape.h>
#include <stave/backends/cpu/panel_products.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

namespace {

constexpr Index matrices = 16;

/// Returns at least `elements`, as an odd number of cache lines: rows with such a distance do not
/// compete for lines of a cache.
Index spread(Index elements) {
  constexpr Index line = 16;
  return (ceil_divide(elements, line) | 1) * line;
}

/// The loops of one convolution. Threads share strips: whole rows of tiles of an image, or several
/// images. A strip's tiles are processed in blocks, whose matrices V and U V stay in the L2 cache:
///   V    [16][channels][tiles]
///   U V  [16][some result channels][tiles]
class ConvolutionWinograd {
 public:
  ConvolutionWinograd(const Convolution& p, const PanelProduct& kernel, const WinogradWeights& weights)
      : p_(p), transforms_(kernels().winograd), products_(kernel, p.o), weights_(weights),
        down_(ceil_divide(p.out[1], 2)), along_(ceil_divide(p.out[2], 2)), rows_(down_) {
    choose_strips();
    choose_blocks();
  }

  void run(const Finished* finished) const {
    const Index each = std::max<Index>(1, p_.work() / strips());
    parallel_for(strips(), std::max<Index>(1, least_work / each), [&](Index first, Index last) {
      const auto v = scratch<float>(static_cast<std::size_t>(matrices * v_step_ + products_.panel()));
      const auto sums = scratch<float>(static_cast<std::size_t>(matrices * sums_step_ + products_.panel()));
      std::array<Index, panel_terms> offsets;
      for (Index i = 0; i < terms_of_block(p_.c); ++i) offsets[static_cast<std::size_t>(i)] = i * row_;
      std::vector<Piece> pieces;
      for (Index i = first; i < last; ++i) {
        const Strip strip = strip_of(i);
        const Index all = strip.images * strip.rows * along_, count = ceil_divide(all, tiles_);
        for (Index block = 0, tile = 0; block < count; ++block) {
          const Index end =
              block + 1 == count ? all : std::min(all, ceil_divide(all * (block + 1) / count, unit) * unit);
          find_pieces(strip, tile, end, pieces);
          transform(strip.group, pieces, v.get());
          multiply(strip.group, pieces, end - tile, v.get(), sums.get(), offsets);
          tile = end;
        }
        if (finished) report(strip, *finished);
      }
    });
  }

 private:
  // Bytes of the results of a strip, and of the matrices V and U V of a block. Half of the last two
  // and twice as many take the same time (measured).
  static constexpr Index strip_bytes = Index{1} << 19, v_bytes = Index{1} << 19, sums_bytes = Index{1} << 17;
  // Tiles of a block are a multiple of this number, if possible: of half a panel.
  static constexpr Index unit = 16, most_tiles = 112;

  /// Rows [row, row + rows) of tiles of some images.
  struct Strip {
    Index group, image, images, row, rows;
  };
  /// Adjacent tiles of a row. Their elements of V and U V begin at index `at`.
  struct Piece {
    Index image, row, column, count, at;
  };

  Index strips() const { return p_.groups * ceil_divide(p_.n, images_) * ceil_divide(down_, rows_); }
  Strip strip_of(Index i) const {
    const Index bands = ceil_divide(down_, rows_), stacks = ceil_divide(p_.n, images_);
    const Index row = i % bands * rows_, image = i / bands % stacks * images_;
    return {i / bands / stacks, image, std::min(images_, p_.n - image), row, std::min(rows_, down_ - row)};
  }

  /// Results do not depend on the division into strips.
  void choose_strips() {
    images_ = p_.n;
    const auto halve = [&] {
      Index& length = images_ > 1 ? images_ : rows_;
      if (length == 1) return false;
      length = (length + 1) / 2;
      return true;
    };
    while (images_ * rows_ * along_ * 4 * p_.o * p_.size > strip_bytes && halve()) {
    }
    while (has_few_tasks(p_, strips()) && halve()) {
    }
  }
  void choose_blocks() {
    tiles_ = std::clamp<Index>(v_bytes / (matrices * p_.c * p_.size) / unit * unit, products_.panel(), most_tiles);
    o_ = std::clamp<Index>(sums_bytes / (matrices * tiles_ * p_.size), 1, p_.o);
    o_ = ceil_divide(p_.o, ceil_divide(p_.o, o_));
    row_ = spread(tiles_ + 2 * unit);
    v_step_ = spread(p_.c * row_);
    sums_step_ = spread(o_ * row_);
  }

  void find_pieces(const Strip& strip, Index tile, Index end, std::vector<Piece>& pieces) const {
    pieces.clear();
    for (Index at = 0; tile < end;) {
      const Index row = tile / along_, column = tile % along_, count = std::min(along_ - column, end - tile);
      pieces.push_back({strip.image + row / strip.rows, strip.row + row % strip.rows, column, count, at});
      at += count;
      tile += count;
    }
  }

  void transform(Index group, const std::vector<Piece>& pieces, float* v) const {
    const Operand& x = p_.x;
    for (Index c = 0; c < p_.c; ++c, v += row_)
      for (const Piece& piece : pieces) {
        const char* const plane = x.data + piece.image * x.lead[0] + group * x.lead[1] + c * x.lead[2];
        const float* rows[4];
        for (Index i = 0; i < 4; ++i) {
          const Index row = 2 * piece.row + i - p_.low[1];
          const bool inside = row >= 0 && row < p_.in[1];
          rows[i] = inside ? reinterpret_cast<const float*>(plane + row * x.step[1]) : nullptr;
        }
        transforms_.input(v + piece.at, v_step_, rows, 2 * piece.column - p_.low[2], p_.in[2], piece.count);
      }
  }

  void multiply(Index group, const std::vector<Piece>& pieces, Index tiles, const float* v, float* sums,
                const std::array<Index, panel_terms>& offsets) const {
    const Index each = terms_of_block(p_.c);
    for (Index o = 0; o < p_.o; o += o_) {
      const Index count = std::min(o_, p_.o - o);
      for (Index k = 0; k < matrices; ++k)
        for (Index c = 0; c < p_.c; c += each)
          for (Index j = 0; j < tiles; j += products_.panel())
            products_.multiply_block(sums + k * sums_step_ + j, row_, weights_.rows(group, k, c / each, o),
                                     weights_.step(), count, v + k * v_step_ + c * row_ + j, offsets.data(),
                                     std::min(each, p_.c - c), std::min(products_.panel(), tiles - j), c > 0);
      for (Index i = 0; i < count; ++i)
        for (const Piece& piece : pieces) write(group, o + i, piece, sums + i * row_ + piece.at);
    }
  }
  void write(Index group, Index o, const Piece& piece, const float* sums) const {
    const Operand& y = p_.y;
    const Index row = 2 * piece.row, column = 2 * piece.column;
    char* const to =
        y.data + piece.image * y.lead[0] + group * y.lead[1] + o * y.lead[2] + row * y.step[1] + column * y.step[2];
    char* const below = row + 1 < p_.out[1] ? to + y.step[1] : nullptr;
    transforms_.output(reinterpret_cast<float*>(to), reinterpret_cast<float*>(below),
                       std::min(2 * piece.count, p_.out[2] - column), sums, sums_step_);
  }

  void report(const Strip& strip, const Finished& finished) const {
    const Index all = p_.out[1] * p_.out[2], row = 2 * strip.row, rows = std::min(2 * strip.rows, p_.out[1] - row);
    for (Index i = strip.image; i < strip.image + strip.images; ++i)
      finished((i * p_.groups + strip.group) * p_.o * all + row * p_.out[2], p_.o, all, rows * p_.out[2]);
  }

  const Convolution& p_;
  const Winograd transforms_;
  const PanelProducts<float> products_;
  const WinogradWeights& weights_;
  const Index down_, along_;                    // the number of tiles along both axes
  Index images_ = 1, rows_;                     // of a strip
  Index tiles_ = 0, o_ = 0;                     // of a block: tiles, and result channels at a time
  Index row_ = 0, v_step_ = 0, sums_step_ = 0;  // distances of rows, and of the 16 matrices
};

/// Returns true if this algorithm takes less time than the others. With few channels, the
/// transforms take longer than the products. With few tiles, to read U takes longer: with 16 tiles,
/// the layers of 512 channels add 6 % to the time of a ResNet-18, and with 32 tiles they take 5 %
/// off it (measured).
bool is_suitable(const ConvolutionAttributes& attributes, const Convolution& p) {
  constexpr Index least_channels = 32, least_tiles = 32;
  const auto are_ones = [](std::span<const Index> all) {
    return std::all_of(all.begin(), all.end(), [](Index length) { return length == 1; });
  };
  if (p.dtype != Dtype::float32 || !panel_product<float>() || attributes.strides.size() != 2) return false;
  if (p.window != Triple{1, 3, 3} || !are_ones(p.stride) || !are_ones(p.dilation) ||
      !are_ones(attributes.input_dilations))
    return false;
  const Index tiles = p.n * ceil_divide(p.out[1], 2) * ceil_divide(p.out[2], 2);
  return std::min(p.o, p.c) >= least_channels && tiles >= least_tiles && volume(p.in) > 0;
}

}  // namespace

WinogradWeights::WinogradWeights(const Convolution& p)
    : groups_(p.groups), results_(p.o), step_(spread(terms_of_block(p.c))), of_matrix_(term_blocks(p.c) * p.o * step_),
      of_group_(matrices * of_matrix_), data_(scratch<float>(bytes() / sizeof(float))) {
  const Index each = terms_of_block(p.c);
  parallel_for(p.groups * p.o, std::max<Index>(1, cheap_grain / (matrices * p.c)), [&](Index first, Index last) {
    for (Index row = first; row < last; ++row) {
      const Index group = row / p.o, o = row % p.o;
      for (Index c = 0; c < p.c; ++c) {
        const char* const w = p.w.data + group * p.w.lead[0] + o * p.w.lead[1] + c * p.w.lead[2];
        // G g G^T, where G maps (s, t, u) to (s, (s + t + u) / 2, (s - t + u) / 2, u).
        const auto expand = [](double s, double t, double u) {
          return std::array<double, 4>{s, (s + t + u) / 2, (s - t + u) / 2, u};
        };
        std::array<double, 4> columns[3];
        for (Index j = 0; j < 3; ++j) {
          const auto at = [&](Index i) {
            return static_cast<double>(*reinterpret_cast<const float*>(w + i * p.w.step[1] + j * p.w.step[2]));
          };
          columns[j] = expand(at(0), at(1), at(2));
        }
        float* const to = data_.get() + group * of_group_ + (c / each * results_ + o) * step_ + c % each;
        for (std::size_t i = 0; i < 4; ++i) {
          const std::array<double, 4> row_of_u = expand(columns[0][i], columns[1][i], columns[2][i]);
          for (std::size_t j = 0; j < 4; ++j)
            to[static_cast<Index>(4 * i + j) * of_matrix_] = static_cast<float>(row_of_u[j]);
        }
      }
    }
  });
}

std::shared_ptr<const WinogradWeights> winograd_weights(const ConvolutionAttributes& attributes, const View& x,
                                                        const View& w, const View& out) {
  const Convolution p = convolution_of(attributes, x, w, out);
  return is_suitable(attributes, p) ? std::make_shared<const WinogradWeights>(p) : nullptr;
}

void run_winograd(const ConvolutionAttributes& attributes, const View& x, const View& w, const View& out,
                  const WinogradWeights& weights, const Finished* finished) {
  const Convolution p = convolution_of(attributes, x, w, out);
  if (p.x.step[2] != p.size && p.in[2] > 1) {  // the columns of x must be adjacent
    const Scratch<char> copy = scratch<char>(static_cast<std::size_t>(element_count(x.shape) * p.size));
    const stave::Strides dense = stave::contiguous_strides(stave::Shape(x.shape));
    copy_strided({copy.get(), dense}, {static_cast<char*>(x.data), x.strides}, x.shape, p.size);
    return run_winograd(attributes, {copy.get(), x.dtype, x.shape, dense}, w, out, weights, finished);
  }
  ConvolutionWinograd(p, *panel_product<float>(), weights).run(finished);
}

}  // namespace stave_cpu
