// CppAD: a function is recorded once and its recording optimized; then sweeps go through the
// recording for given variables. Recordings that serve once are not optimized.
#include <cppad/cppad.hpp>

#include "plain_modules.h"

namespace gradbench {

namespace {

template <class F>
std::shared_ptr<CppAD::ADFun<double>> recording_of(const F& f, const Numbers& at) {
  std::vector<CppAD::AD<double>> variables(at.begin(), at.end());
  CppAD::Independent(variables);
  const auto recording = std::make_shared<CppAD::ADFun<double>>();
  const std::vector<CppAD::AD<double>> outputs = f(variables);
  recording->Dependent(variables, outputs);
  return recording;
}

struct CppAd {
  static constexpr bool has_second_order = true;

  // Few outputs by reverse sweeps, many by one forward sweep with all directions at once.
  template <class F>
  auto record(const F& f, const Numbers& at) const {
    const auto recording = recording_of(f, at);
    recording->optimize();
    const Size m = recording->Range(), n = at.size();
    Numbers directions(m > n ? n * n : 0);
    for (Size i = 0; m > n && i < n; ++i) directions[i * n + i] = 1;
    return [=](const Numbers& x) {
      recording->Forward(0, x);
      if (m > n) return recording->Forward(1, n, directions);
      Numbers rows, weights(m);
      for (Size i = 0; i < m; ++i) {
        weights[i] = 1;
        const Numbers row = recording->Reverse(1, weights);
        rows.insert(rows.end(), row.begin(), row.end());
        weights[i] = 0;
      }
      return rows;
    };
  }
  template <class F>
  std::pair<double, Numbers> value_and_gradient(const F& f, const Numbers& x) const {
    const auto recording = recording_of(f, x);
    const double value = recording->Forward(0, x)[0];
    return {value, recording->Reverse(1, Numbers{1})};
  }
  template <class F>
  std::pair<Numbers, Numbers> gradient_and_product(const F& f, const Numbers& x, const Numbers& v) const {
    const auto recording = recording_of(f, x);
    recording->Forward(0, x);
    recording->Forward(1, v);
    const Numbers both = recording->Reverse(2, Numbers{1});  // of each variable: gradient, product
    Numbers slopes, product;
    for (Size i = 0; i < both.size(); i += 2) {
      slopes.push_back(both[i]);
      product.push_back(both[i + 1]);
    }
    return {slopes, product};
  }
};

}  // namespace

Modules by_cppad() { return derivatives_by(CppAd()); }

}  // namespace gradbench
