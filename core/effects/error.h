// Errors. There is one type per cause. A message says what went wrong, where
// (operation, shapes, the transforms around it) and what to do.
#pragma once

#include <stave/core/effects/settings.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace stave {

class Error;

}  // namespace stave

namespace stave_detail {

void mark_as_ours(stave::Error& error) noexcept;
void name_function(stave::Error& error, const char* function, bool rename);
/// Sets *asked to true as soon as `what()` of the error is called.
void watch_text(stave::Error& error, std::shared_ptr<bool> asked) noexcept;

}  // namespace stave_detail

namespace stave {

/// Base of all errors that Stave throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  const char* what() const noexcept override {
    if (asked_) *asked_ = true;
    return std::runtime_error::what();
  }

 private:
  friend void stave_detail::watch_text(Error& error, std::shared_ptr<bool> asked) noexcept;
  friend void stave_detail::mark_as_ours(Error& error) noexcept;
  friend void stave_detail::name_function(Error& error, const char* function, bool rename);
  // True if the library wrote the text. Then a name before ": " at its start is that of a library
  // function.
  bool ours_ = false;
  std::shared_ptr<bool> asked_;
};
/// Shapes, ranks or axes that do not fit an operation.
class ShapeError : public Error {
  using Error::Error;
};
/// Element types that do not fit an operation.
class DtypeError : public Error {
  using Error::Error;
};
/// Operands on different devices, or a device that does not exist.
class DeviceError : public Error {
  using Error::Error;
};
/// A misuse of transforms or handlers: an argument that a transform does not accept, a value that
/// is used after its transform has ended, an effect without a handler, a resumption that is used
/// twice.
class TransformError : public Error {
  using Error::Error;
};
/// An index or axis out of range.
class IndexError : public Error {
  using Error::Error;
};
/// A matrix for which a function has no result, as a singular matrix has no inverse, or for which
/// an iteration does not converge. For a stack of matrices the message says which one.
class LinalgError : public Error {
  using Error::Error;
};
/// An operation needs more memory than there is. The operation has then changed nothing.
class MemoryError : public Error {
  using Error::Error;
};
/// A file that cannot be read or written, or whose content is not what it should be.
class FileError : public Error {
  using Error::Error;
};

/// The handlers around this point of the program, from inside out, as a line of an error message.
/// The text is a line break and then, for f inside of g, "  inside f, inside g"; it is empty if
/// there are no handlers.
std::string error_context();

}  // namespace stave

namespace stave_detail {

/// Throws TransformError with `text` and the handlers around this point.
[[noreturn]] void fail_transform(const std::string& text);

}  // namespace stave_detail
