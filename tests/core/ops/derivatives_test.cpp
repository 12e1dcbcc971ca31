// First and second derivatives of elementwise functions over the whole range of each floating
// dtype: tails, where a result saturates; numbers whose squares and inverses overflow; denormal
// numbers; neighbours of 0, 1 and kinks. Each in forward and reverse mode, and in all four nestings
// of them. The reference is data/derivatives.csv, by mpmath. The tails of softmax and similar
// functions follow, by closed forms.

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <stave/stave.h>

#include "matchers.h"

namespace derivatives_test {

using namespace stave;
using namespace stave_test;

const double inf = std::numeric_limits<double>::infinity();

using Function = std::function<Tensor(const std::vector<Tensor>&)>;
using Wide = long double;

// The derivatives of functions of one operand are those with respect to x and xx; those of
// functions of two operands are with respect to x, y, xx, xy and yy.
struct Point {
  std::vector<double> operands;
  std::vector<Wide> derivatives;
};

struct Limits {
  Dtype dtype;
  // `least` is the least positive number, a denormal number.
  double epsilon, largest, least;
};
const Limits all_limits[] = {
    {float16, 0x1p-10, 65504, 0x1p-24},
    {bfloat16, 0x1p-7, 0x1.fep127, 0x1p-133},
    {float32, 0x1p-23, std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()},
    {float64, 0x1p-52, std::numeric_limits<double>::max(), std::numeric_limits<double>::denorm_min()},
};

const std::map<std::string, std::vector<Point>>& points() {
  static const auto all = [] {
    std::map<std::string, std::vector<Point>> read;
    std::ifstream file(STAVE_SOURCE_DIR "/tests/data/derivatives.csv");
    std::string line;
    while (std::getline(file, line)) {
      if (line.starts_with('#')) continue;
      std::stringstream cells(line);
      std::string name, cell;
      std::getline(cells, name, ',');
      std::vector<std::string> numbers;
      while (std::getline(cells, cell, ',')) numbers.push_back(cell);
      const std::size_t operands = numbers.size() == 3 ? 1 : 2;
      Point point;
      for (std::size_t i = 0; i < numbers.size(); ++i)
        if (i < operands) point.operands.push_back(std::strtod(numbers[i].c_str(), nullptr));
        else point.derivatives.push_back(std::strtold(numbers[i].c_str(), nullptr));
      read[name].push_back(point);
    }
    return read;
  }();
  return all;
}

bool holds(const Limits& limits, const Point& point) {
  for (const double x : point.operands)
    if (std::fabs(x) > limits.largest || astype(tensor(x, limits.dtype), float64).item<double>() != x) return false;
  return true;
}

// The allowed error of a derivative: `units` of the dtype's precision plus `units` of its least
// number. A derivative beyond the dtype's largest number may be infinite.
struct Bound {
  double units = 4;
  // For |x| up to this, the error is measured in units of 1: the derivative has a zero there other
  // than 0.
  double within = 0;
  // This many units more for each unit of |x|: the exponential of a rounded number.
  double growth = 0;
  // This many least numbers instead of one: a denormal factor is multiplied by a large one.
  double denormal = 1;
  // Beyond the largest number the derivative may be NaN: a sum of infinite terms.
  bool lost_beyond = false;
};

std::string difference(const Limits& limits, double got, Wide want, const Bound& bound, double x = 0) {
  const double units = bound.units + bound.growth * std::fabs(x);
  const Wide size = std::fabs(want), slack = units * limits.epsilon;
  if (size * (1 + slack) >= limits.largest && ((std::isinf(got) && (got > 0) == (want > 0)) || bound.lost_beyond))
    return "";
  const Wide least = static_cast<Wide>(limits.least) * bound.denormal;
  const Wide allowed = slack * std::max<Wide>(size, std::fabs(x) < bound.within ? 1 : 0) + units * least;
  if (std::fabs(got - want) <= allowed) return "";
  std::ostringstream text;
  text.precision(9);
  text << got << ", expected " << static_cast<double>(want);
  return text.str();
}

std::vector<double> numbers(const Tensor& x) { return astype(x, float64).to_vector<double>(); }

using Unary = std::function<Tensor(const Tensor&)>;
Unary forward(Unary f) {
  return [f](const Tensor& x) { return jvp(f, x, ones_like(x)).second; };
}
Unary reverse(Unary f) {
  return [f](const Tensor& x) { return grad([&](const Tensor& t) { return sum(f(t)); })(x); };
}

// f as a function of operand i, with the other operands constant.
struct Along {
  Function f;
  std::vector<Tensor> operands;
  Unary of(std::size_t i) const {
    return [*this, i](const Tensor& x) {
      std::vector<Tensor> all = operands;
      all[i] = x;
      return f(all);
    };
  }
  // Returns the derivative with respect to operand j of the derivative with respect to operand i.
  template <class Outer, class Inner>
  Tensor second(std::size_t i, std::size_t j, Outer outer, Inner inner) const {
    return outer([&](const Tensor& xj) {
      Along at = *this;
      at.operands[j] = xj;
      return inner(at.of(i))(at.operands[i]);
    })(operands[j]);
  }
};

void check(const std::string& name, const std::string& formula, const Function& f, const Bound& first,
           const Bound& second) {
  const auto found = points().find(formula);
  ASSERT_NE(found, points().end()) << name;
  for (const Limits& limits : all_limits) {
    std::vector<const Point*> held;
    for (const Point& point : found->second)
      if (holds(limits, point)) held.push_back(&point);
    ASSERT_FALSE(held.empty());
    const std::size_t count = held[0]->operands.size();
    Along at{f, {}};
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<double> operand;
      for (const Point* point : held) operand.push_back(point->operands[i]);
      at.operands.push_back(
          astype(from(std::span<const double>(operand), Shape(static_cast<Index>(operand.size()))), limits.dtype));
    }
    int failures = 0;
    const auto compare = [&](const Tensor& got, std::size_t derivative, const Bound& bound, const std::string& how) {
      const std::vector<double> values = numbers(got);
      for (std::size_t k = 0; k < held.size(); ++k) {
        const std::string off =
            difference(limits, values[k], held[k]->derivatives[derivative], bound, held[k]->operands[0]);
        if (off.empty() || ++failures > 12) continue;
        std::ostringstream operands;
        operands.precision(9);
        for (const double x : held[k]->operands) operands << " " << x;
        ADD_FAILURE() << name << ", " << name_of(limits.dtype) << ", derivative " << derivative << " " << how << " at"
                      << operands.str() << " is " << off;
      }
    };
    for (std::size_t i = 0; i < count; ++i) {
      compare(forward(at.of(i))(at.operands[i]), i, first, "forward");
      compare(reverse(at.of(i))(at.operands[i]), i, first, "reverse");
    }
    std::size_t derivative = count;
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = i; j < count; ++j, ++derivative) {
        compare(at.second(i, j, forward, forward), derivative, second, "forward of forward");
        compare(at.second(i, j, forward, reverse), derivative, second, "forward of reverse");
        compare(at.second(i, j, reverse, forward), derivative, second, "reverse of forward");
        compare(at.second(i, j, reverse, reverse), derivative, second, "reverse of reverse");
      }
    EXPECT_EQ(failures, 0) << name << ", " << name_of(limits.dtype);
  }
}

