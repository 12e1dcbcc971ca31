// Reads .gguf files: a header of metadata and of the tensors' names, types, lengths and places, and
// the bytes of the tensors.
#include <stave/core/io/gguf.h>

#include <algorithm>
#include <bit>
#include <optional>

#include <stave/core/io/elements.h>
#include <stave/core/io/file.h>
#include <stave/core/io/gguf_blocks.h>
#include <stave/core/io/mapping.h>
#include <stave/core/io/zip_records.h>
#include <stave/core/tensor/half.h>
#include <stave/core/tensor/storage.h>
#include <stave/core/tensor/utf8.h>

namespace stave_detail {

namespace {

constexpr const char* operation = "load_gguf";
constexpr std::uint32_t magic = 0x46554747;  // "GGUF"
constexpr std::uint64_t most_header_bytes = 100'000'000, usual_alignment = 32;
constexpr int most_depth = 16;  // of arrays in arrays

// The types of values in metadata.
enum ValueType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };
// The least number of bytes of a value of each type.
constexpr std::uint64_t value_bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

/// Reads the header from its beginning to its end, some bytes at a time.
class GgufHeader {
 public:
  explicit GgufHeader(const InputFile& file) : file_(file), left_(std::min(file.size(), most_header_bytes)) {}

  const std::string& where() const { return file_.where(); }
  std::uint64_t position() const { return position_; }
  /// Throws unless `count` things of at least `bytes` bytes each can follow.
  void require(std::uint64_t count, std::uint64_t bytes, const char* what) const {
    if (count > left_ / bytes)
      fail<FileError>("{}: should have {} {} from byte {} on, for which {} is too short", where(), count, what,
                      position_, file_.size() > most_header_bytes ? "a header of 100,000,000 bytes" : "the file");
  }
  void read(void* to, std::size_t n) {
    require(n, 1, "bytes");
    char* at = static_cast<char*>(to);
    left_ -= n;
    position_ += n;
    while (n > 0) {
      if (begin_ == buffer_.size()) refill();
      const std::size_t part = std::min(n, buffer_.size() - begin_);
      std::copy_n(buffer_.data() + begin_, part, at);
      begin_ += part;
      at += part;
      n -= part;
    }
  }
  std::uint64_t number(int bytes) {
    char data[8];
    read(data, static_cast<std::size_t>(bytes));
    return little_endian(data, bytes);
  }
  std::string string() {
    const std::uint64_t length = number(8);
    require(length, 1, "bytes of text");
    std::string value(length, '\0');
    read(value.data(), value.size());
    return value;
  }
  /// A key or a tensor's name.
  std::string name() {
    std::string value = string();
    if (valid_utf8(value) != value) fail<FileError>("{}: the name '{}' is not UTF-8", where(), shown(value));
    return value;
  }

 private:
  void refill() {
    buffer_.resize(std::min<std::uint64_t>(std::size_t{1} << 16, file_.size() - next_));
    file_.read(next_, buffer_.data(), buffer_.size());
    next_ += buffer_.size();
    begin_ = 0;
  }

