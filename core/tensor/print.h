// Reading values as an observer does: what is physically there, past all handlers. Printing and traces stand on it.
//
// Nothing here performs an operation that a handler could see, tape or count. See also Tensor::str() (print.cpp).
#pragma once

#include <string>
#include <vector>

#include <stave/core/effects/effect.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

/// The value whose storage stands behind x, a lane's value under vmap: the batch of all lanes, with the lanes as axis 0 (it
/// may again be a lane's value, of an outer vmap). Null if x has storage of its own. Throws TransformError if x has neither:
/// a value that escaped its transform. The pointer lives as long as x.
const Tensor* lanes_of(const Tensor& x);

/// The values that stand behind x, free of all notes: a view of x's own storage, or of the storage of its lanes' batch.
Tensor observed(const Tensor& x);

/// Whether all elements are one in memory: there is one, or it is repeated by strides of 0.
bool repeats_one_element(const Tensor& x);

/// Where an element of an array stands, counted in row-major order: "1,0" for element 2 of [2,2], with `between` = ","; "" of a number.
std::string place_of(Index element, const Shape& shape, const char* between);
/// "eta[3]", "w[1,0]", "mu": the name of an element of a named array.
std::string name_of_element(const std::string& name, const Shape& shape, Index element);

/// What values are called by their number where they are shown: a, b, ..., z, aa, ab, ...
std::string name_of_value(int number);

/// All elements of what `observed` gave, or of a view of it, in row-major order. Copies; waits for the device.
template <class T>
std::vector<T> read_elements(const Tensor& values) {
  UnderFrame past_all_handlers(nullptr);
  return values.to_vector<T>();
}

}  // namespace stave_detail
