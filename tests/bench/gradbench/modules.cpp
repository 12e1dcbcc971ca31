// The modules of GradBench by Stave.
#include "modules.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "descent.h"
#include "hand.h"
#include "lstm.h"
#include "problems.h"

namespace gradbench {

namespace {

void collect(const Json& nested, std::vector<double>& numbers) {
  if (nested.is_array())
    for (const Json& it : nested) collect(it, numbers);
  else numbers.push_back(nested.get<double>());
}

// Returns nested lists of numbers as float64.
Tensor tensor_of(const Json& nested) {
  Shape shape;
  for (const Json* it = &nested; it->is_array(); it = &it->front()) {
    shape.push_back(static_cast<Index>(it->size()));
    if (it->empty()) break;
  }
  std::vector<double> numbers;
  collect(nested, numbers);
  return from(numbers, shape);
}

Tensor integers_of(const Json& nested) { return astype(tensor_of(nested), int32); }

Json json_of(const Tensor& x) {
  if (x.rank() == 0) return x.item<double>();
  if (x.rank() == 1) return x.to_vector<double>();
  Json list = Json::array();
  for (const Tensor& row : unstack(x)) list.push_back(json_of(row));
  return list;
}

// Calls f, which is compiled or calls compiled functions, until these are recorded and planned.
template <class F, class Write, class... A>
Evaluation prepared(const F& f, const Write& write, const A&... arguments) {
  const auto result = std::make_shared<std::optional<decltype(f(arguments...))>>();
  const auto compute = [=] { *result = f(arguments...); };
  compute();
  compute();
  return {compute, [=] { return write(**result); }};
}

// Compiles f.
template <class F, class Write, class... A>
Evaluation evaluation(const F& f, const Write& write, const A&... arguments) {
  return prepared(compile(f), write, arguments...);
}

// ---- lse, llsq, ode, det ------------------------------------------------------------------------

Tensor square_of(const Tensor& x) { return x * x; }

template <class Derivative>
Prepare of_x(const Derivative& derivative) {
  return [=](const Json& input) { return evaluation(derivative, json_of, tensor_of(input.at("x"))); };
}

template <class F>
Prepare llsq_by(const F& f) {
  return [=](const Json& input) {
    return evaluation(f, json_of, tensor_of(input.at("x")), linspace(-1, 1, input.at("n").get<Index>(), float64));
  };
}

Evaluation ode_primal(const Json& input) {
  const Index steps = input.at("s");
  return evaluation([=](const Tensor& x) { return ode(x, steps); }, json_of, tensor_of(input.at("x")));
}

Evaluation ode_gradient(const Json& input) {
  const Index steps = input.at("s");
  return evaluation(grad([=](const Tensor& x) { return ode(x, steps)(-1); }), json_of, tensor_of(input.at("x")));
}

// A function of a matrix's entries, row by row.
auto det_of_entries(Index size) {
  return [det = det_by_minors(size), size](const Tensor& entries) { return det(reshape(entries, {size, size})); };
}

Evaluation det_primal(const Json& input) {
  return evaluation(det_of_entries(input.at("ell")), json_of, tensor_of(input.at("A")));
}

Evaluation det_gradient(const Json& input) {
  return evaluation(grad(det_of_entries(input.at("ell"))), json_of, tensor_of(input.at("A")));
}

// ---- gmm, kmeans --------------------------------------------------------------------------------

Mixture mixture_of(const Json& input) {
  const Index k = input.at("k"), d = input.at("d");
  return {tensor_of(input.at("alpha")), tensor_of(input.at("mu")), tensor_of(input.at("q")),
          reshape(tensor_of(input.at("l")), {k, d * (d - 1) / 2})};
}

Json json_of_mixture(const Mixture& mixture) {
  return {{"alpha", json_of(mixture.weights)},
          {"mu", json_of(mixture.means)},
          {"q", json_of(mixture.log_diagonals)},
          {"l", json_of(mixture.below)}};
}

auto gmm_of(const Json& input) {
  const double gamma = input.at("gamma");
  const Index m = input.at("m");
  return [=](const Mixture& mixture, const Tensor& points) { return gmm(mixture, points, gamma, m); };
}

Evaluation gmm_objective(const Json& input) {
  return evaluation(gmm_of(input), json_of, mixture_of(input), tensor_of(input.at("x")));
}

Evaluation gmm_jacobian(const Json& input) {
  return evaluation(grad(gmm_of(input)), json_of_mixture, mixture_of(input), tensor_of(input.at("x")));
}

template <class F>
Prepare kmeans_by(const F& f) {
  return [=](const Json& input) {
    return evaluation(f, json_of, tensor_of(input.at("centroids")), tensor_of(input.at("points")));
  };
}

// ---- lstm ---------------------------------------------------------------------------------------

template <class F>
Prepare lstm_by(const F& f) {
  return [=](const Json& input) {
    return evaluation(f, json_of, tensor_of(input.at("main_params")), tensor_of(input.at("extra_params")),
                      tensor_of(input.at("state")), tensor_of(input.at("sequence")));
  };
}

Tensor lstm_jacobian(const Tensor& weights, const Tensor& scales, const Tensor& start, const Tensor& characters) {
  const auto [by_weights, by_scales] = grad<0, 1>(lstm_loss)(weights, scales, start, characters);
  return concat({reshape(by_weights, {-1}), reshape(by_scales, {-1})});
}

// ---- ba -----------------------------------------------------------------------------------------

// All cameras, points and weights are equal; observation i is that of camera i mod n and of point
// i mod m.
Observations observations_of(const Json& input) {
  const Index n = input.at("n"), m = input.at("m"), p = input.at("p");
  const auto repeated = [&](const char* name, Index count) {
    const Tensor row = tensor_of(input.at(name));
    return row.rank() == 0 ? tile(expand_dims(row, 0), {count}) : tile(expand_dims(row, 0), {count, 1});
  };
  return {repeated("cam", n), repeated("x", m), arange(p) % n, arange(p) % m, repeated("w", p), repeated("feat", p)};
}

Evaluation ba_objective(const Json& input) {
  const auto write = [](const std::pair<Tensor, Tensor>& errors) {
    const Index p = errors.second.shape(0);
    return Json{{"reproj_error", {{"elements", json_of(errors.first(0))}, {"repeated", p}}},
                {"w_err", {{"element", errors.second(0).item<double>()}, {"repeated", p}}}};
  };
  return evaluation(ba_errors, write, observations_of(input));
}

Evaluation ba_jacobian_at(const Json& input) {
  // The rows of the first observation, and the last entry.
  const auto some = [](const Tensor& x) { return concat({x(slice(0, 30)), x(slice(x.shape(0) - 1, none))}); };
  const auto write = [=](const Sparse& jacobian) {
    return Json{{"rows", some(jacobian.rows).to_vector<std::int32_t>()},
                {"cols", some(jacobian.columns).to_vector<std::int32_t>()},
                {"vals", json_of(some(jacobian.values))}};
  };
  return evaluation(ba_jacobian, write, observations_of(input), arange(2 * input.at("p").get<Index>() + 1));
}

// ---- ht -----------------------------------------------------------------------------------------

// Returns a copy, not a view, whose rows kernels would gather anew for each direction of a
// Jacobian.
Tensor transposed(const Tensor& x) { return contiguous(matrix_transpose(x)); }

Hand hand_of(const Json& input) {
  const Json &data = input.at("data"), &model = data.at("model");
  Hand hand;
  hand.parents = model.at("parents").get<std::vector<Index>>();
  hand.relatives = tensor_of(model.at("base_relatives"));
  hand.inverses = tensor_of(model.at("inverse_base_absolutes"));
  hand.corners = transposed(tensor_of(model.at("base_positions")));
  hand.weights = transposed(tensor_of(model.at("weights")));
  hand.is_mirrored = model.at("is_mirrored");
  hand.points = transposed(tensor_of(data.at("points")));
  hand.numbers = integers_of(data.at("correspondences"));
  if (!input.at("us").empty()) hand.numbers = transposed(take(integers_of(model.at("triangles")), hand.numbers));
  return hand;
}

// Residuals [3, seen] as a vector whose first three are those of the first point.
Tensor in_order(const Tensor& residuals) { return reshape(matrix_transpose(residuals), {-1}); }

Evaluation ht_objective(const Json& input) {
  const Hand hand = hand_of(input);
  const Tensor parameters = tensor_of(input.at("theta"));
  if (input.at("us").empty())
    return evaluation([=](const Tensor& x) { return in_order(hand_residuals(hand, x)); }, json_of, parameters);
  const auto f = [=](const Tensor& x, const Tensor& places) {
    return in_order(hand_residuals(hand, x, matrix_transpose(places)));
  };
  return evaluation(f, json_of, parameters, tensor_of(input.at("us")));
}

// The residuals of a point depend on its own place alone, so their derivatives by all places are
// two columns: those along places that all move in one direction.
Evaluation ht_jacobian(const Json& input) {
  const Hand hand = hand_of(input);
  const Tensor parameters = tensor_of(input.at("theta"));
  if (input.at("us").empty()) {
    const auto f = [=](const Tensor& x) { return in_order(hand_residuals(hand, x)); };
    return evaluation(jacfwd(f), json_of, parameters);
  }
  const auto f = [=](const Tensor& x, const Tensor& places) {
    const auto residuals = [&](const Tensor& directions, const Tensor& at) {
      return in_order(hand_residuals(hand, at, matrix_transpose(places + directions)));
    };
    const auto [by_direction, by_parameters] = jacfwd<0, 1>(residuals)(zeros({2}, float64), x);
    return concat({by_direction, by_parameters}, 1);
  };
  return evaluation(f, json_of, parameters, tensor_of(input.at("us")));
}

// ---- saddle, particle ---------------------------------------------------------------------------

// The four pairs of modes of the outer and the inner derivative. make(outer, inner) returns the
// function.
template <class Make, class Write>
std::map<std::string, Prepare> pairs_of_modes(const Make& make, const Write& write, const char* name) {
  const auto by = [&](auto outer, auto inner) -> Prepare {
    return [=](const Json& input) {
      return prepared(make(outer, inner), write, reshape(tensor_of(input.at(name)), {-1}));
    };
  };
  return {{"ff", by(Forward(), Forward())},
          {"fr", by(Forward(), Reverse())},
          {"rf", by(Reverse(), Forward())},
          {"rr", by(Reverse(), Reverse())}};
}

std::map<std::string, Prepare> saddle_by_modes() {
  return pairs_of_modes([](auto outer, auto inner) { return saddle<decltype(outer), decltype(inner)>(); }, json_of,
                        "start");
}

std::map<std::string, Prepare> particle_by_modes() {
  const auto number = [](const Tensor& w) { return w.item<double>(); };
  return pairs_of_modes([](auto outer, auto inner) { return particle<decltype(outer), decltype(inner)>(); }, number,
                        "w");
}

}  // namespace

Modules by_stave() {
  const auto lse = [](const Tensor& x) { return logsumexp(x); };
  return {
      {"hello",
       {{"square", [](const Json& input) { return evaluation(square_of, json_of, tensor_of(input)); }},
        {"double", [](const Json& input) { return evaluation(grad(square_of), json_of, tensor_of(input)); }}}},
      {"lse", {{"primal", of_x(lse)}, {"gradient", of_x(grad(lse))}}},
      {"llsq", {{"primal", llsq_by(llsq)}, {"gradient", llsq_by(grad(llsq))}}},
      {"ode", {{"primal", ode_primal}, {"gradient", ode_gradient}}},
      {"det", {{"primal", det_primal}, {"gradient", det_gradient}}},
      {"gmm", {{"objective", gmm_objective}, {"jacobian", gmm_jacobian}}},
      {"kmeans", {{"cost", kmeans_by(kmeans)}, {"dir", kmeans_by(kmeans_direction)}}},
      {"lstm", {{"objective", lstm_by(lstm_loss)}, {"jacobian", lstm_by(lstm_jacobian)}}},
      {"ba", {{"objective", ba_objective}, {"jacobian", ba_jacobian_at}}},
      {"ht", {{"objective", ht_objective}, {"jacobian", ht_jacobian}}},
      {"saddle", saddle_by_modes()},
      {"particle", particle_by_modes()},
  };
}

}  // namespace gradbench
