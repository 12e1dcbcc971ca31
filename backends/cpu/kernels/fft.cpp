// The kernels of Fourier transforms: passes of Stockham's algorithm on pairs of vectors, one of the
// real and one of the imaginary parts, so that complex products need no shuffles.
//
// A buffer of numbers between two passes is an array of such pairs. If columns are transformed, a
// lane is a column, and each pass works on whole pairs. If one row is transformed, a lane is an
// element of the row. Its first passes, whose stride is less than the number of lanes, load whole
// pairs too, and interleave the vectors that they store. After these, all passes are the same as
// those of columns. An inverse transform exchanges the real and imaginary parts of input and
// output: with S(x + iy) = y + ix, the inverse transform of x is S(transform(S(x))).
#include <machine.h>

#include <stave/backends/cpu/kernels/fill.h>

namespace STAVE_KERNELS {

using stave_cpu::FftColumns;
using stave_cpu::FftKernels;
using stave_cpu::FftKind;
using stave_cpu::FftPlace;
using stave_cpu::FftPlan;
using stave_cpu::FftStage;
using stave_cpu::Index;

/// A pair of vectors: complex numbers.
template <class T>
struct Pair {
  Vec<T> re, im;
  friend STAVE_INLINE Pair operator+(Pair a, Pair b) { return {a.re + b.re, a.im + b.im}; }
  friend STAVE_INLINE Pair operator-(Pair a, Pair b) { return {a.re - b.re, a.im - b.im}; }
};

/// Returns a * b + c.
template <class T>
STAVE_INLINE Vec<T> multiply_add(Vec<T> a, Vec<T> b, Vec<T> c) {
  if constexpr (has_fma) return fma(a, b, c);
  else return a * b + c;
}
template <class T>
STAVE_INLINE Pair<T> operator*(Pair<T> a, Pair<T> b) {
  return {multiply_add(a.re, b.re, -(a.im * b.im)), multiply_add(a.re, b.im, a.im * b.re)};
}
template <class T>
STAVE_INLINE Pair<T> times_minus_i(Pair<T> a) {
  return {a.im, -a.re};
}
template <class T>
STAVE_INLINE Pair<T> repeated(const T* pair) {
  return {Vec<T>(pair[0]), Vec<T>(pair[1])};
}

// ---- transforms of `radix` numbers in registers -------------------------------------------------

template <class T>
STAVE_INLINE void transform(Pair<T> (&x)[2], const T*) {
  const Pair<T> sum = x[0] + x[1];
  x[1] = x[0] - x[1];
  x[0] = sum;
}
template <class T>
STAVE_INLINE void transform(Pair<T> (&x)[4], const T*) {
  const Pair<T> a = x[0] + x[2], b = x[0] - x[2], c = x[1] + x[3], d = times_minus_i(x[1] - x[3]);
  x[0] = a + c;
  x[1] = b + d;
  x[2] = a - c;
  x[3] = b - d;
}
template <class T>
STAVE_INLINE void transform(Pair<T> (&x)[8], const T* none) {
  Pair<T> even[4] = {x[0], x[2], x[4], x[6]}, odd[4] = {x[1], x[3], x[5], x[7]};
  transform(even, none);
  transform(odd, none);
  const Vec<T> half_root(T(0.70710678118654752440));
  odd[1] = {(odd[1].re + odd[1].im) * half_root, (odd[1].im - odd[1].re) * half_root};
  odd[2] = times_minus_i(odd[2]);
  odd[3] = {(odd[3].im - odd[3].re) * half_root, -((odd[3].re + odd[3].im) * half_root)};
  for (int k = 0; k < 4; ++k) {
    x[k] = even[k] + odd[k];
    x[k + 4] = even[k] - odd[k];
  }
}
// For odd radices, with a_j = x_j + x_(r - j) and b_j = x_j - x_(r - j):
// X_k = x_0 + sum over j of a_j cos(2 pi j k / r) - i sum over j of b_j sin(2 pi j k / r).
template <class T, int radix>
STAVE_INLINE void transform(Pair<T> (&x)[radix], const T* roots) {
  constexpr int half = radix / 2;
  Pair<T> sums[half], differences[half], zeroth = x[0];
#pragma GCC unroll 16
  for (int j = 0; j < half; ++j) {
    sums[j] = x[j + 1] + x[radix - 1 - j];
    differences[j] = x[j + 1] - x[radix - 1 - j];
    zeroth = zeroth + sums[j];
  }
#pragma GCC unroll 16
  for (int k = 1; k <= half; ++k) {
    Pair<T> even = x[0], odd{Vec<T>(0), Vec<T>(0)};
#pragma GCC unroll 16
    for (int j = 0; j < half; ++j) {
      const int at = (j + 1) * k % radix;
      const Vec<T> c(roots[2 * at]), s(roots[2 * at + 1]);
      even = {multiply_add(sums[j].re, c, even.re), multiply_add(sums[j].im, c, even.im)};
      if (j == 0) odd = {differences[0].im * s, differences[0].re * s};
      else odd = {multiply_add(differences[j].im, s, odd.re), multiply_add(differences[j].re, s, odd.im)};
    }
    x[k] = {even.re + odd.re, even.im - odd.im};
    x[radix - k] = {even.re - odd.re, even.im + odd.im};
  }
  x[0] = zeroth;
}

// ---- where pairs lie ----------------------------------------------------------------------------

/// Pairs of a buffer: the vector of the real parts, then that of the imaginary ones.
template <class T>
struct Buffer {
  static constexpr Index lanes = Vec<T>::lanes, size = 2 * lanes;
  T* data;
  STAVE_INLINE Pair<T> load(Index i) const {
    return {Vec<T>::load(data + size * i), Vec<T>::load(data + size * i + lanes)};
  }
  STAVE_INLINE void store(Index i, Pair<T> x) const {
    x.re.store(data + size * i);
    x.im.store(data + size * i + lanes);
  }
};

/// The vectors with the elements of a, b in turn, `run` at a time: the first and the second half.
template <int run, class T, int... lane>
STAVE_INLINE void interleave(Vec<T> a, Vec<T> b, Vec<T>& low, Vec<T>& high, std::integer_sequence<int, lane...>) {
  constexpr int lanes = Vec<T>::lanes;
  constexpr auto source = [](int i) { return i / run / 2 * run + i % run + (i / run % 2 ? lanes : 0); };
  const Vec<T> x = a, y = b;
  low = {__builtin_shufflevector(x.raw, y.raw, source(lane)...)};
  high = {__builtin_shufflevector(x.raw, y.raw, source(lane + lanes)...)};
}
template <int run, class T>
STAVE_INLINE void interleave(Vec<T> a, Vec<T> b, Vec<T>& low, Vec<T>& high) {
  interleave<run>(a, b, low, high, std::make_integer_sequence<int, Vec<T>::lanes>());
}
/// Interleaves `count` vectors, a power of two: element i of vector v goes to place
/// run * (count * (i / run) + v) + i % run.
template <int run, class T, int count>
STAVE_INLINE void interleave_all(Vec<T> (&x)[count]) {
#pragma GCC unroll 8
  for (int step = 1; step < count; step *= 2) {
    Vec<T> y[count];
#pragma GCC unroll 16
    for (int i = 0; i < count / 2; ++i) interleave<run>(x[i], x[i + count / 2], y[2 * i], y[2 * i + 1]);
#pragma GCC unroll 16
    for (int i = 0; i < count; ++i) x[i] = y[i];
  }
}
template <class T, int... lane>
STAVE_INLINE Pair<T> parted(Vec<T> low, Vec<T> high, std::integer_sequence<int, lane...>) {
  return {{__builtin_shufflevector(low.raw, high.raw, (2 * lane)...)},
          {__builtin_shufflevector(low.raw, high.raw, (2 * lane + 1)...)}};
}

/// Dense complex numbers: pair i begins at data + i * step.
template <class T>
struct Dense {
  static constexpr int lanes = Vec<T>::lanes;
  T* data;
  Index step;
  bool swapped;
  Vec<T> scale;
  STAVE_INLINE Pair<T> load(Index i) const {
    const T* const from = data + i * step;
    const Pair<T> x = parted(Vec<T>::load(from), Vec<T>::load(from + lanes), std::make_integer_sequence<int, lanes>());
    return swapped ? Pair<T>{x.im, x.re} : x;
  }
  STAVE_INLINE void store(Index i, Pair<T> x) const {
    T* const to = data + i * step;
    Vec<T> low, high;
    interleave<1>((swapped ? x.im : x.re) * scale, (swapped ? x.re : x.im) * scale, low, high);
    low.store(to);
    high.store(to + lanes);
  }
};

// ---- passes -------------------------------------------------------------------------------------

/// A pass whose stride is a number of whole pairs.
template <int radix, class T, class In, class Out>
void pass(const FftStage& stage, Index stride, In in, Out out) {
  const Index rest = stage.rest;
  const T* const roots = static_cast<const T*>(stage.roots);
  const T* twiddle = static_cast<const T*>(stage.twiddles);
  Pair<T> x[radix];
  for (Index q = 0; q < stride; ++q) {  // p = 0: all twiddles are 1
#pragma GCC unroll 16
    for (int j = 0; j < radix; ++j) x[j] = in.load(q + stride * rest * j);
    transform(x, roots);
#pragma GCC unroll 16
    for (int k = 0; k < radix; ++k) out.store(q + stride * k, x[k]);
  }
  for (Index p = 1; p < rest; ++p) {
    twiddle += 2 * (radix - 1);
    for (Index q = 0; q < stride; ++q) {
#pragma GCC unroll 16
      for (int j = 0; j < radix; ++j) x[j] = in.load(q + stride * (p + rest * j));
      transform(x, roots);
      out.store(q + stride * radix * p, x[0]);
#pragma GCC unroll 16
      for (int k = 1; k < radix; ++k) out.store(q + stride * (radix * p + k), x[k] * repeated(twiddle + 2 * (k - 1)));
    }
  }
}

/// A pass along a row whose stride is less than a vector.
template <int radix, int stride, class T, class In>
void interleaving_pass(const FftStage& stage, In in, Buffer<T> out) {
  constexpr int lanes = Vec<T>::lanes;
  const Index pairs = stage.rest * stage.stride / lanes;
  Buffer<T> twiddles{static_cast<T*>(const_cast<void*>(stage.twiddles))};
  for (Index j = 0; j < pairs; ++j) {
    Pair<T> x[radix];
#pragma GCC unroll 16
    for (int k = 0; k < radix; ++k) x[k] = in.load(j + pairs * k);
    transform(x, static_cast<const T*>(nullptr));
    Vec<T> re[radix], im[radix];
    re[0] = x[0].re;
    im[0] = x[0].im;
#pragma GCC unroll 16
    for (int k = 1; k < radix; ++k) {
      const Pair<T> y = x[k] * twiddles.load(j * (radix - 1) + k - 1);
      re[k] = y.re;
      im[k] = y.im;
    }
    interleave_all<stride>(re);
    interleave_all<stride>(im);
#pragma GCC unroll 16
    for (int k = 0; k < radix; ++k) out.store(radix * j + k, {re[k], im[k]});
  }
}

template <class T, class In, class Out>
void pass_of(const FftStage& stage, Index stride, In in, Out out) {
  switch (stage.radix) {
    case 2: return pass<2, T>(stage, stride, in, out);
    case 3: return pass<3, T>(stage, stride, in, out);
    case 4: return pass<4, T>(stage, stride, in, out);
    case 5: return pass<5, T>(stage, stride, in, out);
    case 7: return pass<7, T>(stage, stride, in, out);
    case 8: return pass<8, T>(stage, stride, in, out);
    case 11: return pass<11, T>(stage, stride, in, out);
    default: return pass<13, T>(stage, stride, in, out);
  }
}

// The radices of those passes along a row whose stride is less than the number of lanes.
template <class T>
inline constexpr int first_radix = Vec<T>::lanes == 8 ? 8 : 4;
template <class T>
inline constexpr int second_radix = Vec<T>::lanes == 16 ? 4 : 0;

template <class T>
void transform_row(const FftPlan& plan, bool inverse, double scale, const void* in, void* out, void* work) {
  constexpr Index lanes = Vec<T>::lanes;
  const Dense<T> from{static_cast<T*>(const_cast<void*>(in)), 2 * lanes, inverse, Vec<T>(1)},
      to{static_cast<T*>(out), 2 * lanes, inverse, Vec<T>(scale)};
  Buffer<T> now{static_cast<T*>(work)}, next{static_cast<T*>(work) + 2 * plan.length};
  const auto exchange = [&] {
    const Buffer<T> last = now;
    now = next;
    next = last;
  };
  int s = 1;
  interleaving_pass<first_radix<T>, 1, T>(plan.stage[0], from, now);
  if constexpr (second_radix<T> != 0) {
    interleaving_pass<second_radix<T>, first_radix<T>, T>(plan.stage[1], now, next);
    exchange();
    s = 2;
  }
  for (; s < plan.stages - 1; ++s, exchange()) pass_of<T>(plan.stage[s], plan.stage[s].stride / lanes, now, next);
  if (s < plan.stages) return pass_of<T>(plan.stage[s], plan.stage[s].stride / lanes, now, to);
  for (Index i = 0; i < plan.length / lanes; ++i) to.store(i, now.load(i));
}

// ---- real numbers -------------------------------------------------------------------------------

// With z_j = x_2j + i x_(2j + 1) for j < n, Z its transform, and w = e^(-2 pi i / (2 n)), the
// transform X of x has 2 X_k = s + t and 2 X_(n - k) = conj(s - t), where s = Z_k + conj(Z_(n - k))
// and t = -i w^k (Z_k - conj(Z_(n - k))). In reverse, Z_k = s + t and Z_(n - k) = conj(s - t) with
// the same s and t of X, but for the factor i w^-k. The function replaces the pair a, b at k, n -
// k.
template <bool joins, class T>
STAVE_INLINE void combine_halves(Pair<T>& a, Pair<T>& b, Pair<T> root) {
  const Pair<T> sum{a.re + b.re, a.im - b.im}, difference{a.re - b.re, a.im + b.im};
  const Pair<T> turned = difference * Pair<T>{root.im, joins ? root.re : -root.re};
  a = sum + turned;
  b = {sum.re - turned.re, turned.im - sum.im};
}

template <class T, int... lane>
STAVE_INLINE Pair<T> reversed(Pair<T> x, std::integer_sequence<int, lane...>) {
  constexpr int last = Vec<T>::lanes - 1;
  return {{__builtin_shufflevector(x.re.raw, x.re.raw, (last - lane)...)},
          {__builtin_shufflevector(x.im.raw, x.im.raw, (last - lane)...)}};
}

/// Replaces the elements 1, ..., n - 1 of a dense row by the combinations of halves: from `in` to
/// `out`, with the parts of the results multiplied by `re` and `im`, and the imaginary parts of the
/// input by `sign`.
template <bool joins, class T>
void combine_row(const T* in, T* out, const T* roots, Index n, T re, T im, T sign) {
  constexpr Index lanes = Vec<T>::lanes;
  constexpr auto sequence = std::make_integer_sequence<int, Vec<T>::lanes>();
  const Vec<T> re_factor(re), im_factor(im), signs(sign);
  const auto load = [&](const T* from) {
    const Pair<T> x = parted(Vec<T>::load(from), Vec<T>::load(from + lanes), sequence);
    return Pair<T>{x.re, x.im * signs};
  };
  const auto store = [&](T* to, Pair<T> x) {
    Vec<T> low, high;
    interleave<1>(x.re * re_factor, x.im * im_factor, low, high);
    low.store(to);
    high.store(to + lanes);
  };
  Index k = 1;
  for (; 2 * (k + lanes) <= n; k += lanes) {
    const Index mirrored = n - k - lanes + 1;
    Pair<T> a = load(in + 2 * k), b = reversed(load(in + 2 * mirrored), sequence);
    combine_halves<joins>(a, b, parted(Vec<T>::load(roots + 2 * k), Vec<T>::load(roots + 2 * k + lanes), sequence));
    store(out + 2 * k, a);
    store(out + 2 * mirrored, reversed(b, sequence));
  }
  for (; k <= n - k; ++k) {
    const auto one = [&](const T* from) { return Pair<T>{Vec<T>(from[0]), Vec<T>(from[1] * sign)}; };
    Pair<T> a = one(in + 2 * k), b = one(in + 2 * (n - k));
    combine_halves<joins>(a, b, repeated(roots + 2 * k));
    out[2 * k] = a.re[0] * re;
    out[2 * k + 1] = a.im[0] * im;
    out[2 * (n - k)] = b.re[0] * re;
    out[2 * (n - k) + 1] = b.im[0] * im;
  }
}

template <class T>
void combine(bool joins, bool inverse, const void* in, void* out, const void* roots, Index n) {
  const T *from = static_cast<const T*>(in), *w = static_cast<const T*>(roots);
  T* const to = static_cast<T*>(out);
  if (joins) {
    combine_row<true>(from, to, w, n, T(1), T(1), T(inverse ? 1 : -1));
    to[0] = from[0] + from[2 * n];
    to[1] = from[0] - from[2 * n];
  } else {
    const T re = from[0], im = from[1];
    combine_row<false>(from, to, w, n, T(0.5), T(inverse ? -0.5 : 0.5), T(1));
    to[0] = re + im;
    to[2 * n] = re - im;
    to[1] = to[2 * n + 1] = 0;
  }
}

template <class T>
void multiply(void* out, const void* a, const void* b, Index n) {
  constexpr Index lanes = Vec<T>::lanes;
  constexpr auto sequence = std::make_integer_sequence<int, Vec<T>::lanes>();
  const T *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
  T* const z = static_cast<T*>(out);
  Index i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto load = [&](const T* from) {
      return parted(Vec<T>::load(from + 2 * i), Vec<T>::load(from + 2 * i + lanes), sequence);
    };
    const Pair<T> product = load(x) * load(y);
    Vec<T> low, high;
    interleave<1>(product.re, product.im, low, high);
    low.store(z + 2 * i);
    high.store(z + 2 * i + lanes);
  }
  for (; i < n; ++i) {
    const Pair<T> product = repeated(x + 2 * i) * repeated(y + 2 * i);
    z[2 * i] = product.re[0];
    z[2 * i + 1] = product.im[0];
  }
}

