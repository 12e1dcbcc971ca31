// Prints tensors as NumPy's str(array) does, by the rules of numpy/_core/arrayprint.py,
// version 2.4.
//
// A value is printed in three steps. `corners` takes the elements to show: all if there are at most
// 1000, else three from each end of each long axis. A format for one element is fitted to them
// (`FloatFormat`, `IntegerFormat`, `BoolFormat`). `TextLayout` arranges them in brackets and lines.
// A float is printed with the fewest digits that distinguish it from its neighbours of the same
// dtype, rounded correctly to at most 8 digits after the point.

#include <stave/core/tensor/print.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <ostream>

#include <stave/core/ops/frontend.h>
#include <stave/core/tensor/note.h>

namespace stave_detail {

const Tensor* find_lanes(const Tensor& x) noexcept {
  const Node& node = *x.node_ptr();
  if (node.storage) return nullptr;
  for (const Note* note = node.notes; note; note = note->next)
    if (note->live() && note->owner->thread == id_of_this_thread())
      if (const Tensor* lanes = note->physical()) return lanes;
  return nullptr;
}

const Tensor* lanes_of(const Tensor& x) {
  if (x.node().storage) return nullptr;
  const Tensor* const lanes = find_lanes(x);
  if (!lanes) check_not_escaped(x.node());  // throws
  return lanes;
}

bool repeats_one_element(const Tensor& x) {
  const Node& node = x.node();
  for (std::size_t axis = 0; axis < node.shape.size(); ++axis)
    if (node.shape[axis] != 1 && node.strides[axis] != 0) return false;
  return true;
}

std::string place_of(Index element, const Shape& shape, const char* between) {
  std::string place;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    place = std::to_string(element % shape[axis]) + (place.empty() ? "" : between) + place;
    element /= shape[axis];
  }
  return place;
}

std::string name_of_element(const std::string& name, const Shape& shape, Index element) {
  const std::string place = place_of(element, shape, ",");
  return place.empty() ? name : name + "[" + place + "]";
}

std::string name_of_value(int number) {
  std::string name(1, static_cast<char>('a' + number % 26));
  while ((number = number / 26 - 1) >= 0) name.insert(name.begin(), static_cast<char>('a' + number % 26));
  return name;
}

Tensor observed(const Tensor& x) {
  const Tensor* value = &x;
  while (const Tensor* lanes = lanes_of(*value)) value = lanes;
  return view_of(*value);
}

namespace {

constexpr Index threshold = 1000;  // arrays with more elements are summarised
constexpr Index edge = 3;          // elements shown at each end of a summarised axis
constexpr int precision = 8;       // the maximum number of digits after the point
constexpr int line_width = 75;

// ---- decimal digits -----------------------------------------------------------------------------

// A number in decimal: integer "-12" (with sign), fraction "5" (without trailing zeros, except
// requested ones), exponent "+05" or "".
struct Decimal {
  std::string integer, fraction, exponent;
};

template <class T, class... Format>
std::string to_digits(T value, Format... format) {
  std::array<char, 512> buffer;  // the longest text is 1e308 in fixed notation
  return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format...).ptr};
}
template <class T, class... Format>
  requires is_half<T>
std::string to_digits(T value, Format... format) {
  return to_digits(static_cast<float>(value), format...);
}
// The number as d.ddde+xx with the fewest digits that identify the value.
template <class T>
std::string fewest_digits(T value) {
  return to_digits(value, std::chars_format::scientific);
}
template <class T>
  requires is_half<T>
std::string fewest_digits(T value) {
  for (int digits = 0;; ++digits) {
    std::string text = to_digits(value, std::chars_format::scientific, digits);
    float read = 0;
    std::from_chars(text.data(), text.data() + text.size(), read);
    if (T(read).bits == value.bits) return text;
  }
}

Decimal split_decimal(const std::string& text) {
  const std::size_t e = std::min(text.find('e'), text.size()), point = std::min(text.find('.'), e);
  Decimal parts{text.substr(0, point), {}, {}};
  if (point < e) parts.fraction = text.substr(point + 1, e - point - 1);
  if (e < text.size()) parts.exponent = text.substr(e + 1);
  return parts;
}

