// Short descriptions of a tensor for people: statistics, and small pictures made of characters.
//
//   std::cout << summary_of(x);     // f32[2,3] min 1 max 6 mean 3.5 std 1.71 nan 0 inf 0
//   // a line of ▁▂▃▄▅▆▇█ for one axis, a field of ·░▒▓█ for two
//   std::cout << picture_of(x);
//
// Under vmap, both describe the values of all lanes, and pictures have the lanes as the first axis.
// The functions read the tensor's data and perform no operation that a handler could see.
#pragma once

#include <string>

#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// Returns label, dtype, shape and statistics of x as one line of text. The statistics
/// are the minimum and maximum (ignoring NaN), the mean and population standard deviation
/// of the finite elements, and for floats the counts of NaN and infinities. For a single element
/// the line has its value instead.
std::string summary_of(const Tensor& x);

struct PictureOptions {
  [[no_unique_address]] ByName by_name{};
  /// The maximal number of columns and rows; each shows at least one element.
  Index columns = 64;
  Index rows = 16;
};

/// Returns a picture of x made of characters, in lines that end with a newline. It shows the last
/// two axes, at index 0 of the axes before them, and is empty for fewer than two elements.
/// An axis that is longer than the options permit is cut into parts, and a character shows the mean
/// of its part, from ▁ or · (least) to █ (greatest). A part with a NaN is ×, and a part with an
/// infinity is ∞. Throws TransformError if the options permit fewer than one column or row.
std::string picture_of(const Tensor& x, PictureOptions options = {});

}  // namespace stave

namespace stave_detail {

struct Statistics {
  std::string least, greatest, mean, deviation;
  Index elements = 0, nans = 0, infinities = 0;
};
Statistics statistics_of(const Tensor& x);

/// Returns the number of NaN, and of infinities, in x; 0 if x is not a float tensor or is empty.
Index nans_in(const Tensor& x);
Index infinities_in(const Tensor& x);

}  // namespace stave_detail
