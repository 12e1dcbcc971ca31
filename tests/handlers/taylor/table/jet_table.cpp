// jet_table: compares Taylor coefficients to order 3 with nested jvp, on all rows of the table of
// operations that have derivatives, in float64 and in each layout, and on rows of complex operands.
//
// The inputs are x + v t + u t^2 with random v and u. Both ways use the same rules and differ by
// rounding. Variants that refuse their inputs, or that have no differentiable float input, are left
// out.
//
//   jet_table           all operations
//   jet_table NAME      one of them

#include <cstdio>
#include <functional>

#include <stave/core/effects/sanitize.h>
#include <stave/handlers/taylor/jet_flat.h>
#include <stave/handlers/transforms/jvp_flat.h>
#include <stave/stave.h>

#include "table/run.h"

namespace {

using namespace table;
using Function = std::function<Outputs(const Tensor& t)>;
constexpr int order = 3;
// The tolerance is 16 epsilons of the largest element for a unit of 1. Coefficients of higher order
// are sums of many terms that may cancel; those of eigenvectors have differences of eigenvalues as
// denominators.
Real unit_of(const Row& row) { return row.name == "eig" || row.name == "complex_eig" ? 4096 : 64; }

/// The floating outputs of the case at the point x + v t + u t^2.
struct Curve {
  const Case& c;
  std::vector<Tensor> x, v, u;

  explicit Curve(const Case& of) : c(of), x(of.active_of(of.tensors)) {
    Random random(of.seed + "/jet");
    const auto weights = [&] { return to_tensors(random.weights_like(to_arrays(x))); };
    v = weights();
    u = weights();
  }
  Outputs operator()(std::span<const Tensor> at) const { return c.call_active(at, is_float); }
  Outputs at(const Tensor& t) const {
    std::vector<Tensor> point;
    for (std::size_t i = 0; i < x.size(); ++i) point.push_back(x[i] + v[i] * t + u[i] * square(t));
    return (*this)(point);
  }
  std::vector<Arrays> by_jet() const {
    const std::vector<std::vector<Tensor>> coefficients{v, u, std::vector<Tensor>(x.size())};
    const FlatJet found = jet_flat([&](auto xs) { return (*this)(xs); }, x, coefficients);
    std::vector<Arrays> all{to_arrays(found.outputs)};
    for (const Outputs& k : found.coefficients) all.push_back(to_arrays(k));
    return all;
  }
  std::vector<Arrays> by_jvp() const {
    const Tensor zero = stave::tensor(0., stave::float64), one = stave::tensor(1., stave::float64);
    Function f = [&](const Tensor& t) { return at(t); };
    std::vector<Arrays> all{to_arrays(f(zero))};
    double factorial = 1;
    for (int k = 1; k <= order; ++k) {
      f = [f, one](const Tensor& t) {
        return jvp_flat([&](auto ts) { return f(ts[0]); }, std::span(&t, 1), std::span(&one, 1)).tangents;
      };
      factorial *= k;
      Outputs found = f(zero);
      for (Tensor& y : found) y = y / factorial;
      all.push_back(to_arrays(found));
    }
    return all;
  }
};

struct Total {
  int cases = 0;
  Report report = {};
};

void run_case(const Case& c, Real unit, const std::string& where, Total& total) {
  if (c.active.empty() || !c.variant.refusal.empty()) return;
  try {
    const Curve curve(c);
    if (curve(curve.x).empty()) return;
    const std::vector<Arrays> found = curve.by_jet(), expected = curve.by_jvp();
    for (std::size_t k = 0; k < found.size(); ++k)
      compare("coefficient " + std::to_string(k), Kind::lanes, found[k], expected[k], unit);
    ++total.cases;
  } catch (const std::exception& error) {
    total.report.fail(where, error.what());
  }
}

constexpr auto is_run = [](Dtype dtype) { return dtype == stave::float64 || stave::is_complex(dtype); };

}  // namespace

int main(int argc, char** argv) try {
  Total total;
  for (const Row& row : all_rows())
    if (argc < 2 || row.name == argv[1])
      for_each_case(row, is_run,
                    [&](const Case& c, const std::string& where) { run_case(c, unit_of(row), where, total); });
  std::printf("cases %d  failures %d\n", total.cases, total.report.failures);
  return total.report.failures || total.cases == 0 ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "jet_table: %s\n", error.what());
  return 2;
}
