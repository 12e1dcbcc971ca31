// sparsity_table: holds the patterns of Jacobians against jacfwd, for all rows of the table of
// operations: those of each function and of its gradient, of the path and of the point, where the
// pattern was found and at other inputs. No entry may be missed, and no operation may count as
// dense because it has no dependence rule.
//
//   sparsity_table          all rows
//   sparsity_table NAME     one of them

#include <cstdio>
#include <set>

#include <stave/core/ops/bools.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/handlers/structure/sparsity.h>
#include <stave/handlers/transforms/jacobian.h>

#include "table/run.h"

namespace {

using namespace table;
using namespace stave;
using Function = std::function<Outputs(std::span<const Tensor>)>;

/// The gradient of the sum of all outputs' real parts, each element times a weight of its own.
Function gradient_of(const Function& f) {
  return [f](std::span<const Tensor> xs) {
    FlatVjp vjp = vjp_flat(f, xs, "vjp");
    std::vector<Tensor> weights;
    for (const Tensor& y : vjp.outputs)
      weights.push_back(astype(1. + reshape(arange(0, y.size(), 1, float64), y.shape()) / 8., y.dtype()));
    const std::vector<Tensor> found = vjp.pullback.consume(weights);
    return Outputs(found.begin(), found.end());
  };
}

/// The Jacobian [rows, columns].
Tensor dense(const Function& f, std::span<const Tensor> xs) {
  std::vector<Tensor> rows;
  for (const std::vector<Tensor>& blocks : jacfwd_flat(f, xs)) {
    std::vector<Tensor> row;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const Index columns = xs[i].size();
      row.push_back(reshape(blocks[i] != 0, {columns ? blocks[i].size() / columns : 0, columns}));
      if (columns == 0) row.pop_back();
    }
    if (!row.empty()) rows.push_back(concat(row, 1));
  }
  return rows.empty() ? zeros({0, 0}, bool_) : concat(rows);
}

struct Totals {
  int checked = 0, failures = 0;
  Index entries = 0, found = 0;
  std::set<std::string> dense;
};

class Comparison {
 public:
  Comparison(const Case& c, Totals& totals) : c_(c), totals_(totals) {}

  void run() {
    const Function f = [&](std::span<const Tensor> xs) { return c_.call_active(xs, is_inexact); };
    const std::vector<Tensor> at = c_.active_of(c_.tensors);
    if (f(at).empty()) return;
    compare_patterns("", f, at);
    compare_patterns("gradient of ", gradient_of(f), at);
  }

 private:
  void compare_patterns(const std::string& what, const Function& f, const std::vector<Tensor>& at) {
    Tensor jacobian;
    try {
      jacobian = dense(f, at);
    } catch (const Error&) {
      return;  // there is no such derivative
    }
    for (const bool here : {false, true}) {
      const auto found = stave_detail::find_sparsity(f, at, here, "sparsity_table", numbered_inputs);
      ++totals_.checked;
      totals_.dense.insert(found.dense_operations.begin(), found.dense_operations.end());
      const Tensor pattern = stave_detail::public_pattern(found).dense();
      expect_contains(what + (here ? "point" : "path"), pattern, jacobian);
      if (here) continue;
      totals_.entries += sum(jacobian).item<Index>();
      totals_.found += sum(pattern).item<Index>();
      if (!found.depends_on_path) expect_contains(what + "path, elsewhere", pattern, dense_elsewhere(f));
    }
  }

  // The Jacobian at other inputs; undefined if the function refuses them.
  Tensor dense_elsewhere(const Function& f) {
    Random random(c_.seed + "/elsewhere");
    std::vector<Tensor> others;
    for (const std::size_t i : c_.active) {
      const Input& input = c_.variant.inputs[i];
      others.push_back(to_tensor(random.values(input, input.shape, i)));
    }
    try {
      return dense(f, others);
    } catch (const Error&) {
      return {};
    }
  }

  void expect_contains(const std::string& what, const Tensor& pattern, const Tensor& jacobian) {
    if (!jacobian.defined() || jacobian.size() == 0) return;
    const int missed = sum(logical_and(jacobian, logical_not(pattern))).item<int>();
    if (missed == 0) return;
    ++totals_.failures;
    std::printf("FAIL %s %s, %s: %d of %d entries are missed\n", c_.row.name.c_str(), c_.variant.name.c_str(),
                what.c_str(), missed, sum(jacobian).item<int>());
  }

  const Case& c_;
  Totals& totals_;
};

void run(const Row& row, Totals& totals) {
  const auto has = [&](Dtype dtype) {
    return std::find(row.dtypes.begin(), row.dtypes.end(), dtype) != row.dtypes.end();
  };
  const Dtype dtype = has(float64) ? float64 : row.dtypes.front();
  for (const Variant& variant : row.variants(dtype)) {
    if (!variant.refusal.empty()) continue;
    const Case c(row, variant, dtype, layouts_of(variant).front());
    if (c.active.empty()) continue;
    try {
      Comparison(c, totals).run();
    } catch (const std::exception& error) {
      ++totals.failures;
      std::printf("FAIL %s %s: %s\n", row.name.c_str(), variant.name.c_str(), error.what());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Totals totals;
  for (const Row& row : all_rows())
    if (argc < 2 || row.name == argv[1]) run(row, totals);
  for (const std::string& name : totals.dense) {
    ++totals.failures;
    std::printf("FAIL %s counts as dense: it has no dependence rule\n", name.c_str());
  }
  std::printf("patterns %d  entries %lld, found %lld  failures %d\n", totals.checked,
              static_cast<long long>(totals.entries), static_cast<long long>(totals.found), totals.failures);
  if (totals.checked == 0) std::printf("sparsity_table: there is no such row with a derivative\n");
  return totals.failures || totals.checked == 0;
}
