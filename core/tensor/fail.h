// Functions that throw errors. The text of an error is formatted, and names the transforms around
// the point of failure. For .cpp files only, since this header needs {fmt}.
#pragma once

#include <cstddef>
#include <new>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <stave/core/effects/error.h>
#include <stave/core/tensor/dtype.h>
#include <stave/core/tensor/shape.h>

namespace stave_detail {

/// Returns the formatted text and the handlers around this point.
std::string error_text(fmt::string_view text, fmt::format_args args);

template <class E>
[[noreturn, gnu::cold]] void throw_error(const std::string& text) {
  E error(text);
  mark_as_ours(error);
  throw error;
}
/// Throws an E whose text is the formatted text and the handlers around this point.
template <class E, class... A>
[[noreturn, gnu::cold]] void fail(fmt::format_string<A...> text, A&&... args) {
  throw_error<E>(error_text(text, fmt::make_format_args(args...)));
}

/// Puts the name of the function into an error that names none, or (`rename`) in place of the name
/// of a function that it called. Errors of transforms, and errors that a handler of the user
/// throws, keep their text.
void name_function(stave::Error& error, const char* function, bool rename);
/// Throws TransformError, which says that this operand of `function` is an empty Tensor.
[[noreturn]] void fail_empty(const char* function, std::size_t operand);

/// Runs the body of a public function that is composed of other functions. Its errors name this
/// function. If the body fails and an operand is an empty Tensor, the error names that operand.
template <class Body, class... Operands>
auto named(const char* function, Body&& body, const Operands&... operands) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    fail<stave::MemoryError>("{}: there is not enough memory for its temporary values", function);
  } catch (stave::Error& error) {
    std::size_t place = 0;
    ((operands.defined() ? void(++place) : fail_empty(function, place)), ...);
    name_function(error, function, true);
    throw;
  }
}

/// Runs the body of a function that is one operation. An error that names no function gets the
/// name `function`.
template <class Body>
auto naming(const char* function, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (stave::Error& error) {
    name_function(error, function, false);
    throw;
  }
}

/// Appends text to formatted text.
fmt::format_context::iterator append_text(std::string_view text, fmt::format_context& context);

}  // namespace stave_detail

// Shapes and dtypes have one format, {}, and no code of {fmt} for widths and the like.
template <>
struct fmt::formatter<stave::Shape> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  auto format(const stave::Shape& shape, fmt::format_context& context) const {
    return stave_detail::append_text(shape.str(), context);
  }
};
template <>
struct fmt::formatter<stave::Dtype> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  auto format(stave::Dtype dtype, fmt::format_context& context) const {
    return stave_detail::append_text(stave::name_of(dtype), context);
  }
};
