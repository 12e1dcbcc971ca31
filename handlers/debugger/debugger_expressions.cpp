#include <stave/handlers/debugger/debugger_expressions.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>
#include <stave/handlers/debugger/debugger_words.h>

namespace stave_detail {

namespace {

// A value, as it is outside all handlers. Its first `lanes` axes are the lanes of nested vmaps.
struct Value {
  Tensor x;
  int lanes = 0;
  // Whether the value is a number in the text, which takes the dtype of a floating-point operand.
  bool literal = false;
};

struct NoValue : TransformError {
  using TransformError::TransformError;
};

using Evaluate = std::function<Value(const ExpressionValues&)>;

}  // namespace

struct Expression::Node {
  Evaluate evaluate;
};

namespace {

Value value_of(const Tensor& x) {
  if (!x.defined()) fail<TransformError>("debugger: this value is empty");
  Value value{observed(x), 0};
  for (const Tensor* lanes = lanes_of(x); lanes; lanes = lanes_of(*lanes)) ++value.lanes;
  return value;
}

// ---- operations ------------------------------------------------------------------------

// Returns x reshaped to `rank` axes after `lanes` axes of lanes. If `lanes` is 0, x keeps its
// shape, because operations broadcast it then.
Tensor aligned(const Value& value, int lanes, int rank) {
  if (value.lanes == lanes && (lanes == 0 || value.x.rank() == lanes + rank)) return value.x;
  Shape shape;
  for (int i = 0; i < lanes; ++i) shape.push_back(value.lanes ? value.x.shape(i) : 1);
  for (int i = value.x.rank() - value.lanes; i < rank; ++i) shape.push_back(1);
  for (int i = value.lanes; i < value.x.rank(); ++i) shape.push_back(value.x.shape(i));
  return reshape(value.x, shape);
}

Value both(char op, const Value& a, const Value& b) {
  if (a.lanes && b.lanes && a.lanes != b.lanes) fail<TransformError>("debugger: these values are of different lanes");
  const int lanes = std::max(a.lanes, b.lanes), rank = std::max(a.x.rank() - a.lanes, b.x.rank() - b.lanes);
  Tensor x = aligned(a, lanes, rank), y = aligned(b, lanes, rank);
  if (a.literal && is_inexact(y.dtype())) x = astype(x, y.dtype());
  if (b.literal && is_inexact(x.dtype())) y = astype(y, x.dtype());
  if (a.literal) x = to(x, y.device());
  if (b.literal) y = to(y, x.device());
  switch (op) {
    case '+': return {x + y, lanes};
    case '-': return {x - y, lanes};
    case '*': return {x * y, lanes};
    case '/': return {x / y, lanes};
    case '<': return {x < y, lanes};
    case '>': return {x > y, lanes};
    case 'l': return {x <= y, lanes};
    case 'g': return {x >= y, lanes};
    case '=': return {x == y, lanes};
    default: return {x != y, lanes};
  }
}

// Returns a statistic of all elements of all lanes, defined as in summary_of:
// minimum and maximum ignore NaN, and means use the finite elements. For a complex tensor it is a
// statistic of the absolute values.
double statistic(const std::string& name, const Tensor& x) {
  const std::vector<double> all = astype(to(is_complex(x.dtype()) ? abs(x) : x, cpu), float64).to_vector<double>();
  std::vector<double> finite, numbers;
  for (const double one : all) {
    if (!std::isnan(one)) numbers.push_back(one);
    if (std::isfinite(one)) finite.push_back(one);
  }
  const double count = static_cast<double>(finite.size());
  double total = 0, squares = 0;
  for (const double one : finite) total += one;
  for (const double one : finite) squares += (one - total / count) * (one - total / count);
  if (name == "size") return static_cast<double>(all.size());
  if (name == "nan") return static_cast<double>(all.size() - numbers.size());
  if (name == "inf") return static_cast<double>(numbers.size() - finite.size());
  if (name == "sum") return total;
  if (name == "mean") return total / count;
  if (name == "std") return std::sqrt(squares / count);
  if (numbers.empty()) return NAN;
  return name == "max" ? *std::max_element(numbers.begin(), numbers.end())
                       : *std::min_element(numbers.begin(), numbers.end());
}

constexpr std::array statistics{"max", "min", "mean", "sum", "std", "nan", "inf", "size"};
constexpr std::array functions{"abs", "exp", "log", "sqrt"};

template <class Names>
bool is_among(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Value applied(const std::string& function, const Value& value) {
  if (is_among(statistics, function)) return {tensor(statistic(function, value.x), float64), 0};
  const Tensor x = is_inexact(value.x.dtype()) ? value.x : astype(value.x, float64);
  if (function == "abs") return {abs(value.x), value.lanes};
  if (function == "exp") return {exp(x), value.lanes};
  return {function == "log" ? log(x) : sqrt(x), value.lanes};
}

// ---- parser ----------------------------------------------------------------------------

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Evaluate comparison() {
    Evaluate left = sum();
    static constexpr std::pair<std::string_view, char> comparisons[] = {{"<=", 'l'}, {">=", 'g'}, {"==", '='},
                                                                        {"!=", '!'}, {"<", '<'},  {">", '>'}};
    for (const auto& [sign, op] : comparisons)
      if (accept(sign)) return of_both(op, std::move(left), sum());
    return left;
  }
  std::string_view rest() {
    skip_blanks();
    return text_.substr(at_);
  }
  std::size_t taken() const { return at_; }
  [[noreturn]] void fail_here() {
    const std::string_view rest = this->rest();
    if (rest.empty()) fail<TransformError>("debugger: `{}` ends too early", text_);
    fail<TransformError>("debugger: `{}` cannot be parsed, from `{}` on", text_, rest);
  }

  bool has_outputs = false, has_statistics = false;
  std::string last_name = {};  // the last name of a value that was read

 private:
  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool accept(std::string_view sign) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }
  void expect(std::string_view sign) {
    if (!accept(sign)) fail_here();
  }
  static Evaluate of_both(char op, Evaluate a, Evaluate b) {
    return [op, a = std::move(a), b = std::move(b)](const ExpressionValues& values) {
      const Value left = a(values);
      return both(op, left, b(values));
    };
  }

