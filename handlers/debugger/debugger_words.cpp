#include <stave/handlers/debugger/debugger_words.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <utility>

#include <stave/core/io/io.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

std::vector<std::string> words_of(std::string_view line, bool quotes) {
  std::vector<std::string> words;
  std::string word;
  bool begun = false, quoted = false;
  int brackets = 0;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
      begun = true;
      if (quotes) word += c;
      continue;
    }
    if (!quoted) brackets += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == '#' && !quoted && !begun) break;
    if ((c == ' ' || c == '\t' || c == '\r') && !quoted && brackets <= 0) {
      if (begun) words.push_back(std::exchange(word, ""));
      begun = false;
    } else {
      word += c;
      begun = true;
    }
  }
  if (begun) words.push_back(word);
  return words;
}

namespace {

// Returns the Levenshtein distance, computed row by row.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_to(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string* nearest = nullptr;
  std::size_t least = (word.size() + 1) / 2;
  for (const std::string& candidate : candidates)
    if (const std::size_t away = distance(word, candidate); away < least || (away == least && !nearest)) {
      least = away;
      nearest = &candidate;
    }
  return nearest && least <= word.size() / 2 ? *nearest : "";
}

std::optional<std::size_t> index_after(std::string_view kind, std::string_view word) {
  if (!word.starts_with(kind)) return std::nullopt;
  std::size_t index = 0;
  const char* const end = word.data() + word.size();
  const auto [stopped, error] = std::from_chars(word.data() + kind.size(), end, index);
  return error == std::errc() && stopped == end ? std::optional(index) : std::nullopt;
}

namespace {

// Parses nested lists of numbers in brackets, one level per axis.
class NestedNumbers {
 public:
  explicit NestedNumbers(const std::string& text) : next_(text.c_str()) {
    fits_ = read(0);
    skip_blanks();
    fits_ &= *next_ == '\0';
  }
  /// Returns whether the text was a number, or a list with rows of equal length.
  bool fits() const noexcept { return fits_; }
  const Shape& shape() const noexcept { return shape_; }
  const std::vector<double>& numbers() const noexcept { return numbers_; }

 private:
  void skip_blanks() {
    while (*next_ == ' ') ++next_;
  }
  bool accept(char c) {
    skip_blanks();
    if (*next_ != c) return false;
    ++next_;
    return true;
  }
  bool read(std::size_t depth) {
    if (!accept('[')) return depth == depth_of_numbers(depth) && read_number();
    if (depth >= 16) return false;
    Index length = 0;
    if (!accept(']')) {
      do {
        if (!read(depth + 1)) return false;
        ++length;
      } while (accept(','));
      if (!accept(']')) return false;
    } else {
      depth_of_numbers(depth + 1);
    }
    return is_length(depth, length);
  }
  // All numbers must have the nesting depth of the first.
  std::size_t depth_of_numbers(std::size_t depth) {
    if (!depth_) {
      depth_ = depth;
      shape_.resize(depth, Index{-1});
    }
    return *depth_;
  }
  bool is_length(std::size_t axis, Index length) {
    if (axis >= shape_.size()) return false;
    if (shape_[axis] < 0) shape_[axis] = length;
    return shape_[axis] == length;
  }
  bool read_number() {
    char* end = nullptr;
    numbers_.push_back(std::strtod(next_, &end));
    if (end == next_) return false;
    next_ = end;
    return true;
  }

  const char* next_;
  bool fits_ = false;
  std::optional<std::size_t> depth_;
  Shape shape_;
  std::vector<double> numbers_;
};

}  // namespace

std::optional<Shape> read_shape(std::string_view text) {
  const NestedNumbers list{std::string(text)};
  if (!list.fits() || list.shape().size() != 1) return std::nullopt;
  Shape shape;
  for (const double length : list.numbers()) {
    if (!(length >= 0 && length < 1e15) || length != static_cast<double>(static_cast<Index>(length)))
      return std::nullopt;
    shape.push_back(static_cast<Index>(length));
  }
  return shape;
}

Tensor read_value(const std::string& text, const Shape& shape, Dtype dtype, Device device) {
  if (text.ends_with(".npy")) return to(load_npy(text), device);
  const NestedNumbers list(text);
  if (!list.fits())
    fail<TransformError>(
        "debugger: `{}` is not a value: give a number, a list such as [[1, 2], [3, 4]], in0, out0 or a file that ends "
        "in .npy",
        text);
  // The value is a constant to all handlers.
  UnderFrame past_all_handlers(nullptr);
  const Tensor values = astype(from(list.numbers(), list.shape()), dtype);
  return to(list.shape().empty() ? broadcast_to(values, shape) : values, device);
}

}  // namespace stave_detail