#define OF_ONE(f) [](const std::vector<Tensor>& x) { return stave::f(x[0]); }
#define OF_TWO(f) [](const std::vector<Tensor>& x) { return stave::f(x[0], x[1]); }

struct Case {
  const char* name;
  Function f;
  Bound first = {}, second = {8};
  const char* formula = nullptr;  // the function's name in the file; null: the same name
};

const std::vector<Case> cases = {
    {"square", OF_ONE(square)},
    {"sqrt", OF_ONE(sqrt)},
    {"rsqrt", OF_ONE(rsqrt)},
    {"reciprocal", OF_ONE(reciprocal)},
    {"exp", OF_ONE(exp)},
    {"exp2", OF_ONE(exp2)},
    {"expm1", OF_ONE(expm1)},
    {"log", OF_ONE(log)},
    {"log2", OF_ONE(log2)},
    {"log10", OF_ONE(log10)},
    {"log1p", OF_ONE(log1p)},
    {"sin", OF_ONE(sin)},
    {"cos", OF_ONE(cos)},
    {"tan", OF_ONE(tan)},
    {"asin", OF_ONE(asin)},
    {"acos", OF_ONE(acos)},
    {"atan", OF_ONE(atan)},
    {"sinh", OF_ONE(sinh)},
    {"cosh", OF_ONE(cosh)},
    {"tanh", OF_ONE(tanh)},
    {"sech_squared", OF_ONE(sech_squared)},
    {"asinh", OF_ONE(asinh)},
    {"acosh", OF_ONE(acosh)},
    {"atanh", OF_ONE(atanh)},
    {"sigmoid", OF_ONE(sigmoid)},
    {"logistic_density", OF_ONE(logistic_density)},
    {"logit", OF_ONE(logit)},
    {"erf", OF_ONE(erf)},
    {"erfc", OF_ONE(erfc)},
    {"erfinv", OF_ONE(erfinv)},
    {"softplus", OF_ONE(softplus)},
    {"silu", OF_ONE(silu), {.denormal = 100}, {.units = 8, .denormal = 100}},
    {"gelu", OF_ONE(gelu), {.within = 2}, {.units = 8, .within = 2}},
    // e^u with u = 1.6 x + 0.07 x^3 loses digits to the rounding of u.
    {"gelu_tanh", OF_ONE(gelu_tanh), {.within = 2, .growth = 50}, {.units = 8, .within = 2, .growth = 50}},
    {"mish", OF_ONE(mish), {.within = 2, .denormal = 100}, {.units = 8, .within = 2, .growth = 2, .denormal = 100}},
    {"log_sigmoid", OF_ONE(log_sigmoid)},
    {"entr", OF_ONE(entr), {}, {.units = 8, .lost_beyond = true}},
    {"elu", [](const std::vector<Tensor>& x) { return elu(x[0]); }},
    {"celu", [](const std::vector<Tensor>& x) { return celu(x[0], 2); }},
    {"selu", OF_ONE(selu)},
    // The derivative has a zero left of 0.
    {"lgamma", OF_ONE(lgamma), {.within = 2}},
    {"digamma", OF_ONE(digamma)},
    {"divide", OF_TWO(divide)},
    {"scale_by_inverse", OF_TWO(scale_by_inverse), {}, {8}, "divide"},
    {"hypot", OF_TWO(hypot)},
    {"atan2", OF_TWO(atan2), {}, {.units = 8, .lost_beyond = true}},
    {"direction_cosine", OF_TWO(direction_cosine), {8}, {.units = 16, .lost_beyond = true}},
    {"over_squared_radius",
     OF_TWO(over_squared_radius),
     {.units = 8, .lost_beyond = true},
     {.units = 32, .lost_beyond = true}},
    {"xlogy", OF_TWO(xlogy)},
    {"xlog1py", OF_TWO(xlog1py)},
    {"logaddexp", OF_TWO(logaddexp)},
    {"exp_of_product", OF_TWO(exp_of_product)},
    {"pow", OF_TWO(pow), {.denormal = 700}, {.units = 16, .denormal = 700, .lost_beyond = true}},
    {"power_rule",
     OF_TWO(power_rule),
     {.units = 16, .denormal = 700, .lost_beyond = true},
     {.units = 16, .denormal = 700, .lost_beyond = true}},
};

