// The words of the debugger's commands: cut, read, compared.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <stave/core/tensor/tensor.h>

namespace stave_detail {

/// Divided at blanks; what stands in double quotes is one word, without them, and what stands in brackets is one, with them. A word
/// that begins with # begins a comment. `quotes`: those of words stay.
std::vector<std::string> words_of(std::string_view line, bool quotes = false);
/// The one that needs the fewest letters inserted, left out or changed to become it, if these are less than half of its own; "" if
/// there is none.
std::string nearest_to(std::string_view word, const std::vector<std::string>& candidates);
/// Of "in0", for `kind` "in": 0.
std::optional<std::size_t> index_after(std::string_view kind, std::string_view word);
/// "[2,3]"
std::optional<Shape> read_shape(std::string_view text);
/// Like `like` in dtype and device: of its shape if the text is one number, which fills it; of its own if it is a list, as
/// [[1, 2], [3, 4]]; or from a .npy file. Throws TransformError, FileError.
Tensor read_value(const std::string& text, const Shape& shape, Dtype dtype, Device device);

}  // namespace stave_detail
