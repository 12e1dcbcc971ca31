// anew_table: compares two reimplemented transforms (jvp.h, shift_reset.h) with the library's,
// on all rows of the table of operations, in each dtype and layout: first derivatives, all pairs
// of the two modes, and derivatives under vmap. Both use the same rules, and sums in the same order
// up to rounding, so results may differ by a few units in the last place of the largest element.
//
// Variants that refuse their inputs, or that have no differentiable float input, are left out.
// Higher-order operations are included: there the library uses the custom rule,
// and the reimplemented transforms differentiate the function.
//
//   anew_table           all operations
//   anew_table NAME      one of them

#include <cstdio>

#include <stave/core/effects/sanitize.h>
#include <stave/handlers/transforms/jvp_flat.h>
#include <stave/handlers/transforms/vjp_flat.h>
#include <stave/handlers/transforms/vmap_flat.h>

#include "jvp.h"
#include "shift_reset.h"
#include "table/run.h"

namespace {

using namespace table;
using Function = std::function<Outputs(std::span<const Tensor>)>;

/// A transform, by the library and reimplemented. It maps f to a function that returns the tangents
/// (or cotangents) alone; its arguments are the inputs of f, then the directions (or seeds).
struct Mode {
  const char* name;
  bool forward;
  Function (*library)(const Function& f, std::size_t inputs);
  Function (*anew)(const Function& f, std::size_t inputs);
};

Function library_jvp(const Function& f, std::size_t n) {
  return [f, n](auto xs) { return jvp_flat(f, xs.first(n), xs.subspan(n)).tangents; };
}
Function anew_jvp(const Function& f, std::size_t n) {
  return [f, n](auto xs) { return anew::jvp(f, xs.first(n), xs.subspan(n)).tangents; };
}
Function library_vjp(const Function& f, std::size_t n) {
  return [f, n](auto xs) {
    FlatVjp vjp = vjp_flat(f, xs.first(n), "vjp");
    const std::vector<Tensor> found = vjp.pullback.consume(xs.subspan(n));
    return Outputs(found.begin(), found.end());
  };
}
Function anew_vjp(const Function& f, std::size_t n) {
  return [f, n](auto xs) {
    const auto seeds = [&](const Outputs&) { return std::vector<Tensor>(xs.begin() + n, xs.end()); };
    const std::vector<Tensor> found = anew::vjp(f, xs.first(n), seeds).cotangents;
    return Outputs(found.begin(), found.end());
  };
}

constexpr Mode modes[] = {{"jvp", true, library_jvp, anew_jvp}, {"vjp", false, library_vjp, anew_vjp}};

/// The function of the case's active inputs that returns its float outputs.
Function floats_of(const Case& c) {
  return [&c](auto xs) {
    Outputs floats;
    for (const Tensor& y : c.call_active(xs))
      if (is_float(y.dtype())) floats.push_back(y);
    return floats;
  };
}

class Comparison {
 public:
  explicit Comparison(const Case& c) : c_(c), random_(c.seed + "/anew") {}

  int run() {
    const Function f = floats_of(c_);
    const std::vector<Tensor> primals = c_.active_of(c_.tensors);
    const Arrays outputs = to_arrays(f(primals));
    if (outputs.empty()) return 0;
    const std::vector<Tensor> v = weights_like(to_arrays(primals)), w = weights_like(outputs);
    for (const Mode& inner : modes) {
      const std::vector<Tensor> at = joined(primals, inner.forward ? v : w);
      const std::size_t n = primals.size();
      const Function expected = inner.library(f, n), got = inner.anew(f, n);
      expect_equal(inner.name, got, expected, at);
      expect_equal_lanes(std::string("vmap of ") + inner.name, got, expected, at, n);
      for (const Mode& outer : modes) {
        const std::string name = std::string(outer.name) + " of " + inner.name;
        const std::vector<Tensor> both =
            joined(at, weights_like(outer.forward ? to_arrays(at) : to_arrays(expected(at))));
        const Function reference = outer.library(expected, at.size());
        expect_equal(name, outer.anew(got, at.size()), reference, both);
        expect_equal(name + ", the inner one the library's", outer.anew(expected, at.size()), reference, both);
        expect_equal(name + ", the outer one the library's", outer.library(got, at.size()), reference, both);
      }
    }
    return compared_;
  }

 private:
  std::vector<Tensor> weights_like(const Arrays& xs) { return to_tensors(random_.weights_like(xs)); }

  void expect_equal(const std::string& what, const Function& got, const Function& expected,
                    std::span<const Tensor> at) {
    ++compared_;
    compare(what, Kind::lanes, to_arrays(got(at)), to_arrays(expected(at)), unit);
  }
  // Compares under vmap, over two lanes with equal values, which stay in their domain,
  // and different directions.
  void expect_equal_lanes(const std::string& what, const Function& got, const Function& expected,
                          const std::vector<Tensor>& at, std::size_t primals) {
    std::vector<Tensor> lanes;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const Tensor rows = expand_dims(at[i], 0);
      lanes.push_back(concat({rows, i < primals ? rows : rows * -0.75}, 0));
    }
    const std::vector<MapAxis> axes(at.size(), MapAxis(0));
    const auto mapped = [&](const Function& f) {
      const FlatVmap result = vmap_flat(f, lanes, axes, 2);
      Outputs outputs;
      for (std::size_t i = 0; i < result.outputs.size(); ++i) outputs.push_back(vmap_output(result, i, MapAxis(0)));
      return to_arrays(outputs);
    };
    ++compared_;
    compare(what, Kind::lanes, mapped(got), mapped(expected), unit);
  }

  // The tolerance is 16 epsilons of the largest element, because a rule that gives all cotangents
  // at once adds in another order.
  static constexpr Real unit = 1;
  const Case& c_;
  Random random_;
  int compared_ = 0;
};

struct Total {
  int cases = 0, compared = 0;
  Report report = {};
};

void run_case(const Case& c, const std::string& where, Total& total) {
  if (c.active.empty() || !c.variant.refusal.empty()) return;
  try {
    const int compared = Comparison(c).run();
    total.cases += compared > 0;
    total.compared += compared;
  } catch (const std::exception& error) {
    total.report.fail(where, error.what());
  }
}

/// Under a sanitizer, one dtype reaches all memory that the other dtypes would reach.
constexpr auto is_run = [](Dtype dtype) { return (!STAVE_ASAN && !STAVE_TSAN) || dtype == stave::float32; };

}  // namespace

int main(int argc, char** argv) try {
  Total total;
  for (const Row& row : all_rows())
    if (argc < 2 || row.name == argv[1])
      for_each_case(row, is_run, [&](const Case& c, const std::string& where) { run_case(c, where, total); });
  std::printf("cases %d  comparisons %d  failures %d\n", total.cases, total.compared, total.report.failures);
  if (total.compared == 0) std::printf("nothing was compared\n");
  return total.report.failures || total.compared == 0 ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "anew_table: %s\n", error.what());
  return 2;
}
