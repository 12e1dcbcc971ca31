// Convolutions of one to three spatial axes, as networks have them: correlations, whose kernel is not reversed.
//
//   x: [batch..., channels, lengths...], or with channels_last [batch..., lengths..., channels]
//   w: [out, channels / groups, windows...], or with channels_last [windows..., channels / groups, out]
//
//   conv(x, w)                                          as far as the window fits
//   conv(x, w, {.stride = 2, .padding = Padding::same})          one result for every second element
//   conv(x, w, {.padding = {{1, 2}, {0, 1}}})           before and behind, for each axis
//   conv(x, w, {.groups = 8})                           of each eighth of the channels
//
// w says how many spatial axes there are: two less than its rank. What stands before the channels of x is the batch: any number of
// axes, or none. Dtypes are promoted to one, which is the result's: integers wrap, sums of floats of sixteen bits are taken in
// float32 and rounded once. One operation, convolution, and views; its derivatives are convolutions.
#pragma once

#include <concepts>
#include <initializer_list>
#include <utility>

#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// A number for each spatial axis, or one for all of them: 2, {2, 1}.
class PerAxis {
 public:
  /// One of a list: any integer, where a list of Index would take no std::size_t.
  struct Length {
    Index value;
    template <std::integral Integer>
      requires(!std::same_as<Integer, bool>)
    Length(Integer value_) : value(static_cast<Index>(value_)) {}
  };
  template <std::integral Integer>
    requires(!std::same_as<Integer, bool>)
  PerAxis(Integer all) : list_(all) {}
  PerAxis(std::initializer_list<Length> each) : for_all_(false) {
    for (const Length length : each) list_.push_back(length.value);
  }
  PerAxis(Shape each) : list_(std::move(each)), for_all_(false) {}
  PerAxis() = default;

  /// Not given.
  bool empty() const noexcept { return list_.empty(); }
  /// How many axes there are; 0 if one number is for all.
  int axes() const noexcept { return for_all_ ? 0 : list_.rank(); }
  /// One for each of so many axes, none less than `least`. Throws ShapeError that names the function and what the numbers are.
  Shape over(int axes, Index least, const char* function, const char* what) const;

 private:
  Shape list_;
  bool for_all_ = true;
};

/// Zeros before and behind each spatial axis: a number; one for each axis {1, 0}; pairs {{1, 2},
/// {0, 1}}; Padding::same or Padding::valid. Negative ones cut.
class Padding {
 public:
  struct Same {};
  struct Valid {};
  /// As many zeros that there is a result for every stride-th element of x, ceil(length / stride)
  /// of them: at stride 1, dilation * (window - 1). Of an odd number one more stands behind.
  /// (TensorFlow's and JAX's, and PyTorch's, which has stride 1 alone)
  static constexpr Same same{};
  /// None.
  static constexpr Valid valid{};
  template <std::integral Integer>
    requires(!std::same_as<Integer, bool>)
  Padding(Integer all) : low_(all), high_(all) {}
  Padding(std::initializer_list<PerAxis::Length> each) : low_(each), high_(each) {}
  Padding(std::initializer_list<std::pair<Index, Index>> each);
  Padding(Shape low, Shape high) : low_(std::move(low)), high_(std::move(high)) {}
  Padding(Same) : low_(0), high_(0), same_(true) {}
  Padding(Valid) : low_(0), high_(0) {}

  bool is_same() const noexcept { return same_; }
  const PerAxis& low() const noexcept { return low_; }
  const PerAxis& high() const noexcept { return high_; }

 private:
  PerAxis low_, high_;
  bool same_ = false;
};

struct ConvOptions {
  [[no_unique_address]] ByName by_name{};
  PerAxis stride = 1;
  Padding padding = 0;
  PerAxis dilation = 1;        // between neighbours of w: 1 is none
  PerAxis input_dilation = 1;  // between neighbours of x, with zeros in between
  Index groups = 1;
  bool channels_last = false;
};
/// out[n, o, p] = the sum over c and k of x[n, c, p * stride + k * dilation - padding] w[o, c, k]. Of several groups, the first
/// out / groups results take the first channels / groups channels, and so on. Throws ShapeError where lengths do not agree or the
/// window does not fit. Bools are 0 and 1 of int32.
Tensor conv(const Tensor& x, const Tensor& w, const ConvOptions& options = {});

struct ConvTransposeOptions {
  [[no_unique_address]] ByName by_name{};
  PerAxis stride = 1;
  Padding padding = 0;
  PerAxis output_padding = 0;
  PerAxis dilation = 1;
  Index groups = 1;
  bool channels_last = false;
};
/// The transpose of conv with the same w and options, as a linear function of x: what it gives has the shape of what that conv
/// takes. So w is [channels, out / groups, windows...], with channels_last [windows..., out / groups, channels], for x of so many
/// channels. Each length is (length - 1) * stride - padding before and behind + dilation * (window - 1) + 1 + output_padding, or
/// length * stride if Padding::same. output_padding, less than stride or dilation, chooses among
/// the lengths of which conv gives x's. (torch.nn.functional.conv_transpose2d)
Tensor conv_transpose(const Tensor& x, const Tensor& w, const ConvTransposeOptions& options = {});

}  // namespace stave