// ---- columns ------------------------------------------------------------------------------------

template <class T>
class Columns {
 public:
  static constexpr Index lanes = Vec<T>::lanes;
  explicit Columns(const FftColumns& c) : c_(c), plan_(*c.plan), n_(plan_.length) {}

  void run() {
    T* const work = static_cast<T*>(c_.work);
    Buffer<T> now{work}, next{work + 2 * lanes * (n_ + 1)};
    const bool complex = c_.kind == FftKind::complex;
    const bool load_directly = complex && plan_.stages > 0 && is_dense(c_.in);
    const bool store_directly = complex && plan_.stages > 0 && is_dense(c_.out) && !c_.block_roots && c_.stored == n_;
    if (c_.kind == FftKind::complex_to_real) {
      load(c_.in, n_ + 1, next, false);
      join_halves(next, now);
    } else if (!load_directly) {
      load(c_.in, n_, now, complex && c_.inverse);
    }
    const Dense<T> from = dense(c_.in), to = dense(c_.out);
    for (int s = 0; s < plan_.stages; ++s) {
      const FftStage& stage = plan_.stage[s];
      const bool first = s == 0 && load_directly, last = s == plan_.stages - 1 && store_directly;
      if (first && last) pass_of<T>(stage, stage.stride, from, to);
      else if (first) pass_of<T>(stage, stage.stride, from, next);
      else if (last) pass_of<T>(stage, stage.stride, now, to);
      else pass_of<T>(stage, stage.stride, now, next);
      const Buffer<T> before = now;
      now = next;
      next = before;
    }
    if (store_directly) return;
    if (c_.block_roots) multiply_roots(now);
    if (c_.kind == FftKind::real_to_complex) {
      part_halves(now, next);
      return store(next, c_.out, n_ + 1, false);
    }
    store(now, c_.out, complex ? c_.stored : n_, !complex || c_.inverse);
  }