class Derivatives : public testing::TestWithParam<std::size_t> {};

TEST_P(Derivatives, AreAccurateOverTheWholeRange) {
  const Case& c = cases[GetParam()];
  check(c.name, c.formula ? c.formula : c.name, c.f, c.first, c.second);
}

INSTANTIATE_TEST_SUITE_P(All, Derivatives, testing::Range<std::size_t>(0, cases.size()),
                         [](const auto& test) { return std::string(cases[test.param].name); });

// ---- tails of softmax ---------------------------------------------------------------------------
// Two numbers t and 0 have the weights p = 1 / (1 + e^-t) and q = e^-t / (1 + e^-t). Other elements
// are -inf and have no weight; they make the rows or columns long, because short rows, long rows
// and columns have different kernels.

struct Layout {
  const char* name;
  Index others;
  int axis;
  Index beside;  // how many equal rows or columns
};
const Layout layouts[] = {{"two", 0, -1, 1},
                          {"rows", 75, -1, 3},
                          {"columns", 75, 0, 20},
                          {"few tall columns", 90, 0, 2},
                          {"a long row", 70000, -1, 1}};

// Returns t, 0 and the other elements, along the layout's axis.
Tensor row_of(const Tensor& t, const Layout& layout) {
  Tensor row = stack({t, zeros_like(t)});
  if (layout.others > 0) row = concat({row, full({layout.others}, -inf, t.dtype())});
  row = broadcast_to(expand_dims(row, 0), {layout.beside, row.size()});
  return layout.axis == 0 ? matrix_transpose(row) : row;
}
// Returns the element at t's place (0) or at the place of the number 0 (1), as the mean over the
// equal rows.
Tensor at(const Tensor& y, const Layout& layout, Index place) {
  return mean(layout.axis == 0 ? y(place) : matrix_transpose(y)(place));
}

struct Tail {
  const char* name;
  std::function<Tensor(const Tensor& x, const Layout& layout)> f;
  std::function<Wide(Wide p, Wide q, Wide t)> value, first, second;
};

