// Functions that throw errors. The text of an error is formatted, and names the transforms around
// the point of failure. For .cpp files only, since this header needs {fmt}.
#pragma once

#include <cstddef>
#include <new>

#include <fmt/format.h>

#include <stave/core/effects/error.h>
#include <stave/core/tensor/dtype.h>
#include <stave/core/tensor/shape.h>

namespace stave_detail {

/// Throws an E whose text is the formatted text and the handlers around this point.
template <class E, class... A>
[[noreturn]] void fail(fmt::format_string<A...> text, A&&... args) {
  E error(fmt::format(text, std::forward<A>(args)...) + stave::error_context());
  mark_as_ours(error);
  throw error;
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

}  // namespace stave_detail

template <>
struct fmt::formatter<stave::Shape> : fmt::formatter<std::string> {
  auto format(const stave::Shape& shape, fmt::format_context& context) const {
    return fmt::formatter<std::string>::format(shape.str(), context);
  }
};
template <>
struct fmt::formatter<stave::Dtype> : fmt::formatter<const char*> {
  auto format(stave::Dtype dtype, fmt::format_context& context) const {
    return fmt::formatter<const char*>::format(stave::name_of(dtype), context);
  }
};