  const InputFile& file_;
  std::uint64_t left_, position_ = 0, next_ = 0;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // the first byte of the buffer that was not read
};

template <class To>
To bits_as(std::uint64_t bits) {
  if constexpr (sizeof(To) == 4) return std::bit_cast<To>(static_cast<std::uint32_t>(bits));
  else return std::bit_cast<To>(bits);
}

GgufValue value_of(GgufHeader& header, std::uint32_t type, int depth) {
  const auto signed_number = [&](int bytes) {
    const int above = 64 - 8 * bytes;
    return static_cast<std::int64_t>(header.number(bytes) << above) >> above;
  };
  switch (type) {
    case u8:
    case u16:
    case u32:
    case u64: return header.number(static_cast<int>(value_bytes[type]));
    case i8:
    case i16:
    case i32:
    case i64: return signed_number(static_cast<int>(value_bytes[type]));
    case f32: return static_cast<double>(bits_as<float>(header.number(4)));
    case f64: return bits_as<double>(header.number(8));
    case boolean: {
      const std::uint64_t value = header.number(1);
      if (value > 1) fail<FileError>("{}: a bool before byte {} is {}", header.where(), header.position(), value);
      return value == 1;
    }
    case text: return header.string();
    case array: {
      if (depth == most_depth) fail<FileError>("{}: arrays are nested more than {} deep", header.where(), most_depth);
      const auto of = static_cast<std::uint32_t>(header.number(4));
      const std::uint64_t count = header.number(8);
      if (of > f64)
        fail<FileError>("{}: an array before byte {} has values of type {}", header.where(), header.position(), of);
      header.require(count, value_bytes[of], "values of an array");
      std::vector<GgufValue> values;
      values.reserve(count);
      for (std::uint64_t i = 0; i < count; ++i) values.push_back(value_of(header, of, depth + 1));
      return values;
    }
    default:
      fail<FileError>("{}: a value before byte {} has type {}, which no version has", header.where(), header.position(),
                      type);
  }
}

std::map<std::string, GgufValue> metadata_of(GgufHeader& header, std::uint64_t count) {
  std::map<std::string, GgufValue> metadata;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string name = header.name();
    const auto type = static_cast<std::uint32_t>(header.number(4));
    if (!metadata.emplace(name, value_of(header, type, 0)).second)
      fail<FileError>("{}: the key '{}' occurs twice", header.where(), shown(name));
  }
  return metadata;
}

std::uint64_t alignment_of(const std::map<std::string, GgufValue>& metadata, const std::string& where) {
  const auto found = metadata.find("general.alignment");
  if (found == metadata.end()) return usual_alignment;
  const auto* const alignment = std::get_if<std::uint64_t>(&found->second);
  if (!alignment || *alignment == 0 || (*alignment & (*alignment - 1)) != 0 || *alignment > std::uint64_t{1} << 32)
    fail<FileError>("{}: general.alignment is not a power of two", where);
  return *alignment;
}

GgufTensor tensor_of(GgufHeader& header) {
  GgufTensor tensor;
  tensor.name = header.name();
  const std::uint64_t axes = header.number(4);
  if (axes > most_axes)
    fail<FileError>("{}: '{}' has more than {} axes", header.where(), shown(tensor.name), most_axes);
  for (std::uint64_t i = 0; i < axes; ++i) {
    const std::uint64_t length = header.number(8);
    if (length > std::uint64_t{1} << 62)
      fail<FileError>("{}: '{}' has an axis of length {}", header.where(), shown(tensor.name), length);
    tensor.shape.insert(tensor.shape.begin(), static_cast<Index>(length));
  }
  tensor.type_number = static_cast<std::uint32_t>(header.number(4));
  tensor.offset = header.number(8);
  if (const GgufNumbers* numbers = find_gguf_numbers(tensor.type_number)) tensor.type = numbers->name;
  else if (const GgufFormat* format = find_gguf_format(tensor.type_number)) tensor.type = format->name;
  else tensor.type = fmt::format("type {}", tensor.type_number);
  return tensor;
}

// Returns the bytes of a tensor, or nothing if Stave lacks its type.
std::optional<std::uint64_t> tensor_bytes(const GgufTensor& tensor, const std::string& where) {
  std::optional<std::uint64_t> bytes;
  if (const GgufNumbers* numbers = find_gguf_numbers(tensor.type_number)) {
    bytes = bytes_of(numbers->dtype, tensor.shape);
  } else if (const GgufFormat* format = find_gguf_format(tensor.type_number)) {
    if (tensor.shape.empty() || tensor.shape.back() % format->elements != 0)
      fail<FileError>("{}: '{}', {} {}, has rows that are not whole blocks of {} elements", where, shown(tensor.name),
                      tensor.type, tensor.shape, format->elements);
    // Both the blocks and the floats that they become must be of a size that can be addressed.
    if (bytes_of(float32, tensor.shape)) {
      Shape blocks = tensor.shape;
      blocks.back() /= format->elements;
      bytes = static_cast<std::uint64_t>(blocks.elements()) * static_cast<std::uint64_t>(format->bytes);
    }
  } else {
    return std::nullopt;
  }
  if (!bytes) fail<FileError>("{}: '{}' has a shape {} that is too large", where, shown(tensor.name), tensor.shape);
  return bytes;
}

