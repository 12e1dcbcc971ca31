#include <stave/core/io/npy.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include <stave/core/effects/effect.h>
#include <stave/core/io/elements.h>
#include <stave/core/ops/bools.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/storage.h>

namespace stave_detail {

namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr char native_order = std::endian::native == std::endian::little ? '<' : '>';

// Returns the code that follows the byte order in `descr`: kind and size of a dtype, such as "f4".
// It is empty if NumPy lacks the dtype.
std::string type_code(Dtype dtype) {
  if (dtype == bfloat16) return "";
  const char kind = dtype == bool_       ? 'b'
                    : is_complex(dtype)  ? 'c'
                    : is_float(dtype)    ? 'f'
                    : is_unsigned(dtype) ? 'u'
                                         : 'i';
  return kind + std::to_string(size_of(dtype));
}

// ---- dtypes -------------------------------------------------------------------------------------

// Returns NumPy's name of a type that Stave lacks, or a description such as "dates".
std::string numpy_name(std::string_view code) {
  constexpr std::pair<std::string_view, const char*> names[] = {{"f16", "longdouble"}, {"c32", "clongdouble"}};
  for (const auto& [known, name] : names)
    if (code == known) return name;
  constexpr std::pair<char, const char*> kinds[] = {
      {'O', "Python objects"}, {'S', "byte strings"}, {'a', "byte strings"}, {'U', "strings"},
      {'V', "raw bytes"},      {'M', "dates"},        {'m', "time spans"}};
  if (code == "V2") return "raw bytes, as which NumPy writes bfloat16";
  if (code == "V1") return "raw bytes, as which NumPy writes floats of 8 bits";
  for (const auto& [kind, name] : kinds)
    if (code.starts_with(kind)) return name;
  return "an unknown type";
}

struct ElementType {
  Dtype dtype;
  bool swapped;  // true if the file has the other byte order than this machine
};

// Thrown for elements of a dtype that Stave lacks.
struct UnsupportedDtype {
  std::string why;
};

ElementType element_type(std::string_view descr) {
  char order = native_order;
  std::string_view code = descr;
  if (!code.empty() && std::string_view("<>=|").find(code[0]) != std::string_view::npos) {
    if (code[0] == '<' || code[0] == '>') order = code[0];
    code.remove_prefix(1);
  }
  for (int i = 0; i < dtype_count; ++i)
    if (const auto dtype = static_cast<Dtype>(i); !code.empty() && code == type_code(dtype))
      return {dtype, order != native_order};
  throw UnsupportedDtype{
      fmt::format("holds elements of dtype '{}' ({}), which Stave does not have: convert it in NumPy with astype, to "
                  "bool, integers, floats of at most 64 bits or complex numbers of at most 128 bits",
                  shown(descr), numpy_name(code))};
}

// ---- the header ---------------------------------------------------------------------------------

struct Header {
  ElementType type;
  bool fortran;  // true if the array is column-major, so that the first axis is contiguous
  Shape shape;
};

// A parser for the part of Python's syntax that headers use.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& where) : all_(text), text_(text), where_(where) {}

  Header parse() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr" && !type_) type_ = element_type(descr());
      else if (key == "fortran_order" && !fortran_) fortran_ = boolean();
      else if (key == "shape" && !shape_) shape_ = tuple();
      else refuse();
      if (!accept(',') && peek() != '}') refuse();
    }
    if (peek() != 0 || !type_ || !fortran_ || !shape_) refuse();
    return {*type_, *fortran_, *shape_};
  }

 private:
  [[noreturn]] void refuse() const {
    fail<FileError>("{}: the header is not that of a .npy file: {}", where_, shown(all_));
  }
  // Returns the next character that is not blank; 0 at the end.
  char peek() {
    text_.remove_prefix(std::min(text_.find_first_not_of(" \t\n"), text_.size()));
    return text_.empty() ? '\0' : text_[0];
  }
  bool accept(char c) {
    if (peek() != c || text_.empty()) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) refuse();
  }
  std::string_view string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') refuse();
    const std::size_t end = text_.find(quote, 1);
    if (end == text_.npos) refuse();
    const std::string_view value = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return value;
  }
  std::string_view descr() {
    if (peek() == '[' || peek() == '(')
      throw UnsupportedDtype{
          "holds elements of a structured dtype, which Stave does not have: save its fields one by one"};
    return string();
  }
  bool boolean() {
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      peek();
      if (!text_.starts_with(word)) continue;
      text_.remove_prefix(word.size());
      return value;
    }
    refuse();
  }
  Index length() {
    peek();
    Index value = 0;
    const auto [stop, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0) refuse();
    text_.remove_prefix(static_cast<std::size_t>(stop - text_.data()));
    accept('L');  // Python 2 wrote long integers with an L.
    return value;
  }
  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      shape.push_back(length());
      if (shape.size() > most_axes) fail<FileError>("{}: its array has more than {} axes", where_, most_axes);
      if (!accept(',') && (peek() != ')' || shape.size() < 2)) refuse();
    }
    return shape;
  }

  std::string_view all_, text_;
  const std::string& where_;
  std::optional<ElementType> type_;
  std::optional<bool> fortran_;
  std::optional<Shape> shape_;
};

