// Convolutions with one to three spatial axes, as neural networks define them: correlations,
// whose kernel is not reversed.
//
//   x: [batch..., channels, lengths...], or with channels_last [batch..., lengths..., channels]
//   w: [out, channels / groups, windows...],
//      or with channels_last [windows..., channels / groups, out]
//
//   conv(x, w)                                            no padding: the window lies within x
//   conv(x, w, {.stride = 2, .padding = Padding::same})   one result for every second element
//   conv(x, w, {.padding = {{1, 2}, {0, 1}}})             zeros before and after x, for each axis
//   conv(x, w, {.groups = 8})                             each eighth of the channels by itself
//
// The number of spatial axes is the rank of w minus two. The axes before the channels of x are the
// batch; there may be any number of them, or none. Dtypes are promoted to one, which is the dtype
// of the result. Integers wrap; sums of 16-bit floats are computed in float32 and rounded once.
//
// conv consists of one operation, convolution, and views. The derivatives of convolution are
// convolutions again.
#pragma once

#include <concepts>
#include <initializer_list>
#include <utility>

#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// A number for each spatial axis, or one number for all of them: 2, {2, 1}.
class PerAxis {
 public:
  /// An entry of a list, which converts from any integer type. (A std::initializer_list<Index>
  /// would not accept a std::size_t.)
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

  /// Returns true if no number was given.
  bool empty() const noexcept { return list_.empty(); }
  /// The number of entries in the list; 0 if one number applies to all axes.
  int axes() const noexcept { return for_all_ ? 0 : list_.rank(); }
  /// Returns one number for each of `axes` axes. Throws ShapeError, which names the function and
  /// the parameter (`what`), if the list has another length or a number is less than `least`.
  Shape over(int axes, Index least, const char* function, const char* what) const;

 private:
  Shape list_;
  bool for_all_ = true;
};

/// The numbers of zeros before and after each spatial axis: one number for all; one for each axis,
/// {1, 0}; a pair for each axis, {{1, 2}, {0, 1}}; Padding::same or Padding::valid. Negative
/// numbers remove elements.
class Padding {
 public:
  struct Same {};
  struct Valid {};
  /// Pads such that there is one result for every stride-th element of x: ceil(length / stride)
  /// results. At stride 1 this takes dilation * (window - 1) zeros. If the number of zeros is odd,
  /// the additional one comes after the elements. TensorFlow and JAX define it so, and PyTorch does
  /// for stride 1, the only one that it allows.
  static constexpr Same same{};
  /// No padding.
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
  PerAxis dilation = 1;        // distance between neighbouring elements of w
  PerAxis input_dilation = 1;  // distance between neighbouring elements of x, with zeros in between
  Index groups = 1;
  bool channels_last = false;
};
/// The convolution of x with w:
///   out[n, o, p] = the sum over c and k of x[n, c, p * stride + k * dilation - padding] w[o, c, k]
/// With several groups, the first out / groups channels of the result are computed from the first
/// channels / groups channels of x, and so on. Throws ShapeError if lengths do not agree or if the
/// window is larger than the padded x.
/// Bools count as 0 and 1 of int32.
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
/// The transpose of conv with the same w and options, as a linear function of x.
/// The result has the shape of that conv's input. So w is [channels, out / groups, windows...],
/// or with channels_last [windows..., out / groups, channels], where x has `channels` channels.
///
/// Each length of the result is (length - 1) * stride - padding before and after + dilation *
/// (window - 1) + 1 + output_padding, or length * stride with Padding::same. Several lengths of a
/// conv's input give the same length of its result; output_padding, which is less than stride or
/// dilation, chooses among them. This is torch.nn.functional.conv_transpose2d.
Tensor conv_transpose(const Tensor& x, const Tensor& w, const ConvTransposeOptions& options = {});

}  // namespace stave
