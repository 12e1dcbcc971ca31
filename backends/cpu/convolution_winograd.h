// Convolutions with windows of 3x3 by Winograd's algorithm F(2x2, 3x3) (A. Lavin and S. Gray, Fast
// Algorithms for Convolutional Neural Networks, CVPR 2016, arXiv:1509.09308), for constant weights.
//
// A tile of 4x4 elements d of x gives 2x2 results
//   A^T [ (G g G^T) * (B^T d B) ] A,
// where g are the weights and * multiplies element by element. The sum over the channels of x is
// taken in the brackets. So the convolution becomes 16 products of matrices
//   U [result channels, channels] V [channels, tiles],
// with 16 multiplications for 4 results in place of 36. The matrices U of the weights are computed
// once, in float64, and rounded once.
//
// The results are not those of the other algorithms, but as accurate for most uses: the transforms
// add and subtract up to four elements each, so rounding errors grow by a small factor. On random
// values, the error is below 1e-6 of the sum of |x w|. The results whose windows contain a NaN of x
// are NaN, as they should be. Those whose windows contain an infinity are not finite, but they may
// be NaN where they should be infinite.
#pragma once

#include <memory>

#include <stave/backends/cpu/finished.h>
#include <stave/backends/cpu/scratch.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

struct Convolution;

/// The 16 matrices U = G g G^T for the weights of a convolution, in this layout:
///   [groups][16][blocks of channels][result channels][step]
/// A block has the channels of x that one call of the kernel of products takes.
class WinogradWeights final : public stave::PreparedInput {
 public:
  explicit WinogradWeights(const Convolution& p);

  std::size_t bytes() const override { return static_cast<std::size_t>(groups_ * of_group_) * sizeof(float); }
  /// Returns rows [o, ...) of a block of matrix k. Rows are step() elements apart.
  const float* rows(Index group, Index k, Index block, Index o) const {
    return data_.get() + group * of_group_ + k * of_matrix_ + (block * results_ + o) * step_;
  }
  Index step() const { return step_; }

 private:
  Index groups_, results_, step_, of_matrix_, of_group_;
  Scratch<float> data_;
};

/// Returns the transformed weights for a convolution of these layouts, or null if another algorithm
/// takes it. Only w needs an address.
std::shared_ptr<const WinogradWeights> winograd_weights(const stave::ConvolutionAttributes& attributes,
                                                        const stave::View& x, const stave::View& w,
                                                        const stave::View& out);

/// Computes a convolution with such weights. `finished`, unless it is null, receives all results.
void run_winograd(const stave::ConvolutionAttributes& attributes, const stave::View& x, const stave::View& w,
                  const stave::View& out, const WinogradWeights& weights, const Finished* finished);

}  // namespace stave_cpu