void trim_zeros(std::string& fraction) { fraction.erase(fraction.find_last_not_of('0') + 1); }

// The number as d.ddde+xx with the fewest digits that identify the value, at most `digits` after
// the point.
template <class T>
Decimal scientific(T value, int digits) {
  Decimal parts = split_decimal(fewest_digits(value));
  if (static_cast<int>(parts.fraction.size()) > digits) {
    parts = split_decimal(to_digits(value, std::chars_format::scientific, digits));
    trim_zeros(parts.fraction);
  }
  return parts;
}

// The number as ddd.ddd with the fewest digits that identify the value, at most `digits` after the
// point. It is made from the digits of `scientific`, because to_chars would print all digits of a
// large number, not the fewest.
template <class T>
Decimal positional(T value, int digits) {
  const Decimal parts = scientific(value, std::numeric_limits<int>::max());
  const bool negative = parts.integer[0] == '-';
  std::string all = parts.integer.substr(negative) + parts.fraction;
  int point = 1 + std::stoi(parts.exponent);  // position of the point in `all`
  if (static_cast<int>(all.size()) - point > digits) {
    Decimal cut = split_decimal(to_digits(value, std::chars_format::fixed, digits));
    trim_zeros(cut.fraction);
    return cut;
  }
  if (point < 1) {
    all.insert(0, static_cast<std::size_t>(1 - point), '0');
    point = 1;
  }
  const auto integers = static_cast<std::size_t>(point);
  if (all.size() < integers) all.resize(integers, '0');
  Decimal result{(negative ? "-" : "") + all.substr(0, integers), all.substr(integers), {}};
  trim_zeros(result.fraction);
  return result;
}

std::string padded(const std::string& text, std::size_t width, char fill = ' ') {
  return std::string(width > text.size() ? width - text.size() : 0, fill) + text;
}

template <class T>
std::string non_finite(T value) {
  return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
}
// Puts a + before a number that has no sign.
std::string with_sign(const std::string& text) { return text[0] == '-' ? text : '+' + text; }

// ---- formats of one element ---------------------------------------------------------------------

// One format for all floats of an array: columns left and right of the point, or scientific
// notation if magnitudes are large, small, or far apart.
template <class T>
class FloatFormat {
 public:
  /// If `signs`, positive numbers get a +.
  explicit FloatFormat(const std::vector<T>& values, bool signs = false)
      : is_scientific_(wants_scientific(values)), signs_(signs) {
    bool non_finite_seen = false, negative_infinity = false;
    for (T value : values) {
      if (std::isfinite(value)) fit(value);
      else non_finite_seen = true;
      negative_infinity |= std::isinf(value) && value < 0;
    }
    if (non_finite_seen) {
      const std::size_t widest = negative_infinity || signs ? 4 : 3, right_of_point = right() + 1;
      if (widest > left_ + right_of_point) left_ = widest - right_of_point;
    }
  }

  std::string operator()(T value) const {
    if (!std::isfinite(value)) return padded(signed_(non_finite(value)), left_ + right() + 1);
    if (!is_scientific_) {
      const Decimal parts = positional(value, precision);
      return padded(signed_(parts.integer), left_) + '.' + parts.fraction +
             std::string(fraction_ - parts.fraction.size(), ' ');
    }
    const Decimal parts = split_decimal(to_digits(value, std::chars_format::scientific, static_cast<int>(fraction_)));
    return padded(signed_(parts.integer), left_) + '.' + parts.fraction + 'e' + parts.exponent[0] +
           padded(parts.exponent.substr(1), exponent_, '0');
  }

