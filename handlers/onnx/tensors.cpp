#include <stave/handlers/onnx/tensors.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>

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

// A format of small floats: an exponent with a bias, then a mantissa, after the sign.
struct SmallFloat {
  int exponent_bits, mantissa_bits, bias;
  enum Specials : std::uint8_t { ieee, nan_at_top, nan_is_negative_zero, none } specials;

  float operator()(unsigned bits) const {
    const int sign_at = exponent_bits + mantissa_bits;
    const bool is_negative = (bits >> sign_at & 1) != 0;
    const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1),
              mantissa = static_cast<int>(bits) & ((1 << mantissa_bits) - 1);
    const bool is_top = exponent == (1 << exponent_bits) - 1;
    constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    if (specials == nan_is_negative_zero && is_negative && exponent == 0 && mantissa == 0) return nan;
    if (specials == nan_at_top && is_top && mantissa == (1 << mantissa_bits) - 1) return nan;
    float size = std::ldexp(static_cast<float>(mantissa + (exponent > 0 ? 1 << mantissa_bits : 0)),
                            std::max(exponent, 1) - bias - mantissa_bits);
    if (specials == ieee && is_top) size = mantissa == 0 ? infinity : nan;
    return is_negative ? -size : size;
  }
};

// The elements of a type of two, four or eight bits. The first of a byte is in its lowest bits.
Tensor widened(std::string_view bytes, OnnxType type, const Shape& shape) {
  const Index count = shape.elements();
  const int bits = type == OnnxType::uint2 || type == OnnxType::int2                                   ? 2
                   : type == OnnxType::uint4 || type == OnnxType::int4 || type == OnnxType::float4e2m1 ? 4
                                                                                                       : 8;
  const auto element = [&](Index i) {
    const auto per_byte = static_cast<Index>(8 / bits);
    const auto byte = static_cast<unsigned char>(bytes[static_cast<std::size_t>(i / per_byte)]);
    return static_cast<unsigned>(byte) >> static_cast<unsigned>(i % per_byte * bits) & ((1u << bits) - 1);
  };
  const auto all = [&](auto convert) {
    std::vector<decltype(convert(0u))> values;
    for (Index i = 0; i < count; ++i) values.push_back(convert(element(i)));
    return from(values, shape);
  };
  switch (type) {
    case OnnxType::uint2:
    case OnnxType::uint4: return all([](unsigned x) { return static_cast<std::uint8_t>(x); });
    case OnnxType::int2:
    case OnnxType::int4:
      return all([bits](unsigned x) {
        return static_cast<std::int8_t>(static_cast<int>(x) - (x >> (bits - 1) != 0 ? 1 << bits : 0));
      });
    case OnnxType::float4e2m1: return all(SmallFloat{2, 1, 1, SmallFloat::none});
    case OnnxType::float8e4m3fn: return all(SmallFloat{4, 3, 7, SmallFloat::nan_at_top});
    case OnnxType::float8e4m3fnuz: return all(SmallFloat{4, 3, 8, SmallFloat::nan_is_negative_zero});
    case OnnxType::float8e5m2: return all(SmallFloat{5, 2, 15, SmallFloat::ieee});
    case OnnxType::float8e5m2fnuz: return all(SmallFloat{5, 2, 16, SmallFloat::nan_is_negative_zero});
    default:  // float8e8m0: powers of two
      return all([](unsigned x) {
        return x == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, static_cast<int>(x) - 127);
      });
  }
}

std::uint64_t bytes_of_narrow(OnnxType type, std::uint64_t elements) {
  if (type == OnnxType::uint2 || type == OnnxType::int2) return (elements + 3) / 4;
  if (type == OnnxType::uint4 || type == OnnxType::int4 || type == OnnxType::float4e2m1) return (elements + 1) / 2;
  return elements;
}

Tensor copied(std::string_view bytes, Dtype dtype, const Shape& shape) {
  return from_bytes(bytes.data(), static_cast<std::size_t>(shape.elements()), dtype, shape);
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
  // In the model's file most elements would not be aligned. Copies let the file go.
  if (!tensor.is_external) return {*tensor.raw, nullptr};
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

Tensor OnnxFiles::read_narrow(const OnnxTensor& tensor) {
  const Shape shape(tensor.dims);
  const std::uint64_t bytes = bytes_of_narrow(tensor.type, bytes_in_file(uint8, shape, tensor.name, where_));
  std::string elements(tensor.int32s.begin(), tensor.int32s.end());  // a byte each
  const std::string_view found = tensor.is_external || tensor.raw ? locate(tensor, tensor.name).bytes : elements;
  if (found.size() != bytes)
    fail<FileError>("{}: {} of {}{} should have {} bytes and has {}", where_, shown_name(tensor.name),
                    name_of_onnx(tensor.type), shape, bytes, found.size());
  return widened(found, tensor.type, shape);
}

Tensor OnnxFiles::read(const OnnxTensor& tensor) {
  if (is_narrow(tensor.type)) return read_narrow(tensor);
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
  if (is_narrow(tensor.values.type)) dtype_in_file(tensor.values, where_);  // throws
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
