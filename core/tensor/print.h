// Functions that read values as an observer does: the physical data, outside all handlers. Printing
// and traces use them.
//
// Nothing here performs an operation that a handler could see, record or count.
// See also Tensor::str() (print.cpp).
#pragma once

#include <string>
#include <vector>

#include <stave/core/effects/effect.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

/// The value that provides the storage for x, if x is a value of a lane under vmap:
/// the batch of all lanes, with the lanes as axis 0. The batch may again be a value of a lane
/// of an outer vmap. Null if x has storage of its own. Throws TransformError if x has neither,
/// that is, if it escaped its transform. The pointer is valid as long as x lives.
const Tensor* lanes_of(const Tensor& x);

/// The physical values of x without notes: a view of x's own storage, or of the storage
/// of the batch of its lanes.
Tensor observed(const Tensor& x);

/// Returns the same, but null if x has neither storage nor lanes.
const Tensor* find_lanes(const Tensor& x) noexcept;

/// Returns true if all elements are one element in memory: there is only one, or strides of 0
/// repeat it.
bool repeats_one_element(const Tensor& x);

/// The position of an element, counted in row-major order, as text: "1,0" for element 2 of [2,2]
/// with `between` = ","; "" for rank 0.
std::string place_of(Index element, const Shape& shape, const char* between);
/// The name of an element of a named array: "eta[3]", "w[1,0]", "mu".
std::string name_of_element(const std::string& name, const Shape& shape, Index element);

/// The displayed name of value `number`: a, b, ..., z, aa, ab, ...
std::string name_of_value(int number);

/// A copy of all elements of a result of `observed`, or of a view of it, in row-major order.
/// The function waits for the device.
template <class T>
std::vector<T> read_elements(const Tensor& values) {
  UnderFrame past_all_handlers(nullptr);
  return values.to_vector<T>();
}

}  // namespace stave_detail
