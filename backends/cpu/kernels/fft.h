// The interface of the kernels of Fourier transforms. A plan, which the driver backends/cpu/fft.cpp
// makes, holds the factors of a length and the roots of unity. All strides count real numbers, so
// that a column may lie as pairs, as two rows of real numbers, or without imaginary parts.
#pragma once

#include <cstdint>

namespace stave_cpu {

/// One pass of Stockham's algorithm (Cochran et al. 1967, "What is the fast Fourier transform?"),
/// decimating in frequency. With length = radix * rest, for p < rest, q < stride and k < radix:
///   y[q + stride (radix p + k)] =
///       w^(p k) * (sum over j < radix of x[q + stride (p + rest j)] e^(-2 pi i j k / radix))
/// where w = e^(-2 pi i / length).
struct FftStage {
  std::int64_t radix, rest, stride;
  const void* twiddles;  // w^(p k) as pairs, [rest][radix - 1]
  const void* roots;     // for an odd radix: cos and sin of 2 pi j / radix for j < radix, as pairs
};

inline constexpr std::int64_t largest_fft_radix = 13;
inline constexpr int most_fft_stages = 64;

/// The passes of a transform.
struct FftPlan {
  std::int64_t length;
  int stages;
  const FftStage* stage;
  /// For a transform of 2 * length real numbers as `length` complex ones: e^(-2 pi i k / (2
  /// length)) for k <= length, as pairs. Null in other plans.
  const void* real_roots;
};

/// The place of columns: element i of column c has its real part at data + i * row + c * column,
/// and its imaginary part `imag` numbers later. There are no imaginary parts if `imag` is 0.
struct FftPlace {
  void* data;
  std::int64_t row, column, imag;
};

enum class FftKind : std::uint8_t { complex, real_to_complex, complex_to_real };

/// Columns that are transformed together.
struct FftColumns {
  const FftPlan* plan;
  FftKind kind;
  bool inverse;  // true: the exponent is +2 pi i j k / length
  double scale;
  FftPlace in, out;
  std::int64_t count;   // at most FftKernels::lanes
  std::int64_t stored;  // the number of elements that are stored; the rest is dropped.
  /// If not null, element k of column c is also multiplied by block_roots[k] * lane_roots[k][c]
  /// (lane_roots: the real parts of all lanes, then the imaginary ones). Columns of real numbers
  /// have no such factors.
  const void *block_roots, *lane_roots;
  void* work;  // 4 * lanes * (length + 1) numbers
};

/// The kernels of Fourier transforms for one type of real numbers.
struct FftKernels {
  std::int64_t lanes;
  /// Transforms columns, each in a lane of a vector.
  void (*columns)(const FftColumns& columns);
  /// Transforms one dense row of complex numbers by vectors along the row; plan.length is a
  /// multiple of row_unit. The twiddles of the passes whose stride is less than `lanes` are
  /// vectors, [position / lanes][radix - 1][re, im], where position = q + stride p. row_radices has
  /// the radices of these passes, up to a 0; their product divides the length. `work` has room for
  /// 4 * length numbers. `out` may be `in`.
  void (*row)(const FftPlan& plan, bool inverse, double scale, const void* in, void* out, void* work);
  std::int64_t row_unit;
  std::int64_t row_radices[3];
  /// Makes the transform of 2 n real numbers from that of n complex ones, both dense, or, if
  /// `joins`, the reverse, times 2: [n + 1] from [n], or [n] from [n + 1]. The former's signs are
  /// those of an inverse transform if `inverse`. `roots` is real_roots of the plan. `out` may be
  /// `in`, unless `joins`.
  void (*combine)(bool joins, bool inverse, const void* in, void* out, const void* roots, std::int64_t n);
  /// Computes out[i] = a[i] * b[i] for n complex numbers. `out` may be `a`.
  void (*multiply)(void* out, const void* a, const void* b, std::int64_t n);
};

}  // namespace stave_cpu