// Checks that the tensor lies in the file, whose tensors begin at `data`, and makes its offset one
// in the file.
void place(GgufTensor& tensor, std::uint64_t data, std::uint64_t alignment, const InputFile& file) {
  if (tensor.offset % alignment != 0)
    fail<FileError>("{}: '{}' begins at byte {} of the data, which is not a multiple of {}", file.where(),
                    shown(tensor.name), tensor.offset, alignment);
  const std::uint64_t bytes = tensor_bytes(tensor, file.where()).value_or(0);
  const std::uint64_t left = file.size() < data ? 0 : file.size() - data;
  if (tensor.offset > left || bytes > left - tensor.offset)
    fail<FileError>("{}: is cut off: '{}' should have {} bytes from byte {} on, and the data have {}", file.where(),
                    shown(tensor.name), bytes, tensor.offset, left);
  tensor.offset += data;
}

// Throws if two tensors share bytes of the file.
void check_apart(const std::map<std::string, GgufTensor>& tensors, const std::string& where) {
  std::vector<const GgufTensor*> in_order;
  for (const auto& [name, tensor] : tensors)
    if (tensor_bytes(tensor, where).value_or(0) > 0) in_order.push_back(&tensor);
  std::sort(in_order.begin(), in_order.end(),
            [](const GgufTensor* a, const GgufTensor* b) { return a->offset < b->offset; });
  for (std::size_t i = 1; i < in_order.size(); ++i)
    if (const GgufTensor &before = *in_order[i - 1], &after = *in_order[i];
        *tensor_bytes(before, where) > after.offset - before.offset)
      fail<FileError>("{}: the tensors '{}' and '{}' overlap", where, shown(before.name), shown(after.name));
}

Gguf gguf_of(const InputFile& file) {
  GgufHeader header(file);
  const std::string& where = file.where();
  if (file.size() < 24 || header.number(4) != magic)
    fail<FileError>("{}: is not a .gguf file: it does not begin with GGUF, a version and two numbers", where);
  const std::uint64_t version = header.number(4);
  if (version % 65536 == 0) fail<FileError>("{}: is a big-endian file, which Stave does not read", where);
  if (version != 2 && version != 3) fail<FileError>("{}: is of version {}: 2 and 3 can be read", where, version);
  const std::uint64_t tensors = header.number(8), entries = header.number(8);
  header.require(tensors, 24, "tensors");
  header.require(entries, 13, "entries of metadata");
  Gguf all{metadata_of(header, entries), {}, where};
  const std::uint64_t alignment = alignment_of(all.metadata, where);
  for (std::uint64_t i = 0; i < tensors; ++i) {
    GgufTensor tensor = tensor_of(header);
    if (const std::string name = tensor.name; !all.tensors.emplace(name, std::move(tensor)).second)
      fail<FileError>("{}: two tensors have the name '{}'", where, shown(name));
  }
  const std::uint64_t data = (header.position() + alignment - 1) / alignment * alignment;
  const StoragePtr mapping = map_file(file);
  for (auto& [name, tensor] : all.tensors) {
    place(tensor, data, alignment, file);
    tensor.file = mapping;
  }
  check_apart(all.tensors, where);
  return all;
}

// ---- tensors --------------------------------------------------------------------------------

const GgufFormat& format_of(const GgufTensor& tensor, const char* use) {
  const GgufFormat* const format = find_gguf_format(tensor.type_number);
  if (!format) fail<DtypeError>("{}: '{}' is of {}, which {}", operation, shown(tensor.name), tensor.type, use);
  return *format;
}

Tensor new_tensor(const Shape& shape, Dtype dtype) {
  return Tensor(NodePtr(new Node(dtype, cpu, shape, allocate_storage(cpu, dtype, shape, operation))));
}
template <class T>
T* elements_of(const Tensor& x) {
  return static_cast<T*>(x.node().data());
}

