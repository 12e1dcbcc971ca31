// Fourier transforms of any length.
//
// A transform of length n along an axis takes one of these ways:
//   columns     Several columns at once, one in each lane of a vector. n has small prime factors
//               only, and is not large.
//   lines       One line after the other, as dense complex numbers:
//     row       by vectors along the line, if n is a multiple of row_unit; several short lines are
//               columns instead;
//     split     as a matrix of n = rows * columns, by transforms of its columns, then of its rows
//               (Gentleman and Sande 1966, "Fast Fourier transforms for fun and profit");
//     column    as a single column;
//     chirp     if n has a large prime factor: as a convolution (Bluestein 1970, "A linear
//               filtering approach to the computation of discrete Fourier transform").
// A transform of an even number of real ones is one of half as many complex ones.
//
// Start with run_fft.
#include <stave/backends/cpu/fft.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <memory>
#include <mutex>
#include <numbers>
#include <optional>
#include <vector>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/scratch.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

using stave::View;

namespace {

// ---- plans --------------------------------------------------------------------------------------

/// Returns e^(-2 pi i k / n), rounded once. The angle is reduced to an eighth of a turn in
/// integers.
template <class T>
std::complex<T> unit_root(Index k, Index n) {
  using Wide = long double;
  k %= n;
  const Index quarter = (8 * k / n + 1) / 2;           // the nearest one
  const Index from_quarter = 8 * k - 2 * quarter * n;  // a turn is 8 n
  const Wide angle = std::numbers::pi_v<Wide> * static_cast<Wide>(from_quarter) / (4 * static_cast<Wide>(n));
  const Wide c = std::cos(angle), s = std::sin(angle);
  const std::complex<Wide> roots[] = {{c, -s}, {-s, -c}, {-c, s}, {s, c}};
  const std::complex<Wide> root = roots[quarter % 4];
  return {static_cast<T>(root.real()), static_cast<T>(root.imag())};
}

/// The roots e^(-2 pi i k / n) that the passes of one length need.
template <class T>
class Passes {
 public:
  using C = std::complex<T>;
  /// Makes the passes with these radices in this order. The first `vectors` ones get their twiddles
  /// as vectors.
  Passes(Index length, const std::vector<Index>& radices, int vectors, Index lanes) {
    std::size_t i = 0;
    Index rest = length, stride = 1;
    twiddles_.reserve(2 * radices.size());
    for (const Index radix : radices) {
      const Index now = rest;
      rest /= radix;
      const bool is_vector = static_cast<int>(i++) < vectors;
      std::vector<T>& twiddles = twiddles_.emplace_back();
      if (is_vector) add_vectors(twiddles, radix, rest, stride, now, lanes);
      else
        for (Index p = 0; p < rest; ++p)
          for (Index k = 1; k < radix; ++k) add(twiddles, unit_root<T>(p * k, now));
      std::vector<T>& roots = twiddles_.emplace_back();
      if (radix % 2)
        for (Index j = 0; j < radix; ++j) add(roots, std::conj(unit_root<T>(j, radix)));
      stages_.push_back({radix, rest, stride, twiddles.data(), roots.data()});
      stride *= radix;
    }
    plan = {length, static_cast<int>(stages_.size()), stages_.data(), nullptr};
  }
  Passes(const Passes&) = delete;

  FftPlan plan;

 private:
  static void add(std::vector<T>& to, C root) {
    to.push_back(root.real());
    to.push_back(root.imag());
  }
  static void add_vectors(std::vector<T>& to, Index radix, Index rest, Index stride, Index length, Index lanes) {
    for (Index first = 0; first < rest * stride; first += lanes)
      for (Index k = 1; k < radix; ++k)
        for (const bool imaginary : {false, true})
          for (Index i = first; i < first + lanes; ++i) {
            const C root = unit_root<T>(i / stride * k, length);
            to.push_back(imaginary ? root.imag() : root.real());
          }
  }
  std::vector<std::vector<T>> twiddles_;
  std::vector<FftStage> stages_;
};

/// Returns the radices of a transform, or nothing if there is a larger prime factor.
std::optional<std::vector<Index>> radices_of(Index n, bool wide) {
  std::vector<Index> radices;
  for (const Index prime : {13, 11, 7, 5, 3})
    for (; n % prime == 0; n /= prime) radices.push_back(prime);
  if (n & (n - 1)) return std::nullopt;
  // Three times 2 gives one pass of radix 8, but only large register files hold eight pairs.
  int twos = 0;
  for (; n > 1; n /= 2) ++twos;
  int eights = wide ? twos / 3 : twos % 2 && twos >= 3 ? 1 : 0;
  if (wide && twos % 3 == 1 && eights > 0) --eights;
  for (int i = 0; i < (twos - 3 * eights) / 2; ++i) radices.push_back(4);
  if ((twos - 3 * eights) % 2) radices.push_back(2);
  radices.insert(radices.end(), static_cast<std::size_t>(eights), 8);
  return radices;
}

template <class T>
class Plan;
template <class T>
using PlanPtr = std::shared_ptr<const Plan<T>>;
template <class T>
PlanPtr<T> plan_of(Index n, bool of_halves = false);

/// All that transforms of one length need.
template <class T>
class Plan {
 public:
  using C = std::complex<T>;
  /// With `of_halves`, the plan is for transforms of 2 n real numbers.
  Plan(Index n, bool of_halves);

