#include <stave/core/program/native.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include <fmt/format.h>

#include <stave/core/op/all_ops.h>
#include <stave/core/op/notation.h>
#include <stave/core/program/dataflow.h>
#include <stave/core/program/executable.h>
#include <stave/core/program/fused.h>
#include <stave/core/program/loop.h>
#include <stave/core/program/lower.h>
#include <stave/core/program/passes/passes.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/storage.h>

namespace stave_detail {

namespace {

// ---- the operation ------------------------------------------------------------------------------

enum class Setting { off, on, check };
// The setting that the environment variable STAVE_NATIVE chooses.
Setting setting() {
  static const Setting chosen = [] {
    const char* const text = std::getenv("STAVE_NATIVE");
    if (!text || !*text || std::strcmp(text, "1") == 0) return Setting::on;
    if (std::strcmp(text, "0") == 0) return Setting::off;
    if (std::strcmp(text, "check") == 0) return Setting::check;
    fail<NativeCodeError>("STAVE_NATIVE is \"{}\", and should be 0, 1 or check", text);
  }();
  return chosen;
}

struct NativeAttributes final : Attributes {
  Program program;  // its outputs are different arrays that instructions compute
  std::vector<Strides> strides;
  std::shared_ptr<const MachineCode> code;

  std::string str() const override { return fmt::format("{} operations", program.instructions.size()); }
  bool equals(const Attributes& other) const override { return this == &other; }

  /// Runs kernels in place of the machine code.
  void run_kernels(std::span<const View> inputs, std::span<const View> outputs) const {
    Executable::Steps(kernel_executable()).run(addresses_of(inputs), addresses_of(outputs));
  }

