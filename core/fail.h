// Throwing errors with formatted texts and the context of transforms. For .cpp files: it needs {fmt}.
#pragma once

#include <fmt/format.h>

#include <stave/core/dtype.h>
#include <stave/core/error.h>
#include <stave/core/shape.h>

namespace stave_detail {

/// Throws E with the formatted text and where in the nest of transforms it happened.
template <class E, class... A>
[[noreturn]] void fail(fmt::format_string<A...> text, A&&... args) {
  throw E(fmt::format(text, std::forward<A>(args)...) + stave::error_context());
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