  /// Transforms a dense line. The lines do not overlap, or are the same.
  void line(bool inverse, double scale, const T* in, T* out) const;

  const Index length;
  std::optional<Passes<T>> columns;  // for lengths without large prime factors
  bool has_row() const { return row_.has_value(); }
  std::vector<C> real_roots;  // FftPlan::real_roots
  std::size_t bytes() const {
    return sizeof(C) * (real_roots.size() + block_roots_.size() + chirp_.size() + spectrum_.size()) +
           sizeof(T) * lane_roots_.size();
  }

 private:
  void split_line(bool inverse, double scale, const T* in, T* out) const;
  void column_line(bool inverse, double scale, const T* in, T* out) const;
  void chirp_line(bool inverse, double scale, const T* in, T* out) const;

  const FftKernels& kernels_;
  std::optional<Passes<T>> row_;
  // split
  PlanPtr<T> rows_, columns_;
  std::vector<C> block_roots_;
  std::vector<T> lane_roots_;
  // chirp
  PlanPtr<T> padded_;
  std::vector<C> chirp_, spectrum_;
};

template <class T>
const FftKernels& fft_kernels() {
  return kernels().fft[static_cast<int>(stave::dtype_of<T>())];
}

// Longer rows do not fit into the second cache, together with their two buffers (bench fft).
template <class T>
constexpr Index longest_row = (Index{1} << 18) / static_cast<Index>(sizeof(T) * 2);
// A single column uses one lane only, so short lines are split too.
constexpr Index shortest_split = 32;
constexpr Index longest_column = 4096;
// Up to this length a row takes less time beside others, each in a lane (bench fft_3d).
constexpr Index longest_short_row = 512;

/// Returns a length of at least `least` that is a multiple of `unit`, has factors 2, 3 and 5 only,
/// and is as small as possible.
Index padded_length(Index least, Index unit) {
  Index best = 0;
  for (Index fives = unit; fives < 5 * least; fives *= 5)
    for (Index threes = fives; threes < 3 * least; threes *= 3) {
      Index n = threes;
      while (n < least) n *= 2;
      if (!best || n < best) best = n;
    }
  return best;
}

/// Returns the divisor of n whose square is nearest to n, up to n.
Index middle_divisor(Index n) {
  Index divisor = 1;
  for (Index d = 1; d * d <= n; ++d)
    if (n % d == 0) divisor = d;
  return divisor;
}

template <class T>
Plan<T>::Plan(Index n, bool of_halves) : length(n), kernels_(fft_kernels<T>()) {
  const Index lanes = kernels_.lanes;
  const bool wide = lanes * static_cast<Index>(sizeof(T)) >= 64;
  for (Index k = 0; of_halves && k <= n; ++k) real_roots.push_back(unit_root<T>(k, 2 * n));
  if (const auto radices = radices_of(n, wide)) {
    columns.emplace(n, *radices, 0, lanes);
    if (of_halves) columns->plan.real_roots = real_roots.data();
    if (n % kernels_.row_unit == 0 && n <= longest_row<T>) {
      std::vector<Index> along;
      for (const Index* radix = kernels_.row_radices; *radix; ++radix) along.push_back(*radix);
      const auto vectors = static_cast<int>(along.size());
      Index rest = n;
      for (const Index radix : along) rest /= radix;
      const auto more = radices_of(rest, wide);
      along.insert(along.end(), more->begin(), more->end());
      row_.emplace(n, along, vectors, lanes);
    } else if (const Index rows = middle_divisor(n); n >= shortest_split && rows > 1) {
      const Index columns_count = n / rows;
      rows_ = plan_of<T>(rows);
      columns_ = plan_of<T>(columns_count);
      for (Index first = 0; first < columns_count; first += lanes)
        for (Index k = 0; k < rows; ++k) block_roots_.push_back(unit_root<T>(k * first, n));
      for (Index k = 0; k < rows; ++k)
        for (const bool imaginary : {false, true})
          for (Index lane = 0; lane < lanes; ++lane) {
            const C root = unit_root<T>(k * lane, n);
            lane_roots_.push_back(imaginary ? root.imag() : root.real());
          }
    }
    return;
  }
  const Index padded = padded_length(2 * n - 1, kernels_.row_unit);
  padded_ = plan_of<T>(padded);
  for (Index j = 0, square = 0; j < n; ++j) {  // j^2 modulo 2 n, so that angles are exact
    chirp_.push_back(unit_root<T>(square, 2 * n));
    square = (square + 2 * j + 1) % (2 * n);
  }
  spectrum_.assign(static_cast<std::size_t>(padded), C(0));
  for (Index j = 0; j < n; ++j) {
    const C value = std::conj(chirp_[static_cast<std::size_t>(j)]);
    spectrum_[static_cast<std::size_t>(j)] = value;
    if (j) spectrum_[static_cast<std::size_t>(padded - j)] = value;
  }
  T* const spectrum = reinterpret_cast<T*>(spectrum_.data());
  padded_->line(false, 1. / static_cast<double>(padded), spectrum, spectrum);
}

template <class T>
void Plan<T>::line(bool inverse, double scale, const T* in, T* out) const {
  if (padded_) return chirp_line(inverse, scale, in, out);
  if (rows_) return split_line(inverse, scale, in, out);
  if (!row_) return column_line(inverse, scale, in, out);
  const auto work = scratch<T>(static_cast<std::size_t>(4 * length));
  kernels_.row(row_->plan, inverse, scale, in, out, work.get());
}

template <class T>
std::size_t column_work(Index n, Index lanes) {
  return static_cast<std::size_t>(4 * lanes * (n + 1));
}

template <class T>
void Plan<T>::column_line(bool inverse, double scale, const T* in, T* out) const {
  const auto work = scratch<T>(column_work<T>(length, kernels_.lanes));
  kernels_.columns({&columns->plan,
                    FftKind::complex,
                    inverse,
                    scale,
                    {const_cast<T*>(in), 2, 0, 1},
                    {out, 2, 0, 1},
                    1,
                    length,
                    nullptr,
                    nullptr,
                    work.get()});
}

// With n = rows * columns, j = columns j1 + j2 and k = k1 + rows k2:
// X_k = sum over j2 of e^(-2 pi i j2 k2 / columns) w^(j2 k1) sum over j1 of x_j e^(-2 pi i j1 k1 /
// rows).
template <class T>
void Plan<T>::split_line(bool inverse, double scale, const T* in, T* out) const {
  const Index rows = rows_->length, width = columns_->length, lanes = kernels_.lanes;
  const auto middle = scratch<T>(static_cast<std::size_t>(2 * length));
  const auto blocks = [&](const Plan& plan, Index count, auto&& job) {
    const Index grain = std::max<Index>(1, cheap_grain / (lanes * plan.length * 4));
    parallel_for((count + lanes - 1) / lanes, grain, [&](Index first, Index last) {
      const auto work = scratch<T>(column_work<T>(plan.length, lanes));
      for (Index block = first; block < last; ++block)
        kernels_.columns(job(block, std::min(lanes, count - block * lanes), work.get()));
    });
  };
  blocks(*rows_, width, [&](Index block, Index count, T* work) -> FftColumns {
    const Index at = 2 * block * lanes;
    return {&rows_->columns->plan,
            FftKind::complex,
            inverse,
            1,
            {const_cast<T*>(in) + at, 2 * width, 2, 1},
            {middle.get() + at, 2 * width, 2, 1},
            count,
            rows,
            block_roots_.data() + block * rows,
            lane_roots_.data(),
            work};
  });
  blocks(*columns_, rows, [&](Index block, Index count, T* work) -> FftColumns {
    const Index at = 2 * block * lanes;
    return {&columns_->columns->plan,
            FftKind::complex,
            inverse,
            scale,
            {middle.get() + at * width, 2, 2 * width, 1},
            {out + at, 2 * rows, 2, 1},
            count,
            width,
            nullptr,
            nullptr,
            work};
  });
}

// With the chirp c_j = e^(-pi i j^2 / n): X_k = c_k * (sum over j of (x_j c_j) conj(c_(k - j))). An
// inverse transform is conj(transform(conj(x))).
template <class T>
void Plan<T>::chirp_line(bool inverse, double scale, const T* in, T* out) const {
  const Index padded = padded_->length;
  const auto work = scratch<T>(static_cast<std::size_t>(2 * padded));
  T* const x = work.get();
  const auto conjugate = [&](const T* from, T* to, T factor) {
    const T sign = inverse ? -factor : factor;
    for (Index j = 0; j < length; ++j) {
      to[2 * j] = from[2 * j] * factor;
      to[2 * j + 1] = from[2 * j + 1] * sign;
    }
  };
  if (inverse) conjugate(in, x, 1);
  kernels_.multiply(x, inverse ? x : in, chirp_.data(), length);
  std::fill(x + 2 * length, x + 2 * padded, T(0));
  padded_->line(false, 1, x, x);
  kernels_.multiply(x, x, spectrum_.data(), padded);
  padded_->line(true, 1, x, x);
  kernels_.multiply(out, x, chirp_.data(), length);
  if (inverse || scale != 1) conjugate(out, out, static_cast<T>(scale));
}

/// Returns the plan of a length, from a cache.
template <class T>
PlanPtr<T> plan_of(Index n, bool of_halves) {
  constexpr std::size_t most_plans = 64, most_bytes = std::size_t{1} << 26;
  struct Cache {
    std::mutex mutex;
    std::vector<PlanPtr<T>> plans;  // the last used one comes first
  };
  static Cache& cache = *new Cache;  // tensors may be computed while globals are destroyed
  const auto find = [&]() -> PlanPtr<T> {
    const auto at = std::find_if(cache.plans.begin(), cache.plans.end(), [&](const PlanPtr<T>& p) {
      return p->length == n && p->real_roots.empty() == !of_halves;
    });
    if (at == cache.plans.end()) return nullptr;
    std::rotate(cache.plans.begin(), at, at + 1);
    return cache.plans.front();
  };
  {
    const std::lock_guard lock(cache.mutex);
    if (PlanPtr<T> plan = find()) return plan;
  }
  PlanPtr<T> plan = std::make_shared<const Plan<T>>(n, of_halves);
  const std::lock_guard lock(cache.mutex);
  if (PlanPtr<T> other = find()) return other;  // another thread was faster
  cache.plans.insert(cache.plans.begin(), plan);
  std::size_t bytes = 0, kept = 0;
  for (; kept < std::min(cache.plans.size(), most_plans); ++kept)
    if (bytes += cache.plans[kept]->bytes(); kept > 0 && bytes > most_bytes) break;
  cache.plans.resize(kept);
  return plan;
}

// ---- the loop over an array ---------------------------------------------------------------------

/// The transform along one axis of an array.
template <class T>
class AxisTransform {
 public:
  AxisTransform(const stave::FftAttributes& attributes, const View& in, const View& out)
      : attributes_(attributes), n_(attributes.length), kernels_(fft_kernels<T>()), in_(operand(in)),
        out_(operand(out)),
        kind_(stave::is_complex(in.dtype) ? stave::is_complex(out.dtype) ? FftKind::complex : FftKind::complex_to_real
                                          : FftKind::real_to_complex) {
    const auto axis = static_cast<std::size_t>(attributes.axis);
    const stave::Strides lengths = without(in.shape, axis), from = without(in.strides, axis),
                         to = without(out.strides, axis);
    const Index* const strides[] = {from.data(), to.data()};
    const Index sizes[] = {in_.unit, out_.unit};
    others_ = merged_axes(lengths, strides, sizes);  // steps are in numbers
    halves_ = kind_ != FftKind::complex && n_ % 2 == 0;
    plan_ = plan_of<T>(halves_ ? n_ / 2 : n_, halves_);
  }