 private:
  bool is_dense(const FftPlace& place) const { return c_.count == lanes && place.column == 2 && place.imag == 1; }
  Dense<T> dense(const FftPlace& place) const {
    return {static_cast<T*>(place.data), place.row, c_.inverse, Vec<T>(c_.scale)};
  }

  /// Loads n elements of each column. The parts are exchanged if `swapped`.
  void load(const FftPlace& from, Index n, Buffer<T> to, bool swapped) const {
    T* const data = static_cast<T*>(from.data);
    const Index re = swapped ? lanes : 0, im = lanes - re;
    Index i = 0;
    if (c_.count == lanes && from.row == 2 && from.imag == 1) {  // contiguous columns: transpose
      for (; i + lanes / 2 <= n; i += lanes / 2) {
        Vec<T> x[lanes];
#pragma GCC unroll 16
        for (Index c = 0; c < lanes; ++c) x[c] = Vec<T>::load(data + 2 * i + c * from.column);
        interleave_all<1>(x);
#pragma GCC unroll 16
        for (Index k = 0; k < lanes; k += 2) {
          x[k].store(to.data + 2 * lanes * i + lanes * k + re);
          x[k + 1].store(to.data + 2 * lanes * i + lanes * k + im);
        }
      }
    } else if (c_.count == lanes && from.column == 1) {
      for (; i < n; ++i) {
        Vec<T>::load(data + i * from.row).store(to.data + 2 * lanes * i + re);
        (from.imag ? Vec<T>::load(data + i * from.row + from.imag) : Vec<T>(0)).store(to.data + 2 * lanes * i + im);
      }
    }
    for (; i < n; ++i) {
      T* const pair = to.data + 2 * lanes * i;
      const T* const row = data + i * from.row;
      for (Index c = 0; c < c_.count; ++c) {
        pair[re + c] = row[c * from.column];
        pair[im + c] = from.imag ? row[c * from.column + from.imag] : T(0);
      }
      for (Index c = c_.count; c < lanes; ++c) pair[c] = pair[lanes + c] = T(0);
    }
  }

