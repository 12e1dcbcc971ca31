// R-hat and effective sample sizes against ArviZ's values (tests/data/diagnostics.csv).
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>

#include <stave/stave.h>

#include "matchers.h"
#include "rows_by_name.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;

// The numbers that diagnostics.py generates.
std::vector<double> noise(Index chains, Index draws, std::uint64_t state) {
  std::vector<double> values(static_cast<std::size_t>(chains * draws));
  for (double& value : values) {
    for (int i = 0; i < 12; ++i) {
      state = 6364136223846793005u * state + 1442695040888963407u;
      value += static_cast<double>(state >> 11) / 9007199254740992.;
    }
    value -= 6;
  }
  return values;
}
Tensor independent(Index chains, Index draws, std::uint64_t seed) {
  return from(noise(chains, draws, seed), {chains, draws});
}
Tensor autoregressive(Index chains, Index draws, std::uint64_t seed, double rho) {
  std::vector<double> x = noise(chains, draws, seed);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (i % static_cast<std::size_t>(draws) != 0) x[i] += rho * x[i - 1];
  return from(x, {chains, draws});
}
Tensor numbers_of_chains(Index chains) { return reshape(astype(arange(chains), float64), {chains, 1}); }

std::map<std::string, Tensor> cases() {
  const Tensor infinite = independent(2, 20, 13);
  return {{"independent", independent(4, 100, 1)},
          {"one chain", independent(1, 80, 2)},
          {"odd", independent(3, 51, 3)},
          {"slow", autoregressive(4, 200, 4, 0.9)},
          {"very slow", autoregressive(2, 60, 5, 0.999)},
          {"antithetic", autoregressive(4, 150, 6, -0.7)},
          {"apart", independent(4, 100, 7) + 0.5 * numbers_of_chains(4)},
          {"of different scales", independent(4, 100, 8) * (1 + numbers_of_chains(4))},
          {"heavy tails", tan(0.4 * independent(4, 100, 9))},
          {"ties", floor(independent(4, 100, 10))},
          {"four", independent(2, 4, 11)},
          {"five", independent(2, 5, 12)},
          {"constant", full({2, 20}, 3., float64)},
          {"infinite", where(arange(20) == 3, tensor(INFINITY, float64), infinite)},
          {"many", autoregressive(128, 40, 14, 0.5)}};
}

TEST(Diagnostics, EqualArviZ) {
  const auto expected = rows_by_name("diagnostics.csv");
  const auto all = cases();
  ASSERT_EQ(expected.size(), all.size());
  for (const auto& [name, x] : all) {
    const std::vector<double>& by_arviz = expected.at(name);
    EXPECT_THAT(rhat(x), IsNumber(by_arviz.at(0), 1e-9)) << name;
    EXPECT_THAT(ess_bulk(x), IsNumber(by_arviz.at(1), 1e-8)) << name;
    EXPECT_THAT(ess_tail(x), IsNumber(by_arviz.at(2), 1e-8)) << name;
  }
}

TEST(Diagnostics, OfArraysAndTreesEqualThoseOfEachElement) {
  const Tensor a = independent(4, 100, 1), b = autoregressive(4, 100, 2, 0.8);
  const Tensor both = reshape(stack({a, b, a + b, a * b, a - b, b}, -1), {4, 100, 2, 3});
  EXPECT_EQ(rhat(both).shape(), Shape({2, 3}));
  EXPECT_EQ(ess_bulk(both).dtype(), float64);
  EXPECT_THAT(rhat(both)(0, 1), IsNear(rhat(b)));
  EXPECT_THAT(ess_bulk(both)(1, 1), IsNear(ess_bulk(a - b)));
  EXPECT_THAT(ess_tail(both)(0, 2), IsNear(ess_tail(a + b)));
  const NamedTensors named{{"a", a}, {"both", both}};
  EXPECT_THAT(rhat(named).at("both"), IsNear(rhat(both)));
  EXPECT_THAT(ess_bulk(named).at("a"), IsNear(ess_bulk(a)));
  EXPECT_THAT(ess_tail(named).at("a"), IsNear(ess_tail(a)));
  EXPECT_EQ(ess_bulk(zeros({4, 100, 0})).shape(), Shape({0}));
  // Views, integers, and another float dtype.
  EXPECT_THAT(rhat(transpose(contiguous(transpose(a)))), IsNear(rhat(a)));
  EXPECT_THAT(rhat(astype(floor(a), int32)), IsNear(rhat(floor(a))));
  EXPECT_THAT(ess_bulk(astype(a, float32)), IsNear(ess_bulk(a), 1e-4));
}

TEST(Diagnostics, OfDrawsWithNanAreNan) {
  const Tensor x = where(arange(20) == 3, tensor(NAN, float64), independent(2, 20, 1));
  for (const Tensor& found : {rhat(x), ess_bulk(x), ess_tail(x)}) EXPECT_THAT(found, IsNumber(NAN, 0));
}

