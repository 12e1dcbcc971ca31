// Ceres' Jets, dual numbers with all derivatives at once: for ba and ht, whose numbers of variables
// are known to the compiler.
#include <ceres/jet.h>

#include "plain_modules.h"

namespace gradbench {

namespace {

template <int n>
struct Jets {
  template <class F>
  static Numbers jacobian(const F& f, const Numbers& at) {
    using Number = ceres::Jet<double, n>;
    std::vector<Number> x(at.begin(), at.end());
    for (int v = 0; v < n; ++v) x[static_cast<Size>(v)].v[v] = 1;
    Numbers rows;
    for (const Number& output : f(x)) {
      rows.insert(rows.end(), output.v.data(), output.v.data() + n);
      // Numbers behind the variables are constants.
      rows.resize(rows.size() + at.size() - static_cast<Size>(n));
    }
    return rows;
  }
};

struct Ceres {
  template <class F>
  auto record(const F& f, const Numbers&) const {
    constexpr bool is_ba = std::is_same_v<F, Reprojection>;
    return [=](const Numbers& x) { return Jets < is_ba ? int{Reprojection::variables} : 26 > ::jacobian(f, x); };
  }
};

}  // namespace

Modules by_ceres() {
  return {{"ba", {{"jacobian", ba_jacobian_by(Ceres())}}}, {"ht", {{"jacobian", ht_jacobian_by(Ceres())}}}};
}

}  // namespace gradbench
