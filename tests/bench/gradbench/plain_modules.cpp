// The modules of GradBench in plain C++.
#include <memory>
#include <utility>
#include <vector>

#include "../cpp_tools/programs.h"
#include "modules.h"
#include "plain.h"

namespace gradbench {

namespace {

using namespace gradbench_plain;
using Numbers = std::vector<double>;

// ---- dual numbers -------------------------------------------------------------------------------

/// A number and its derivative by one variable.
struct Dual {
  double value = 0, slope = 0;

  Dual() = default;
  Dual(double v, double s = 0) : value(v), slope(s) {}  // NOLINT: implicit, as for double
  Dual& operator+=(const Dual& b) { return *this = {value + b.value, slope + b.slope}; }
  Dual& operator-=(const Dual& b) { return *this = {value - b.value, slope - b.slope}; }

  friend Dual operator-(const Dual& a) { return {-a.value, -a.slope}; }
  friend Dual operator+(const Dual& a, const Dual& b) { return {a.value + b.value, a.slope + b.slope}; }
  friend Dual operator-(const Dual& a, const Dual& b) { return {a.value - b.value, a.slope - b.slope}; }
  friend Dual operator*(const Dual& a, const Dual& b) {
    return {a.value * b.value, a.slope * b.value + a.value * b.slope};
  }
  friend Dual operator/(const Dual& a, const Dual& b) {
    return {a.value / b.value, (a.slope - a.value / b.value * b.slope) / b.value};
  }
  friend bool operator<(const Dual& a, const Dual& b) { return a.value < b.value; }
  friend bool operator>(const Dual& a, const Dual& b) { return a.value > b.value; }