TEST(Diagnostics, Errors) {
  EXPECT_THAT(message_of<ShapeError>([] { rhat(zeros({10})); }),
              HasSubstr("rhat: the draws have shape [10]; the first two axes are chains and draws"));
  EXPECT_THAT(message_of<ShapeError>([] {
                ess_bulk(zeros({4, 3}));
              }),
              HasSubstr("ess_bulk: the draws have shape [4,3]; there must be at least 4 of each chain"));
  EXPECT_THAT(message_of<ShapeError>([] {
                ess_tail(zeros({0, 8}));
              }),
              HasSubstr("ess_tail: the draws have shape [0,8]"));
  EXPECT_THAT(message_of<Error>([] { ess_tail(Tensor()); }), HasSubstr("ess_tail"));
}

// ---- tables -------------------------------------------------------------------------------------

template <class T>
Sampled<T> run_of(T draws, Index chains, Index length) {
  const Shape shape{chains, length};
  return {std::move(draws),   zeros(shape, float64), full(shape, 0.9, float64),    ones(shape, int32),
          ones(shape, int32), zeros(shape, bool_),   full({chains}, 0.5, float64), T{}};
}

/// Returns the cells of each line of the table, which are separated by two or more spaces.
std::vector<std::vector<std::string>> cells(const std::string& table) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line) && line.find("chain") == std::string::npos;) {
    rows.emplace_back();
    for (std::size_t at = 0; at < line.size();) {
      const std::size_t end = std::min(line.find("  ", at), line.size());
      if (end > at) rows.back().push_back(line.substr(at, end - at));
      at = std::min(line.find_first_not_of(' ', end), line.size());
    }
  }
  return rows;
}

TEST(Diagnostics, TableColumnsStaySeparated) {
  const NamedTensors draws{{"a name that is longer than any column", 1e200 * independent(4, 100, 1)},
                           {"b", -1.23456789e-200 * independent(4, 100, 2)},
                           {"many", independent(4, 300'000, 3) * 1e6}};
  const auto rows = cells(summary_of(run_of(draws, 4, 100)));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0], (std::vector<std::string>{"mean", "sd", "5%", "median", "95%", "ess bulk", "ess tail", "R-hat"}));
  for (std::size_t i = 1; i < rows.size(); ++i) EXPECT_EQ(rows[i].size(), 9u) << testing::PrintToString(rows[i]);
  EXPECT_EQ(rows[1][0], "a name that is longer than any column");
  EXPECT_GT(std::stod(rows[3][6]), 1e6);  // seven digits fit in the column
}

TEST(Diagnostics, OneDrawHasATable) {
  const Tensor one = tensor({{{1., 2.}}}, float64);  // one chain
  EXPECT_EQ(summary_of(run_of(one, 1, 1)),
            "      mean  sd  5%  median  95%  ess bulk  ess tail  R-hat\n"
            "x[0]     1   -   1       1    1         -         -      -\n"
            "x[1]     2   -   2       2    2         -         -      -\n"
            "1 chain of 1 draw; acceptance rate 0.90, step size 0.5, 1 steps for a draw\n");
  const auto three = cells(summary_of(run_of(NamedTensors{{"mu", tensor({{1., 2., 3.}}, float64)}}, 1, 3)));
  EXPECT_EQ(three.at(1), (std::vector<std::string>{"mu", "2", "1", "1.1", "2", "2.9", "-", "-", "-"}));
  const auto none = cells(summary_of(run_of(NamedTensors{{"mu", zeros({2, 0}, float64)}}, 2, 0)));
  EXPECT_EQ(none.at(1), (std::vector<std::string>{"mu", "-", "-", "-", "-", "-", "-", "-", "-"}));
}

struct Layer {
  Tensor w, b;
  static constexpr const char* names[] = {"w", "b"};
};

TEST(Diagnostics, AnyTreeHasATable) {
  const auto names_of = [](const auto& draws) {
    std::vector<std::string> names;
    for (const auto& row : cells(summary_of(run_of(draws, 2, 8))))
      if (row.size() == 9) names.push_back(row[0]);
    return names;
  };
  const Tensor x = independent(2, 8, 1), pair = stack({x, x}, -1);
  using testing::ElementsAre;
  EXPECT_THAT(names_of(x), ElementsAre("x"));
  EXPECT_THAT(names_of(pair), ElementsAre("x[0]", "x[1]"));
  EXPECT_THAT(names_of(std::vector<Tensor>(11, x)),
              ElementsAre("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"));
  EXPECT_THAT(names_of(std::map<std::string, Layer>{{"first", {pair, x}}, {"second", {x, x}}}),
              ElementsAre("first/w[0]", "first/w[1]", "first/b", "second/w", "second/b"));
  EXPECT_THAT(names_of(std::pair(std::map<int, Tensor>{{7, x}}, std::optional<Tensor>(x))), ElementsAre("0/7", "1"));
  EXPECT_THAT(names_of(std::map<std::string, NamedTensors>{{"a", {{"b", x}}}}), ElementsAre("a/b"));
}

}  // namespace
