// Errors that every entry of an operation's operands causes, such as every matrix of a stack.
#pragma once

#include <exception>
#include <typeinfo>

#include <stave/core/tensor/fail.h>

namespace stave_detail {

/// A second base of an error that every entry of an operation's operands causes by itself, such as
/// each matrix of a stack or each index. Every lane of vmap then causes the error, so vmap need not
/// run the lanes one by one to find the cause. Other code sees an error of type `type`.
class FailsEverywhere {
 public:
  explicit FailsEverywhere(const std::type_info& type) noexcept : type(type) {}
  virtual ~FailsEverywhere() = default;
  /// The same error without the information that every entry causes it.
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

/// Throws E as fail<E> does. `everywhere`: every entry causes the error.
template <class E, class... A>
[[noreturn]] void fail_at(bool everywhere, fmt::format_string<A...> text, A&&... args) {
  E error(fmt::format(text, std::forward<A>(args)...) + stave::error_context());
  mark_as_ours(error);
  if (everywhere) throw EverywhereError<E>(error);
  throw error;
}

}  // namespace stave_detail