const std::vector<Tail> tails = {
    {"softmax", [](const Tensor& x, const Layout& l) { return at(softmax(x, l.axis), l, 0); },
     [](Wide p, Wide, Wide) { return p; }, [](Wide p, Wide q, Wide) { return p * q; },
     [](Wide p, Wide q, Wide) { return p * q * (q - p); }},
    {"softmax of the other", [](const Tensor& x, const Layout& l) { return at(softmax(x, l.axis), l, 1); },
     [](Wide, Wide q, Wide) { return q; }, [](Wide p, Wide q, Wide) { return -p * q; },
     [](Wide p, Wide q, Wide) { return p * q * (p - q); }},
    {"log_softmax", [](const Tensor& x, const Layout& l) { return at(log_softmax(x, l.axis), l, 0); },
     [](Wide, Wide, Wide t) { return -std::log1p(std::exp(-t)); }, [](Wide, Wide q, Wide) { return q; },
     [](Wide p, Wide q, Wide) { return -p * q; }},
    {"log_softmax of the other", [](const Tensor& x, const Layout& l) { return at(log_softmax(x, l.axis), l, 1); },
     [](Wide, Wide, Wide t) { return -t - std::log1p(std::exp(-t)); }, [](Wide p, Wide, Wide) { return -p; },
     [](Wide p, Wide q, Wide) { return -p * q; }},
    {"logsumexp", [](const Tensor& x, const Layout& l) { return mean(logsumexp(x, l.axis)); },
     [](Wide, Wide, Wide t) { return t + std::log1p(std::exp(-t)); }, [](Wide p, Wide, Wide) { return p; },
     [](Wide p, Wide q, Wide) { return p * q; }},
    {"logsumexp less the winner",  // the maximum, whose removal leaves only the rest
     [](const Tensor& x, const Layout& l) { return mean(logsumexp(x - stop_gradient(max(x)), l.axis)); },
     [](Wide, Wide, Wide t) { return std::log1p(std::exp(-t)); }, [](Wide p, Wide, Wide) { return p; },
     [](Wide p, Wide q, Wide) { return p * q; }},
    {"cross_entropy",
     [](const Tensor& x, const Layout& l) { return cross_entropy(x, zeros({l.beside}, int32), {.axis = l.axis}); },
     [](Wide, Wide, Wide t) { return std::log1p(std::exp(-t)); }, [](Wide, Wide q, Wide) { return -q; },
     [](Wide p, Wide q, Wide) { return p * q; }},
    {"logcumsumexp",
     [](const Tensor& x, const Layout& l) {
       const Index last = x.shape(l.axis) - 1;
       return at(logcumsumexp(x, l.axis), l, last);
     },
     [](Wide, Wide, Wide t) { return t + std::log1p(std::exp(-t)); }, [](Wide p, Wide, Wide) { return p; },
     [](Wide p, Wide q, Wide) { return p * q; }},
    {"logcumsumexp from the end",
     [](const Tensor& x, const Layout& l) { return at(logcumsumexp(x, l.axis, {.reverse = true}), l, 0); },
     [](Wide, Wide, Wide t) { return t + std::log1p(std::exp(-t)); }, [](Wide p, Wide, Wide) { return p; },
     [](Wide p, Wide q, Wide) { return p * q; }},
    {"log_sigmoid", [](const Tensor& x, const Layout& l) { return log_sigmoid(at(x, l, 0)); },
     [](Wide, Wide, Wide t) { return -std::log1p(std::exp(-t)); }, [](Wide, Wide q, Wide) { return q; },
     [](Wide p, Wide q, Wide) { return -p * q; }},
    {"binary_cross_entropy_with_logits",
     [](const Tensor& x, const Layout& l) {
       const Tensor t = at(x, l, 0);
       return binary_cross_entropy_with_logits(t, ones_like(t));
     },
     [](Wide, Wide, Wide t) { return std::log1p(std::exp(-t)); }, [](Wide, Wide q, Wide) { return -q; },
     [](Wide p, Wide q, Wide) { return p * q; }},
};

class Tails : public testing::TestWithParam<std::size_t> {};

