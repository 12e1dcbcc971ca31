#include <stave/core/program/native_estimate.h>

#include <algorithm>
#include <cmath>

#include <stave/core/op/all_ops.h>
#include <stave/core/ops/layout_rules.h>
#include <stave/core/program/complex_parts.h>
#include <stave/core/program/dataflow.h>
#include <stave/core/program/fused.h>
#include <stave/core/program/loop.h>
#include <stave/core/program/lower.h>

namespace stave_detail {

namespace {

// The approximate number of instructions for n elements that take `each` instructions each.
double unrolled(double n, double each) { return each * n <= 256 && n <= most_elements ? each * n : 10 + each; }

// A complex number counts as two.
double elements_of(const Program& program, int variable) {
  const Program::Variable& it = program.variable(variable);
  return static_cast<double>(it.shape.elements() * (is_complex(it.dtype) ? 2 : 1));
}

// Returns true if the operation reads few elements of its first input, which may be large.
bool picks_elements(OpId id) { return id == OpId::gather || id == OpId::dynamic_slice; }

bool is_random(OpId id) { return id == OpId::fold_in || id == OpId::random_bits || id == OpId::random_uniform; }

// Returns true for operations whose lowered code has the bits of the kernel in every dtype, because
// it only copies elements to the same places, or adds them in the same order.
bool places_elements(OpId id) {
  switch (id) {
    case OpId::full:
    case OpId::copy:
    case OpId::pad:
    case OpId::concat:
    case OpId::gather:
    case OpId::scatter:
    case OpId::scatter_add:
    case OpId::dynamic_slice:
    case OpId::dynamic_update_slice: return true;
    default: return false;
  }
}

// The same as has_equal_bits, for an elementwise operation on complex numbers. Functions such as
// exp are those of the C library, and have other formulas in lowered code.
bool has_equal_complex_bits(const Op& op) {
  return is_complex_arithmetic(op.id) || is_of_parts(op) || op.id == OpId::equal || op.id == OpId::not_equal ||
         op.id == OpId::where || op.id == OpId::astype || op.id == OpId::stop_gradient;
}

// Returns true if the operation's lowered code gives the same bits as its kernel.
bool has_equal_bits(const Program& program, const Program::Instruction& step) {
  const Op& op = *step.op;
  const auto length = [&](std::size_t input, std::size_t from_end) {
    const Shape& shape = program.variable(step.inputs[input]).shape;
    return shape[shape.size() - from_end];
  };
  if (places_elements(op.id)) return true;
  if (has_complex(program, step) && op.id != OpId::sum && op.id != OpId::matmul) return has_equal_complex_bits(op);
  switch (op.id) {
    case OpId::iota:
    case OpId::astype:
    case OpId::stop_gradient:
    case OpId::where:
    case OpId::all:
    case OpId::any:
    case OpId::argmax:
    case OpId::argmin:
    case OpId::cholesky:
    case OpId::triangular_solve:
    case OpId::lu:
    case OpId::solve:
    case OpId::det:
    case OpId::slogdet:
    case OpId::qr:
    case OpId::searchsorted:
    case OpId::fold_in:
    case OpId::random_bits:
    case OpId::random_uniform: return true;
    case OpId::sum:
    case OpId::prod:
    case OpId::max:
    case OpId::min: return elements_of(program, step.inputs[0]) <= most_elements;
    case OpId::matmul: return length(0, 2) <= tiny_rows && std::max(length(0, 1), length(1, 1)) <= tiny_terms;
    default: return op.elementwise;
  }
}

// The same for a region.
bool has_equal_complex_bits(const Region& region) {
  const auto is_equal = [&](const Region::Step& step) {
    if (!step.op) return true;
    const bool is_of_complex = is_complex(step.dtype) || is_complex(region.dtype(step.operands.back()));
    return !is_of_complex || has_equal_complex_bits(*step.op);
  };
  return std::all_of(region.steps().begin(), region.steps().end(), is_equal);
}

// Returns the time of the kernel of a region, without its operations. Each array that it reads or
// writes takes 15 nanoseconds once there are many.
double time_of_region(const Program::Instruction& step, const Region& region) {
  constexpr std::size_t few_arrays = 8;
  const std::size_t arrays = step.inputs.size() + step.outputs.size();
  return 100 + 15 * static_cast<double>(std::max(arrays, few_arrays) - few_arrays) +
         60 * static_cast<double>(region.reductions().size());
}

// Adds the cost of an elementwise operation on `elements` elements. Machine code does arithmetic on
// one number after the other, and calls functions on a vector if the elements are values of the
// code, which it packs into the vector and unpacks. Kernels work in vectors.
void add_elementwise(Estimate& cost, const Op* op, Dtype dtype, double elements) {
  if (!op || op->is_cheap_arithmetic) {
    cost.native += 0.6 * elements;
    cost.kernels += 6 + 0.1 * elements;
  } else {
    const double lanes = elements <= most_elements ? 64. / static_cast<double>(size_of(dtype)) : 1;
    cost.native += lanes > 1 ? 22 * std::ceil(elements / lanes) + 0.8 * elements : 12 * elements;
    cost.kernels += 15 + (dtype == float64 ? 1.7 : 0.25) * elements;
  }
  cost.instructions += elements <= most_elements ? elements : 1;
}

// The instructions of a loop's body that change a state in place: they replace a part of it, and
// nothing reads the array that they change any more.
class ChangesInPlace {
 public:
  explicit ChangesInPlace(const Program& body)
      : body_(body), producer_(producers(body)), last_read_(body, -1), is_in_place_(body.instructions.size()) {
    PerVariable<int> base(body);
    for (int v = 0; v < base.size(); ++v) base[v] = v;
    for (std::size_t k = 0; k < body.instructions.size(); ++k) {
      const Program::Instruction& step = body.instructions[k];
      if (is_view(step)) base[step.outputs[0]] = base[step.inputs[0]];
      else
        for (const int input : step.inputs) last_read_[base[input]] = static_cast<int>(k);
    }
    for (const int output : body.outputs)
      if (output >= 0) last_read_[base[output]] = static_cast<int>(body.instructions.size());
  }
  /// Finds the instructions by which the output of a body changes the state of this number. Returns
  /// false if the output is another array.
  bool find(std::size_t state) {
    std::vector<std::size_t> changes;
    int variable = body_.outputs[state];
    while (producer_[variable] >= 0) {
      const auto k = static_cast<std::size_t>(producer_[variable]);
      const Program::Instruction& step = body_.instructions[k];
      if (step.is_read() || !replaces_part(*step.op)) return false;
      variable = step.inputs[0];
      if (last_read_[variable] != static_cast<int>(k)) return false;
      changes.push_back(k);
    }
    if (variable != body_.inputs[state]) return false;
    for (const std::size_t k : changes) is_in_place_[k] = true;
    return true;
  }
  const Mask& is_in_place() const { return is_in_place_; }

