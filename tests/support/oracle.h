// Oracle tests compare Stave's functions with the results of other libraries (NumPy, SciPy, JAX,
// PyTorch, Optax) at points that are hard to compute and where a formula of our own could share a
// mistake with the library. (The table of operations, tests/table, covers every dtype, layout and
// transform with references of our own.) tests/data/oracle_*.py writes the results to
// tests/data/oracle_*.txt. Each line of such a file is checked in each of its dtypes, with values
// and gradients.
//
//   check_oracle("oracle_linalg.txt",
//                {{"inv", [](Given x, const Options&) { return Results{inv(x[0])}; }}, ...});
//
// Every line must have a function, and every function must have a line.
#pragma once

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <stave/handlers/transforms/vjp_flat.h>
#include <stave/stave.h>

#include "float_shape.h"
#include "matchers.h"

namespace oracle {

using namespace stave;
using Given = std::span<const Tensor>;
using Results = std::vector<Tensor>;

/// The options of a line: words, or names with numbers.
class Options {
 public:
  explicit Options(const std::string& text) {
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      const std::size_t at = word.find('=');
      all_[word.substr(0, at)] = at == std::string::npos ? "" : word.substr(at + 1);
    }
  }
  bool has(const std::string& name) const { return all_.contains(name); }
  const std::string& word(const std::string& name) const { return all_.at(name); }
  double number(const std::string& name, double otherwise) const {
    return has(name) ? std::stod(all_.at(name)) : otherwise;
  }
  Index index(const std::string& name, Index otherwise) const {
    return has(name) ? std::stoll(all_.at(name)) : otherwise;
  }
  std::vector<Index> list(const std::string& name) const {
    std::vector<Index> numbers;
    std::istringstream text(has(name) ? all_.at(name) : "");
    for (std::string one; std::getline(text, one, ',');)
      if (!one.empty()) numbers.push_back(std::stoll(one));
    return numbers;
  }

 private:
  std::map<std::string, std::string> all_;
};

using Function = std::function<Results(Given, const Options&)>;

inline std::vector<std::string> parts(const std::string& text, const std::string& separator) {
  std::vector<std::string> found;
  std::size_t from = 0;
  for (std::size_t at; (at = text.find(separator, from)) != std::string::npos; from = at + separator.size())
    found.push_back(text.substr(from, at - from));
  found.push_back(text.substr(from));
  return found;
}

inline Dtype dtype_named(std::string_view name) {
  for (int i = 0; i < real_dtype_count; ++i)
    if (name == name_of(static_cast<Dtype>(i))) return static_cast<Dtype>(i);
  throw Error("no dtype " + std::string(name));
}

/// An array as text, such as "T 2,3 1 2 3 4 5 6": dtype, shape and numbers.
/// T means the dtype of the line.
class Written {
 public:
  explicit Written(const std::string& text) {
    std::istringstream words(text);
    std::string dtype, shape;
    words >> dtype >> shape;
    if (dtype != "T") dtype_ = dtype_named(dtype);
    std::vector<Index> lengths;
    for (const std::string& length : parts(shape, ","))
      if (shape != "-") lengths.push_back(std::stoll(length));
    shape_ = Shape(lengths);
    for (std::string word; words >> word;) numbers_.push_back(word);
    if (static_cast<Index>(numbers_.size()) != shape_.elements()) throw Error("not " + shape_.str() + ": " + text);
  }
  bool of_line() const { return !dtype_; }
  /// The numbers as written, in float64, or in the array's own dtype if that is an integer dtype.
  Tensor exact() const {
    if (!dtype_ || is_float(*dtype_)) return of<double>([](auto& word) { return std::strtod(word.c_str(), nullptr); });
    if (is_unsigned(*dtype_)) return astype(of<std::uint64_t>([](auto& word) { return std::stoull(word); }), *dtype_);
    return astype(of<std::int64_t>([](auto& word) { return std::stoll(word); }), *dtype_);
  }
  Tensor in(Dtype dtype) const { return astype(exact(), dtype_.value_or(dtype)); }

 private:
  template <class T, class Parse>
  Tensor of(Parse parse) const {
    std::vector<T> values;
    for (const std::string& word : numbers_) values.push_back(static_cast<T>(parse(word)));
    return from(values, shape_);
  }

  std::optional<Dtype> dtype_;
  Shape shape_;
  std::vector<std::string> numbers_;
};

inline std::vector<Written> list_of(const std::string& text) {
  std::vector<Written> all;
  for (const std::string& part : parts(text, " ; "))
    if (part.find_first_not_of(' ') != std::string::npos) all.emplace_back(part);
  return all;
}

struct Line {
  std::string function;
  Options options;
  std::vector<Dtype> dtypes;
  std::vector<Written> inputs, outputs, gradients;

  explicit Line(const std::vector<std::string>& fields)
      : function(fields.at(0)), options(fields.at(1)), inputs(list_of(fields.at(3))), outputs(list_of(fields.at(4))),
        gradients(list_of(fields.size() > 5 ? fields[5] : "")) {
    std::istringstream words(fields.at(2));
    for (std::string word; words >> word;) dtypes.push_back(dtype_named(word));
  }
};