  void run() const {
    const Index width = others_.empty() ? 1 : others_.back().length;
    const bool dense = in_.stride == in_.unit && out_.stride == out_.unit;
    Index count = width;
    for (std::size_t i = 0; i + 1 < others_.size(); ++i) count *= others_[i].length;
    if (count == 0) return;
    // A real line that is repeated has no rows of imaginary parts (see FftPlace).
    const bool is_repeated = kind_ == FftKind::real_to_complex && in_.stride == 0;
    const bool by_columns = plan_->columns && width > 1 && plan_->length <= longest_column && !is_repeated &&
                            !(dense && plan_->has_row() && plan_->length > longest_short_row) &&
                            (width >= kernels_.lanes / 2 || plan_->length < shortest_split);
    by_columns ? run_columns(width) : run_lines(count);
  }

 private:
  /// An operand: its numbers, the step along the axis, and the numbers in an element.
  struct Operand {
    T* data;
    Index stride, unit;
  };
  Operand operand(const View& view) const {
    const Index unit = stave::is_complex(view.dtype) ? 2 : 1;
    return {static_cast<T*>(view.data), view.strides[static_cast<std::size_t>(attributes_.axis)] * unit, unit};
  }
  Index stored() const { return kind_ == FftKind::real_to_complex ? n_ / 2 + 1 : n_; }

