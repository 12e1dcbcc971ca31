// Errors. One type per cause; a message says what, where (operation, shapes, the transforms around it) and what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace stave {

/// Base of all errors that Stave throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// Shapes, ranks or axes that do not fit an operation.
class ShapeError : public Error {
  using Error::Error;
};
/// Element types that do not fit.
class DtypeError : public Error {
  using Error::Error;
};
/// Tensors on different devices, or a device that is absent.
class DeviceError : public Error {
  using Error::Error;
};
/// A transform that was given what it cannot transform, or a value that escaped its transform.
class TransformError : public Error {
  using Error::Error;
};
/// An index or axis out of range.
class IndexError : public Error {
  using Error::Error;
};
/// A file that cannot be read or written, or that does not hold what it should.
class FileError : public Error {
  using Error::Error;
};

/// "\n  inside vmap (axis size 3), inside grad": the handlers around this point of the program, from inside out; "" if none.
std::string error_context();

}  // namespace stave
