// Throwing errors with formatted texts and the context of transforms. For .cpp files: it needs {fmt}.
#pragma once

#include <cstddef>
#include <new>

#include <fmt/format.h>

#include <stave/core/effects/error.h>
#include <stave/core/tensor/dtype.h>
#include <stave/core/tensor/shape.h>

namespace stave_detail {

/// Throws E with the formatted text and where in the nest of transforms it happened.
template <class E, class... A>
[[noreturn]] void fail(fmt::format_string<A...> text, A&&... args) {
  E error(fmt::format(text, std::forward<A>(args)...) + stave::error_context());
  mark_as_ours(error);
  throw error;
}

/// Names the function in an error that names none, or (`rename`) in place of what it called. Errors of transforms, and those that
/// are a handler's own, keep their words.
void name_function(stave::Error& error, const char* function, bool rename);
/// Throws that this operand is an empty Tensor.
[[noreturn]] void fail_empty(const char* function, std::size_t operand);

/// The body of a public function that is composed of others: its errors name the function, and an operand that is an
/// empty Tensor.
template <class Body, class... Operands>
auto named(const char* function, Body&& body, const Operands&... operands) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    fail<stave::MemoryError>("{}: there is not enough memory for what it needs beside its result", function);
  } catch (stave::Error& error) {
    std::size_t place = 0;
    ((operands.defined() ? void(++place) : fail_empty(function, place)), ...);
    name_function(error, function, true);
    throw;
  }
}

/// The body of a function that is an operation: what fails in it without naming a function, names this one.
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
