// The plans of the convolution and pooling kernels. This is host arithmetic, tested without a
// device.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <stave/backends/cuda/elementwise_plan.h>
#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

using stave::View;

/// One number per spatial axis. If an operation has fewer than three spatial axes, axes of length 1
/// precede its own.
using Spatial = std::array<Index, 3>;

/// Returns the last `axes` entries of `all`; the entries before them are `fill`.
inline Spatial spatial(std::span<const Index> all, std::size_t axes, Index fill) {
  Spatial result{fill, fill, fill};
  std::copy(all.end() - static_cast<std::ptrdiff_t>(axes), all.end(), result.end() - static_cast<std::ptrdiff_t>(axes));
  return result;
}
constexpr Index volume(const Spatial& lengths) { return lengths[0] * lengths[1] * lengths[2]; }

/// One axis of the im2col matrices. It enumerates images, groups or channels of x, or, along one
/// spatial axis, the positions of the window or the elements within the window.
struct WindowAxis {
  Divider length;
  Index step = 0;  // for images, groups and channels: the step in x, in elements
  int spatial = -1;
  // Along a spatial axis: the number of positions of x by which one step of this axis moves.
  Index scale = 0;
};

/// Parameters of the kernel that fills the im2col matrices. For 0 <= i < elements, it sets to[i] to
/// an element of x, or to 0 in the padding.
struct WindowLoop {
  void* to;
  const void* from;
  std::uint64_t elements;
  WindowAxis axes[9];  // innermost first
  Index low[3], apart[3], length[3], step[3];
};

/// The plan of the im2col matrices. They are built for some images at a time, because their size in
/// bytes is limited. A place is a position in the output of an image. A term is one product of the
/// sum at a place: an input channel and an element of the window. If an image has many places, the
/// layout is
///  [images, groups, terms, places]
/// Otherwise one matrix product covers the places of all these images, and the layout is
///  [groups, terms, images, places]
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

  /// Returns the parameters of the kernel that fills the im2col matrices of images
  /// [first, first + count).
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

/// Parameters of the pooling kernel, which finds the maximum of each window of contiguous x. A
/// plane is the spatial axes of one image and channel.
struct PoolLoop {
  const void* from;
  void* to;
  bool wide;  // true if positions are int64, false if they are int32
  std::uint64_t elements;
  Divider places[3];  // lengths of the axes of window positions, innermost first
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
