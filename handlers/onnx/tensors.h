// Tensors in ONNX files: in the file itself, or in files of external data beside it.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <stave/core/tensor/backend.h>
#include <stave/core/tensor/tensor.h>
#include <stave/handlers/onnx/messages.h>

namespace stave_detail {

/// The files from which a model's tensors are read. Elements that lie in a file of external data as
/// kernels read them become views of the mapped file; others are copied.
class OnnxFiles {
 public:
  /// `folder` holds the files of external data; empty: there are none.
  explicit OnnxFiles(std::string where, std::string folder = {})
      : where_(std::move(where)), folder_(std::move(folder)) {}

  /// Throws FileError if the data do not fit the shape, or if a file of external data is missing,
  /// too short, or outside of the model's folder. Throws DtypeError for an element type that Stave
  /// lacks. The errors name the tensor. Elements of narrow types (messages.h) are converted.
  Tensor read(const OnnxTensor& tensor);
  /// Returns a sparse tensor as a dense one.
  Tensor read(const OnnxSparseTensor& tensor);
  const std::string& where() const noexcept { return where_; }

 private:
  Tensor read_narrow(const OnnxTensor& tensor);
  struct Located {
    std::string_view bytes;
    StoragePtr storage;  // the mapping that the bytes are in; null: copy them
  };
  Located locate(const OnnxTensor& tensor, const std::string& name);
  const StoragePtr& external_file(const std::string& location, const std::string& name);

  std::string where_;
  std::string folder_;
  std::map<std::string, StoragePtr> external_;
};

/// "'w'" for an error message, or "a tensor" for one without a name.
std::string shown_name(const std::string& name);

}  // namespace stave_detail
