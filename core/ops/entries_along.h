// The entries of a tensor along an axis: what unstack returns, and the rows of scan. Internal.
#pragma once

#include <stave/core/tensor/tensor.h>

namespace stave_detail {

/// The entries of a tensor along an axis, each without that axis. An entry is a view, made by as
/// few operations as possible, because each of them is recorded by the transforms around it. The
/// axis of a contiguous tensor is merged with the next one, once for all entries:
///
///   x of shape [n, 4]: reshape(x, {4 n}), of which entry i is the slice 4 i : 4 i + 4
class EntriesAlong {
 public:
  EntriesAlong(const stave::Tensor& x, int axis);
  stave::Tensor operator()(stave::Index i) const;

 private:
  stave::Tensor x_;  // the axis is merged with the next one if length_ is given
  int axis_;
  stave::Index length_ = -1;  // the length of the next axis; -1: the axes are not merged
  stave::Shape entry_;        // the shape of an entry
};

}  // namespace stave_detail