 private:
  static bool wants_scientific(const std::vector<T>& values) {
    using C = Computed<T>;
    constexpr C large = sizeof(T) == 2   ? C(1e3)
                        : sizeof(T) == 4 ? C(1e6)
                                         : C(1e8),
                small = C(1e-4), far_apart = C(1000);
    C least = std::numeric_limits<C>::infinity(), greatest = 0;
    for (C value : values) {
      if (!std::isfinite(value) || value == 0) continue;
      least = std::min(least, std::abs(value));
      greatest = std::max(greatest, std::abs(value));
    }
    return greatest > 0 && (greatest >= large || least < small || greatest / least > far_apart);
  }
  void fit(T value) {
    const Decimal parts = is_scientific_ ? scientific(value, precision) : positional(value, precision);
    left_ = std::max(left_, signed_(parts.integer).size());
    fraction_ = std::max(fraction_, parts.fraction.size());
    if (is_scientific_) exponent_ = std::max(exponent_, parts.exponent.size() - 1);
  }
  std::string signed_(const std::string& text) const { return signs_ ? with_sign(text) : text; }
  // Returns the width of everything right of the point.
  std::size_t right() const { return fraction_ + (is_scientific_ ? exponent_ + 2 : 0); }

  bool is_scientific_, signs_;
  // Widths in characters: of the integer part with its sign, of the digits after the point, and of
  // the digits of the exponent.
  std::size_t left_ = 0, fraction_ = 0, exponent_ = 0;
};

template <class T>
class IntegerFormat {
 public:
  explicit IntegerFormat(const std::vector<T>& values) {
    for (T value : values) width_ = std::max(width_, to_digits(value).size());
  }
  std::string operator()(T value) const { return padded(to_digits(value), width_); }

 private:
  std::size_t width_ = 0;
};

// The real and the imaginary parts have a format each. The j stands before the blanks that align
// the imaginary parts.
template <class T>
class ComplexFormat {
 public:
  explicit ComplexFormat(const std::vector<ComplexElement<T>>& values)
      : real_(parts(values, &ComplexElement<T>::re)), imaginary_(parts(values, &ComplexElement<T>::im), true) {}
  std::string operator()(ComplexElement<T> value) const {
    std::string imaginary = imaginary_(value.im);
    imaginary.insert(imaginary.find_last_not_of(' ') + 1, 1, 'j');
    return real_(value.re) + imaginary;
  }

 private:
  static std::vector<T> parts(const std::vector<ComplexElement<T>>& values, T ComplexElement<T>::*part) {
    std::vector<T> found;
    for (const ComplexElement<T>& value : values) found.push_back(value.*part);
    return found;
  }
  FloatFormat<T> real_, imaginary_;
};

struct BoolFormat {
  explicit BoolFormat(const std::vector<bool>&) {}
  std::string operator()(bool value) const { return value ? " True" : "False"; }
};

template <class T>
struct FormatFor {
  using Type = std::conditional_t<std::is_same_v<T, bool>, BoolFormat,
                                  std::conditional_t<std::is_integral_v<T>, IntegerFormat<T>, FloatFormat<T>>>;
};
template <class T>
struct FormatFor<ComplexElement<T>> {
  using Type = ComplexFormat<T>;
};

// A tensor of rank 0 prints as the number itself, with all digits that it needs.
template <class T>
std::string scalar_text(T value) {
  if constexpr (ComplexNumber<T>) {
    const auto part = [](auto x) {
      const std::string text = scalar_text(x);
      return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
    };
    const std::string imaginary = part(value.im) + 'j';
    return value.re == 0 && !std::signbit(value.re) ? imaginary : '(' + part(value.re) + with_sign(imaginary) + ')';
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "True" : "False";
  } else if constexpr (std::is_integral_v<T>) {
    return to_digits(value);
  } else {
    if (!std::isfinite(value)) return non_finite(value);
    constexpr int all_digits = std::numeric_limits<int>::max();
    const double magnitude = std::abs(static_cast<double>(value)), large = sizeof(T) == 2   ? 1e3
                                                                           : sizeof(T) == 4 ? 1e6
                                                                                            : 1e16;
    if (magnitude == 0 || (magnitude >= 1e-4 && magnitude < large)) {
      const Decimal parts = positional(value, all_digits);
      return parts.integer + '.' + (parts.fraction.empty() ? "0" : parts.fraction);
    }
    const Decimal parts = scientific(value, all_digits);
    return parts.integer + (parts.fraction.empty() ? "" : '.' + parts.fraction) + 'e' + parts.exponent;
  }
}

// ---- brackets and lines -------------------------------------------------------------------------

bool summarised(Index length, bool whole_is_long) { return whole_is_long && length > 2 * edge; }