/// The permitted error in epsilons of the dtype, relative to the element, or to the largest element
/// if `scaled`. Zeros may differ in sign if `scaled` or `either_zero`.
struct Tolerance {
  double units;
  bool scaled = false, either_zero = false;
};

inline void expect_near(const Tensor& got, const Tensor& exact, const Tolerance& tolerance, const std::string& what) {
  ASSERT_EQ(got.shape(), exact.shape()) << what;
  const Tensor want = astype(exact, got.dtype());
  if (!is_float(got.dtype())) {
    EXPECT_TRUE(array_equal(got, want)) << what << " is " << got << ", not " << want;
    return;
  }
  const stave_test::FloatShape shape = stave_test::float_shape(got.dtype());
  const double epsilon = std::ldexp(1., 1 - shape.digits), least = std::ldexp(1., shape.least - shape.digits + 1);
  const std::vector<double> x = stave_test::values(got), y = stave_test::values(want), z = stave_test::values(exact);
  double largest = 0;
  for (double value : y)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::string where = what + "[" + std::to_string(i) + "]";
    if (!std::isfinite(y[i])) {
      EXPECT_TRUE(std::isnan(y[i]) ? std::isnan(x[i]) : x[i] == y[i]) << where << " is " << x[i] << ", not " << z[i];
      continue;
    }
    const double size = tolerance.scaled ? largest : std::abs(y[i]);
    EXPECT_LE(std::abs(x[i] - z[i]), tolerance.units * epsilon * size + least)
        << where << " is " << x[i] << ", not " << z[i];
    if (z[i] == 0 && !tolerance.scaled && !tolerance.either_zero) {
      EXPECT_EQ(std::signbit(x[i]), std::signbit(z[i])) << where << " is " << x[i] << ", not " << z[i];
    }
  }
}

/// The element at position i is (7 i mod 9 - 4) / 2 + 1 / 4.
inline Tensor weights_like(const Tensor& x) {
  std::vector<double> numbers;
  for (Index i = 0; i < x.size(); ++i) numbers.push_back(static_cast<double>(7 * i % 9 - 4) / 2 + 0.25);
  return astype(from(numbers, x.shape()), x.dtype());
}

inline void check_gradients(const Line& line, const Function& f, const std::vector<Tensor>& inputs, double units,
                            const std::string& what) {
  std::vector<std::size_t> active;
  std::vector<Tensor> primals;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (line.inputs[i].of_line()) active.push_back(i), primals.push_back(inputs[i]);
  ASSERT_EQ(line.gradients.size(), active.size()) << what;
  const auto of_active = [&](std::span<const Tensor> xs) {
    std::vector<Tensor> all = inputs;
    for (std::size_t k = 0; k < active.size(); ++k) all[active[k]] = xs[k];
    const Results results = f(all, line.options);
    return Outputs(results.begin(), results.end());
  };
  const FlatVjp vjp = vjp_flat(of_active, primals, "vjp");
  std::vector<Tensor> cotangents;
  for (const Tensor& output : vjp.outputs)
    cotangents.push_back(is_float(output.dtype()) ? weights_like(output) : Tensor());
  const std::vector<Tensor> got = vjp.pullback(cotangents);
  for (std::size_t k = 0; k < active.size(); ++k)
    expect_near(got[k], line.gradients[k].exact(), {8 * units, !line.options.has("each"), true},
                what + ": gradient " + std::to_string(active[k]));
}

/// Values may differ by `units` epsilons. Gradients may differ by eight times as much, relative to
/// their largest element. The `units` of a line take precedence.
inline void check_oracle(const std::string& name, const std::map<std::string, Function>& functions, double units) {
  std::ifstream file(std::string(STAVE_SOURCE_DIR "/tests/data/") + name);
  std::set<std::string> seen;
  int number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    if (text.starts_with('#')) continue;
    const Line line(parts(text + " ", " | "));
    seen.insert(line.function);
    const auto found = functions.find(line.function);
    if (found == functions.end()) {
      ADD_FAILURE() << name << ":" << number << ": nobody computes " << line.function;
      continue;
    }
    for (Dtype dtype : line.dtypes) {
      const std::string what =
          name + ":" + std::to_string(number) + ": " + line.function + " " + std::string(name_of(dtype));
      std::vector<Tensor> inputs;
      for (const Written& input : line.inputs) inputs.push_back(input.in(dtype));
      const double allowed = line.options.number("units", units);
      try {
        const Results results = found->second(inputs, line.options);
        ASSERT_EQ(results.size(), line.outputs.size()) << what;
        for (std::size_t k = 0; k < results.size(); ++k) {
          EXPECT_EQ(results[k].dtype(), line.outputs[k].in(dtype).dtype()) << what;
          expect_near(results[k], line.outputs[k].exact(),
                      {allowed, line.options.has("scaled"), line.options.has("either_zero")},
                      what + ": result " + std::to_string(k));
        }
        if (!line.gradients.empty()) check_gradients(line, found->second, inputs, allowed, what);
      } catch (const Error& error) {
        ADD_FAILURE() << what << ": " << error.what();
      }
    }
  }
  EXPECT_GT(number, 1) << name;
  for (const auto& [function, f] : functions) EXPECT_TRUE(seen.contains(function)) << name << " has no " << function;
}

}  // namespace oracle
