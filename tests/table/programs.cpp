// Programs: what is recorded, optimised and replayed gives what the function gives, bit for bit: for the values with which it was
// recorded, and for others.
#include <stave/programs/compile.h>
#include <stave/programs/passes/passes.h>

#include "table/cell.h"

namespace table {

namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

/// Other values for the inputs, which lie as they do.
Tensors other_inputs(const Case& c) {
  Random random(c.seed + "/again");
  Tensors inputs;
  for (std::size_t i = 0; i < c.variant.inputs.size(); ++i)
    inputs.push_back(c.placed(c.draw(random, i, c.variant.inputs[i].shape, c.variant.inputs[i].repeat), i,
                              c.variant.inputs[i].repeat));
  return inputs;
}

void check_same(const std::string& what, const Tensors& got, const Tensors& expected) {
  if (got.size() != expected.size()) throw Mismatch(what + " gives another number of results");
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i].defined() != expected[i].defined()) throw Mismatch(what + ": one result is empty");
    if (got[i].defined() && !stave_detail::same_bits(got[i], expected[i]))
      throw Mismatch(what + ": result " + std::to_string(i) + " is\n" + got[i].str() + "\nexpected\n" +
                     expected[i].str());
  }
}

Function values(const Case& c) {
  return [&c](const Tensors& xs) {
    const Outputs found = c.call(xs);
    return Tensors(found.begin(), found.end());
  };
}

/// Gradients by the active inputs, of the sum of all outputs that are floats.
Function gradients(const Case& c) {
  return [&c](const Tensors& xs) {
    const auto f = [&](std::span<const Tensor> active) {
      Tensors all = xs;
      for (std::size_t k = 0; k < c.active.size(); ++k) all[c.active[k]] = active[k];
      return c.call(all);
    };
    FlatVjp vjp = vjp_flat(f, c.active_of(xs), "vjp");
    Tensors cotangents;
    for (const Tensor& output : vjp.outputs)
      cotangents.push_back(is_float(output.dtype()) ? ones_like(output) : Tensor());
    return vjp.pullback.consume(cotangents);
  };
}

void check_compiled(const Case& c, const Function& f) {
  const auto compiled = compile(f);
  const Tensors others = other_inputs(c);
  check_same("the first call", compiled(c.tensors), f(c.tensors));
  check_same("the replay", compiled(c.tensors), f(c.tensors));
  check_same("the replay for other values", compiled(others), f(others));
}

}  // namespace

void check_compile(const Case& c) { check_compiled(c, values(c)); }
void check_compile_of_vjp(const Case& c) { check_compiled(c, gradients(c)); }

void check_vjp_of_trace(const Case& c) {
  const auto traced = trace(values(c))(c.tensors);
  const auto shorter = traced.with(optimized(traced));
  check_same("the program", traced(c.tensors), values(c)(c.tensors));
  const Tensors expected = gradients(c)(c.tensors);
  for (const auto* program : {&traced, &shorter}) {
    const auto f = [&](std::span<const Tensor> active) {
      Tensors all = c.tensors;
      for (std::size_t k = 0; k < c.active.size(); ++k) all[c.active[k]] = active[k];
      const Tensors found = (*program)(all);
      return Outputs(found.begin(), found.end());
    };
    FlatVjp vjp = vjp_flat(f, c.active_of(c.tensors), "vjp");
    Tensors cotangents;
    for (const Tensor& output : vjp.outputs)
      cotangents.push_back(is_float(output.dtype()) ? ones_like(output) : Tensor());
    const Tensors got = vjp.pullback.consume(cotangents);
    if (program == &traced) check_same("the gradient of the program", got, expected);
    else compare("the gradient of the optimised program", Kind::first, to_arrays(got), to_arrays(expected));
  }
}

}  // namespace table