  void store(Buffer<T> from, const FftPlace& to, Index n, bool swapped) const {
    T* const data = static_cast<T*>(to.data);
    const Index re = swapped ? lanes : 0, im = lanes - re;
    const Vec<T> scale(c_.scale);
    const T factor = static_cast<T>(c_.scale);
    Index i = 0;
    if (c_.count == lanes && to.row == 2 && to.imag == 1) {
      for (; i + lanes / 2 <= n; i += lanes / 2) {
        Vec<T> x[lanes];
#pragma GCC unroll 16
        for (Index k = 0; k < lanes; k += 2) {
          x[k] = Vec<T>::load(from.data + 2 * lanes * i + lanes * k + re) * scale;
          x[k + 1] = Vec<T>::load(from.data + 2 * lanes * i + lanes * k + im) * scale;
        }
        interleave_all<1>(x);
#pragma GCC unroll 16
        for (Index c = 0; c < lanes; ++c) x[c].store(data + 2 * i + c * to.column);
      }
    } else if (c_.count == lanes && to.column == 2 && to.imag == 1) {
      const Dense<T> pairs{data, to.row, swapped, scale};
      for (; i < n; ++i) pairs.store(i, from.load(i));
    } else if (c_.count == lanes && to.column == 1) {
      for (; i < n; ++i) {
        (Vec<T>::load(from.data + 2 * lanes * i + re) * scale).store(data + i * to.row);
        if (to.imag) (Vec<T>::load(from.data + 2 * lanes * i + im) * scale).store(data + i * to.row + to.imag);
      }
    }
    for (; i < n; ++i) {
      const T* const pair = from.data + 2 * lanes * i;
      T* const row = data + i * to.row;
      for (Index c = 0; c < c_.count; ++c) {
        row[c * to.column] = pair[re + c] * factor;
        if (to.imag) row[c * to.column + to.imag] = pair[im + c] * factor;
      }
    }
  }

