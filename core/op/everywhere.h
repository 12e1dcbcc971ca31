// Errors that every entry of an operation's operands causes. An entry is, for example, a matrix of
// a stack.
#pragma once

#include <exception>
#include <typeinfo>

#include <stave/core/tensor/fail.h>

namespace stave_detail {

/// A second base class of an error that every entry of an operation's operands causes: each entry,
/// such as a matrix of a stack or an index, would be enough to cause it. Every lane of vmap then
/// causes the error, so vmap need not search for the lanes that do. Other code sees an error of
/// type `type`.
class FailsForAllEntries {
 public:
  explicit FailsForAllEntries(const std::type_info& type) noexcept : type(type) {}
  virtual ~FailsForAllEntries() = default;
  /// The same error without the information that every entry causes it.
  virtual std::exception_ptr as_plain_error() const = 0;
  const std::type_info& type;

 protected:
  FailsForAllEntries(const FailsForAllEntries&) = default;
};

template <class E>
class AllEntriesError final : public E, public FailsForAllEntries {
 public:
  explicit AllEntriesError(const E& error) : E(error), FailsForAllEntries(typeid(E)) {}
  std::exception_ptr as_plain_error() const override { return std::make_exception_ptr(E(*this)); }
};

/// Throws E as fail<E> does. `everywhere`: every entry causes the error.
template <class E, class... A>
[[noreturn]] void fail_at(bool everywhere, fmt::format_string<A...> text, A&&... args) {
  E error(error_text(text, fmt::make_format_args(args...)));
  mark_as_ours(error);
  if (everywhere) throw AllEntriesError<E>(error);
  throw error;
}

}  // namespace stave_detail