  Evaluate sum() {
    Evaluate left = product();
    for (;;) {
      if (accept("+")) left = of_both('+', std::move(left), product());
      else if (accept("-")) left = of_both('-', std::move(left), product());
      else return left;
    }
  }
  Evaluate product() {
    Evaluate left = unary();
    for (;;) {
      if (accept("*")) left = of_both('*', std::move(left), unary());
      else if (accept("/")) left = of_both('/', std::move(left), unary());
      else return left;
    }
  }
  Evaluate unary() {
    struct Deeper {
      int& depth;
      ~Deeper() { --depth; }
    } deeper{depth_};
    if (++depth_ > 200) fail<TransformError>("debugger: an expression can be nested 200 levels deep");
    if (accept("-"))
      return [of = unary()](const ExpressionValues& values) {
        const Value value = of(values);
        return Value{-value.x, value.lanes, value.literal};
      };
    Evaluate value = primary();
    while (accept("[")) value = subscripted(std::move(value));
    return value;
  }
  Evaluate primary() {
    if (accept("(")) {
      Evaluate inside = comparison();
      expect(")");
      return inside;
    }
    skip_blanks();
    const std::string_view rest = text_.substr(at_);
    if (!rest.empty() && (std::isdigit(static_cast<unsigned char>(rest[0])) || rest[0] == '.')) return number();
    if (rest.starts_with('"')) {
      const std::size_t end = rest.find('"', 1);
      if (end == std::string_view::npos) fail_here();
      at_ += end + 1;
      return named(std::string(rest.substr(1, end - 1)));
    }
    const std::string name = word(rest);
    if (name.empty()) fail_here();
    at_ += name.size();
    if (is_among(statistics, name) || is_among(functions, name)) {
      if (accept("(")) {
        Evaluate of = comparison();
        expect(")");
        return [name, of = std::move(of)](const ExpressionValues& values) { return applied(name, of(values)); };
      }
      if (is_among(statistics, name)) return statistic_of_each(name);
    }
    if (accept("("))
      fail<TransformError>("debugger: `{}` is not a function of the debugger; there are {} and {}", name,
                           fmt::join(statistics, ", "), fmt::join(functions, ", "));
    return named(name);
  }
  Evaluate number() {
    const std::string digits(text_.substr(at_));
    char* end = nullptr;
    const double value = std::strtod(digits.c_str(), &end);
    if (end == digits.c_str()) fail_here();
    at_ += static_cast<std::size_t>(end - digits.c_str());
    const bool whole = value == std::floor(value) && std::abs(value) < 1e9;
    return [value, whole](const ExpressionValues&) {
      return Value{whole ? tensor(static_cast<std::int32_t>(value)) : tensor(value, float64), 0, true};
    };
  }
  static std::string word(std::string_view rest) {
    const auto belongs = [](char c) {
      // Bytes from 0x80 on are parts of longer UTF-8 characters.
      const auto byte = static_cast<unsigned char>(c);
      return std::isalnum(byte) || c == '_' || c == '.' || c == ':' || c == '@' || byte >= 0x80;
    };
    return std::string(rest.begin(), std::find_if_not(rest.begin(), rest.end(), belongs));
  }
  Evaluate named(std::string name) {
    has_outputs |= index_after("out", name).has_value();
    last_name = name;
    return [name = std::move(name)](const ExpressionValues& values) {
      if (const std::optional<Tensor> found = values.find(name)) return value_of(*found);
      throw NoValue(
          "debugger: `" + name +
          "` is not a value here; values are in0, in1, ..., out0, ..., and the labels of operands seen so far");
    };
  }
  Evaluate statistic_of_each(const std::string& name) {
    has_statistics = true;
    return [name](const ExpressionValues& values) {
      if (!values.each) throw NoValue("debugger: `" + name + "` of what? Write " + name + "(in0)");
      return applied(name, value_of(*values.each));
    };
  }

