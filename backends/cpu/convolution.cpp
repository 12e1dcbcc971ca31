// Convolutions on the CPU: run_convolution chooses among five algorithms. None of them builds the
// whole im2col matrix. `phases` removes input dilation, and the other four compute a convolution
// without it.
//
//   phases    If x is dilated, results are grouped by the remainder of their position, and each
//             group is a convolution of its own. It uses every n-th element of w for some n, and
//             x without the zeros of the dilation.
//   rows      For few channels or wide rows, and for integers. A padded copy of some rows of x
//             stays in the L2 cache. A row of results is a weighted sum of shifted rows of the
//             copy, computed in registers (kernels/convolution.cpp).
//   sums      For large windows, which give few results. Each result is a sum of products of rows
//             of w and shifted rows of x.
//   panels    For all others, in floats, if the instruction set has a kernel of products. The
//             kernel reads the rows of the im2col matrix from a padded copy of a part of x.
//   products  For all other convolutions. Tiles of the im2col matrix are built in a buffer that
//             stays in the L2 cache, and BLAS multiplies them by w.
//
// A compiled program with constant weights may use Winograd's algorithm (convolution_winograd.h).
#include <stave/backends/cpu/convolution.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include <stave/backends/cpu/convolution_panels.h>
#include <stave/backends/cpu/convolution_products.h>
#include <stave/backends/cpu/convolution_rows.h>
#include <stave/backends/cpu/convolution_sums.h>
#include <stave/backends/cpu/matmul.h>

namespace stave_cpu {

using stave::Shape;
using stave::Strides;

namespace {

/// Returns true for convolutions by the kernel of matrix products. With few result channels most of
/// its registers stay unused. With few terms, to write the sums twice takes too long (measured).
template <class T>
bool takes_panels(const Convolution& p) {
  constexpr Index least_channels = 4, least_terms = 192;
  if (!PanelWeights<T>::fit(p) || p.o < least_channels) return false;
  return p.terms() >= least_terms || p.out[2] * p.size < vector_part;
}

/// Returns true if `finished` received the results.
template <class T>
bool run_undilated(const Convolution& p, const Finished* finished) {
  const auto run = [](const auto& convolution) {
    convolution.run();
    return false;
  };
  if constexpr (std::is_floating_point_v<T>) {
    const auto fills = [&](Index row) { return row * p.size >= vector_part; };
    if (p.window[2] > p.out[2]) {
      const bool few =
          // ConvolutionProducts copies the window of each position of the result once for all o
          // result channels. With few result channels, the copies would take more time than the
          // products.
          p.o <= 4 * volume(p.out);
      const bool near = (p.out[1] - 1) * p.stride[1] <= 64 && (p.out[2] - 1) * p.stride[2] <= 64;
      return few && near && fills(p.window[2]) ? run(ConvolutionSums<T>(p)) : run(ConvolutionProducts<T>(p));
    }
    if (const PanelProduct* const kernel = panel_product<T>(); kernel && takes_panels<T>(p)) {
      ConvolutionPanels<T>(p, *kernel, PanelWeights<T>(p)).run(finished);
      return finished != nullptr;
    }
    if ((!fills(p.out[2]) && p.o * p.c > 1) || p.terms() > 4096) return run(ConvolutionProducts<T>(p));
  }
  return run(ConvolutionRows<T>(p));
}

bool run_phase(const Convolution& p, const Finished* finished = nullptr) {
  return stave::visit_real_dtype(p.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!stave::is_half<T> && !std::is_same_v<T, bool>) return run_undilated<T>(p, finished);
    else return false;
  });
}

/// Restricts `p` to one phase: the results whose position along `axis` has remainder r, and the
/// elements of w that are multiplied by elements of x there. Let s, d and e be the stride, dilation
/// and input dilation. At position r + j e / gcd(s, e) of the result, window element k + t e /
/// gcd(d, e) is multiplied by the element of x with the index
///   (r s + k d - low) / e + j s / gcd(s, e) + t d / gcd(d, e),
/// where k is the first index for which (r s + k d - low) / e is an integer. Returns false if there
/// is no such k; the sums are then empty.
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

/// Runs all phases along `axis` and the axes after it. Results that belong to no phase are already
/// zero.
void run_phases(const Convolution& p, const Triple& apart, std::size_t axis) {
  if (axis == 3) return void(run_phase(p));
  const Index phases = std::min(apart[axis] / std::gcd(p.stride[axis], apart[axis]), p.out[axis]);
  for (Index r = 0; r < phases; ++r) {
    Convolution phase = p;
    if (take_phase(phase, axis, apart[axis], r)) run_phases(phase, apart, axis + 1);
  }
}

/// Runs a convolution with a window of one element as the product of the matrices [o, c] and [c,
/// positions]. Returns nothing if the window has more elements, or if the spatial axes of x cannot
/// be merged to one.
std::optional<bool> run_as_product(const Convolution& p, const View& out, const Finished* finished) {
  const Operand &x = p.x, &w = p.w;
  if (volume(p.window) != 1 || p.stride != Triple{1, 1, 1} || p.low != Triple{} || p.in != p.out) return std::nullopt;
  // The number of positions that are merged so far, and their distance in memory.
  Index each = 0, step = 0;
  for (std::size_t axis = 3; axis-- > 0;) {
    if (p.in[axis] == 1) continue;
    if (each == 0) step = x.step[axis], each = p.in[axis];
    else if (x.step[axis] == step * each) each *= p.in[axis];
    else return std::nullopt;
  }
  const Index places = volume(p.out);
  const Index a_shape[] = {p.n, p.groups, p.o, p.c}, b_shape[] = {p.n, p.groups, p.c, places},
              y_shape[] = {p.n, p.groups, p.o, places};
  const Index a_strides[] = {0, w.lead[0] / p.size, w.lead[1] / p.size, w.lead[2] / p.size};
  const Index b_strides[] = {x.lead[0] / p.size, x.lead[1] / p.size, x.lead[2] / p.size, step / p.size};
  const Strides y_strides = stave::contiguous_strides(Shape(std::span(y_shape)));
  return run_matmul({w.data, p.dtype, a_shape, a_strides}, {x.data, p.dtype, b_shape, b_strides},
                    {out.data, p.dtype, y_shape, y_strides}, {.finished = finished});
}

}  // namespace

bool run_convolution(const ConvolutionAttributes& attributes, const View& x, const View& w, const View& out,
                     const Finished* finished) {
  const Convolution p = convolution_of(attributes, x, w, out);
  const Index elements = element_count(out.shape);
  if (elements == 0) return false;
  const Triple apart = spatial(attributes.input_dilations, attributes.strides.size(), 1);
  const bool empty = p.c == 0 || volume(p.in) == 0;
  if (empty || apart != Triple{1, 1, 1}) std::memset(out.data, 0, static_cast<std::size_t>(elements * p.size));
  if (empty) return false;
  if (apart != Triple{1, 1, 1}) {
    run_phases(p, apart, 0);
    return false;
  }
  if (const std::optional<bool> done = run_as_product(p, out, finished)) return *done;
  return run_phase(p, finished);
}

}  // namespace stave_cpu
