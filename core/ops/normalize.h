// Normalisation. layer_norm over last axes is one operation on the CPU, all else is composed. Mean
// and variance are taken in two passes, integers become default_dtype(), halves are computed in
// float32 and rounded once. Squares are taken in units in which they neither overflow nor vanish,
// so that large and small numbers are normalised like any. Where nothing varies the result is the
// bias, and derivatives are finite.
//
// An empty weight is 1, an empty bias 0.
#pragma once

#include <utility>

#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

struct LayerNormOptions {
  [[no_unique_address]] ByName by_name{};
  Tensor weight{}, bias{};  ///< of the lengths of the axes, in order
  double epsilon = 1e-5;
  Axes axes = -1;
};
/// (x - mean) / sqrt(variance + epsilon) * weight + bias, of mean and (population's) variance over the axes. Ba et al., "Layer
/// normalization", 2016; PyTorch's, and Flax's but for its epsilon of 1e-6. Throws ShapeError if weight or bias do not fit.
Tensor layer_norm(const Tensor& x, LayerNormOptions options = {});

struct RmsNormOptions {
  [[no_unique_address]] ByName by_name{};
  Tensor weight{};  ///< of the lengths of the axes, in order
  double epsilon = 1e-6;
  Axes axes = -1;
};
/// x / sqrt(mean(x^2) + epsilon) * weight. Zhang and Sennrich, "Root mean square layer normalization", 2019; Flax's.
Tensor rms_norm(const Tensor& x, RmsNormOptions options = {});

struct GroupNormOptions {
  [[no_unique_address]] ByName by_name{};
  Tensor weight{}, bias{};  ///< [channels]
  double epsilon = 1e-5;
  bool channels_last = false;
};
/// For x [examples, channels, ...] (or [examples, ..., channels]): as layer_norm, over all but the examples, of each of so many groups of
/// channels that follow one another. Wu and He, "Group normalization", 2018; PyTorch's. Throws ShapeError if channels do not make groups.
Tensor group_norm(const Tensor& x, Index groups, GroupNormOptions options = {});

/// What batch_norm remembers: two vectors [channels]. Begin with zeros and ones.
struct BatchStatistics {
  Tensor mean, variance;
};
struct BatchNormOptions {
  [[no_unique_address]] ByName by_name{};
  Tensor weight{}, bias{};  ///< [channels]
  double epsilon = 1e-5;
  double momentum = 0.1;  ///< of the batch in the new statistics
  bool channels_last = false;
};
/// For x [examples, channels, ...] (or [examples, ..., channels]), in training: every channel by mean and variance of this batch, and the
/// new statistics, (1 - momentum) old + momentum batch, with the unbiased variance; they carry derivatives: stop_gradient cuts these.
/// Ioffe and Szegedy, "Batch normalization", 2015; PyTorch's. Throws ShapeError for channels with a single value. Under vmap each lane
/// is a batch of its own.
std::pair<Tensor, BatchStatistics> batch_norm(const Tensor& x, const BatchStatistics& running,
                                              BatchNormOptions options = {});
/// In use: every channel by the given statistics.
Tensor batch_norm_inference(const Tensor& x, const BatchStatistics& running, BatchNormOptions options = {});

struct NormalizeOptions {
  [[no_unique_address]] ByName by_name{};
  Axes axes = -1;
  double epsilon = 1e-12;
};
/// x / max(norm(x), epsilon) over the axes: of length 1, but for zeros, which stay. PyTorch's.
Tensor normalize(const Tensor& x, NormalizeOptions options = {});

}  // namespace stave
