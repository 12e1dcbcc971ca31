// Signal processing by Fourier transforms: convolution, cosine transforms, and short-time
// transforms. Values are those of SciPy's functions. For convolutions of networks see
// convolution.h.
#pragma once

#include <optional>

#include <stave/core/ops/fft.h>

namespace stave {

/// The part of a convolution that is returned: all elements (full), as many as x has, from the
/// middle (same), or those that do not depend on zeros beyond the ends (valid).
enum class ConvolveMode { full, same, valid };

struct ConvolveOptions {
  [[no_unique_address]] ByName by_name{};
  ConvolveMode mode = ConvolveMode::full;
};
struct FftConvolveOptions {
  [[no_unique_address]] ByName by_name{};
  ConvolveMode mode = ConvolveMode::full;
  /// The axes along which to convolve; the default is all. The other axes are broadcast.
  std::optional<Shape> axes{};
};
/// The convolution of two vectors, computed from products, as NumPy's convolve but for the mode
/// `same`: out[k] = sum over j of x[j] y[k - j]. Unlike NumPy, `same` has the length of x. Real
/// operands. In mode `valid` no operand may be longer than x. Throws ShapeError for other ranks.
Tensor convolve(const Tensor& x, const Tensor& y, const ConvolveOptions& options = {});
/// The convolution along axes, computed by Fourier transforms, as SciPy's fftconvolve. Real or
/// complex operands of one rank; integers become default_dtype(). In mode `valid` x must be at
/// least as long as y along each of the axes. The absolute error is about that of the largest
/// results.
Tensor fftconvolve(const Tensor& x, const Tensor& y, const FftConvolveOptions& options = {});

struct DctOptions {
  [[no_unique_address]] ByName by_name{};
  int type = 2;  ///< 1, 2, 3 or 4
  std::optional<Index> n{};
  Index axis = -1;
  FftNorm norm = FftNorm::backward;
};
/// The discrete cosine transform of a real x along an axis, as SciPy's dct. With N elements
/// and backward norm:
///   type 1  y[k] = x[0] + (-1)^k x[N - 1] + 2 sum over 0 < j < N - 1 of x[j] cos(pi j k / M),
///           with M = N - 1 and N >= 2
///   type 2  y[k] = 2 sum over j of x[j] cos(pi k (2 j + 1) / (2 N))
///   type 3  y[k] = x[0] + 2 sum over j > 0 of x[j] cos(pi j (2 k + 1) / (2 N))
///   type 4  y[k] = 2 sum over j of x[j] cos(pi (2 j + 1) (2 k + 1) / (4 N))
/// The norm forward divides these by 2 N (type 1: 2 (N - 1)). The norm ortho makes the transform
/// orthogonal. Throws ShapeError for another type and for too small an N.
Tensor dct(const Tensor& x, const DctOptions& options = {});
/// The inverse of dct with the same options.
Tensor idct(const Tensor& x, const DctOptions& options = {});

struct StftOptions {
  [[no_unique_address]] ByName by_name{};
  Index hop = 0;  ///< the distance of neighbouring frames; 0: half of the window
  /// The length of the transforms, at least that of the window: frames are padded with zeros.
  std::optional<Index> n{};
  /// Pads x with half a window of zeros on both sides, so that frame t is centered at t * hop.
  bool centered = true;
};
/// The short-time Fourier transform of a real x [..., length] with a window [m]: the transforms
/// [..., n / 2 + 1, frames] of x[t hop + i] * window[i], i < m, for all whole frames t. SciPy's
/// legacy stft divides this by the sum of the window.
Tensor stft(const Tensor& x, const Tensor& window, const StftOptions& options = {});
/// The signal of the given length whose stft is closest to z in the mean square (Griffin and Lim
/// 1984, "Signal estimation from modified short-time Fourier transform"): the inverse of stft.
/// Elements that no window reaches are 0.
Tensor istft(const Tensor& z, const Tensor& window, Index length, const StftOptions& options = {});

}  // namespace stave
