// Normalisation. layer_norm over the last axes is one operation on the CPU; everything else is
// composed of other operations.
//
// Mean and variance are computed in two passes. Integers become default_dtype(); 16-bit floats are
// computed in float32 and rounded once. Squares are computed in units in which they neither
// overflow nor underflow, so that very large and very small numbers are normalised accurately.
// Where the values do not vary, the result is the bias, and derivatives are finite.
//
// An empty weight counts as 1, an empty bias as 0.
#pragma once

#include <utility>

#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

struct LayerNormOptions {
  [[no_unique_address]] ByName by_name{};
  Tensor weight{}, bias{};  ///< their shape is the lengths of `axes`, in order
  double epsilon = 1e-5;
  Axes axes = -1;
};
/// (x - mean) / sqrt(variance + epsilon) * weight + bias, with the mean and the population variance
/// over the axes. Ba et al., "Layer normalization", 2016. This is PyTorch's layer_norm, and Flax's
/// except for Flax's epsilon of 1e-6. Throws ShapeError if weight or bias do not fit.
Tensor layer_norm(const Tensor& x, LayerNormOptions options = {});

struct RmsNormOptions {
  [[no_unique_address]] ByName by_name{};
  Tensor weight{};  ///< its shape is the lengths of `axes`, in order
  double epsilon = 1e-6;
  Axes axes = -1;
};
/// x / sqrt(mean(x^2) + epsilon) * weight. Zhang and Sennrich, "Root mean square layer
/// normalization", 2019. This is Flax's RMSNorm.
Tensor rms_norm(const Tensor& x, RmsNormOptions options = {});

struct GroupNormOptions {
  [[no_unique_address]] ByName by_name{};
  Tensor weight{}, bias{};  ///< [channels]
  double epsilon = 1e-5;
  bool channels_last = false;
};
/// Normalisation as in layer_norm, for each example over each of `groups` groups of consecutive
/// channels and all other axes. x is [examples, channels, ...] or, with channels_last,
/// [examples, ..., channels]. Wu and He, "Group normalization", 2018. This is PyTorch's group_norm.
/// Throws ShapeError if the channels do not divide into the groups.
Tensor group_norm(const Tensor& x, Index groups, GroupNormOptions options = {});

/// The running statistics of batch_norm: two vectors [channels]. Start with a mean of zeros
/// and a variance of ones.
struct BatchStatistics {
  Tensor mean, variance;
};
struct BatchNormOptions {
  [[no_unique_address]] ByName by_name{};
  Tensor weight{}, bias{};  ///< [channels]
  double epsilon = 1e-5;
  double momentum = 0.1;  ///< the weight of the batch in the new statistics
  bool channels_last = false;
};
/// Batch normalisation in training: normalises every channel
/// by the mean and variance of this batch, and returns the result and the new statistics.
/// x is [examples, channels, ...] or, with channels_last, [examples, ..., channels]. The new
/// statistics are `(1 - momentum) old + momentum batch`, with the unbiased variance of the batch.
/// They carry derivatives, which stop_gradient cuts off.
///
/// Ioffe and Szegedy, "Batch normalization", 2015. This is PyTorch's batch_norm. Throws ShapeError
/// if a channel has fewer than two values. Under vmap each lane is a batch of its own.
std::pair<Tensor, BatchStatistics> batch_norm(const Tensor& x, const BatchStatistics& running,
                                              BatchNormOptions options = {});
/// Batch normalisation after training: normalises every channel by the given statistics.
Tensor batch_norm_inference(const Tensor& x, const BatchStatistics& running, BatchNormOptions options = {});

struct NormalizeOptions {
  [[no_unique_address]] ByName by_name{};
  Axes axes = -1;
  double epsilon = 1e-12;
};
/// x / max(norm(x), epsilon) over the axes: vectors of length 1, except that zeros stay zeros.
/// This is PyTorch's normalize.
Tensor normalize(const Tensor& x, NormalizeOptions options = {});

}  // namespace stave