  // ---- columns ----

  /// Returns true if adjacent columns of at least 32 elements have elements a multiple of a page
  /// apart, which compete for the same few cache sets. Then several adjacent blocks are copied to
  /// and from a dense tile.
  bool conflicts(const Operand& x, int operand) const {
    constexpr Index page = 4096;
    return others_.back().step[operand] == x.unit && x.stride * static_cast<Index>(sizeof(T)) % page == 0 && n_ >= 32;
  }
  Index elements(const Operand& x) const { return x.unit == 2 && kind_ != FftKind::complex ? n_ / 2 + 1 : n_; }

  void run_columns(Index width) const {
    const Index lanes = kernels_.lanes, n = plan_->length;
    const bool tiles_in = conflicts(in_, 0), tiles_out = conflicts(out_, 1);
    constexpr Index tile_bytes = Index{1} << 18;
    const Index most = tile_bytes / (2 * lanes * n_ * static_cast<Index>(sizeof(T)));
    const Index blocks = tiles_in || tiles_out ? std::clamp<Index>(most, 1, 8) : 1, pitch = 2 * lanes * (blocks + 1);
    const TileWalk tiles(others_, 2, -1, 1, std::min(lanes * blocks, width));
    const Index grain = std::max<Index>(1, cheap_grain / (4 * lanes * blocks * n));
    parallel_for(tiles.count(), grain, [&](Index first, Index last) {
      const auto tile = static_cast<std::size_t>(pitch * n_);
      const auto from = scratch<T>(tiles_in ? tile : 0), to = scratch<T>(tiles_out ? tile : 0);
      const auto work = scratch<T>(column_work<T>(n, lanes) + static_cast<std::size_t>(2 * lanes * n_));
      TileWalk walk = tiles;
      walk.seek(first);
      for (Index t = first; t < last; ++t, walk.next()) {
        const Index count = walk.columns();
        const Operand far_in{in_.data + walk.offset(0), in_.stride, in_.unit},
            far_out{out_.data + walk.offset(1), out_.stride, out_.unit};
        const Operand in = tiles_in ? Operand{from.get(), pitch, in_.unit} : far_in,
                      out = tiles_out ? Operand{to.get(), pitch, out_.unit} : far_out;
        if (tiles_in) copy_rows(far_in, in, count);
        for (Index c = 0; c < count; c += lanes)
          block(place(in, c, others_.back().step[0]), place(out, c, others_.back().step[1]), std::min(lanes, count - c),
                work.get());
        if (tiles_out) copy_rows(out, far_out, count);
      }
    });
  }
  void copy_rows(const Operand& from, const Operand& to, Index columns) const {
    for (Index i = 0; i < elements(from); ++i)
      std::copy_n(from.data + i * from.stride, columns * from.unit, to.data + i * to.stride);
  }
  void block(const FftPlace& in, const FftPlace& out, Index count, T* work) const {
    const Index lanes = kernels_.lanes, n = plan_->length;
    FftColumns job{&plan_->columns->plan,
                   halves_ ? kind_ : FftKind::complex,
                   attributes_.inverse,
                   attributes_.scale,
                   in,
                   out,
                   count,
                   halves_ ? n : stored(),
                   nullptr,
                   nullptr,
                   work};
    if (kind_ == FftKind::complex_to_real && !halves_) {
      T* const extended = work + column_work<T>(n, lanes);
      for (Index c = 0; c < count; ++c)
        extend({static_cast<T*>(in.data) + c * in.column, in.row, 2}, extended + 2 * c, 2 * lanes);
      job.in = {extended, 2 * lanes, 2, 1};
    }
    kernels_.columns(job);
  }
  /// Where the columns of an operand lie: complex ones, real ones in pairs, or
  /// real ones.
  FftPlace place(const Operand& x, Index first, Index step) const {
    T* const data = x.data + first * step;
    if (x.unit == 2) return {data, x.stride, step, 1};
    return halves_ ? FftPlace{data, 2 * x.stride, step, x.stride} : FftPlace{data, x.stride, step, 0};
  }
  double scale() const { return attributes_.scale; }

