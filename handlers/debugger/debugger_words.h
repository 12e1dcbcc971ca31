// Parsing of the words in debugger commands.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <stave/core/tensor/tensor.h>

namespace stave_detail {

/// Splits a line at blanks. Text in double quotes is one word, without the quotes unless `quotes`
/// is true. Text in brackets is one word, with the brackets. A word that begins with # begins
/// a comment.
std::vector<std::string> words_of(std::string_view line, bool quotes = false);
/// Returns the candidate with the smallest edit distance to the word, if that is at most half
/// the length of the word; "" if there is none.
std::string nearest_to(std::string_view word, const std::vector<std::string>& candidates);
/// Returns the number after `kind`: 0 for "in0" with `kind` "in".
std::optional<std::size_t> index_after(std::string_view kind, std::string_view word);
/// Parses a shape: "[2,3]".
std::optional<Shape> read_shape(std::string_view text);
/// Parses a value, and returns it with this dtype, on this device. A single number is broadcast
/// to `shape`. A list such as [[1, 2], [3, 4]] has its own shape. A .npy file has its own shape
/// and dtype. Throws TransformError or FileError.
Tensor read_value(const std::string& text, const Shape& shape, Dtype dtype, Device device);

}  // namespace stave_detail
