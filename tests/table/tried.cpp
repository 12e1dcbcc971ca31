#include "table/tried.h"

#include <algorithm>
#include <cmath>

#include <stave/core/ops/layout.h>
#include <stave/core/program/fused.h>
#include <stave/handlers/transforms/jvp_flat.h>
#include <stave/handlers/transforms/vjp_flat.h>
#include <stave/handlers/transforms/vmap_flat.h>

#include "separate_backend.h"
#include "table/cell.h"
#include "table/place.h"
#include "table/run.h"

namespace table {

namespace {

/// Records the operations that are performed, and their dtypes. An elementwise operation counts
/// with its last input's dtype, because the first operand of `where` is a condition.
class Observer : public Handler {
 public:
  explicit Observer(PerformedByOperation& seen) : seen_(seen) {}
  Outputs handle(Call& call) override {
    const Op& op = call.op();
    std::optional<Dtype> dtype;
    const bool operands = !call.inputs().empty();
    if (operands) dtype = (op.elementwise ? call.inputs().back() : call.input(0)).dtype();
    Outputs outputs = perform(std::move(call));
    if (!dtype && !outputs.empty()) dtype = outputs[0].dtype();
    Performed& performed = seen_[op.name];
    performed.operands |= operands;
    if (dtype) performed.dtypes.insert(*dtype);
    return outputs;
  }