 private:
  const Executable& kernel_executable() const {
    const std::lock_guard lock(mutex_);
    if (!kernel_executable_)
      kernel_executable_ = std::make_unique<const Executable>(
          program, strides, ExecutableSettings{.name = nullptr, .native = Native::never});
    return *kernel_executable_;
  }
  mutable std::mutex mutex_;
  mutable std::unique_ptr<const Executable> kernel_executable_;
};

// Throws an error if elements of x and y at the same position differ. All NaN are equal.
void compare(const NativeAttributes& native, std::size_t output, const View& x, const View& y) {
  visit_dtype(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *a = static_cast<const T*>(x.data), *b = static_cast<const T*>(y.data);
    for (Index i = 0; i < Shape(x.shape).elements(); ++i)
      if (std::memcmp(a + i, b + i, sizeof(T)) != 0 && !(a[i] != a[i] && b[i] != b[i]))
        fail<NativeCodeError>(
            "STAVE_NATIVE=check: element {} of output {} ({}) is {} by machine code and {} by kernels. The program "
            "is\n{}",
            i, output, notation(nullptr, x.dtype, Shape(x.shape), cpu), +a[i], +b[i], native.program.str());
  });
}

// Runs the machine code and the kernels, and compares their outputs (STAVE_NATIVE=check).
void run_checked(const NativeAttributes& native, std::span<const View> inputs, std::span<const View> outputs) {
  std::vector<StoragePtr> memory;
  std::vector<View> expected(outputs.begin(), outputs.end());
  for (View& view : expected) {
    memory.push_back(allocate_storage(cpu, view.dtype, Shape(view.shape), "STAVE_NATIVE=check"));
    view.data = memory.back()->data;
  }
  native.run_kernels(inputs, expected);  // throws what the operations throw
  if (!native.code->run(inputs, outputs))
    fail<NativeCodeError>("STAVE_NATIVE=check: machine code finds an error, which kernels do not. The program is\n{}",
                          native.program.str());
  for (std::size_t k = 0; k < outputs.size(); ++k) compare(native, k, outputs[k], expected[k]);
}

void run_native(const Attributes* attributes, std::span<const View> inputs, std::span<const View> outputs) {
  const auto& native = static_cast<const NativeAttributes&>(*attributes);
  if (setting() == Setting::check) return run_checked(native, inputs, outputs);
  if (!native.code->run(inputs, outputs)) native.run_kernels(inputs, outputs);
}

const Op op_native{.name = "native", .cpu = run_native, .takes_strides = true};

// ---- what runs as machine code ------------------------------------------------------------------

// Estimates of the time of one run as machine code and by kernels, in nanoseconds, and of the
// number of instructions of the lowered code.
struct Estimate {
  double native = 0, kernels = 0, instructions = 0;
  Estimate& operator+=(const Estimate& other) {
    native += other.native;
    kernels += other.kernels;
    instructions += other.instructions;
    return *this;
  }
};

constexpr double compilation_of_instruction = 1000;  // nanoseconds for each
constexpr double most_instructions = 1e5;            // in one group
// The most elements of an array that an operation in machine code reads or computes. Two kinds of
// arrays may be larger: those from which gather and dynamic_slice pick elements, and the stacks of
// loops. Arrays of more than most_elements lie in memory and are computed in loops.
constexpr Index most_native_elements = 512;

// About how many instructions compute n elements by `each` of them: in a loop, unless they are few.
double unrolled(double n, double each) { return each * n <= 256 && n <= most_elements ? each * n : 10 + each; }

double elements_of(const Program& program, int variable) {
  return static_cast<double>(program.variable(variable).shape.elements());
}

// Returns true if the operation reads few elements of its first input, which may be large.
bool picks_elements(OpId id) { return id == OpId::gather || id == OpId::dynamic_slice; }

// Returns true if the operation's lowered code gives the same bits as its kernel.
bool has_equal_bits(const Program& program, const Program::Instruction& step) {
  const Op& op = *step.op;
  const auto length = [&](std::size_t input, std::size_t from_end) {
    const Shape& shape = program.variable(step.inputs[input]).shape;
    return shape[shape.size() - from_end];
  };
  switch (op.id) {
    case OpId::full:
    case OpId::iota:
    case OpId::astype:
    case OpId::stop_gradient:
    case OpId::copy:
    case OpId::where:
    case OpId::all:
    case OpId::any:
    case OpId::argmax:
    case OpId::argmin:
    case OpId::pad:
    case OpId::concat:
    case OpId::gather:
    case OpId::scatter:
    case OpId::scatter_add:
    case OpId::dynamic_slice:
    case OpId::dynamic_update_slice:
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
    case OpId::matmul:  // BLAS computes larger products
      return length(0, 2) <= 64 && std::max(length(0, 1), length(1, 1)) <= 16;
    default: return op.elementwise;
  }
}

// Adds the cost of an elementwise operation on `elements` elements: machine code computes them one
// by one, kernels in vectors.
void add_elementwise(Estimate& cost, const Op* op, double elements) {
  const bool is_cheap = !op || op->is_cheap_arithmetic;
  cost.native += elements * (is_cheap ? 0.6 : 12);
  cost.kernels += 6 + elements * (is_cheap ? 0.2 : 4);
  cost.instructions += elements <= most_elements ? elements : 1;
}

std::optional<Estimate> estimate(const Program& program, const Program::Instruction& step);

std::optional<Estimate> estimate_loop(const LoopAttributes& loop) {
  const std::shared_ptr<const Program> kept = optimized_body(loop);
  const Program& body = *kept;
  Estimate cost;
  for (const int input : body.inputs)
    if (elements_of(body, input) > most_native_elements) return {};
  for (const int output : body.outputs)
    if (output < 0 || elements_of(body, output) > most_native_elements) return {};
  for (const Program::Instruction& step : body.instructions) {
    const std::optional<Estimate> one = estimate(body, step);
    if (!one) return {};
    cost += *one;
  }
  const auto steps = static_cast<double>(loop.steps);
  return Estimate{cost.native * steps, 500 + (cost.kernels + 100) * steps, 20 + cost.instructions};
}

// The estimate of one instruction; nothing if it cannot run as machine code.
std::optional<Estimate> estimate(const Program& program, const Program::Instruction& step) {
  const auto is_half = [&](int v) { return is_half_float(program.variable(v).dtype); };
  if (std::any_of(step.inputs.begin(), step.inputs.end(), is_half) ||
      std::any_of(step.outputs.begin(), step.outputs.end(), is_half))
    return {};
  double most = 0;
  for (const int v : step.outputs) most = std::max(most, elements_of(program, v));
  if (is_view(step)) return most <= most_native_elements ? std::optional(Estimate()) : std::nullopt;
  if (const LoopAttributes* const loop = loop_of(step)) return estimate_loop(*loop);
  double read = 0;
  for (std::size_t i = 0; i < step.inputs.size(); ++i)
    if (i > 0 || !picks_elements(step.op->id)) read = std::max(read, elements_of(program, step.inputs[i]));
  if (std::max(most, read) > most_native_elements) return {};
  Estimate cost;
  if (const auto* const fused = dynamic_cast<const FusedAttributes*>(step.attributes.get())) {
    cost.kernels = read == 1 ? 30 : 100;
    for (const Region::Step& it : fused->region->steps())
      if (it.op) add_elementwise(cost, it.op, read);
    const auto reductions = static_cast<double>(fused->region->reductions().size());
    if (reductions > 0 && read > most_elements) return {};
    cost += {4 * read * reductions, 60 * reductions, 8 * read * reductions};
    if (read > most_elements) cost += {read, 0, 10};
    return cost;
  }
  if (!has_equal_bits(program, step)) return {};
  cost.kernels = 60;
  if (step.op->elementwise) {
    add_elementwise(cost, step.op, most);
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

// ---- groups -------------------------------------------------------------------------------------

constexpr double never = std::numeric_limits<double>::infinity();

class Grouping {
 public:
  Grouping(Program program, std::span<const Strides> strides, Native native, double runs,
           std::vector<std::string>* report)
      : program_(std::move(program)), strides_(strides), native_(native), runs_(runs), report_(report),
        producer_(producers(program_)), input_(program_, -1), constant_(program_, -1), names_(program_, -1) {
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) input_[program_.inputs[i]] = static_cast<int>(i);
    for (std::size_t i = 0; i < program_.constants.size(); ++i)
      constant_[program_.constants[i].variable] = static_cast<int>(i);
  }

  NativeProgram run() {
    for (const Program::Instruction& step : program_.instructions) {
      estimates_.push_back(is_view(step) ? std::nullopt : estimate(program_, step));
      if (!reads_forward(step)) estimates_.back().reset();
    }
    const std::vector<std::vector<std::size_t>> groups = schedule();
    find_outside_reads(groups);
    Program result = program_;
    result.instructions.clear();
    emitted_.assign(program_.instructions.size(), false);
    bool any = false;
    for (const std::vector<std::size_t>& group : groups) {
      if (estimates_[group[0]] && compile(group, result)) any = true;
      else
        for (const std::size_t k : group) emit(k, result);
    }
    if (!any) return {std::move(program_), more_pays_after_};
    for (const int output : program_.outputs)
      if (output >= 0) emit_views(output, result);
    return {std::move(result), more_pays_after_};
  }

 private:
  const Program::Instruction& step(std::size_t k) const { return program_.instructions[k]; }
  // The index of the instruction that computes this variable, if it is a view (is_view).
  std::optional<std::size_t> view(int variable) const {
    const auto k = static_cast<std::size_t>(producer_[variable]);
    return producer_[variable] >= 0 && is_view(step(k)) ? std::optional(k) : std::nullopt;
  }
  // The variable of which this one is a view, or itself.
  int base(int variable) const {
    while (const std::optional<std::size_t> k = view(variable)) variable = step(*k).inputs[0];
    return variable;
  }
  // Returns true if the instruction reads no input of the program with negative strides.
  bool reads_forward(const Program::Instruction& it) const {
    return std::all_of(it.inputs.begin(), it.inputs.end(), [&](int input) {
      const int number = input_[base(input)];
      if (number < 0) return true;
      const Strides& strides = strides_[static_cast<std::size_t>(number)];
      return std::all_of(strides.begin(), strides.end(), [](Index stride) { return stride >= 0; });
    });
  }

  // Orders the instructions other than views so that those with an estimate, which may become
  // machine code, stand together in groups. Each other instruction is a group of its own.
  std::vector<std::vector<std::size_t>> schedule() const {
    const std::size_t n = program_.instructions.size();
    std::vector<std::vector<std::size_t>> next(n), readers(program_.variables.size());
    std::vector<std::size_t> waits(n);
    for (std::size_t k = 0; k < n; ++k) {
      if (is_view(step(k))) continue;
      const auto add = [&](std::size_t from) {
        next[from].push_back(k);
        ++waits[k];
      };
      for (const int input : step(k).inputs) {
        const int from = base(input);
        if (producer_[from] >= 0) add(static_cast<std::size_t>(producer_[from]));
        // An operation that may overwrite its input stays behind the earlier readers of that input.
        std::vector<std::size_t>& all = readers[static_cast<std::size_t>(from)];
        if (step(k).op->reuses)
          for (const std::size_t other : all)
            if (other != k) add(other);
        if (all.empty() || all.back() != k) all.push_back(k);
      }
    }
    std::set<std::size_t> ready[2];  // [0]: without an estimate, [1]: with an estimate
    for (std::size_t k = 0; k < n; ++k)
      if (!is_view(step(k)) && waits[k] == 0) ready[estimates_[k].has_value()].insert(k);
    std::vector<std::vector<std::size_t>> groups;
    bool native = true;
    // The estimated lowered instructions of the last group; 0 if it has no machine code.
    double instructions = 0;
    while (!ready[0].empty() || !ready[1].empty()) {
      if (ready[native].empty()) native = !native;
      const std::size_t k = *ready[native].begin();
      ready[native].erase(ready[native].begin());
      if (native) instructions += estimates_[k]->instructions;
      if (native && !groups.empty() && estimates_[groups.back()[0]] && instructions < most_instructions) {
        groups.back().push_back(k);
      } else {
        groups.push_back({k});
        instructions = native ? estimates_[k]->instructions : 0;
      }
      for (const std::size_t other : next[k])
        if (--waits[other] == 0) ready[estimates_[other].has_value()].insert(other);
    }
    return groups;
  }

  // Finds the variables that are read outside of their group, or are outputs of the program.
  void find_outside_reads(const std::vector<std::vector<std::size_t>>& groups) {
    std::vector<std::size_t> group_of(program_.instructions.size());
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (const std::size_t k : groups[g]) group_of[k] = g;
    is_read_outside_.assign(program_.variables.size(), false);
    for (const std::vector<std::size_t>& group : groups)
      for (const std::size_t k : group)
        for (const int input : step(k).inputs) {
          const int from = base(input);
          if (producer_[from] >= 0 && group_of[static_cast<std::size_t>(producer_[from])] != group_of[k])
            is_read_outside_[static_cast<std::size_t>(from)] = true;
        }
    for (const int output : program_.outputs)
      if (output >= 0) is_read_outside_[static_cast<std::size_t>(base(output))] = true;
  }

  // Appends the machine code of a group to `result`, as one operation, and returns true. Returns
  // false if machine code does not pay, unless it is required or STAVE_NATIVE is `check`, or if the
  // backend cannot compile the group; then throws NativeCodeError if it is required.
  bool compile(const std::vector<std::size_t>& group, Program& result) {
    Estimate cost;
    for (const std::size_t k : group) cost += *estimates_[k];
    const bool must = native_ == Native::required || setting() == Setting::check;
    if (cost.instructions > most_instructions) return refuse("it has too many operations");
    if (!must) {
      if (cost.native >= cost.kernels) return false;
      const double pays_after = cost.instructions * compilation_of_instruction / (cost.kernels - cost.native);
      if (pays_after > runs_) {
        more_pays_after_ = std::min(more_pays_after_, pays_after);
        return false;
      }
    }
    auto attributes = IntrusivePtr<NativeAttributes>(new NativeAttributes);
    Program::Instruction native{&op_native};
    Part part{attributes->program, native, {}};
    for (const std::size_t k : group) {
      Program::Instruction copy = step(k);
      for (int& input : copy.inputs) input = import(part, input);
      for (int& output : copy.outputs) output = rename(part, output);
      part.program.instructions.push_back(std::move(copy));
    }
    for (const std::size_t k : group)
      for (const int output : step(k).outputs)
        if (is_read_outside_[static_cast<std::size_t>(output)]) {
          part.program.outputs.push_back(names_[output]);
          native.outputs.push_back(output);
        }
    for (const int variable : part.renamed) names_[variable] = -1;
    for (const int input : native.inputs) {
      const int number = input_[input];
      attributes->strides.push_back(number >= 0 ? strides_[static_cast<std::size_t>(number)]
                                                : contiguous_strides(program_.variable(input).shape));
    }
    std::string reason;
    attributes->code = backend_of(cpu).compile(attributes->program, attributes->strides, reason);
    if (!attributes->code) return refuse(reason);
    native.attributes = std::move(attributes);
    result.instructions.push_back(std::move(native));
    return true;
  }
  bool refuse(const std::string& reason) const {
    if (native_ == Native::required) fail<NativeCodeError>("compile: there is no native code: {}", reason);
    if (report_) report_->push_back(reason);
    return false;
  }

  // A group as a program of its own, and the operation that runs it.
  struct Part {
    Program& program;
    Program::Instruction& native;
    std::vector<int> renamed;  // the variables that have a number in the group's program
  };
  int rename(Part& part, int variable) {
    const Program::Variable& it = program_.variable(variable);
    part.renamed.push_back(variable);
    return names_[variable] = part.program.add_variable(it.shape, it.dtype, it.device, it.label);
  }
  int import(Part& part, int variable) {
    if (names_[variable] >= 0) return names_[variable];
    const int name = rename(part, variable);
    if (const int constant = constant_[variable]; constant >= 0) {
      part.program.constants.push_back({name, program_.constants[static_cast<std::size_t>(constant)].value});
    } else if (const std::optional<std::size_t> k = view(variable)) {
      Program::Instruction copy = step(*k);
      copy.inputs[0] = import(part, copy.inputs[0]);
      copy.outputs[0] = name;
      part.program.instructions.push_back(std::move(copy));
    } else {
      part.program.inputs.push_back(name);
      part.native.inputs.push_back(variable);
    }
    return name;
  }

  void emit(std::size_t k, Program& result) {
    if (emitted_[k]) return;
    emitted_[k] = true;
    for (const int input : step(k).inputs) emit_views(input, result);
    if (native_ == Native::required && !estimates_[k] && !is_view(step(k)))
      fail<NativeCodeError>("compile: there is no native code for {} ({})", step(k).op->name,
                            notation(nullptr, program_.variable(step(k).outputs[0]).dtype,
                                     program_.variable(step(k).outputs[0]).shape, cpu));
    result.instructions.push_back(step(k));
  }
  void emit_views(int variable, Program& result) {
    if (const std::optional<std::size_t> k = view(variable)) emit(*k, result);
  }

  Program program_;
  const std::span<const Strides> strides_;
  const Native native_;
  const double runs_;
  std::vector<std::string>* const report_;
  const PerVariable<int> producer_;
  PerVariable<int> input_, constant_;  // the index among inputs and constants; -1: none
  PerVariable<int> names_;             // the variable in the program of the group, or -1
  std::vector<std::optional<Estimate>> estimates_;
  std::vector<bool> is_read_outside_, emitted_;
  double more_pays_after_ = never;
};

// Returns true if there is machine code at all: the build has it, and the system gives the process
// executable memory.
bool has_machine_code() {
  static const bool found = [] {
    std::string reason;
    return backend_of(cpu).compile(Program(), {}, reason) != nullptr;
  }();
  return found;
}

}  // namespace

NativeProgram with_native_code(Program program, std::span<const Strides> strides, Native native, double runs,
                               std::vector<std::string>* report) {
  if (native == Native::required && setting() == Setting::off)
    fail<NativeCodeError>("compile: native code is required, and STAVE_NATIVE=0 forbids it");
  if (setting() == Setting::off) return {std::move(program), never};
  if (native == Native::never) return {with_kernels_alone(std::move(program)), never};
  if (native != Native::required && !has_machine_code()) return {std::move(program), never};
  return Grouping(std::move(program), strides, native, runs, report).run();
}

}  // namespace stave_detail
