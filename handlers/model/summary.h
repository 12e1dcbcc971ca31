// What a value looks like, for whoever looks at a program from outside: statistics, and small pictures of characters.
//
//   std::cout << summary_of(x);     // f32[2,3] min 1 max 6 mean 3.5 std 1.71 nan 0 inf 0
//   std::cout << picture_of(x);     // of one axis ▁▂▃▄▅▆▇█, of two a field of ·░▒▓█
//
// Of a lane's value under vmap: over all lanes; pictures have the lanes as the first axis. Reads the device; nothing here performs
// an operation that a handler could see.
#pragma once

#include <string>

#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// Label, dtype and shape; min and max (NaN aside), mean and standard deviation (of the finite, the latter that of the population);
/// for floats the counts of NaN and infinities; of one element the value.
std::string summary_of(const Tensor& x);

struct PictureOptions {
  [[no_unique_address]] ByName by_name{};
  Index columns = 64;  ///< at most, each at least one element
  Index rows = 16;
};

/// Lines of characters, each ended by a newline: the last two axes, at the first index of those before; "" for a single number or
/// no elements. Longer axes are cut into parts, of which the mean is shown. From the least, ▁ or ·, to the greatest; a part with a NaN
/// in it is ×, one with an infinity ∞. Throws TransformError for less than one column or row.
std::string picture_of(const Tensor& x, PictureOptions options = {});

}  // namespace stave

namespace stave_detail {

struct Statistics {
  std::string least, greatest, mean, deviation;
  Index elements = 0, nans = 0, infinities = 0;
};
Statistics statistics_of(const Tensor& x);

/// Of floats; 0 for other dtypes, and for an empty Tensor.
Index nans_in(const Tensor& x);

}  // namespace stave_detail