  friend Dual exp(const Dual& x) { return {std::exp(x.value), std::exp(x.value) * x.slope}; }
  friend Dual log(const Dual& x) { return {std::log(x.value), x.slope / x.value}; }
  friend Dual sqrt(const Dual& x) { return {std::sqrt(x.value), x.slope / (2 * std::sqrt(x.value))}; }
  friend Dual sin(const Dual& x) { return {std::sin(x.value), std::cos(x.value) * x.slope}; }
  friend Dual cos(const Dual& x) { return {std::cos(x.value), -std::sin(x.value) * x.slope}; }
  friend Dual tanh(const Dual& x) {
    const double value = std::tanh(x.value);
    return {value, (1 - value * value) * x.slope};
  }
};

/// Returns the derivatives of f, which returns a vector of Duals, by each of the variables: a row
/// for each variable.
template <class F>
std::vector<Numbers> derivatives(const F& f, const Numbers& at) {
  std::vector<Dual> x(at.begin(), at.end());
  std::vector<Numbers> rows;
  for (Dual& variable : x) {
    variable.slope = 1;
    Numbers row;
    for (const Dual& output : f(x)) row.push_back(output.slope);
    rows.push_back(std::move(row));
    variable.slope = 0;
  }
  return rows;
}

/// Returns the gradient of f, which returns a Dual.
template <class F>
Numbers gradient(const F& f, const Numbers& at) {
  Numbers slopes;
  for (const Numbers& row : derivatives([&](const std::vector<Dual>& x) { return std::vector{f(x)}; }, at))
    slopes.push_back(row[0]);
  return slopes;
}

// ---- inputs and outputs -------------------------------------------------------------------------

void collect(const Json& nested, Numbers& numbers) {
  if (nested.is_array())
    for (const Json& it : nested) collect(it, numbers);
  else numbers.push_back(nested.get<double>());
}

Numbers numbers_of(const Json& nested) {
  Numbers numbers;
  collect(nested, numbers);
  return numbers;
}

Json rows_of(const Numbers& numbers, Size columns) {
  Json rows = Json::array();
  for (Size i = 0; columns > 0 && i < numbers.size(); i += columns)
    rows.push_back(Numbers(numbers.begin() + static_cast<std::ptrdiff_t>(i),
                           numbers.begin() + static_cast<std::ptrdiff_t>(i + columns)));
  return rows;
}

// Evaluates f, whose result `write` writes.
template <class F, class Write>
Evaluation evaluation(const F& f, const Write& write) {
  const auto result = std::make_shared<decltype(f())>();
  return {[=] { *result = f(); }, [=] { return Json(write(*result)); }};
}

template <class F>
Evaluation evaluation(const F& f) {
  return evaluation(f, [](const auto& result) { return result; });
}

// The value and the gradient of a function of x and the input, at x.
template <class MakeFunction>
std::pair<Prepare, Prepare> value_and_gradient(const char* name, const MakeFunction& make) {
  return {[=](const Json& input) {
            const auto f = make(input);
            const Numbers x = numbers_of(input.at(name));
            return evaluation([=] { return f(x); });
          },
          [=](const Json& input) {
            const auto f = make(input);
            const Numbers x = numbers_of(input.at(name));
            return evaluation([=] { return gradient(f, x); });
          }};
}

// ---- lse, llsq, ode, det ------------------------------------------------------------------------

auto lse_of(const Json&) {
  return [](const auto& x) { return logsumexp(x); };
}
auto llsq_of(const Json& input) {
  const Size n = input.at("n");
  return [=](const auto& x) { return llsq(x, n); };
}
auto det_of(const Json& input) {
  const Size size = input.at("ell");
  return [=](const auto& matrix) {
    std::vector<char> taken(size, false);
    return det_of_minor(matrix, size, 0, taken);
  };
}
auto last_of_ode(const Json& input) {
  const Size steps = input.at("s");
  return [=](const auto& x) { return ode(x, steps).back(); };
}
Evaluation ode_primal(const Json& input) {
  const Size steps = input.at("s");
  const Numbers x = numbers_of(input.at("x"));
  return evaluation([=] { return ode(x, steps); });
}

// ---- gmm, kmeans, lstm --------------------------------------------------------------------------

// The density as a function of all parameters in one vector: weights, means, diagonals, below.
auto gmm_of(const Json& input) {
  const Size d = input.at("d"), k = input.at("k"), m = input.at("m");
  const double gamma = input.at("gamma");
  const Numbers points = numbers_of(input.at("x"));
  return [=](const auto& all) {
    using T = std::decay_t<decltype(all[0])>;
    const auto part = [&](Size first, Size last) {
      return std::vector<T>(all.begin() + static_cast<std::ptrdiff_t>(first),
                            all.begin() + static_cast<std::ptrdiff_t>(last));
    };
    const Size diagonals = k + k * d, below = k + 2 * k * d;
    return gmm(
        gradbench_plain::Mixture<T>{part(0, k), part(k, diagonals), part(diagonals, below), part(below, all.size())},
        points, d, gamma, m);
  };
}

Numbers mixture_of(const Json& input) {
  Numbers all;
  for (const char* name : {"alpha", "mu", "q", "l"}) collect(input.at(name), all);
  return all;
}

Evaluation gmm_objective(const Json& input) {
  const auto f = gmm_of(input);
  const Numbers x = mixture_of(input);
  return evaluation([=] { return f(x); });
}

Evaluation gmm_jacobian(const Json& input) {
  const auto f = gmm_of(input);
  const Numbers x = mixture_of(input);
  const Size d = input.at("d"), k = input.at("k");
  return evaluation([=] { return gradient(f, x); },
                    [=](const Numbers& all) {
                      const auto part = [&](Size first, Size last) {
                        return Numbers(all.begin() + static_cast<std::ptrdiff_t>(first),
                                       all.begin() + static_cast<std::ptrdiff_t>(last));
                      };
                      const Size diagonals = k + k * d, below = k + 2 * k * d;
                      return Json{{"alpha", part(0, k)},
                                  {"mu", rows_of(part(k, diagonals), d)},
                                  {"q", rows_of(part(diagonals, below), d)},
                                  {"l", rows_of(part(below, all.size()), d * (d - 1) / 2)}};
                    });
}

Evaluation kmeans_cost(const Json& input) {
  const Numbers centroids = numbers_of(input.at("centroids")), points = numbers_of(input.at("points"));
  const Size d = input.at("points").at(0).size();
  return evaluation([=] { return kmeans(centroids, points, d); });
}

Evaluation kmeans_dir(const Json& input) {
  const Numbers centroids = numbers_of(input.at("centroids")), points = numbers_of(input.at("points"));
  const Size d = input.at("points").at(0).size();
  return evaluation([=] { return kmeans_direction(centroids, points, d); },
                    [=](const Numbers& direction) { return rows_of(direction, d); });
}

cpp_tools::Lstm lstm_of(const Json& input) {
  cpp_tools::Lstm lstm;
  lstm.layers = input.at("main_params").size() / 2;
  lstm.bits = input.at("sequence").at(0).size();
  lstm.length = input.at("sequence").size();
  lstm.first_state = numbers_of(input.at("state"));
  lstm.characters = numbers_of(input.at("sequence"));
  return lstm;
}

Numbers lstm_parameters(const Json& input) {
  Numbers all = numbers_of(input.at("main_params"));
  collect(input.at("extra_params"), all);
  return all;
}

Evaluation lstm_objective(const Json& input) {
  return evaluation([lstm = lstm_of(input), x = lstm_parameters(input)] { return lstm(x)[0]; });
}

Evaluation lstm_jacobian(const Json& input) {
  return evaluation([lstm = lstm_of(input), x = lstm_parameters(input)] {
    return gradient([&](const std::vector<Dual>& at) { return lstm(at)[0]; }, x);
  });
}

// ---- ba -----------------------------------------------------------------------------------------

struct Ba {
  Size n, m, p;
  Numbers cameras, points, weights, seen;

