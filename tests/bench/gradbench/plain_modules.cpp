// The modules of GradBench in plain C++.
#include "plain_modules.h"

namespace gradbench {

namespace {

// Dual numbers as a tool.
struct Duals {
  template <class F>
  auto record(const F& f, const Numbers&) const {
    return [=](const Numbers& at) {
      std::vector<Dual<double>> x(at.begin(), at.end());
      Numbers rows;
      for (Size v = 0; v < x.size(); ++v) {
        x[v].slope = 1;
        const std::vector<Dual<double>> outputs = f(x);
        rows.resize(outputs.size() * x.size());
        for (Size i = 0; i < outputs.size(); ++i) rows[i * x.size() + v] = outputs[i].slope;
        x[v].slope = 0;
      }
      return rows;
    };
  }
  template <class F>
  std::pair<double, Numbers> value_and_gradient(const F& f, const Numbers& x) const {
    return {f(x)[0], record(f, x)(x)};
  }
};

template <class F, class Variables>
Prepare first_output(const F& make, const Variables& variables) {
  return [=](const Json& input) { return evaluation([f = make(input), x = variables(input)] { return f(x)[0]; }); };
}

Evaluation ode_primal(const Json& input) {
  return evaluation([x = numbers_of(input.at("x")), steps = input.at("s").get<Size>()] { return ode(x, steps); });
}

Evaluation kmeans_cost(const Json& input) {
  return evaluation([it = Kmeans(input)] { return kmeans(it.centroids, it.points, it.d); });
}

Evaluation kmeans_dir(const Json& input) {
  return evaluation([it = Kmeans(input)] { return kmeans_direction(it.centroids, it.points, it.d); },
                    [d = input.at("points").at(0).size()](const Numbers& all) { return rows_of(all, d); });
}

Evaluation ba_objective(const Json& input) {
  const auto ba = std::make_shared<Ba>(input);
  return evaluation([=] { return ba->errors(); },
                    [p = ba->p](const Numbers& all) {
                      return Json{{"reproj_error", {{"elements", {all[0], all[1]}}, {"repeated", p}}},
                                  {"w_err", {{"element", all[2 * p]}, {"repeated", p}}}};
                    });
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

// ---- saddle, particle ---------------------------------------------------------------------------

std::map<std::string, Prepare> for_all_modes(const Prepare& prepare) {
  return {{"ff", prepare}, {"fr", prepare}, {"rf", prepare}, {"rr", prepare}};
}

Numbers gradient_by_hand(const Numbers& x) { return {2 * x[0], 2 * x[1]}; }

// The gradient by x does not depend on y.
Evaluation saddle_at(const Json& input) {
  return evaluation([start = numbers_of(input.at("start"))] {
    const auto height = [&](const Numbers& x) {
      return std::pair(squared(x) - squared(highest(x, start, gradient_by_hand)), gradient_by_hand(x));
    };
    Numbers x = argmin(height, start);
    const Numbers y = highest(x, start, gradient_by_hand);
    x.insert(x.end(), y.begin(), y.end());
    return x;
  });
}

Evaluation particle_at(const Json& input) {
  const auto value_and_slope = [](const Numbers& w) {
    const Dual<double> it = crossing(Dual<double>(w[0], 1), force_of_charge<Dual<double>>);
    return std::pair(it.value, Numbers{it.slope});
  };
  return evaluation([w = numbers_of(input.at("w")), value_and_slope] { return argmin(value_and_slope, w)[0]; });
}

}  // namespace

Modules by_plain_cpp() {
  Modules modules = derivatives_by(Duals());
  modules["hello"] = {{"square", [](const Json& x) { return evaluation([x = x.get<double>()] { return x * x; }); }},
                      {"double", [](const Json& x) { return evaluation([x = x.get<double>()] { return 2 * x; }); }}};
  modules["lse"]["primal"] = first_output(lse_of, named("x"));
  modules["llsq"]["primal"] = first_output(llsq_of, named("x"));
  modules["det"]["primal"] = first_output(det_of, named("A"));
  modules["ode"]["primal"] = ode_primal;
  modules["gmm"]["objective"] = first_output(gmm_of, mixture_of);
  modules["kmeans"] = {{"cost", kmeans_cost}, {"dir", kmeans_dir}};
  modules["lstm"]["objective"] = first_output(lstm_of, lstm_parameters);
  modules["ba"]["objective"] = ba_objective;
  modules["ht"]["objective"] = ht_objective;
  modules["saddle"] = for_all_modes(saddle_at);
  modules["particle"] = for_all_modes(particle_at);
  return modules;
}

}  // namespace gradbench
