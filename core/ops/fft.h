// Discrete Fourier transforms: the functions of the array API standard, in float32, float64 and
// their complex dtypes. Integers become default_dtype(), sixteen-bit floats float32.
//
// The transform of x along an axis of length n is X[k] = sum over j of x[j] e^(-2 pi i j k / n).
// Any length takes a time proportional to n log n; products of 2, 3, 5 and 7 are fastest.
// Transforms are linear, and their derivatives are transforms too.
#pragma once

#include <optional>

#include <stave/core/tensor/default_dtype.h>
#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// The factor of transforms of n elements: 1 for forward transforms and 1 / n for inverse ones
/// (backward), the reverse (forward), or 1 / sqrt(n) for both (ortho).
enum class FftNorm { backward, ortho, forward };

struct FftOptions {
  [[no_unique_address]] ByName by_name{};
  /// The length of the signal. x is cut, or padded with zeros at the end. The default is the length
  /// of x, and 2 (length of x - 1) for irfft and hfft. Throws ShapeError if the length is less than
  /// 1.
  std::optional<Index> n{};
  Index axis = -1;
  FftNorm norm = FftNorm::backward;
};
struct FftnOptions {
  [[no_unique_address]] ByName by_name{};
  /// The lengths of the signal along `axes`, as FftOptions::n; -1 means all elements.
  std::optional<Shape> s{};
  /// The default is all axes, or, if `s` is given, the last ones. rfftn and irfftn transform the
  /// last of them as rfft and irfft. Throws ShapeError if an axis is given twice.
  std::optional<Shape> axes{};
  FftNorm norm = FftNorm::backward;
};
struct Fft2Options {
  [[no_unique_address]] ByName by_name{};
  std::optional<Shape> s{};
  Shape axes{-2, -1};
  FftNorm norm = FftNorm::backward;
};

/// The transform of x along an axis.
Tensor fft(const Tensor& x, const FftOptions& options = {});
/// The inverse of fft.
Tensor ifft(const Tensor& x, const FftOptions& options = {});
/// The first n / 2 + 1 elements of the transform of a real x; the others are
/// X[n - k] = conj(X[k]). Throws DtypeError if x is complex.
Tensor rfft(const Tensor& x, const FftOptions& options = {});
/// The real signal of length n whose rfft is x. The imaginary parts of x[0] and, if n is even, of
/// x[n / 2] do not count.
Tensor irfft(const Tensor& x, const FftOptions& options = {});
/// The transform of a signal s of length n with s[n - j] = conj(s[j]); x is its first half, s[0],
/// ..., s[n / 2]. The transform is real.
Tensor hfft(const Tensor& x, const FftOptions& options = {});
/// The first half, n / 2 + 1 elements, of the inverse transform of a real x.
Tensor ihfft(const Tensor& x, const FftOptions& options = {});

/// The transform of x along several axes.
Tensor fftn(const Tensor& x, const FftnOptions& options = {});
/// The inverse of fftn.
Tensor ifftn(const Tensor& x, const FftnOptions& options = {});
/// rfft along the last of the axes, then fft along the others.
Tensor rfftn(const Tensor& x, const FftnOptions& options = {});
/// The inverse of rfftn: ifft along all axes but the last one, then irfft along the last one.
Tensor irfftn(const Tensor& x, const FftnOptions& options = {});
/// fftn along two axes.
Tensor fft2(const Tensor& x, const Fft2Options& options = {});
/// ifftn along two axes.
Tensor ifft2(const Tensor& x, const Fft2Options& options = {});
/// rfftn along two axes.
Tensor rfft2(const Tensor& x, const Fft2Options& options = {});
/// irfftn along two axes.
Tensor irfft2(const Tensor& x, const Fft2Options& options = {});

/// The frequencies of the elements of fft, in cycles per unit of time, for n samples at a distance
/// of d: [0, 1, ..., (n - 1) / 2, -(n / 2), ..., -1] / (d n).
Tensor fftfreq(Index n, double d = 1, Dtype dtype = default_dtype(), Device device = cpu);
/// The frequencies of the elements of rfft: [0, 1, ..., n / 2] / (d n).
Tensor rfftfreq(Index n, double d = 1, Dtype dtype = default_dtype(), Device device = cpu);
/// x with the element of frequency 0 in the middle of the axes (without axes: all of them).
Tensor fftshift(const Tensor& x);
Tensor fftshift(const Tensor& x, const Shape& axes);
/// The inverse of fftshift.
Tensor ifftshift(const Tensor& x);
Tensor ifftshift(const Tensor& x, const Shape& axes);

}  // namespace stave
