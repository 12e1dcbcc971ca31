#include "table/cell.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <stave/core/ops/layout.h>
#include <stave/handlers/compile/compile.h>
#include <stave/handlers/transforms/jvp_flat.h>
#include <stave/handlers/transforms/vjp_flat.h>
#include <stave/handlers/transforms/vmap_flat.h>

namespace table {

const char* name_of(Transform transform) {
  constexpr const char* names[] = {"value",
                                   "jvp",
                                   "vjp",
                                   "vmap",
                                   "jvp of jvp",
                                   "jvp of vjp",
                                   "jvp of vmap",
                                   "vjp of jvp",
                                   "vjp of vjp",
                                   "vjp of vmap",
                                   "vmap of jvp",
                                   "vmap of vjp",
                                   "vmap of vmap",
                                   "compile",
                                   "compile of vjp",
                                   "jvp of compile",
                                   "vjp of compile",
                                   "vmap of compile",
                                   "vjp of trace",
                                   "lower",
                                   "lower of vjp",
                                   "save",
                                   "save of vjp"};
  return names[static_cast<int>(transform)];
}

bool differentiates(Transform transform) {
  return transform != Transform::value && transform != Transform::vmap && transform != Transform::vmap_of_vmap &&
         transform != Transform::compile && transform != Transform::vmap_of_compile && transform != Transform::save;
}

// ---- random inputs -----------------------------------------------------------------------------

namespace {

std::uint64_t fnv1a(const std::string& text) {
  std::uint64_t hash = 14695981039346656037u;
  for (unsigned char c : text) hash = (hash ^ c) * 1099511628211u;
  return hash;
}

}  // namespace

Random::Random(const std::string& seed) : engine_(fnv1a(seed)) {}

Array Random::values(const Input& input, const Shape& shape, std::size_t number) {
  const Domain& domain = input.domain;
  constexpr std::size_t slots = 97;
  std::array<std::size_t, slots> order;
  std::iota(order.begin(), order.end(), 0);
  std::size_t used = 0;
  return make(input.dtype, shape, [&](const Shape&) -> Real {
    if (!domain.choices.empty()) return rounded(domain.choices[below(domain.choices.size())], input.dtype);
    if (!is_float(input.dtype)) {
      const double low = std::ceil(is_signed(input.dtype) ? domain.low : std::max(domain.low, 0.0));
      const double high = std::floor(input.dtype == bool_ ? std::min(domain.high, 1.0) : domain.high);
      // If the interval has no integer, `low` is the number.
      const auto count = static_cast<std::size_t>(std::max(high - low + 1, 1.0));
      return static_cast<Real>(low) + static_cast<Real>(below(count));
    }
    // A partial Fisher-Yates shuffle.
    const std::size_t i = used++ % slots;
    std::swap(order[i], order[i + below(slots - i)]);
    const double at = static_cast<double>(order[i]) + 0.2 + 0.13 * static_cast<double>(number % 5) + 0.05 * uniform();
    return rounded(domain.low + (domain.high - domain.low) * at / slots, input.dtype);
  });
}

Array Random::weights(Dtype dtype, const Shape& shape) {
  return make(dtype, shape, [&](const Shape&) {
    const double magnitude = 0.25 + uniform();
    return rounded(below(2) ? magnitude : -magnitude, dtype);
  });
}

Arrays Random::weights_like(const Arrays& xs) {
  Arrays result;
  for (const Array& x : xs) result.push_back(weights(x.dtype, x.shape));
  return result;
}

// ---- cases -------------------------------------------------------------------------------------

Case::Case(const Row& row_, const Variant& variant_, Dtype dtype_, Layout layout_)
    : row(row_), variant(variant_), dtype(dtype_), layout(layout_),
      seed(row.name + "/" + variant.name + "/" + stave::name_of(dtype) + "/" + name_of(layout)) {
  Random random(seed);
  for (std::size_t i = 0; i < variant.inputs.size(); ++i) {
    const Input& input = variant.inputs[i];
    arrays.push_back(draw(random, i, input.shape, input.repeat));
    tensors.push_back(placed(arrays[i], i, input.repeat));
    if (is_float(input.dtype) && input.differentiable) active.push_back(i);
  }
}

Layout Case::layout_of(std::size_t i) const {
  constexpr Layout cycle[] = {Layout::transposed, Layout::broadcast, Layout::stepped, Layout::contiguous};
  if (layout == Layout::mixed) return cycle[i % 4];
  if (layout == Layout::zero_size || layout == Layout::rank0) return cycle[2 * (i % 2) + 1];
  return layout;
}

namespace {

// The axis that layout `broadcast` repeats: the requested one, or the first axis longer than 1
// if the requested one has length 1.
Index repeated_axis(const Shape& shape, Index asked) {
  if (shape[static_cast<std::size_t>(asked)] > 1) return asked;
  const auto* found = std::find_if(shape.begin(), shape.end(), [](Index length) { return length > 1; });
  return found == shape.end() ? 0 : found - shape.begin();
}

}  // namespace

Array Case::draw(Random& random, std::size_t i, const Shape& shape, Index repeat) const {
  Array values = random.values(variant.inputs[i], shape, i);
  if (layout_of(i) != Layout::broadcast || shape.rank() == 0) return values;
  const auto axis = static_cast<std::size_t>(repeated_axis(shape, repeat));
  return make(values.dtype, shape, [&](Shape position) {
    position[axis] = 0;
    return values(position);
  });
}

Tensor Case::placed(const Array& values, std::size_t i, Index repeat) const {
  if (values.shape.rank() == 0)
    return to_tensor(values, layout == Layout::contiguous ? Layout::contiguous : Layout::stepped, 0);
  const Index axis = repeated_axis(values.shape, repeat);
  const bool repeats = values.shape[static_cast<std::size_t>(axis)] > 1;
  return to_tensor(values, layout_of(i) == Layout::broadcast && !repeats ? Layout::contiguous : layout_of(i), axis);
}

Outputs Case::call_active(std::span<const Tensor> active_inputs) const {
  std::vector<Tensor> all = tensors;
  for (std::size_t k = 0; k < active.size(); ++k) all[active[k]] = active_inputs[k];
  return variant.call(all);
}
Outputs Case::call_active(std::span<const Tensor> active_inputs, bool (*admits)(Dtype)) const {
  Outputs admitted;
  for (const Tensor& y : call_active(active_inputs))
    if (admits(y.dtype())) admitted.push_back(y);
  return admitted;
}

// ---- cells -------------------------------------------------------------------------------------

void check_cell(const Case& c, Transform transform) {
  constexpr void (*checks[])(const Case&) = {check_value,
                                             check_jvp,
                                             check_vjp,
                                             check_vmap,
                                             check_jvp_of_jvp,
                                             check_jvp_of_vjp,
                                             check_jvp_of_vmap,
                                             check_vjp_of_jvp,
                                             check_vjp_of_vjp,
                                             check_vjp_of_vmap,
                                             check_vmap_of_jvp,
                                             check_vmap_of_vjp,
                                             check_vmap_of_vmap,
                                             check_compile,
                                             check_compile_of_vjp,
                                             check_jvp_of_compile,
                                             check_vjp_of_compile,
                                             check_vmap_of_compile,
                                             check_vjp_of_trace,
                                             check_lower,
                                             check_lower_of_vjp,
                                             check_save,
                                             check_save_of_vjp};
  checks[static_cast<int>(transform)](c);
}

namespace {

using Function = std::function<Outputs(std::span<const Tensor>)>;

std::vector<Tensor> ones_for(std::span<const Tensor> xs) {
  std::vector<Tensor> result;
  for (const Tensor& x : xs) result.push_back(to_tensor(make(x.dtype(), x.shape(), [](const Shape&) { return 1; })));
  return result;
}

Function jvp_of(Function f) {
  return [f](std::span<const Tensor> xs) { return jvp_flat(f, xs, ones_for(xs)).tangents; };
}

Function vjp_of(Function f) {
  return [f](std::span<const Tensor> xs) {
    const FlatVjp vjp = vjp_flat(f, xs, "vjp");
    const std::vector<Tensor> result = vjp.pullback(ones_for(vjp.outputs));
    return Outputs(result.begin(), result.end());
  };
}

// vmap of f over two equal lanes.
Function vmap_of(Function f) {
  return [f](std::span<const Tensor> xs) {
    std::vector<Tensor> twice;
    for (const Tensor& x : xs) twice.push_back(broadcast_to(x, with_axis(x.shape(), 0, 2)));
    return vmap_flat(f, twice, std::vector<MapAxis>(xs.size()), Index{2}).outputs;
  };
}

Function compile_of(Function f) {
  return [f](std::span<const Tensor> xs) {
    const auto compiled = compile([&](const std::vector<Tensor>& given) {
      const Outputs found = f(given);
      return std::vector<Tensor>(found.begin(), found.end());
    });
    const std::vector<Tensor> found = compiled(std::vector<Tensor>(xs.begin(), xs.end()));
    return Outputs(found.begin(), found.end());
  };
}

Function trace_of(Function f) {
  return [f](std::span<const Tensor> xs) { return stave_detail::record("trace", f, xs).program(xs); };
}

Function under(Transform transform, Function f) {
  switch (transform) {
    case Transform::value: return f;
    case Transform::jvp: return jvp_of(f);
    case Transform::vjp: return vjp_of(f);
    case Transform::vmap: return vmap_of(f);
    case Transform::jvp_of_jvp: return jvp_of(jvp_of(f));
    case Transform::jvp_of_vjp: return jvp_of(vjp_of(f));
    case Transform::jvp_of_vmap: return jvp_of(vmap_of(f));
    case Transform::vjp_of_jvp: return vjp_of(jvp_of(f));
    case Transform::vjp_of_vjp: return vjp_of(vjp_of(f));
    case Transform::vjp_of_vmap: return vjp_of(vmap_of(f));
    case Transform::vmap_of_jvp: return vmap_of(jvp_of(f));
    case Transform::vmap_of_vjp: return vmap_of(vjp_of(f));
    case Transform::vmap_of_vmap: return vmap_of(vmap_of(f));
    case Transform::compile: return compile_of(f);
    case Transform::save: return trace_of(f);
    case Transform::compile_of_vjp: return compile_of(vjp_of(f));
    case Transform::jvp_of_compile: return jvp_of(compile_of(f));
    case Transform::vjp_of_compile: return vjp_of(compile_of(f));
    case Transform::vmap_of_compile: return vmap_of(compile_of(f));
    case Transform::vjp_of_trace:
    case Transform::lower:
    case Transform::lower_of_vjp:
    case Transform::save_of_vjp: break;
  }
  return vjp_of(trace_of(f));
}

}  // namespace

void check_refusal(const Case& c, Transform transform) {
  try {
    if (differentiates(transform)) under(transform, [&](auto xs) { return c.call_active(xs); })(c.active_of(c.tensors));
    else under(transform, [&](auto xs) { return c.call(xs); })(c.tensors);
    for (const Tensor& x : c.tensors) synchronize(x.device());  // a GPU reports a wrong index here
  } catch (const Error& error) {
    if (std::string(error.what()).find(c.variant.refusal) != std::string::npos) return;
    throw Mismatch("should be refused with the words \"" + c.variant.refusal + "\", but says: " + error.what());
  }
  throw Mismatch("should be refused with the words \"" + c.variant.refusal + "\", but is computed");
}

// ---- comparisons -------------------------------------------------------------------------------

namespace {

// The largest allowed difference between a result and its reference: `units` of the dtype's
// epsilon, relative to the element, or to the larger of 1 and the largest element of the array.
// For derivatives, central differences limit the accuracy in float64, and the rules in float32.
struct Tolerance {
  // In epsilons.
  Real half, float32_, float64_;
  bool by_element;
};
constexpr Tolerance tolerances[] = {
    {1, 1, 1, true},         // value: multiplied by the row's accuracy
    {16, 128, 2e6, false},   // first derivatives: 1.5e-5 and 4e-10
    {64, 1024, 1e9, false},  // second derivatives: 1.2e-4 and 2e-7
    {64, 64, 64, false},     // the adjoint identity and the symmetry of second derivatives
    {16, 16, 16, false},     // vmap lanes that need not be bitwise equal
};

Real tolerance_of(Kind kind, Dtype dtype) {
  const Tolerance& tolerance = tolerances[static_cast<int>(kind)];
  return stave_test::epsilon_of(dtype) * (dtype == float64   ? tolerance.float64_
                                          : dtype == float32 ? tolerance.float32_
                                                             : tolerance.half);
}

std::string text(Real value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.17Lg", value);
  return buffer;
}

bool same(Real a, Real b) { return a == b || (std::isnan(a) && std::isnan(b)); }

}  // namespace

void compare(const std::string& what, Kind kind, const Array& got, const Array& expected, Real unit) {
  const auto described = [](const Array& x) { return std::string(stave::name_of(x.dtype)) + " " + x.shape.str(); };
  if (got.dtype != expected.dtype || got.shape != expected.shape)
    throw Mismatch(what + " is " + described(got) + ", expected " + described(expected));
  const bool by_element = tolerances[static_cast<int>(kind)].by_element;
  Real largest = 1;
  for (Real value : expected.values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  std::size_t i = 0;
  for_each_position(expected.shape, [&](const Shape& position) {
    const Real size = !by_element                  ? largest
                      : expected.magnitude.empty() ? std::abs(expected.values[i])
                                                   : expected.magnitude[i];
    const Real a = got.values[i], b = expected.values[i];
    if (!same(a, b) && !(is_float(got.dtype) && same(a, rounded(b, got.dtype))) &&
        !(std::abs(a - b) <= unit * tolerance_of(kind, got.dtype) * size))
      throw Mismatch(what + position.str() + " is " + text(a) + ", expected " + text(b));
    ++i;
  });
}

void compare(const std::string& what, Kind kind, const Arrays& got, const Arrays& expected, Real unit) {
  if (got.size() != expected.size())
    throw Mismatch(what + ": " + std::to_string(got.size()) + " of them, expected " + std::to_string(expected.size()));
  for (std::size_t i = 0; i < got.size(); ++i)
    compare(got.size() > 1 ? what + " " + std::to_string(i) + " " : what, kind, got[i], expected[i], unit);
}

void compare(const std::string& what, Kind kind, Dtype dtype, Real got, Real expected, Real size) {
  if (!(std::abs(got - expected) <= tolerance_of(kind, dtype) * size))
    throw Mismatch(what + ": " + text(got) + " and " + text(expected) + " differ");
}

std::vector<Tensor> cotangents_for(const Arrays& outputs, const Arrays& weights) {
  std::vector<Tensor> result;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    result.push_back(is_float(outputs[i].dtype) ? to_tensor(weights[i]) : Tensor());
  return result;
}

Arrays to_arrays(std::span<const Tensor> tensors) {
  Arrays result;
  for (const Tensor& tensor : tensors) result.push_back(to_array(tensor));
  return result;
}

std::vector<Tensor> to_tensors(const Arrays& arrays) {
  std::vector<Tensor> result;
  for (const Array& array : arrays) result.push_back(to_tensor(array));
  return result;
}

}  // namespace table