 private:
  const Program& body_;
  const PerVariable<int> producer_;
  // The last instruction that reads the variable or a view of it, views not counted.
  PerVariable<int> last_read_;
  Mask is_in_place_;
};

std::optional<Estimate> estimate_loop(const LoopAttributes& loop) {
  const std::shared_ptr<const Program> kept = optimized_body(loop, BodyFor::machine_code);
  const Program& body = *kept;
  ChangesInPlace changes(body);
  Estimate cost;
  double copied = 0;  // elements of large states, which are copied before the first step
  for (std::size_t k = 0; k < body.outputs.size(); ++k) {
    if (body.outputs[k] < 0) return {};
    if (elements_of(body, body.outputs[k]) <= most_native_elements) continue;
    if (k >= loop.states || !changes.find(k)) return {};
    copied += elements_of(body, body.outputs[k]);
  }
  for (std::size_t k = 0; k < body.instructions.size(); ++k) {
    const std::optional<Estimate> one = estimate(body, body.instructions[k], changes.is_in_place()[k]);
    if (!one) return {};
    cost += *one;
  }
  const auto steps = static_cast<double>(loop.steps);
  return Estimate{0.6 * copied + cost.native * steps, 500 + (cost.kernels + 100) * steps, 20 + cost.instructions};
}

}  // namespace

bool has_complex(const Program& program, const Program::Instruction& step) {
  const auto is_complex_variable = [&](int v) { return is_complex(program.variable(v).dtype); };
  const auto* const fused = dynamic_cast<const FusedAttributes*>(step.attributes.get());
  return std::any_of(step.inputs.begin(), step.inputs.end(), is_complex_variable) ||
         std::any_of(step.outputs.begin(), step.outputs.end(), is_complex_variable) ||
         (fused && fused->region->has_complex());
}

std::optional<Estimate> estimate(const Program& program, const Program::Instruction& step, bool is_in_place) {
  const auto is_refused = [&](int v) { return is_half_float(program.variable(v).dtype); };
  if (std::any_of(step.inputs.begin(), step.inputs.end(), is_refused) ||
      std::any_of(step.outputs.begin(), step.outputs.end(), is_refused))
    return {};
  if (is_view(step)) return Estimate();
  double most = 0;
  if (!is_in_place)
    for (const int v : step.outputs) most = std::max(most, elements_of(program, v));
  if (const LoopAttributes* const loop = loop_of(step)) return estimate_loop(*loop);
  double read = 0;
  for (std::size_t i = 0; i < step.inputs.size(); ++i)
    if (i > 0 || !(is_in_place || picks_elements(step.op->id)))
      read = std::max(read, elements_of(program, step.inputs[i]));
  if (std::max(most, read) > most_native_elements) return {};
  Estimate cost;
  if (const auto* const fused = dynamic_cast<const FusedAttributes*>(step.attributes.get())) {
    if (fused->region->has_complex() && !has_equal_complex_bits(*fused->region)) return {};
    cost.kernels = read == 1 ? 30 : time_of_region(step, *fused->region);
    for (const Region::Step& it : fused->region->steps())
      if (it.op) add_elementwise(cost, it.op, program.variable(step.inputs[0]).dtype, read);
    const auto reductions = static_cast<double>(fused->region->reductions().size());
    if (reductions > 0 && read > most_elements) return {};
    cost += {4 * read * reductions, read == 1 ? 60 * reductions : 0, 8 * read * reductions};
    if (read > most_elements) cost += {read, 0, 10};
    return cost;
  }
  if (!has_equal_bits(program, step)) return {};
  cost.kernels = 60;
  if (step.op->elementwise) {
    add_elementwise(cost, step.op, program.variable(step.outputs[0]).dtype, most);
  } else if (step.op->id == OpId::matmul) {
    const double products = most * static_cast<double>(program.variable(step.inputs[0]).shape.back());
    cost += {0.8 * products, 30 + 0.15 * products, unrolled(products, 2)};
  } else if (is_linalg(step.op->id)) {
    const double operations = read * static_cast<double>(program.variable(step.inputs[0]).shape.back());
    cost += {2 * operations, 300 + operations, unrolled(operations, 4)};
  } else {
    const double elements = std::max(most, read);
    cost += {2 * elements, 0.5 * elements, unrolled(elements, 4)};
  }
  return cost;
}

double time_of_kernels(const Program& program, const Program::Instruction& step) {
  if (is_view(step)) return 0;
  double elements = 0;
  for (const int v : step.inputs) elements = std::max(elements, elements_of(program, v));
  if (picks_elements(step.op->id)) elements = 0;
  for (const int v : step.outputs) elements = std::max(elements, elements_of(program, v));
  const auto elementwise = [&](const Op* op) { return !op || op->is_cheap_arithmetic ? 0.2 * elements : 2 * elements; };
  if (const LoopAttributes* const loop = loop_of(step)) {
    const std::shared_ptr<const Program> body = optimized_body(*loop, BodyFor::kernels);
    double once = 100;
    for (const Program::Instruction& it : body->instructions) once += time_of_kernels(*body, it);
    return 500 + once * static_cast<double>(loop->steps);
  }
  if (const auto* const fused = dynamic_cast<const FusedAttributes*>(step.attributes.get())) {
    // The values of a region's steps stay in the first cache, which matters for long arrays.
    const auto of_step = [&](const Op* op) {
      return op->is_cheap_arithmetic ? std::min(elementwise(op), 100 + 0.06 * elements) : elementwise(op);
    };
    double time = time_of_region(step, *fused->region);
    for (const Region::Step& it : fused->region->steps())
      if (it.op) time += 6 + of_step(it.op);
    return time;
  }
  if (step.op->elementwise) return 60 + elementwise(step.op);
  if (step.op->id == OpId::matmul)
    return 90 + 0.15 * elements * static_cast<double>(program.variable(step.inputs[0]).shape.back());
  // Each key, a pair of numbers, takes 20 nanoseconds.
  if (is_random(step.op->id)) return 100 + 10 * elements_of(program, step.inputs[0]) + 3 * elements;
  if (is_linalg(step.op->id))
    return 360 + elements * static_cast<double>(program.variable(step.inputs[0]).shape.back());
  return 60 + 0.5 * elements;
}

double time_of_block(const Program& program, const Program::Instruction& step) {
  const Op& op = *step.op;
  if (is_view(step) || op.moves_elements || op.id == OpId::full) return 0;
  double elements = elements_of(program, step.outputs[0]);
  const auto length = [&] { return static_cast<double>(program.variable(step.inputs[0]).shape.back()); };
  if (op.elementwise) return elements * (op.is_cheap_arithmetic ? 0.5 : 20);
  if (is_random(op.id)) return 40 * elements;
  if (op.id == OpId::matmul) return elements * length();
  for (const int input : step.inputs) elements = std::max(elements, elements_of(program, input));
  return is_linalg(op.id) ? 2 * elements * length() : 2 * elements;
}

Estimate least_of_lanes(const Program& program) {
  constexpr double block = 8;
  Estimate total;
  for (const Program::Instruction& step : program.instructions) {
    if (step.is_read() || is_view(step)) continue;
    total.kernels += time_of_kernels(program, step);
    if (const LoopAttributes* const loop = loop_of(step)) {
      const Estimate once = least_of_lanes(*optimized_body(*loop, BodyFor::machine_code));
      total += {once.native * static_cast<double>(loop->steps), 0, once.instructions};
    } else if (const auto* const fused = dynamic_cast<const FusedAttributes*>(step.attributes.get())) {
      const double elements = elements_of(program, step.inputs[0]);
      for (const Region::Step& it : fused->region->steps())
        if (it.op) total += {elements * (it.op->is_cheap_arithmetic ? 0.5 : 20) / block, 0, 1};
    } else {
      total += {time_of_block(program, step) / block, 0, 1};
    }
  }
  return total;
}

}  // namespace stave_detail