// The elements to print, as a view. Each summarised axis of length n becomes two axes, of lengths 2
// and 3: its first three and its last three entries.
Tensor corners(const Tensor& x) {
  if (x.size() <= threshold) return x;
  Shape shape;
  Strides strides;
  for (std::size_t axis = 0; axis < x.shape().size(); ++axis) {
    const Index length = x.shape()[axis], stride = x.strides()[axis];
    if (summarised(length, true)) {
      shape.push_back(2);
      strides.push_back((length - edge) * stride);
    }
    shape.push_back(summarised(length, true) ? edge : length);
    strides.push_back(stride);
  }
  return view_of(x, shape, strides, x.node().offset);
}

// Arranges elements, in row-major order, in nested brackets.
template <class T>
class TextLayout {
 public:
  TextLayout(const Shape& shape, const std::vector<T>& elements)
      : shape_(shape), elements_(elements), format_(elements) {}

  std::string text() { return block(0, 1, line_width); }

 private:
  // One entry of axis - 1, in brackets. `indent` is the column of its content; `width` shrinks
  // by one closing bracket per level.
  std::string block(std::size_t axis, std::size_t indent, std::size_t width) {
    return '[' + (axis + 1 == shape_.size() ? row(axis, indent, width) : rows(axis, indent, width)) + ']';
  }

  std::string rows(std::size_t axis, std::size_t indent, std::size_t width) {
    const std::string separator = std::string(shape_.size() - axis - 1, '\n') + std::string(indent, ' ');
    std::string text;
    for_entries(axis, [&](bool first, bool dots) {
      if (!first) text += separator;
      text += dots ? "..." : block(axis + 1, indent + 1, width - 1);
    });
    return text;
  }

  std::string row(std::size_t axis, std::size_t indent, std::size_t width) {
    std::string text;
    std::size_t column = indent;
    for_entries(axis, [&](bool first, bool dots) {
      const std::string word = dots ? "..." : format_(elements_[next_++]);
      if (!first && column + 1 + word.size() > width - 1) {
        text.erase(text.find_last_not_of(' ') + 1);
        text += '\n' + std::string(indent, ' ');
        column = indent;
      } else if (!first) {
        text += ' ';
        ++column;
      }
      text += word;
      column += word.size();
    });
    return text;
  }

  template <class Entry>
  void for_entries(std::size_t axis, Entry entry) {
    const bool dots = summarised(shape_[axis], shape_.elements() > threshold);
    const Index count = dots ? 2 * edge : shape_[axis];
    for (Index i = 0; i < count; ++i) {
      if (dots && i == edge) entry(false, true);
      entry(i == 0, false);
    }
  }

  Shape shape_;
  const std::vector<T>& elements_;
  typename FormatFor<T>::Type format_;
  std::size_t next_ = 0;
};

std::string text_of(const Tensor& values) {
  if (values.size() == 0) return "[]";
  return visit_dtype(values.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> elements = read_elements<T>(corners(values));
    return values.rank() == 0 ? scalar_text<T>(elements[0]) : TextLayout<T>(values.shape(), elements).text();
  });
}

// The name of the transform to whose lane x belongs: "vmap".
const char* transform_of_lanes(const Tensor& x) {
  for (const Note* note = x.node().notes; note; note = note->next)
    if (note->live() && note->physical()) return note->owner->name;
  return "";
}

}  // namespace
}  // namespace stave_detail

namespace stave {

std::string Tensor::str() const {
  const Tensor* lanes = stave_detail::lanes_of(*this);
  notify_read(*this);
  if (!lanes) return stave_detail::text_of(stave_detail::observed(*this));
  const std::string batch = lanes->str();
  return stave_detail::transform_of_lanes(*this) + std::string(" lanes of ") + shape().str() + ' ' + name_of(dtype()) +
         (batch.find('\n') == std::string::npos ? ": " : ":\n") + batch;
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) { return out << x.str(); }
std::ostream& operator<<(std::ostream& out, Dtype dtype) { return out << name_of(dtype); }
std::ostream& operator<<(std::ostream& out, Device device) { return out << device.str(); }
template <std::same_as<Shape> S>
std::ostream& operator<<(std::ostream& out, const S& shape) {
  return out << shape.str();
}
template std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace stave