  void multiply_roots(Buffer<T> x) const {
    const Buffer<T> of_lanes{static_cast<T*>(const_cast<void*>(c_.lane_roots))};
    const T* const of_block = static_cast<const T*>(c_.block_roots);
    for (Index k = 0; k < n_; ++k) x.store(k, x.load(k) * (repeated(of_block + 2 * k) * of_lanes.load(k)));
  }

  void part_halves(Buffer<T> z, Buffer<T> x) const {
    const Vec<T> half(0.5), signed_half(c_.inverse ? -0.5 : 0.5), none(0);
    const Pair<T> first = z.load(0);
    x.store(0, {first.re + first.im, none});
    x.store(n_, {first.re - first.im, none});
    for (Index k = 1; k <= n_ - k; ++k) {
      Pair<T> a = z.load(k), b = z.load(n_ - k);
      combine_halves<false>(a, b, root(k));
      x.store(k, {a.re * half, a.im * signed_half});
      x.store(n_ - k, {b.re * half, b.im * signed_half});
    }
  }
  void join_halves(Buffer<T> x, Buffer<T> z) const {
    const Vec<T> sign(c_.inverse ? 1 : -1);
    const Vec<T> first = x.load(0).re, last = x.load(n_).re;
    z.store(0, {first - last, first + last});
    for (Index k = 1; k <= n_ - k; ++k) {
      Pair<T> a = x.load(k), b = x.load(n_ - k);
      a.im = a.im * sign;
      b.im = b.im * sign;
      combine_halves<true>(a, b, root(k));
      z.store(k, {a.im, a.re});
      z.store(n_ - k, {b.im, b.re});
    }
  }
  Pair<T> root(Index k) const { return repeated(static_cast<const T*>(plan_.real_roots) + 2 * k); }

  const FftColumns& c_;
  const FftPlan& plan_;
  const Index n_;
};

template <class T>
void columns(const FftColumns& c) {
  Columns<T>(c).run();
}

template <class T>
constexpr FftKernels kernels_of() {
  constexpr Index lanes = Vec<T>::lanes;
  constexpr Index first = first_radix<T>, second = second_radix<T>;
  return {lanes, columns<T>, transform_row<T>, (first)*lanes, {first, second, 0}, combine<T>, multiply<T>};
}

void fill_fft(stave_cpu::Kernels& table) {
  table.fft[static_cast<int>(stave::Dtype::float32)] = kernels_of<float>();
  table.fft[static_cast<int>(stave::Dtype::float64)] = kernels_of<double>();
}

}  // namespace STAVE_KERNELS