  explicit Ba(const Json& input) : n(input.at("n")), m(input.at("m")), p(input.at("p")) {
    for (Size i = 0; i < n; ++i) collect(input.at("cam"), cameras);
    for (Size i = 0; i < m; ++i) collect(input.at("x"), points);
    for (Size i = 0; i < p; ++i) collect(input.at("w"), weights);
    for (Size i = 0; i < p; ++i) collect(input.at("feat"), seen);
  }

  /// Returns the reprojections [p, 2] and the errors of the weights [p].
  Numbers errors() const {
    Numbers all(3 * p);
    for (Size i = 0; i < p; ++i) {
      const auto error = reprojection(&cameras[11 * (i % n)], &points[3 * (i % m)], weights[i], &seen[2 * i]);
      all[2 * i] = error[0];
      all[2 * i + 1] = error[1];
    }
    for (Size i = 0; i < p; ++i) all[2 * p + i] = 1 - weights[i] * weights[i];
    return all;
  }
};

/// A sparse matrix in compressed rows.
struct Rows {
  std::vector<Size> starts{0}, columns{};
  Numbers values{};
};

Rows ba_jacobian(const Ba& ba) {
  Rows all;
  const Size first_point = 11 * ba.n, first_weight = first_point + 3 * ba.m;
  for (Size i = 0; i < ba.p; ++i) {
    const Size camera = 11 * (i % ba.n), point = 3 * (i % ba.m);
    Numbers x(ba.cameras.begin() + static_cast<std::ptrdiff_t>(camera),
              ba.cameras.begin() + static_cast<std::ptrdiff_t>(camera + 11));
    x.insert(x.end(), ba.points.begin() + static_cast<std::ptrdiff_t>(point),
             ba.points.begin() + static_cast<std::ptrdiff_t>(point + 3));
    x.push_back(ba.weights[i]);
    const auto f = [&](const std::vector<Dual>& at) {
      return reprojection(at.data(), at.data() + 11, at[14], &ba.seen[2 * i]);
    };
    const std::vector<Numbers> slopes = derivatives(f, x);
    for (Size row = 0; row < 2; ++row) {
      for (Size k = 0; k < 15; ++k) {
        all.columns.push_back(k < 11 ? camera + k : k < 14 ? first_point + point + k - 11 : first_weight + i);
        all.values.push_back(slopes[k][row]);
      }
      all.starts.push_back(all.columns.size());
    }
  }
  for (Size i = 0; i < ba.p; ++i) {
    all.columns.push_back(first_weight + i);
    all.values.push_back(-2 * ba.weights[i]);
    all.starts.push_back(all.columns.size());
  }
  return all;
}

Evaluation ba_objective(const Json& input) {
  const auto ba = std::make_shared<Ba>(input);
  return evaluation([=] { return ba->errors(); },
                    [p = ba->p](const Numbers& all) {
                      return Json{{"reproj_error", {{"elements", {all[0], all[1]}}, {"repeated", p}}},
                                  {"w_err", {{"element", all[2 * p]}, {"repeated", p}}}};
                    });
}

Evaluation ba_jacobian_at(const Json& input) {
  const auto ba = std::make_shared<Ba>(input);
  // The rows of the first observation, and the last entry.
  const auto some = [](const auto& all) {
    auto few = all;
    few.resize(30);
    few.push_back(all.back());
    return few;
  };
  return evaluation([=] { return ba_jacobian(*ba); },
                    [=](const Rows& all) {
                      return Json{{"rows", some(all.starts)}, {"cols", some(all.columns)}, {"vals", some(all.values)}};
                    });
}

// ---- ht -----------------------------------------------------------------------------------------

std::vector<cpp_tools::Hand::Matrix<double>> matrices_of(const Json& list) {
  std::vector<cpp_tools::Hand::Matrix<double>> all;
  for (const Json& it : list) {
    const Numbers numbers = numbers_of(it);
    std::copy_n(numbers.begin(), 12, all.emplace_back().begin());
  }
  return all;
}

// Returns the first `columns` columns of rows, column by column.
Numbers transposed(const Json& rows, Size columns) {
  Numbers all;
  for (Size i = 0; i < columns; ++i)
    for (const Json& row : rows) all.push_back(row.at(i));
  return all;
}

cpp_tools::Hand hand_of(const Json& input) {
  const Json &data = input.at("data"), &model = data.at("model");
  cpp_tools::Hand hand;
  hand.relatives = matrices_of(model.at("base_relatives"));
  hand.inverses = matrices_of(model.at("inverse_base_absolutes"));
  hand.vertices = model.at("base_positions").size();
  hand.corners = transposed(model.at("base_positions"), 3);
  hand.weights = transposed(model.at("weights"), cpp_tools::Hand::bones);
  hand.points = transposed(data.at("points"), 3);
  hand.numbers = data.at("correspondences").get<std::vector<Size>>();
  if (!input.at("us").empty())
    for (const Size it : hand.numbers)
      hand.triangles.push_back(model.at("triangles").at(it).get<std::array<Size, 3>>());
  return hand;
}

Numbers hand_parameters(const Json& input) {
  Numbers all = numbers_of(input.at("theta"));
  collect(input.at("us"), all);
  return all;
}

// Returns residuals [3, seen] as a vector whose first three are those of the first point.
Numbers in_order(const Numbers& residuals) {
  Numbers all;
  for (Size k = 0; k < residuals.size() / 3; ++k)
    for (Size i = 0; i < 3; ++i) all.push_back(residuals[i * residuals.size() / 3 + k]);
  return all;
}

Evaluation ht_objective(const Json& input) {
  return evaluation([hand = hand_of(input), x = hand_parameters(input)] { return hand(x); }, in_order);
}

// Each row has the derivatives by the place of its point, if this lies in a triangle, and by the
// parameters.
Evaluation ht_jacobian(const Json& input) {
  const Numbers x = hand_parameters(input);
  const auto write = [](const std::vector<Numbers>& by_variable) {
    const Size seen = by_variable[0].size() / 3;
    Json rows = Json::array();
    for (Size k = 0; k < seen; ++k)
      for (Size i = 0; i < 3; ++i) {
        Numbers row;
        for (Size v = 26; v < std::min<Size>(by_variable.size(), 28); ++v)
          row.push_back(by_variable[v + 2 * k][i * seen + k]);
        for (Size v = 0; v < 26; ++v) row.push_back(by_variable[v][i * seen + k]);
        rows.push_back(std::move(row));
      }
    return rows;
  };
  return evaluation([hand = hand_of(input), x] { return derivatives(hand, x); }, write);
}

// ---- saddle, particle ---------------------------------------------------------------------------

std::map<std::string, Prepare> for_all_modes(const Prepare& prepare) {
  return {{"ff", prepare}, {"fr", prepare}, {"rf", prepare}, {"rr", prepare}};
}

Evaluation saddle_at(const Json& input) {
  return evaluation([start = numbers_of(input.at("start"))] { return saddle(start); });
}

Evaluation particle_at(const Json& input) {
  const auto value_and_slope = [](const Numbers& w) {
    const Dual it = crossing(Dual(w[0], 1));
    return std::pair(it.value, Numbers{it.slope});
  };
  return evaluation([w = numbers_of(input.at("w")), value_and_slope] { return argmin(value_and_slope, w)[0]; });
}

}  // namespace

Modules by_plain_cpp() {
  const auto [lse, lse_gradient] = value_and_gradient("x", lse_of);
  const auto [llsq_value, llsq_gradient] = value_and_gradient("x", llsq_of);
  const auto [det, det_gradient] = value_and_gradient("A", det_of);
  const auto ode_gradient = value_and_gradient("x", last_of_ode).second;
  return {
      {"hello",
       {{"square", [](const Json& x) { return evaluation([x = x.get<double>()] { return x * x; }); }},
        {"double", [](const Json& x) { return evaluation([x = x.get<double>()] { return 2 * x; }); }}}},
      {"lse", {{"primal", lse}, {"gradient", lse_gradient}}},
      {"llsq", {{"primal", llsq_value}, {"gradient", llsq_gradient}}},
      {"ode", {{"primal", ode_primal}, {"gradient", ode_gradient}}},
      {"det", {{"primal", det}, {"gradient", det_gradient}}},
      {"gmm", {{"objective", gmm_objective}, {"jacobian", gmm_jacobian}}},
      {"kmeans", {{"cost", kmeans_cost}, {"dir", kmeans_dir}}},
      {"lstm", {{"objective", lstm_objective}, {"jacobian", lstm_jacobian}}},
      {"ba", {{"objective", ba_objective}, {"jacobian", ba_jacobian_at}}},
      {"ht", {{"objective", ht_objective}, {"jacobian", ht_jacobian}}},
      {"saddle", for_all_modes(saddle_at)},
      {"particle", for_all_modes(particle_at)},
  };
}

}  // namespace gradbench