// Calls take(i, block) for the blocks of a tensor, in order.
template <class Take>
void for_blocks(const GgufTensor& tensor, const GgufFormat& format, Take take) {
  const auto* from = static_cast<const std::uint8_t*>(tensor.file->data) + tensor.offset;
  const Index blocks = tensor.shape.elements() / format.elements;
  GgufBlock block;
  for (Index i = 0; i < blocks; ++i, from += format.bytes) {
    format.decode(from, block);
    take(i, block);
  }
}

Tensor floats_of(const GgufTensor& tensor, const GgufFormat& format) {
  Tensor result = new_tensor(tensor.shape, float32);
  float* to = elements_of<float>(result);
  for_blocks(tensor, format, [&](Index, const GgufBlock& block) {
    for (Index i = 0; i < format.elements; ++i) {
      const float scale = block.scales[i / format.group];
      *to++ = format.zero < 0 ? scale * static_cast<float>(block.codes[i]) + block.biases[i / format.group]
                              : scale * static_cast<float>(block.codes[i] - format.zero);
    }
  });
  return result;
}

void store_scales(const float* from, Index count, bool as_halves, const Tensor& to, Index at) {
  for (Index g = 0; g < count; ++g)
    if (as_halves) elements_of<Float16>(to)[at + g] = Float16(from[g]);
    else elements_of<float>(to)[at + g] = from[g];
}

Quantized weights_of(const GgufTensor& tensor, const GgufFormat& format) {
  const Index groups = format.elements / format.group, bytes = format.elements * format.bits / 8;
  Shape packed = tensor.shape, scales = tensor.shape;
  packed.back() = packed.back() * format.bits / 8;
  scales.back() /= format.group;
  const Dtype dtype = format.has_half_scales ? float16 : float32;
  Quantized w{new_tensor(packed, uint8), new_tensor(scales, dtype), {}, format.bits};
  if (format.zero < 0) w.biases = new_tensor(scales, dtype);
  auto* to = elements_of<std::uint8_t>(w.packed);
  // This number is added to codes, so that 0 gets the code that it has in symmetric weights.
  const int shift = format.zero < 0 ? 0 : (1 << (format.bits - 1)) - format.zero;
  for_blocks(tensor, format, [&](Index i, const GgufBlock& block) {
    const auto code = [&](Index j) { return block.codes[j] + shift; };
    for (Index j = 0; j < bytes; ++j)
      *to++ = static_cast<std::uint8_t>(format.bits == 8 ? code(j) : code(2 * j) | code(2 * j + 1) << 4);
    store_scales(block.scales, groups, format.has_half_scales, w.scales, i * groups);
    if (w.biases) store_scales(block.biases, groups, format.has_half_scales, *w.biases, i * groups);
  });
  return w;
}

}  // namespace

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

Tensor GgufTensor::array() const {
  if (const GgufNumbers* numbers = find_gguf_numbers(type_number))
    return mapped_elements(file, offset, numbers->dtype, shape, operation);
  return floats_of(*this, format_of(*this, "Stave does not have"));
}

bool GgufTensor::is_quantized() const { return find_gguf_format(type_number) && shape.rank() >= 2; }

Quantized GgufTensor::quantized() const {
  const GgufFormat& format = format_of(*this, "has no blocks of codes: use array()");
  if (shape.rank() < 2)
    fail<ShapeError>("{}: '{}' is a vector, and no matrix of weights: use array()", operation, shown(name));
  return weights_of(*this, format);
}

const GgufTensor& Gguf::at(const std::string& name) const {
  const auto found = tensors.find(name);
  if (found != tensors.end()) return found->second;
  constexpr std::size_t most = 10;
  std::string names;
  std::size_t count = 0;
  for (const auto& [known, tensor] : tensors) {
    if (count++ == most) break;
    names += (names.empty() ? "" : ", ") + shown(known);
  }
  fail<FileError>("{}: there is no tensor '{}' among the {}: {}{}", where, shown(name), tensors.size(), names,
                  tensors.size() > most ? " ..." : "");
}

Gguf load_gguf(const std::string& path) { return gguf_of(InputFile(operation, path)); }

}  // namespace stave