  /// Writes the whole transform of a real signal of odd length, of which the first half is given.
  void extend(const Operand& from, T* to, Index step) const {
    to[0] = from.data[0];
    to[1] = 0;
    for (Index k = 1; k <= n_ / 2; ++k) {
      const T re = from.data[k * from.stride], im = from.data[k * from.stride + 1];
      to[k * step] = to[(n_ - k) * step] = re;
      to[k * step + 1] = im;
      to[(n_ - k) * step + 1] = -im;
    }
  }

  // ---- lines ----

  void run_lines(Index count) const {
    const TileWalk lines(others_, 2, -1, 1, 1);
    const Index grain = std::max<Index>(1, cheap_grain / (4 * plan_->length));
    parallel_for(count, grain, [&](Index first, Index last) {
      const auto room = static_cast<std::size_t>(2 * (n_ + 2));
      const bool copies = !halves_ && kind_ != FftKind::complex;
      const bool copies_in = copies || in_.stride != in_.unit || kind_ == FftKind::complex_to_real;
      const bool copies_out = copies || out_.stride != out_.unit;
      const auto from = scratch<T>(copies_in ? room : 0), to = scratch<T>(copies_out ? room : 0);
      TileWalk walk = lines;
      walk.seek(first);
      for (Index i = first; i < last; ++i, walk.next())
        line({in_.data + walk.offset(0), in_.stride, in_.unit}, {out_.data + walk.offset(1), out_.stride, out_.unit},
             copies_in ? from.get() : nullptr, copies_out ? to.get() : nullptr);
    });
  }
  void line(const Operand& in, const Operand& out, T* in_copy, T* out_copy) const {
    const T* x = in.data;
    if (in_copy && !(halves_ && kind_ == FftKind::complex_to_real && in.stride == in.unit)) {
      x = in_copy;
      load(in, in_copy);
    }
    T* const y = out_copy ? out_copy : out.data;
    if (halves_ && kind_ == FftKind::complex_to_real) {
      const auto joined = scratch<T>(static_cast<std::size_t>(n_ + 2));
      kernels_.combine(true, attributes_.inverse, x, joined.get(), plan_->real_roots.data(), n_ / 2);
      plan_->line(true, scale(), joined.get(), y);
    } else {
      const bool complex = !halves_;
      plan_->line(complex && attributes_.inverse, scale(), x, y);
      if (halves_) kernels_.combine(false, attributes_.inverse, y, y, plan_->real_roots.data(), n_ / 2);
    }
    if (out_copy) store(out_copy, out);
  }
  /// Copies a line to dense memory: as complex numbers, or as real ones in pairs.
  void load(const Operand& in, T* to) const {
    if (kind_ == FftKind::complex_to_real && !halves_) return extend(in, to, 2);
    const Index length = kind_ == FftKind::complex_to_real ? n_ / 2 + 1 : n_;
    for (Index i = 0; i < length; ++i) {
      const T* const element = in.data + i * in.stride;
      if (halves_ && in.unit == 1) {
        to[i] = *element;
      } else {
        to[2 * i] = element[0];
        to[2 * i + 1] = in.unit == 2 ? element[1] : T(0);
      }
    }
  }
  void store(const T* from, const Operand& out) const {
    const Index step = halves_ && out.unit == 1 ? 1 : 2;
    for (Index i = 0; i < stored(); ++i) {
      T* const element = out.data + i * out.stride;
      element[0] = from[step * i];
      if (out.unit == 2) element[1] = from[step * i + 1];
    }
  }

  const stave::FftAttributes& attributes_;
  const Index n_;
  const FftKernels& kernels_;
  const Operand in_, out_;
  const FftKind kind_;
  Axes others_;
  bool halves_;
  PlanPtr<T> plan_;
};

}  // namespace

void run_fft(const stave::FftAttributes& attributes, const View& in, const View& out) {
  const stave::Dtype parts = stave::is_complex(in.dtype) ? stave::real_of(in.dtype) : in.dtype;
  if (parts == stave::float32) AxisTransform<float>(attributes, in, out).run();
  else AxisTransform<double>(attributes, in, out).run();
}

}  // namespace stave_cpu
