// The function read_csv of io.h.
#include <algorithm>
#include <charconv>
#include <istream>
#include <string_view>
#include <type_traits>

#include <stave/core/effects/function_ref.h>
#include <stave/core/io/file.h>
#include <stave/core/io/io.h>
#include <stave/core/ops/create.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

constexpr std::string_view blanks = " \t";

std::string_view trimmed(std::string_view text, char delimiter) {
  const auto blank = [&](char c) { return c != delimiter && blanks.find(c) != blanks.npos; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// Splits a line into fields at each delimiter.
void split_at(char delimiter, std::string_view line, std::vector<std::string_view>& fields) {
  for (std::size_t at; (at = line.find(delimiter)) != line.npos; line.remove_prefix(at + 1))
    fields.push_back(trimmed(line.substr(0, at), delimiter));
  fields.push_back(trimmed(line, delimiter));
}
void split_at_blanks(std::string_view line, std::vector<std::string_view>& fields) {
  while (!(line = trimmed(line, '\0')).empty()) {
    fields.push_back(line.substr(0, line.find_first_of(blanks)));
    line.remove_prefix(fields.back().size());
  }
}

// The result of parsing a number.
enum class Parsed { value, no_number, too_large };

template <class T>
std::errc parse_all(std::string_view field, T& value) {
  const auto [stop, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  return stop == field.data() + field.size() ? error : std::errc::invalid_argument;
}

Parsed parse(std::string_view field, bool& value) {
  value = field == "1" || field == "true" || field == "True" || field == "TRUE";
  const bool known = value || field == "0" || field == "false" || field == "False" || field == "FALSE";
  return known ? Parsed::value : Parsed::no_number;
}

template <class T>
Parsed parse(std::string_view field, T& value) {
  if (field.starts_with('+') && !field.starts_with("+-")) field.remove_prefix(1);
  std::errc error = parse_all(field, value);
  if constexpr (std::is_floating_point_v<T>) {
    long double wide = 0;  // a value out of T's range becomes 0 or infinity
    if (error == std::errc::result_out_of_range && (error = parse_all(field, wide)) == std::errc())
      value = static_cast<T>(wide);
  }
  if (error == std::errc()) return Parsed::value;
  return error == std::errc::result_out_of_range ? Parsed::too_large : Parsed::no_number;
}

// Parses a float16 or bfloat16 as a double, then rounds the double to T. Digits beyond the
// precision of a double do not affect the result.
template <class T>
  requires is_half<T>
Parsed parse(std::string_view field, T& value) {
  double wide = 0;
  const Parsed parsed = parse(field, wide);
  value = T(wide);
  return parsed;
}

template <class T>
constexpr const char* expected = std::is_same_v<T, bool>  ? "0, 1, true or false"
                                 : !std::is_integral_v<T> ? "a number"
                                                          : "an integer";

// ---- lines --------------------------------------------------------------------------------------

// A function that reads up to n bytes of text into `to`, and returns their number; 0 at the end.
using ReadBytes = FunctionRef<std::size_t(char* to, std::size_t n)>;

class Lines {
 public:
  Lines(ReadBytes read, const std::string& where) : read_(read), where_(where), buffer_(1 << 16, '\0') {}

  // Reads the next line, without its newline. Returns false if there is none.
  bool next(std::string& line) {
    line.clear();
    ++number_;
    for (;;) {
      const std::size_t end = left_.find('\n');
      line += left_.substr(0, end);
      left_.remove_prefix(std::min(end, left_.size()));
      if (!left_.empty()) {
        left_.remove_prefix(1);
        return true;
      }
      check_text(line);
      left_ = {buffer_.data(), read_(buffer_.data(), buffer_.size())};
      if (left_.empty()) return !line.empty();
    }
  }

 private:
  // Throws if the line is at least as long as the buffer and its newest part has a zero byte, which
  // shows that the file is not text. Without this check, a line that never ends would fill all
  // memory.
  void check_text(const std::string& line) const {
    if (line.size() >= buffer_.size() && line.find('\0', line.size() - buffer_.size()) != line.npos)
      fail<FileError>("{}:{}: is not text: it contains zero bytes, and no end of line within {} bytes", where_, number_,
                      line.size());
  }

  ReadBytes read_;
  const std::string& where_;
  Index number_ = 0;
  std::string buffer_;
  std::string_view left_;  // the part of buffer_ that is not read yet
};

// ---- tables -------------------------------------------------------------------------------------

// A table of numbers of one C++ type.
template <class T>
class Table {
 public:
  Table(const std::string& where, const CsvOptions& options) : where_(where), options_(options) {}

  Tensor read(ReadBytes read) {
    Lines lines(read, where_);
    std::string line;
    for (Index number = 1; lines.next(line); ++number) {
      std::string_view text = line;
      // a byte order mark
      if (number == 1 && text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
      if (text.ends_with('\r')) text.remove_suffix(1);
      if (options_.comment) text = text.substr(0, text.find(options_.comment));
      const bool is_blank = trimmed(text, options_.delimiter == ' ' ? '\0' : options_.delimiter).empty();
      if (number > options_.skip_lines && !is_blank) add(text, where_ + ":" + std::to_string(number));
    }
    if (rows_ == 0) fail<FileError>("{}: has no numbers in it", where_);
    return from_bytes(values_.data(), values_.size(), dtype_of<T>(), {rows_, columns_});
  }

 private:
  void add(std::string_view line, const std::string& place) {
    fields_.clear();
    options_.delimiter == ' ' ? split_at_blanks(line, fields_) : split_at(options_.delimiter, line, fields_);
    if (rows_ == 0) columns_ = options_.columns ? options_.columns : static_cast<Index>(fields_.size());
    if (static_cast<Index>(fields_.size()) != columns_)
      fail<FileError>("{}: expected {} columns, found {}", place, columns_, fields_.size());
    ++rows_;
    for (std::size_t i = 0; i < fields_.size(); ++i) values_.push_back(number(fields_[i], place, i + 1));
  }

  T number(std::string_view field, const std::string& place, std::size_t column) const {
    if (field.size() >= 2 && field.front() == '"' && field.back() == '"') field = field.substr(1, field.size() - 2);
    T value{};
    switch (parse(field, value)) {
      case Parsed::value: break;
      case Parsed::no_number:
        fail<FileError>("{}: column {}: expected {}, found '{}'", place, column, expected<T>, shown(field));
      case Parsed::too_large:
        fail<FileError>("{}: column {}: '{}' does not fit in {}", place, column, shown(field), dtype_of<T>());
    }
    return value;
  }

  const std::string& where_;
  const CsvOptions& options_;
  std::vector<std::string_view> fields_;
  // Bools are stored as bytes, because std::vector<bool> has no bytes to copy.
  std::vector<std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>> values_;
  Index rows_ = 0, columns_ = 0;
};

void check(const CsvOptions& options) {
  if (options.skip_lines < 0 || options.columns < 0)
    fail<ShapeError>("read_csv: skip_lines {} and columns {} must not be negative", options.skip_lines,
                     options.columns);
  if (options.comment && options.comment == options.delimiter)
    fail<FileError>(
        "read_csv: '{}' cannot be both the delimiter and the beginning of comments: choose another `comment`, or '\\0' "
        "for none",
        shown({&options.comment, 1}));
}

Tensor read(ReadBytes bytes, const std::string& where, const CsvOptions& options) {
  return visit_real_dtype(options.dtype, [&](auto zero) { return Table<decltype(zero)>(where, options).read(bytes); });
}

}  // namespace

Tensor read_csv(const std::string& path, CsvOptions options) {
  check(options);
  const InputFile file("read_csv", path);
  FileSource source(file, file.where(), 0, file.size());
  const auto next = [&](char* to, std::size_t n) {
    n = static_cast<std::size_t>(std::min<std::uint64_t>(n, source.left()));
    source.read(to, n);
    return n;
  };
  return read(next, file.where(), options);
}

Tensor read_csv(std::istream& in, CsvOptions options) {
  check(options);
  const std::string where = "read_csv: the stream";
  const auto next = [&](char* to, std::size_t n) {
    in.read(to, static_cast<std::streamsize>(n));
    if (in.bad()) fail<FileError>("{}: cannot be read", where);
    return static_cast<std::size_t>(in.gcount());
  };
  return read(next, where, options);
}

}  // namespace stave
