// What tools for derivatives of plain C++ share: the functions of GradBench's modules as functions
// of a vector of numbers of any type, and their derivatives by a tool.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "../cpp_tools/programs.h"
#include "dual.h"
#include "modules.h"
#include "plain.h"

namespace gradbench {

using namespace gradbench_plain;
using Numbers = std::vector<double>;

// ---- inputs and outputs -------------------------------------------------------------------------

inline void collect(const Json& nested, Numbers& numbers) {
  if (nested.is_array())
    for (const Json& it : nested) collect(it, numbers);
  else numbers.push_back(nested.get<double>());
}

inline Numbers numbers_of(const Json& nested) {
  Numbers numbers;
  collect(nested, numbers);
  return numbers;
}

// Returns a function that reads the numbers of this name from an input.
inline auto named(const char* name) {
  return [=](const Json& input) { return numbers_of(input.at(name)); };
}

// Returns the elements first, ..., last - 1.
template <class T>
std::vector<T> part(const std::vector<T>& all, Size first, Size last) {
  return {all.begin() + static_cast<std::ptrdiff_t>(first), all.begin() + static_cast<std::ptrdiff_t>(last)};
}

inline Json rows_of(const Numbers& numbers, Size columns) {
  Json rows = Json::array();
  for (Size i = 0; columns > 0 && i < numbers.size(); i += columns) rows.push_back(part(numbers, i, i + columns));
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

// ---- functions ----------------------------------------------------------------------------------
//
// Each returns a function from a vector of variables to a vector of outputs.

inline auto lse_of(const Json&) {
  return [](const auto& x) { return std::vector{logsumexp(x)}; };
}
inline auto llsq_of(const Json& input) {
  const Size n = input.at("n");
  return [=](const auto& x) { return std::vector{llsq(x, n)}; };
}
inline auto det_of(const Json& input) {
  const Size size = input.at("ell");
  return [=](const auto& matrix) {
    std::vector<char> taken(size, false);
    return std::vector{det_of_minor(matrix, size, 0, taken)};
  };
}
inline auto last_of_ode(const Json& input) {
  const Size steps = input.at("s");
  return [=](const auto& x) { return std::vector{ode(x, steps).back()}; };
}

// The density as a function of all parameters in one vector: weights, means, diagonals, below.
inline auto gmm_of(const Json& input) {
  const Size d = input.at("d"), k = input.at("k"), m = input.at("m");
  const double gamma = input.at("gamma");
  const Numbers points = numbers_of(input.at("x"));
  return [=](const auto& all) {
    using T = std::decay_t<decltype(all[0])>;
    const Size diagonals = k + k * d, below = k + 2 * k * d;
    const gradbench_plain::Mixture<T> mixture{part(all, 0, k), part(all, k, diagonals), part(all, diagonals, below),
                                              part(all, below, all.size())};
    return std::vector{gmm(mixture, points, d, gamma, m)};
  };
}

inline Numbers mixture_of(const Json& input) {
  Numbers all;
  for (const char* name : {"alpha", "mu", "q", "l"}) collect(input.at(name), all);
  return all;
}

// Writes a gradient of gmm_of.
inline auto gmm_writer(const Json& input) {
  const Size d = input.at("d"), k = input.at("k");
  return [=](const Numbers& all) {
    const Size diagonals = k + k * d, below = k + 2 * k * d;
    return Json{{"alpha", part(all, 0, k)},
                {"mu", rows_of(part(all, k, diagonals), d)},
                {"q", rows_of(part(all, diagonals, below), d)},
                {"l", rows_of(part(all, below, all.size()), d * (d - 1) / 2)}};
  };
}

struct Kmeans {
  Numbers centroids, points;
  Size d;
  explicit Kmeans(const Json& input)
      : centroids(numbers_of(input.at("centroids"))), points(numbers_of(input.at("points"))),
        d(input.at("points").at(0).size()) {}
  /// Returns the nearest centroid of each point.
  std::vector<Size> chosen() const {
    std::vector<Size> all;
    for (Size i = 0; i < points.size(); i += d) all.push_back(nearest(points.data() + i, centroids, d).first);
    return all;
  }
};

inline cpp_tools::Lstm lstm_of(const Json& input) {
  cpp_tools::Lstm lstm;
  lstm.layers = input.at("main_params").size() / 2;
  lstm.bits = input.at("sequence").at(0).size();
  lstm.length = input.at("sequence").size();
  lstm.first_state = numbers_of(input.at("state"));
  lstm.characters = numbers_of(input.at("sequence"));
  return lstm;
}

inline Numbers lstm_parameters(const Json& input) {
  Numbers all = numbers_of(input.at("main_params"));
  collect(input.at("extra_params"), all);
  return all;
}

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
  /// Returns the variables of the reprojection of an observation: a camera, a point and a weight,
  /// and behind these where it was seen.
  Numbers variables(Size i) const {
    const auto camera = cameras.begin() + static_cast<std::ptrdiff_t>(11 * (i % n));
    const auto point = points.begin() + static_cast<std::ptrdiff_t>(3 * (i % m));
    Numbers all(camera, camera + 11);
    all.insert(all.end(), point, point + 3);
    all.insert(all.end(), {weights[i], seen[2 * i], seen[2 * i + 1]});
    return all;
  }
};

struct Reprojection {
  static constexpr Size variables = 15, inputs = 17;
  template <class T>
  std::vector<T> operator()(const std::vector<T>& x) const {
    const std::array<T, 2> error = reprojection(&x[0], &x[11], x[14], &x[15]);
    return {error[0], error[1]};
  }
};

/// A sparse matrix in compressed rows.
struct Rows {
  std::vector<Size> starts{0}, columns{};
  Numbers values{};
};

/// Returns the Jacobian of ba. `derive` returns that of Reprojection, [2, inputs].
template <class Derive>
Rows ba_jacobian(const Ba& ba, const Derive& derive) {
  Rows all;
  const Size first_point = 11 * ba.n, first_weight = first_point + 3 * ba.m;
  for (Size i = 0; i < ba.p; ++i) {
    const Size camera = 11 * (i % ba.n), point = first_point + 3 * (i % ba.m);
    const Numbers slopes = derive(ba.variables(i));
    for (Size row = 0; row < 2; ++row) {
      for (Size k = 0; k < Reprojection::variables; ++k) {
        all.columns.push_back(k < 11 ? camera + k : k < 14 ? point + k - 11 : first_weight + i);
        all.values.push_back(slopes[row * Reprojection::inputs + k]);
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

inline std::vector<cpp_tools::Hand::Matrix<double>> matrices_of(const Json& list) {
  std::vector<cpp_tools::Hand::Matrix<double>> all;
  for (const Json& it : list) {
    const Numbers numbers = numbers_of(it);
    std::copy_n(numbers.begin(), 12, all.emplace_back().begin());
  }
  return all;
}

// Returns the first `columns` columns of rows, column by column.
inline Numbers transposed(const Json& rows, Size columns) {
  Numbers all;
  for (Size i = 0; i < columns; ++i)
    for (const Json& row : rows) all.push_back(row.at(i));
  return all;
}

inline cpp_tools::Hand hand_of(const Json& input) {
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

inline Numbers hand_parameters(const Json& input) {
  Numbers all = numbers_of(input.at("theta"));
  collect(input.at("us"), all);
  return all;
}

// Writes a Jacobian of a hand, [3 seen, variables]. Each row has the derivatives by the place of
// its point, if this lies in a triangle, and by the parameters.
inline Json json_of_hand(const Numbers& rows, Size variables) {
  const Size seen = rows.size() / variables / 3;
  Json all = Json::array();
  for (Size k = 0; k < seen; ++k)
    for (Size i = 0; i < 3; ++i) {
      const double* const slopes = &rows[(i * seen + k) * variables];
      Numbers row;
      for (Size v = 26; v < std::min<Size>(variables, 28); ++v) row.push_back(slopes[v + 2 * k]);
      row.insert(row.end(), slopes, slopes + 26);
      all.push_back(std::move(row));
    }
  return all;
}

// The derivatives of saddle and particle inside of those of a tool are by dual numbers.

template <class T>
Vector<T> gradient_by_duals(const Vector<T>& y) {
  Vector<Dual<T>> at(y.begin(), y.end());
  Vector<T> slopes;
  for (Dual<T>& variable : at) {
    variable.slope = 1.;
    slopes.push_back(squared(at).slope);
    variable.slope = 0.;
  }
  return slopes;
}

template <class T>
std::array<T, 2> force_by_duals(const std::array<T, 2>& x, const std::array<T, 2>& charge) {
  std::array<T, 2> force;
  for (Size i = 0; i < 2; ++i) {
    using D = Dual<T>;
    const D a = D(x[0], i == 0 ? 1. : 0.) - D(charge[0]), b = D(x[1], i == 1 ? 1. : 0.) - D(charge[1]);
    force[i] = -(D(1.) / sqrt(a * a + b * b)).slope;
  }
  return force;
}

// ---- derivatives --------------------------------------------------------------------------------

// A tool has
//   record(f, x): records a function at x once, and returns a function from other x to Jacobians
//                 [outputs, variables] along the recorded path
//   value_and_gradient(f, x)
//   gradient_and_product(f, x, v), if `has_second_order`: the gradient, and the product of the
//                 Hessian with v

template <class Tool>
Prepare ba_jacobian_by(const Tool& tool) {
  return [=](const Json& input) {
    const auto ba = std::make_shared<Ba>(input);
    // The rows of the first observation, and the last entry.
    const auto some = [](const auto& all) {
      auto few = all;
      few.resize(30);
      few.push_back(all.back());
      return few;
    };
    return evaluation(
        [=, derive = tool.record(Reprojection(), ba->variables(0))] { return ba_jacobian(*ba, derive); },
        [=](const Rows& all) {
          return Json{{"rows", some(all.starts)}, {"cols", some(all.columns)}, {"vals", some(all.values)}};
        });
  };
}

template <class Tool>
Prepare ht_jacobian_by(const Tool& tool) {
  return [=](const Json& input) {
    const Numbers x = hand_parameters(input);
    return evaluation([=, derive = tool.record(hand_of(input), x)] { return derive(x); },
                      [n = x.size()](const Numbers& rows) { return json_of_hand(rows, n); });
  };
}

/// The derivatives of all modules by a tool.
template <class Tool>
Modules derivatives_by(const Tool& tool) {
  const auto gradient = [=](const auto& make, auto variables) -> Prepare {
    return [=](const Json& input) {
      const Numbers x = variables(input);
      return evaluation([=, derive = tool.record(make(input), x)] { return derive(x); });
    };
  };
  const auto gmm_jacobian = [=](const Json& input) {
    const Numbers x = mixture_of(input);
    return evaluation([=, derive = tool.record(gmm_of(input), x)] { return derive(x); }, gmm_writer(input));
  };
  const auto saddle = [=](const Json& input) {
    return evaluation([=, start = numbers_of(input.at("start"))] {
      const auto height = [&](const auto& x) {
        using T = std::decay_t<decltype(x[0])>;
        return std::vector{T(squared(x) - squared(highest(x, start, gradient_by_duals<T>)))};
      };
      Numbers x = argmin([&](const Numbers& at) { return tool.value_and_gradient(height, at); }, start);
      const Numbers y = highest(x, start, gradient_by_duals<double>);
      x.insert(x.end(), y.begin(), y.end());
      return x;
    });
  };
  const auto particle = [=](const Json& input) {
    return evaluation([=, w = numbers_of(input.at("w"))] {
      const auto distance = [](const auto& at) {
        using T = std::decay_t<decltype(at[0])>;
        return std::vector{crossing(at[0], force_by_duals<T>)};
      };
      return argmin([&](const Numbers& at) { return tool.value_and_gradient(distance, at); }, w)[0];
    });
  };
  Modules modules{{"lse", {{"gradient", gradient(lse_of, named("x"))}}},
                  {"llsq", {{"gradient", gradient(llsq_of, named("x"))}}},
                  {"ode", {{"gradient", gradient(last_of_ode, named("x"))}}},
                  {"det", {{"gradient", gradient(det_of, named("A"))}}},
                  {"gmm", {{"jacobian", gmm_jacobian}}},
                  {"lstm", {{"jacobian", gradient(lstm_of, lstm_parameters)}}},
                  {"ba", {{"jacobian", ba_jacobian_by(tool)}}},
                  {"ht", {{"jacobian", ht_jacobian_by(tool)}}},
                  {"saddle", {{"rf", saddle}}},
                  {"particle", {{"rf", particle}}}};
  if constexpr (requires { &Tool::has_second_order; })
    modules["kmeans"]["dir"] = [=](const Json& input) {
      return evaluation(
          [=, kmeans = Kmeans(input)] {
            const auto cost = [&, chosen = kmeans.chosen()](const auto& x) {
              return std::vector{kmeans_by(chosen, x, kmeans.points, kmeans.d)};
            };
            auto [slopes, curvatures] =
                tool.gradient_and_product(cost, kmeans.centroids, Numbers(kmeans.centroids.size(), 1.));
            for (Size i = 0; i < slopes.size(); ++i) slopes[i] /= curvatures[i];
            return slopes;
          },
          [d = input.at("points").at(0).size()](const Numbers& direction) { return rows_of(direction, d); });
    };
  return modules;
}

}  // namespace gradbench
