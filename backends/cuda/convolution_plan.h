// How convolutions and pooling are laid out over a machine: plain arithmetic, tested without a device.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <stave/backends/cuda/elementwise_plan.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

using stave::View;

/// Numbers of spatial axes; those that an operation does not have are of length 1, before the others.
using Spatial = std::array<Index, 3>;

/// The last entries of a list of so many axes.
inline Spatial spatial(std::span<const Index> all, std::size_t axes, Index fill) {
  Spatial result{fill, fill, fill};
  std::copy(all.end() - static_cast<std::ptrdiff_t>(axes), all.end(), result.end() - static_cast<std::ptrdiff_t>(axes));
  return result;
}
constexpr Index volume(const Spatial& lengths) { return lengths[0] * lengths[1] * lengths[2]; }

/// One axis of the matrix of windows: where it goes on in x, or along which spatial axis its windows, or their elements, move.
struct WindowAxis {
  Divider length;
  Index step = 0;  // in x, in elements
  int spatial = -1;
  Index scale = 0;  // places along it
};

/// A kernel's parameters: element i of the matrix, for i < elements, is one of x, or zero.
struct WindowLoop {
  void* to;
  const void* from;
  std::uint64_t elements;
  WindowAxis axes[9];  // innermost first
  Index low[3], apart[3], length[3], step[3];
};

/// The matrices of windows of some images at a time, [images, groups, terms, places], where there are many places; else
/// [groups, terms, images, places], so that one product has the places of all. The number of images is bounded by their bytes.
class ConvolutionPlan {
 public:
  ConvolutionPlan(const stave::ConvolutionAttributes& a, const View& x, const View& w, const View& out)
      : from_(x.data), size_(static_cast<Index>(stave::size_of(x.dtype))), n_(x.shape[0]), groups_(w.shape[0]),
        o_(w.shape[1]), c_(w.shape[2]) {
    const std::size_t axes = a.strides.size();
    window_ = spatial(w.shape, axes, 1);
    out_ = spatial(out.shape, axes, 1);
    length_ = spatial(x.shape, axes, 1);
    step_ = spatial(x.strides, axes, 0);
    stride_ = spatial(a.strides, axes, 1);
    dilation_ = spatial(a.dilations, axes, 1);
    low_ = spatial(a.low, axes, 0);
    apart_ = spatial(a.input_dilations, axes, 1);
    std::copy(x.strides.begin(), x.strides.begin() + 3, lead_.begin());
    constexpr Index most_bytes = Index{1} << 27, few = 64;
    const Index each = std::max<Index>(1, groups_ * terms() * places() * size_);
    images_ = std::clamp<Index>(most_bytes / each, 1, std::max<Index>(n_, 1));
    images_inside_ = places() < few && images_ > 1;
  }

  Index terms() const { return c_ * volume(window_); }
  Index places() const { return volume(out_); }
  Index images() const { return images_; }
  bool images_inside() const { return images_inside_; }
  Index n() const { return n_; }
  Index groups() const { return groups_; }
  Index results() const { return o_; }
  Index size() const { return size_; }
  bool empty() const { return terms() == 0 || volume(length_) == 0; }

  /// The matrices of images [first, first + count).
  WindowLoop loop(void* to, Index first, Index count) const {
    WindowLoop loop{};
    loop.to = to;
    loop.from = static_cast<const char*>(from_) + first * lead_[0] * size_;
    loop.elements = static_cast<std::uint64_t>(count * groups_ * terms() * places());
    for (std::size_t i = 0; i < 3; ++i) {
      loop.low[i] = low_[i];
      loop.apart[i] = apart_[i];
      loop.length[i] = length_[i];
      loop.step[i] = step_[i];
    }
    WindowAxis* next = loop.axes;
    const auto along = [&](const Spatial& lengths, const Spatial& scales) {
      for (std::size_t i = 3; i-- > 0;) *next++ = {Divider(lengths[i]), 0, static_cast<int>(i), scales[i]};
    };
    const WindowAxis images{Divider(count), lead_[0]};
    along(out_, stride_);
    if (images_inside_) *next++ = images;
    along(window_, dilation_);
    *next++ = {Divider(c_), lead_[2]};
    *next++ = {Divider(groups_), lead_[1]};
    if (!images_inside_) *next++ = images;
    return loop;
  }

 private:
  const void* from_;
  Index size_, n_, groups_, o_, c_;
  Spatial window_, out_, length_, step_, stride_, dilation_, low_, apart_, lead_{};
  Index images_;
  bool images_inside_;
};

/// A kernel's parameters: the places of windows in dense planes of x.
struct PoolLoop {
  const void* from;
  void* to;
  bool wide;  // positions are int64, else int32
  std::uint64_t elements;
  Divider places[3];  // of a window, innermost first
  Index length[3], window[3], stride[3], dilation[3], low[3];
};
inline PoolLoop pool_loop(const stave::PoolAttributes& a, const View& x, const View& out) {
  const std::size_t axes = a.windows.size();
  PoolLoop loop{x.data, out.data, out.dtype == stave::int64, 1, {}, {}, {}, {}, {}, {}};
  for (Index length : out.shape) loop.elements *= static_cast<std::uint64_t>(length);
  const Spatial places = spatial(out.shape, axes, 1), length = spatial(x.shape, axes, 1),
                window = spatial(a.windows, axes, 1), stride = spatial(a.strides, axes, 1),
                dilation = spatial(a.dilations, axes, 1), low = spatial(a.low, axes, 0);
  for (std::size_t i = 0; i < 3; ++i) {
    loop.places[2 - i] = Divider(places[i]);
    loop.length[i] = length[i];
    loop.window[i] = window[i];
    loop.stride[i] = stride[i];
    loop.dilation[i] = dilation[i];
    loop.low[i] = low[i];
  }
  return loop;
}

}  // namespace stave_cuda