 private:
  PerformedByOperation& seen_;
};

/// Returns true if an input or output has this dtype. Some variants have other dtypes only,
/// whichever dtype is requested.
bool is_of(Dtype dtype, const Variant& variant, const Outputs& outputs) {
  const auto same = [&](const auto& x) { return x.dtype == dtype; };
  if (std::ranges::any_of(variant.inputs, same)) return true;
  return std::ranges::any_of(outputs, [&](const Tensor& x) { return x.dtype() == dtype; });
}

/// Calls f for every variant in a dtype, in one layout. Variants that the function refuses
/// are skipped.
void for_each_case(const Row& row, Dtype dtype, const std::function<void(const Case&)>& f) {
  for (const Variant& variant : row.variants(dtype)) try {
      f(Case(row, variant, dtype, layouts_of(variant).front()));
    } catch (const Error&) {
    }
}

/// Returns true if some tangent differs from zero by more than rounding where terms cancel.
bool is_derivative(std::span<const Tensor> tangents) {
  for (const Tensor& tangent : tangents)
    if (tangent.defined() && is_float(tangent.dtype()))
      for (const Real value : to_array(tangent).values)
        if (std::abs(value) > 1e-9L && std::isfinite(value)) return true;
  return false;
}

/// The derivatives with respect to input i alone, by jvp and by vjp.
TriedDerivatives derivatives_by(const Case& c, std::size_t i) {
  const auto function = [&](std::span<const Tensor> xs) {
    std::vector<Tensor> inputs = c.tensors;
    inputs[i] = xs[0];
    return c.call(inputs);
  };
  Random random(c.seed + "/tried");
  const std::vector<Tensor> primal{c.tensors[i]},
      direction{to_tensor(random.weights(primal[0].dtype(), primal[0].shape()))};
  TriedDerivatives found;
  try {
    found.jvp = is_derivative(jvp_flat(function, primal, direction).tangents);
  } catch (const Error&) {
  }
  try {
    const FlatVjp vjp = vjp_flat(function, primal, "vjp");
    const Arrays outputs = to_arrays(vjp.outputs);
    found.vjp = is_derivative(vjp.pullback(cotangents_for(outputs, random.weights_like(outputs))));
  } catch (const Error&) {
  }
  return found;
}

/// Computes the variant under vmap, over two equal lanes. Returns true, or throws.
bool batches(const Case& c) {
  std::vector<Tensor> twice;
  for (const Tensor& x : c.tensors) twice.push_back(broadcast_to(x, with_axis(x.shape(), 0, 2)));
  vmap_flat([&](std::span<const Tensor> xs) { return c.call(xs); }, twice, std::vector<MapAxis>(twice.size()),
            Index{2});
  return true;
}

void try_transforms(const Row& row, Tried& result) {
  const Dtype dtype = result.dtypes.contains(float64) || result.dtypes.empty() ? float64 : *result.dtypes.begin();
  std::size_t operands = 0;
  for (const Variant& variant : row.variants(dtype)) operands = std::max(operands, variant.inputs.size());
  for_each_case(row, dtype, [&](const Case& c) {
    if (!c.variant.refusal.empty() || operands == 0) return;
    for (const Tensor& output : c.call(c.tensors)) result.float_results |= is_float(output.dtype());
    result.batches = result.batches || batches(c);
    if (c.variant.inputs.size() < operands) return;  // some operand is a C++ number
    for (std::size_t i = 0; i < operands; ++i) {
      if (!is_float(c.arrays[i].dtype)) continue;
      TriedDerivatives& known = result.by_operand[i];
      if (known.jvp && known.vjp) continue;
      const TriedDerivatives found = derivatives_by(c, i);
      known = {known.jvp || found.jvp, known.vjp || found.vjp};
    }
  });
}

/// A stand-in for the first CUDA device. It records the operations that request a kernel from it.
class Asked : public stave_test::SeparateBackend {
 public:
  Asked() : SeparateBackend(0) {}
  void run(const Op& op, const stave::Attributes* attributes, std::span<const stave::View> inputs,
           std::span<const stave::View> outputs) override {
    // A region counts as "fused", whatever its name.
    const bool is_region = dynamic_cast<const stave::FusedAttributes*>(attributes);
    operations.insert(is_region ? "fused" : op.name);
    SeparateBackend::run(op, attributes, inputs, outputs);
  }
  std::set<std::string> operations;
};

/// Sets the table's device for the life of this object.
struct Placed {
  explicit Placed(Device device) { place() = device; }
  ~Placed() { place() = stave::cpu; }
};

}  // namespace

Tried tried(const Row& row, PerformedByOperation* operations) {
  Tried result;
  PerformedByOperation seen;
  Observer observer(seen);
  for (Dtype dtype : all_dtypes)
    with(observer, [&] {
      for_each_case(row, dtype, [&](const Case& c) {
        if (is_of(dtype, c.variant, c.call(c.tensors))) result.dtypes.insert(dtype);
      });
    });
  for (const auto& [operation, how] : seen) {
    result.performed.insert(operation);
    if (!operations) continue;
    Performed& known = (*operations)[operation];
    known.dtypes.insert(how.dtypes.begin(), how.dtypes.end());
    known.operands |= how.operands;
  }
  try_transforms(row, result);
  return result;
}

Elsewhere::Elsewhere() {
  Asked asked;
  const Placed there(stave::cuda(0));
  AtPlace handler;
  for (const Row& row : all_rows()) {
    asked.operations.clear();
    with(handler, [&] {
      for (Dtype dtype : {stave::float32, stave::int32})
        if (std::ranges::find(row.dtypes, dtype) != row.dtypes.end())
          for_each_case(row, dtype, [](const Case& c) { c.call(c.tensors); });
    });
    kernels_[row.name] = asked.operations;
  }
}

bool Elsewhere::anywhere(const std::string& operation) const {
  return std::ranges::any_of(kernels_, [&](const auto& row) { return row.second.contains(operation); });
}

std::vector<std::string> faults_of_derivatives(const Row& row, const Tried& tried) {
  std::vector<std::string> faults;
  for (const auto& [operand, why] : row.no_derivative)
    if (!tried.by_operand.contains(operand))
      faults.push_back(row.name + " has no operand " + std::to_string(operand) + " of floats, but says: " + why);
  if (!tried.float_results) return faults;
  for (const auto& [operand, found] : tried.by_operand) {
    const std::string by = " by operand " + std::to_string(operand);
    const auto said = row.no_derivative.find(operand);
    if (said == row.no_derivative.end()) {
      if (!found.jvp) faults.push_back(row.name + " has no forward derivative" + by + ", and does not say why");
      if (!found.vjp) faults.push_back(row.name + " has no reverse derivative" + by + ", and does not say why");
    } else if (found != TriedDerivatives{}) {
      faults.push_back(row.name + " has a derivative" + by + ", but says: " + said->second);
    }
  }
  return faults;
}

}  // namespace table