Header read_header(Source& source) {
  unsigned char start[8], length[4];
  if (source.left() < sizeof start) fail<FileError>("{}: is not a .npy file: it is too short", source.where());
  source.read(start, sizeof start);
  if (std::memcmp(start, magic.data(), magic.size()) != 0)
    fail<FileError>("{}: is not a .npy file: it begins with other bytes", source.where());
  const int version = start[6];
  if (version < 1 || version > 3)
    fail<FileError>("{}: is of .npy format {}.{}: 1.0, 2.0 and 3.0 can be read", source.where(), version, start[7]);
  const std::size_t width = version == 1 ? 2 : 4;
  source.read(length, width);
  std::size_t bytes = 0;
  for (std::size_t i = width; i-- > 0;) bytes = bytes << 8 | length[i];
  if (bytes > source.left())
    fail<FileError>("{}: its header should have {} bytes, but {} are left", source.where(), bytes, source.left());
  std::string text(bytes, '\0');
  source.read(text.data(), bytes);
  return HeaderParser(text, source.where()).parse();
}

// Returns the number of bytes of all elements. Throws if the source has fewer bytes left.
std::uint64_t byte_count(const Header& header, const Source& source) {
  const std::optional<std::uint64_t> bytes = bytes_of(header.type.dtype, header.shape);
  if (!bytes) fail<FileError>("{}: its shape {} is too large", source.where(), header.shape);
  if (*bytes > source.left())
    fail<FileError>("{}: its array, {} {}, has {} bytes, but {} are left", source.where(), header.type.dtype,
                    header.shape, *bytes, source.left());
  return *bytes;
}

// ---- elements -----------------------------------------------------------------------------------

Strides fortran_strides(const Shape& shape) {
  Strides strides = shape;
  Index step = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    strides[axis] = step;
    step *= shape[axis];
  }
  return strides;
}

}  // namespace

std::string npy_header(Dtype dtype, const Shape& shape) {
  if (type_code(dtype).empty())
    fail<DtypeError>("{} cannot be stored in .npy files: convert it with astype(x, float32), which keeps every value",
                     dtype);
  const std::string lengths = fmt::format("{}{}", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const char order = size_of(dtype) == 1 ? '|' : native_order;
  std::string text =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}", order, type_code(dtype), lengths);
  const bool is_long = text.size() > 65000;
  const std::size_t before = magic.size() + (is_long ? 6 : 4);
  // elements begin at a multiple of 64
  text.append(63 - (before + text.size()) % 64, ' ').push_back('\n');
  std::string header(magic);
  header.push_back(is_long ? 2 : 1);
  header.push_back(0);
  for (int i = 0; i < (is_long ? 4 : 2); ++i) header.push_back(static_cast<char>(text.size() >> (8 * i)));
  return header + text;
}

Tensor read_npy(Source& source) {
  auto read = try_read_npy(source);
  if (const auto* why = std::get_if<std::string>(&read)) fail<DtypeError>("{}: {}", source.where(), *why);
  return std::get<Tensor>(std::move(read));
}

std::variant<Tensor, std::string> try_read_npy(Source& source) {
  Header header;
  try {
    header = read_header(source);
  } catch (UnsupportedDtype& lacking) {
    return std::move(lacking.why);
  }
  const std::uint64_t bytes = byte_count(header, source);
  const Strides strides = header.fortran ? fortran_strides(header.shape) : contiguous_strides(header.shape);
  const Dtype dtype = header.type.dtype;
  const Tensor x(
      NodePtr(new Node(dtype, cpu, header.shape, strides, allocate_storage(cpu, dtype, header.shape, "load_npy"))));
  char* const data = static_cast<char*>(x.node().data());
  source.read(data, bytes);
  if (header.type.swapped) reverse_bytes(data, bytes, size_of(real_of(dtype)));
  if (dtype == bool_) make_bools(data, bytes);
  UnderFrame past_all_handlers(nullptr);
  return contiguous(x);
}

}  // namespace stave_detail
