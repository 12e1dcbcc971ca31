// Checks that a recorded, optimised and replayed function gives the function's results bit for bit,
// for the values with which it was recorded and for others.
#include <optional>

#include <stave/core/program/passes/passes.h>
#include <stave/handlers/compile/compile.h>
#include <stave/handlers/transforms/jvp_flat.h>
#include <stave/handlers/transforms/vmap_flat.h>

#include "lowered.h"
#include "table/cell.h"

namespace table {

namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

/// Other values for the inputs, in the same layouts.
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

/// f as a function of the active inputs; the other inputs have their values in `all`.
auto by_active(const Case& c, const Function& f, const Tensors& all) {
  return [&c, &f, &all](std::span<const Tensor> active) {
    Tensors inputs = all;
    for (std::size_t k = 0; k < c.active.size(); ++k) inputs[c.active[k]] = active[k];
    const Tensors found = f(inputs);
    return Outputs(found.begin(), found.end());
  };
}

/// Gradients of the sum of all float outputs, with respect to the active inputs.
Function gradients(const Case& c, const Function& f) {
  return [&c, f](const Tensors& xs) {
    FlatVjp vjp = vjp_flat(by_active(c, f, xs), c.active_of(xs), "vjp");
    Tensors cotangents;
    for (const Tensor& output : vjp.outputs)
      cotangents.push_back(is_float(output.dtype()) ? ones_like(output) : Tensor());
    return vjp.pullback.consume(cotangents);
  };
}

/// Tangents of the outputs, where each active input is its own tangent.
Function tangents(const Case& c, const Function& f) {
  return [&c, f](const Tensors& xs) {
    const Outputs found = jvp_flat(by_active(c, f, xs), c.active_of(xs), c.active_of(xs)).tangents;
    return Tensors(found.begin(), found.end());
  };
}

/// vmap of f over two lanes: the given values and other values.
Function lanes(const Case& c, const Function& f) {
  return [f, others = other_inputs(c)](const Tensors& xs) {
    Tensors both;
    for (std::size_t i = 0; i < xs.size(); ++i) both.push_back(stack({xs[i], others[i]}));
    const auto flat = [&](std::span<const Tensor> lane) {
      const Tensors found = f(Tensors(lane.begin(), lane.end()));
      return Outputs(found.begin(), found.end());
    };
    const FlatVmap found = vmap_flat(flat, both, std::vector<MapAxis>(xs.size()), Index{2});
    const Outputs outputs = vmap_outputs(found, std::vector<MapAxis>(found.outputs.size()));
    return Tensors(outputs.begin(), outputs.end());
  };
}

void check_compiled(const Case& c, const Function& compiled, const Function& f) {
  const Tensors others = other_inputs(c);
  check_same("the first call", compiled(c.tensors), f(c.tensors));
  check_same("the replay", compiled(c.tensors), f(c.tensors));
  check_same("the replay for other values", compiled(others), f(others));
}

// Operations that lowered code does not have, and arrays of floats of sixteen bits.
bool is_refused(const std::string& error) {
  if (error.find("which lowered code does not have") != std::string::npos) return true;
  for (const Op* op : all_ops())
    if ((is_special(op->id) || is_sampler(op->id)) && error.rfind(std::string("lower: ") + op->name + " (", 0) == 0)
      return true;
  for (const char* name : {"attention", "attention_gradient", "eig", "eigh", "eigvals", "eigvalsh", "expm", "ldl",
                           "logm", "lstsq", "quantized_matmul", "random_permutation", "schur", "solve_banded", "sqrtm",
                           "svd", "svdvals", "sylvester", "to"})
    if (error.rfind(std::string("lower: ") + name + " (", 0) == 0) return true;
  return false;
}

// The results of the lowered code of f; nothing if it cannot be lowered.
std::optional<Tensors> run_lowered(const Case& c, const Function& f) {
  if (!c.tensors.empty() && c.tensors[0].device() != cpu) return std::nullopt;
  const auto flat = [&](const Tensors& xs) { return f(xs); };
  const Program program = trace(flat)(c.tensors);
  stave_detail::Lowered code;
  try {
    code = stave_detail::lower(program);
  } catch (const Error& error) {
    if (is_refused(error.what())) return std::nullopt;
    throw;
  }
  stave_detail::verify(code);
  stave_test::LoweredRun run(code);
  const Tensors found = run(c.tensors);
  if (!run.error.empty()) throw Mismatch("a check of the lowered code failed: " + run.error);
  return found;
}

}  // namespace

void check_lower(const Case& c) {
  if (const auto found = run_lowered(c, values(c)))
    compare("the lowered code", Kind::value, to_arrays(*found), c.variant.reference(c.arrays), accuracy_here(c.row));
}
void check_lower_of_vjp(const Case& c) {
  const Function f = gradients(c, values(c));
  if (const auto found = run_lowered(c, f))
    compare("the lowered gradient", Kind::first, to_arrays(*found), to_arrays(f(c.tensors)), accuracy_here(c.row));
}

void check_compile(const Case& c) { check_compiled(c, compile(values(c)), values(c)); }
void check_compile_of_vjp(const Case& c) {
  const Function f = gradients(c, values(c));
  check_compiled(c, compile(f), f);
}
void check_jvp_of_compile(const Case& c) { check_compiled(c, tangents(c, compile(values(c))), tangents(c, values(c))); }
void check_vjp_of_compile(const Case& c) {
  check_compiled(c, gradients(c, compile(values(c))), gradients(c, values(c)));
}
void check_vmap_of_compile(const Case& c) { check_compiled(c, lanes(c, compile(values(c))), lanes(c, values(c))); }

void check_vjp_of_trace(const Case& c) {
  const auto traced = trace(values(c))(c.tensors);
  const auto shorter = traced.with(optimized(traced));
  check_same("the program", traced(c.tensors), values(c)(c.tensors));
  const Tensors expected = gradients(c, values(c))(c.tensors);
  check_same("the gradient of the program", gradients(c, traced)(c.tensors), expected);
  compare("the gradient of the optimised program", Kind::first, to_arrays(gradients(c, shorter)(c.tensors)),
          to_arrays(expected));
}

}  // namespace table
