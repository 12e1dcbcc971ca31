// Errors of a stack's every entry.
#pragma once

#include <exception>
#include <typeinfo>

#include <stave/core/tensor/fail.h>

namespace stave_detail {

/// What an error also is that every entry of an operation's operands has by itself: each matrix of
/// a stack, each index. So each part of them has it, lanes of vmap, say, and nobody needs to try
/// which. To others it is an error of type `type`.
class FailsEverywhere {
 public:
  explicit FailsEverywhere(const std::type_info& type) noexcept : type(type) {}
  virtual ~FailsEverywhere() = default;
  /// The same error of which no more is known than that some entry has it.
  virtual std::exception_ptr somewhere() const = 0;
  const std::type_info& type;

 protected:
  FailsEverywhere(const FailsEverywhere&) = default;
};

template <class E>
class EverywhereError final : public E, public FailsEverywhere {
 public:
  explicit EverywhereError(const E& error) : E(error), FailsEverywhere(typeid(E)) {}
  std::exception_ptr somewhere() const override { return std::make_exception_ptr(E(*this)); }
};

/// As fail<E>; `everywhere`: the error is of such a kind.
template <class E, class... A>
[[noreturn]] void fail_at(bool everywhere, fmt::format_string<A...> text, A&&... args) {
  E error(fmt::format(text, std::forward<A>(args)...) + stave::error_context());
  mark_as_ours(error);
  if (everywhere) throw EverywhereError<E>(error);
  throw error;
}

}  // namespace stave_detail