  // Parses subscripts after the bracket: "2, 1:3]".
  Evaluate subscripted(Evaluate of) {
    std::vector<Tensor::Subscript> subscripts;
    do {
      const std::optional<Index> start = integer();
      if (!accept(":")) {
        if (!start) fail_here();
        subscripts.emplace_back(*start);
        continue;
      }
      const std::optional<Index> stop = integer();
      if (start && stop) subscripts.emplace_back(slice(*start, *stop));
      else if (start) subscripts.emplace_back(slice(*start, none));
      else subscripts.emplace_back(stop ? slice(*stop) : slice());
    } while (accept(","));
    expect("]");
    return [of = std::move(of), subscripts = std::move(subscripts)](const ExpressionValues& values) {
      const Value value = of(values);
      std::vector<Tensor::Subscript> all(static_cast<std::size_t>(value.lanes), Tensor::Subscript(slice()));
      all.insert(all.end(), subscripts.begin(), subscripts.end());
      return Value{value.x(all), value.lanes};
    };
  }
  std::optional<Index> integer() {
    skip_blanks();
    const std::string rest(text_.substr(at_));
    char* end = nullptr;
    const long long value = std::strtoll(rest.c_str(), &end, 10);
    if (end == rest.c_str()) return std::nullopt;
    at_ += static_cast<std::size_t>(end - rest.c_str());
    return static_cast<Index>(value);
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Expression Expression::read(std::string_view& text) {
  Reader reader(text);
  reader.rest();
  const std::size_t begin = reader.taken();
  Expression expression;
  expression.root_ = std::make_shared<const Node>(Node{reader.comparison()});
  expression.text_ = text.substr(begin, reader.taken() - begin);
  while (expression.text_.ends_with(' ')) expression.text_.pop_back();
  expression.has_outputs_ = reader.has_outputs;
  expression.has_statistics_ = reader.has_statistics;
  // A name may be quoted.
  const std::string& name = reader.last_name;
  expression.is_name_ = expression.text_ == name || expression.text_ == '"' + name + '"';
  text = reader.rest();
  return expression;
}

Expression Expression::read_all(std::string_view text) {
  std::string_view rest = text;
  Expression expression = read(rest);
  if (!rest.empty()) fail<TransformError>("debugger: `{}` cannot be parsed, from `{}` on", text, rest);
  return expression;
}

Tensor Expression::evaluate(const ExpressionValues& values) const {
  const UnderFrame past_all_handlers(nullptr);
  return root_->evaluate(values).x;
}

bool Expression::holds(const ExpressionValues& values) const {
  try {
    const UnderFrame past_all_handlers(nullptr);
    const std::vector<double> all = astype(to(evaluate(values), cpu), float64).to_vector<double>();
    return std::any_of(all.begin(), all.end(), [](double x) { return x != 0; });
  } catch (const NoValue&) {
    return false;
  }
}

}  // namespace stave_detail
