// eval_shape_table: compares the shapes, dtypes, devices and strides that eval_shape gives with
// those of the results themselves, on all rows of the table of operations, in each dtype and
// layout; in one float dtype also under jvp, vjp and vmap.
//
// No operation may pass eval_shape's handler, and no function of the table may read values.
// Variants that refuse their inputs refuse abstract ones with the same error, unless the refusal
// depends on values.
//
//   eval_shape_table           all operations
//   eval_shape_table NAME      one of them

#include <cstdio>
#include <functional>
#include <optional>
#include <set>

#include <stave/handlers/observe/eval_shape.h>
#include <stave/handlers/transforms/jvp_flat.h>
#include <stave/handlers/transforms/vjp_flat.h>
#include <stave/handlers/transforms/vmap_flat.h>

#include "table/run.h"

namespace {

using namespace table;
using Function = std::function<Outputs(std::span<const Tensor>)>;

// An operation that passes eval_shape would run a kernel.
struct Passed : Handler {
  std::set<std::string> operations;
  Outputs handle(Call& call) override {
    if (!call.op().is_higher_order) operations.insert(call.op().name);
    return perform(std::move(call));
  }
};

std::string text_of(const Tensor& x) {
  std::string text = std::string(stave::name_of(x.dtype())) + " " + x.shape().str() + " strides";
  for (const Index stride : x.strides()) text += x.size() > 0 ? " " + std::to_string(stride) : " any";
  return text + " on " + x.device().str();
}

/// What a function gives, as text; or the error that it throws.
struct Result {
  std::vector<std::string> outputs;
  std::optional<std::string> error;
};

Result result_of(const Function& f, std::span<const Tensor> inputs) {
  try {
    Result result;
    for (const Tensor& y : f(inputs)) result.outputs.push_back(text_of(y));
    return result;
  } catch (const std::exception& error) {
    return {{}, error.what()};
  }
}

Result shapes_of(const Function& f, std::span<const Tensor> inputs) {
  std::vector<Tensor> abstract;
  for (const Tensor& x : inputs) abstract.push_back(stave_detail::abstract_like(x));
  Passed passed;
  ShapesOnly shapes;
  Result result = with(passed, [&] { return with(shapes, [&] { return result_of(f, abstract); }); });
  for (const std::string& name : passed.operations)
    if (!result.error) result.error = name + " ran, although only shapes are wanted";
  return result;
}

struct Total {
  int cases = 0, refused = 0;
  Report report = {};
};

void compare_shapes(const Case& c, const std::string& where, const Function& f, const std::vector<Tensor>& inputs,
                    Total& total) {
  const Result expected = result_of(f, inputs), found = shapes_of(f, inputs);
  const auto fail = [&](const std::string& what) { total.report.fail(where, what); };
  ++total.cases;
  if (expected.error) {
    ++total.refused;
    if (!found.error) return;  // the refusal depends on values
    const std::string& text = c.variant.refusal.empty() ? *expected.error : c.variant.refusal;
    const std::string start = text.substr(0, text.find("\n  inside"));
    if (found.error->find(start) == std::string::npos && found.error->find(": its elements (") == std::string::npos)
      fail("throws \"" + *found.error + "\", expected \"" + start + "\"");
    return;
  }
  if (found.error) return fail("throws " + *found.error);
  if (found.outputs.size() != expected.outputs.size())
    return fail(std::to_string(found.outputs.size()) + " results, expected " + std::to_string(expected.outputs.size()));
  for (std::size_t i = 0; i < found.outputs.size(); ++i)
    if (found.outputs[i] != expected.outputs[i])
      fail("result " + std::to_string(i) + " is " + found.outputs[i] + ", expected " + expected.outputs[i]);
}

Outputs tangents_of(const Function& f, std::span<const Tensor> both) {
  const std::size_t n = both.size() / 2;
  return jvp_flat(f, both.first(n), both.subspan(n)).tangents;
}
Outputs cotangents_of(const Function& f, std::span<const Tensor> inputs) {
  FlatVjp vjp = vjp_flat(f, inputs, "vjp");
  const std::vector<Tensor> seeds(vjp.outputs.begin(), vjp.outputs.end());
  const std::vector<Tensor> found = vjp.pullback.consume(seeds);
  return Outputs(found.begin(), found.end());
}
Outputs lanes_of_calls(const Function& f, std::span<const Tensor> lanes) {
  const std::vector<MapAxis> axes(lanes.size(), MapAxis(0));
  const FlatVmap found = vmap_flat(f, lanes, axes, 2);
  return vmap_outputs(found, std::vector<MapAxis>(found.outputs.size(), MapAxis(0)));
}

std::vector<Tensor> two_lanes(const std::vector<Tensor>& xs) {
  std::vector<Tensor> lanes;
  for (const Tensor& x : xs) lanes.push_back(stave::stack({x, x}));
  return lanes;
}

void run_case(const Case& c, const std::string& where, bool under_transforms, Total& total) {
  const Function f = [&](std::span<const Tensor> xs) { return c.call(xs); };
  compare_shapes(c, where, f, c.tensors, total);
  if (!under_transforms) return;
  if (!c.tensors.empty())
    compare_shapes(
        c, where + ", vmap", [&](auto xs) { return lanes_of_calls(f, xs); }, two_lanes(c.tensors), total);
  const std::vector<Tensor> active = c.active_of(c.tensors);
  const Function floats = [&](std::span<const Tensor> xs) { return c.call_active(xs, is_float); };
  if (active.empty() || !c.variant.differentiable) return;
  compare_shapes(
      c, where + ", jvp", [&](auto xs) { return tangents_of(floats, xs); }, joined(active, active), total);
  compare_shapes(
      c, where + ", vjp", [&](auto xs) { return cotangents_of(floats, xs); }, active, total);
}

}  // namespace

int main(int argc, char** argv) try {
  Total total;
  for (const Row& row : all_rows()) {
    if (argc > 1 && row.name != argv[1]) continue;
    for_each_case(
        row, [](Dtype) { return true; },
        [&](const Case& c, const std::string& where) { run_case(c, where, c.dtype == first_float(row), total); });
  }
  std::printf("cases %d  refused %d  failures %d\n", total.cases, total.refused, total.report.failures);
  return total.report.failures || total.cases == 0 ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "eval_shape_table: %s\n", error.what());
  return 2;
}
