#include <stave/handlers/onnx/tensors.h>

#include <charconv>
#include <filesystem>

#include <stave/core/io/elements.h>
#include <stave/core/io/file.h>
#include <stave/core/io/mapping.h>
#include <stave/core/ops/bools.h>
#include <stave/core/ops/create.h>
#include <stave/core/tensor/storage.h>

namespace stave_detail {

namespace {

// The most bytes of a dense tensor for each byte that is stored of a sparse one. A few bytes of a
// damaged file could otherwise ask for all memory.
constexpr std::uint64_t most_dense_bytes = 1000;

Dtype dtype_in_file(const OnnxTensor& tensor, const std::string& where) {
  if (const auto dtype = dtype_of_onnx(tensor.type)) return *dtype;
  fail<DtypeError>("{}: {} has elements of type {}, which Stave does not have", where, shown_name(tensor.name),
                   name_of_onnx(tensor.type));
}

// Returns the bytes of a tensor of this shape. Throws if there are negative lengths or too many
// elements.
std::uint64_t bytes_in_file(Dtype dtype, const Shape& shape, const std::string& name, const std::string& where) {
  bool fits = shape.size() <= most_axes;
  for (const Index length : shape) fits &= length >= 0;
  if (const auto bytes = fits ? bytes_of(dtype, shape) : std::nullopt) return *bytes;
  fail<FileError>("{}: {} cannot have the shape {}", where, shown_name(name), shape);
}

Tensor copied(std::string_view bytes, Dtype dtype, const Shape& shape) {
  Tensor x = Tensor(NodePtr(new Node(dtype, cpu, shape, allocate_storage(cpu, dtype, shape, "load_onnx"))));
  char* const to = static_cast<char*>(x.node().data());
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  if (dtype == bool_) make_bools(to, bytes.size());
  return x;
}

// Returns the elements that lie in the field for their type, as bytes of the dtype. Types of less
// than four bytes are stored as int32, where sixteen-bit floats have their bits.
std::vector<char> elements_of_field(const OnnxTensor& tensor, Dtype dtype) {
  std::vector<char> bytes;
  const auto put = [&](const auto& values, auto element) {
    bytes.resize(values.size() * sizeof element);
    char* to = bytes.data();
    for (const auto value : values) {
      element = static_cast<decltype(element)>(value);
      std::memcpy(to, &element, sizeof element);
      to += sizeof element;
    }
  };
  switch (dtype) {
    case Dtype::float32:
    case Dtype::complex64: put(tensor.floats, float{}); break;
    case Dtype::float64:
    case Dtype::complex128: put(tensor.doubles, double{}); break;
    case Dtype::int64: put(tensor.int64s, std::int64_t{}); break;
    case Dtype::uint64: put(tensor.uint64s, std::uint64_t{}); break;
    case Dtype::uint32: put(tensor.uint64s, std::uint32_t{}); break;
    case Dtype::int32: put(tensor.int32s, std::int32_t{}); break;
    case Dtype::bool_: put(tensor.int32s, bool{}); break;
    case Dtype::uint8:
    case Dtype::int8: put(tensor.int32s, std::uint8_t{}); break;
    case Dtype::uint16:
    case Dtype::int16:
    case Dtype::float16:
    case Dtype::bfloat16: put(tensor.int32s, std::uint16_t{}); break;
  }
  return bytes;
}

std::uint64_t number_of(const OnnxTensor& tensor, const char* key, std::uint64_t otherwise, const std::string& where) {
  const auto found = tensor.external.find(key);
  if (found == tensor.external.end()) return otherwise;
  const std::string& text = found->second;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    fail<FileError>("{}: the {} of {} in its external data is '{}' and not a number", where, key,
                    shown_name(tensor.name), shown(text));
  return number;
}

}  // namespace

std::string shown_name(const std::string& name) { return name.empty() ? "a tensor" : "'" + shown(name) + "'"; }

const StoragePtr& OnnxFiles::external_file(const std::string& location, const std::string& name) {
  const auto known = external_.find(location);
  if (known != external_.end()) return known->second;
  if (folder_.empty())
    fail<FileError>("{}: {} lies in the file '{}', but the model was not read from a file: use load_onnx", where_,
                    shown_name(name), shown(location));
  const std::filesystem::path path = std::filesystem::path(location).lexically_normal();
  if (location.empty() || location.find('\0') != location.npos || path.is_absolute() || *path.begin() == "..")
    fail<FileError>("{}: {} lies in the file '{}', which is not below the folder of the model", where_,
                    shown_name(name), shown(location));
  const InputFile file("load_onnx", (std::filesystem::path(folder_) / path).string());
  return external_.emplace(location, file.size() > 0 ? map_file(file) : StoragePtr()).first->second;
}

OnnxFiles::Located OnnxFiles::locate(const OnnxTensor& tensor, const std::string& name) {
  if (!tensor.is_external) return {*tensor.raw, model_};
  const auto location = tensor.external.find("location");
  const StoragePtr& file = external_file(location == tensor.external.end() ? "" : location->second, name);
  const std::uint64_t size = file ? file->bytes : 0;
  const std::uint64_t offset = number_of(tensor, "offset", 0, where_);
  const std::uint64_t length = number_of(tensor, "length", offset <= size ? size - offset : 0, where_);
  if (offset > size || length > size - offset)
    fail<FileError>("{}: {} should have {} bytes from byte {} of '{}', which has {}", where_, shown_name(name), length,
                    offset, shown(location->second), size);
  if (!file) return {};
  return {{static_cast<const char*>(file->data) + offset, length}, file};
}

Tensor OnnxFiles::read(const OnnxTensor& tensor) {
  const Dtype dtype = dtype_in_file(tensor, where_);
  const Shape shape(tensor.dims);
  const std::uint64_t bytes = bytes_in_file(dtype, shape, tensor.name, where_);
  const auto check = [&](std::uint64_t found) {
    if (found != bytes)
      fail<FileError>("{}: {} of {}{} should have {} bytes and has {}", where_, shown_name(tensor.name), dtype, shape,
                      bytes, found);
  };
  if (!tensor.is_external && !tensor.raw) {
    const std::vector<char> elements = elements_of_field(tensor, dtype);
    check(elements.size());
    return copied({elements.data(), elements.size()}, dtype, shape);
  }
  const Located located = locate(tensor, tensor.name);
  check(located.bytes.size());
  if (!located.storage || bytes == 0) return copied(located.bytes, dtype, shape);
  const auto offset = static_cast<std::uint64_t>(located.bytes.data() - static_cast<char*>(located.storage->data));
  if (offset % size_of(dtype) != 0 || (dtype == bool_ && !are_bools(located.bytes.data(), bytes)))
    return copied(located.bytes, dtype, shape);
  const auto elements = static_cast<Index>(offset / size_of(dtype));
  return Tensor(NodePtr(new Node(dtype, cpu, shape, contiguous_strides(shape), located.storage, elements)));
}

Tensor OnnxFiles::read(const OnnxSparseTensor& tensor) {
  const std::string& name = tensor.values.name;
  const Tensor values = read(tensor.values), indices = read(tensor.indices);
  const Shape shape(tensor.dims);
  const std::uint64_t bytes = bytes_in_file(values.dtype(), shape, name, where_);
  const std::size_t size = size_of(values.dtype()), axes = shape.size();
  const bool is_flat = indices.rank() == 1;
  if (values.rank() != 1 || indices.dtype() != int64 || indices.rank() > 2 || indices.rank() < 1 ||
      indices.shape(0) != values.shape(0) || (!is_flat && indices.shape(1) != static_cast<Index>(axes)))
    fail<FileError>("{}: the sparse tensor {} has values {}{} and indices {}{}, which do not fit", where_,
                    shown_name(name), values.dtype(), values.shape(), indices.dtype(), indices.shape());
  if (bytes / most_dense_bytes > static_cast<std::uint64_t>(values.size()) * size_of(values.dtype()))
    fail<FileError>("{}: the sparse tensor {} of {}{} is too large to be stored densely", where_, shown_name(name),
                    values.dtype(), shape);
  std::vector<char> dense(bytes);
  const char* from = static_cast<const char*>(values.node().data());
  const auto* at = static_cast<const Index*>(indices.node().data());
  const Index elements = shape.elements();
  for (Index i = 0; i < values.size(); ++i, from += size) {
    Index place = 0;
    bool inside = elements > 0;
    if (is_flat) place = *at++;
    else
      for (std::size_t axis = 0; axis < axes; ++axis, ++at) {
        inside &= *at >= 0 && *at < shape[axis];
        place = inside ? place * shape[axis] + *at : 0;
      }
    if (!inside || place < 0 || place >= elements)
      fail<FileError>("{}: an index of the sparse tensor {} lies outside of its shape {}", where_, shown_name(name),
                      shape);
    std::memcpy(dense.data() + static_cast<std::size_t>(place) * size, from, size);
  }
  return copied({dense.data(), dense.size()}, values.dtype(), shape);
}

}  // namespace stave_detail