TEST_P(Tails, OfSoftmaxKeepFullPrecision) {
  const Tail& tail = tails[GetParam()];
  for (const Limits& limits : all_limits)
    for (const Layout& layout : layouts)
      for (const double t : {0., 0.75, 3.5, 5.8125, 9., 17., 40., 80.}) {
        if (layout.others > 1000 && t != 17 && t != 40) continue;
        const Tensor x = tensor(t, limits.dtype);
        const Wide p = 1 / (1 + std::exp(static_cast<Wide>(-t))), q = 1 / (1 + std::exp(static_cast<Wide>(t)));
        const Unary f = [&](const Tensor& of) { return tail.f(row_of(of, layout), layout); };
        const Bound bound{8};
        const auto compare = [&](const Tensor& got, Wide want, const char* what) {
          EXPECT_EQ(difference(limits, numbers(got)[0], want, bound), "")
              << tail.name << ", " << layout.name << ", " << name_of(limits.dtype) << ", " << what << " at " << t;
        };
        const Wide first = tail.first(p, q, t), second = tail.second(p, q, t);
        compare(f(x), tail.value(p, q, t), "value");
        compare(forward(f)(x), first, "forward");
        compare(reverse(f)(x), first, "reverse");
        // If two elements tie, some second derivatives are 0.
        if (t == 0 || layout.others > 1000) continue;
        compare(forward(forward(f))(x), second, "forward of forward");
        compare(forward(reverse(f))(x), second, "forward of reverse");
        compare(reverse(forward(f))(x), second, "reverse of forward");
        compare(reverse(reverse(f))(x), second, "reverse of reverse");
      }
}

INSTANTIATE_TEST_SUITE_P(All, Tails, testing::Range<std::size_t>(0, tails.size()), [](const auto& test) {
  std::string name = tails[test.param].name;
  for (char& c : name)
    if (c == ' ') c = '_';
  return name;
});

// Third derivatives: d^3 tanh = -2 sech^2 (1 - 3 tanh^2), and those of similar functions.
TEST(Derivatives, ThirdDerivativesKeepFullPrecisionInTails) {
  const auto third = [](const Unary& f, double x) {
    return numbers(forward(reverse(forward(f)))(tensor(x, float64)))[0];
  };
  const double e = std::exp(-40.);
  EXPECT_NEAR(third([](const Tensor& x) { return tanh(x); }, 20) / (16 * e), 1, 1e-13);
  EXPECT_NEAR(third([](const Tensor& x) { return sigmoid(x); }, 40) / e, 1, 1e-13);
  EXPECT_NEAR(third([](const Tensor& x) { return softplus(x); }, 40) / -e, 1, 1e-13);
  EXPECT_NEAR(third([](const Tensor& x) { return expm1(x); }, -40) / e, 1, 1e-13);
  EXPECT_NEAR(third([](const Tensor& x) { return logsumexp(stack({x, zeros_like(x)})); }, 40) / -e, 1, 1e-13);
  EXPECT_NEAR(third([](const Tensor& x) { return softmax(stack({x, zeros_like(x)}))(0); }, 40) / e, 1, 1e-13);
  EXPECT_NEAR(third([](const Tensor& x) { return log_softmax(stack({x, zeros_like(x)}))(0); }, 40) / e, 1, 1e-13);
}

// Products with a small cotangent where the partial derivative overflows, or a large one where it
// underflows.
TEST(Derivatives, OverflowingPartialsGiveFiniteProducts) {
  const auto scaled = [](const Unary& f, double x, double ct, Dtype dtype) {
    const Tensor at = tensor(x, dtype), by = tensor(ct, dtype);
    const double reversed = numbers(std::get<0>(vjp(f, at).second(by)))[0],
                 forwards = numbers(jvp(f, at, by).second)[0];
    EXPECT_EQ(reversed, forwards);
    return reversed;
  };
  EXPECT_NEAR(scaled([](const Tensor& x) { return log(x); }, 0x1p-140, 0x1p-140, float32), 1, 1e-6);
  EXPECT_NEAR(scaled([](const Tensor& x) { return x / 0x1p-140; }, 1, 0x1p-140, float32), 1, 1e-6);
  EXPECT_NEAR(scaled([](const Tensor& x) { return reciprocal(x); }, 0x1p-12, 0x1p-10, float16), -0x1p14, 16);
  EXPECT_NEAR(scaled([](const Tensor& x) { return rsqrt(x); }, 0x1p-24, 0x1p-24, float16), -0x1p11, 2);
}

TEST(Interp, FiniteSampleNextToAnInfiniteOneIsExact) {
  const Tensor xp = tensor({0., 1., 2., 3.}), fp = tensor({1., 2., inf, 4.});
  EXPECT_THAT(interp(tensor({0.5, 1., 1.5, 2., 2.5, 3.}), xp, fp), Equals(tensor({1.5, 2., inf, inf, inf, 4.})));
}

}  // namespace derivatives_test
