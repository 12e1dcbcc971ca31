#include <stave/core/program/native.h>

#include <algorithm>
#include <atomic>
#include <cmath>
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
#include <stave/core/ops/layout_rules.h>
#include <stave/core/program/dataflow.h>
#include <stave/core/program/executable.h>
#include <stave/core/program/lanes.h>
#include <stave/core/program/loop.h>
#include <stave/core/program/lower.h>
#include <stave/core/program/native_estimate.h>
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
  Index lanes = 0;  // 0: the code is not for lanes
  std::shared_ptr<const MachineCode> code;

  std::string str() const override {
    const std::string count = fmt::format("{} operations", program.instructions.size());
    return lanes ? fmt::format("{} for {} lanes", count, lanes) : count;
  }
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

// Throws an error if elements of x and y at the same position differ. All NaN are equal. Elements
// of complex arrays are compared part by part.
void compare(const NativeAttributes& native, std::size_t output, const View& x, const View& y) {
  visit_real_dtype(real_of(x.dtype), [&](auto zero) {
    using T = decltype(zero);
    const T *a = static_cast<const T*>(x.data), *b = static_cast<const T*>(y.data);
    for (Index i = 0; i < lowered_shape(Shape(x.shape), x.dtype).elements(); ++i)
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

// ---- groups -------------------------------------------------------------------------------------

// Estimated times in nanoseconds: to compile an instruction, also for lanes, and to start the
// machine code of a group in each run.
constexpr double compilation_of_instruction = 1000, compilation_for_lanes = 4000, start_of_group = 60;
constexpr double most_instructions = 1e5;  // in one group
constexpr double never = std::numeric_limits<double>::infinity();

// Returns true if machine code is made whether or not it pays. With STAVE_NATIVE=check, lanes of
// large arrays are not, as kernels and machine code together would take much memory.
bool must_be_native(const Program& program, Native native, bool as_lanes) {
  constexpr Index most_checked = 2048;
  if (native == Native::required || setting() != Setting::check) return native == Native::required;
  if (!as_lanes) return true;
  Index most = 0;
  for (const Program::Variable& variable : program.variables) most = std::max(most, variable.shape.elements());
  return most <= most_checked;
}

// Replaces groups of operations by machine code: for one number at a time or, if there is an
// analysis of `lanes`, for a block of lanes at a time.
class Grouping {
 public:
  Grouping(Program program, std::span<const Strides> strides, Native native, double runs,
           std::vector<std::string>* report, std::optional<LaneAnalysis> lanes = std::nullopt)
      : program_(std::move(program)), strides_(strides), native_(native), runs_(runs), report_(report),
        lanes_(std::move(lanes)), producer_(producers(program_)), input_(program_, -1), constant_(program_, -1),
        names_(program_, -1) {
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) input_[program_.inputs[i]] = static_cast<int>(i);
    for (std::size_t i = 0; i < program_.constants.size(); ++i)
      constant_[program_.constants[i].variable] = static_cast<int>(i);
  }

  NativeProgram run() {
    for (const Program::Instruction& step : program_.instructions) {
      // Kernels replace parts of large arrays, unless there must be machine code.
      const bool in_place = native_ == Native::required && !step.is_read() && replaces_part(*step.op);
      if (lanes_) estimates_.push_back(lanes_->estimates[estimates_.size()]);
      else estimates_.push_back(is_view(step) ? std::nullopt : estimate(program_, step, in_place));
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
    if (lanes_ && !pays_as_lanes(group, cost)) return false;
    cost.native += start_of_group;
    const bool is_required = must_be_native(program_, native_, lanes_.has_value());
    if (cost.instructions > most_instructions) return refuse("it has too many operations");
    if (!is_required) {
      if (cost.native >= cost.kernels) return false;
      const double each = lanes_ ? compilation_for_lanes : compilation_of_instruction;
      const double pays_after = cost.instructions * each / (cost.kernels - cost.native);
      if (pays_after > runs_) {
        more_pays_after_ = std::min(more_pays_after_, pays_after);
        report(fmt::format("machine code of {} pays after {:.0f} calls, and is made then", count(group), pays_after));
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
    for (const int input : native.inputs) attributes->strides.push_back(strides_of(input));
    std::string reason;
    std::optional<Program> of_lanes;
    if (lanes_) {
      std::vector<int> axes;
      for (const int input : native.inputs) axes.push_back(lanes_->axes[static_cast<std::size_t>(input)]);
      of_lanes = one_lane(attributes->program, attributes->strides, lanes_->lanes, axes);
      if (!of_lanes) return refuse("its arrays have their lanes along different axes");
      attributes->lanes = lanes_->lanes;
    }
    attributes->code = backend_of(cpu).compile(of_lanes ? *of_lanes : attributes->program, attributes->strides, reason);
    if (!attributes->code) return refuse(reason);
    report(fmt::format("machine code of {}{}", count(group), lanes_ ? ", for several lanes at once" : ""));
    native.attributes = std::move(attributes);
    result.instructions.push_back(std::move(native));
    return true;
  }
  // The strides of an input of a group, which must be a variable that is not a view.
  Strides strides_of(int variable) const {
    if (input_[variable] >= 0) return strides_[static_cast<std::size_t>(input_[variable])];
    if (const int constant = constant_[variable]; constant >= 0)
      return program_.constants[static_cast<std::size_t>(constant)].value.node().strides;
    return contiguous_strides(program_.variable(variable).shape);
  }
  // Turns the estimate for one block of lanes into that for all lanes. Returns true if this is
  // faster than machine code for one number at a time.
  bool pays_as_lanes(const std::vector<std::size_t>& group, Estimate& cost) const {
    // `block_lanes` is the number of lanes of a block with AVX2 (AVX-512 has more). The others are
    // times in nanoseconds: for one run, for each block, and for copying each element that the
    // group reads or returns.
    constexpr double block_lanes = 4, overhead = 150, per_block = 20, per_element = 0.5;
    double copied = 0;
    std::vector<bool> is_counted(program_.variables.size());
    const auto count = [&](int variable) {
      const auto v = static_cast<std::size_t>(variable);
      if (!is_counted[v] && lanes_->axes[v] >= 0)
        copied += static_cast<double>(program_.variable(variable).shape.elements());
      is_counted[v] = true;
    };
    for (const std::size_t k : group)
      for (const int output : step(k).outputs)
        if (is_read_outside_[static_cast<std::size_t>(output)]) count(output);
        else is_counted[static_cast<std::size_t>(output)] = true;
    for (const std::size_t k : group)
      for (const int input : step(k).inputs) count(base(input));
    const auto lanes = static_cast<double>(lanes_->lanes);
    double one_by_one = 0;
    for (const std::size_t k : group) {
      const std::optional<Estimate> one = estimate(program_, step(k));
      one_by_one += one ? one->native : never;
    }
    cost.native = overhead + std::ceil(lanes / block_lanes) * (cost.native + per_block) + per_element * copied;
    return cost.native < one_by_one;
  }
  bool refuse(const std::string& reason) const {
    // Code that cannot be written for lanes may still be written for single numbers.
    if (native_ == Native::required && !lanes_) fail<NativeCodeError>("compile: there is no native code: {}", reason);
    report((lanes_ ? "no machine code for several lanes at once: " : "no machine code: ") + reason);
    return false;
  }
  static std::string count(const std::vector<std::size_t>& group) {
    return group.size() == 1 ? "an operation" : fmt::format("{} operations", group.size());
  }
  void report(std::string line) const {
    if (report_) report_->push_back(std::move(line));
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
    const bool is_input = lanes_ && lanes_->are_inputs[static_cast<std::size_t>(variable)];
    if (const int constant = constant_[variable]; constant >= 0 && !is_input) {
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
    if (native_ == Native::required && !lanes_ && !estimates_[k] && !is_view(step(k)) && step(k).op != &op_native)
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
  const std::optional<LaneAnalysis> lanes_;
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
  double more_pays_after = never;
  const Estimate least = least_of_lanes(program);
  const bool is_required = must_be_native(program, native, true);
  double lanes_pay_after = least.instructions * compilation_for_lanes / (least.kernels - least.native);
  if (least.native >= least.kernels) lanes_pay_after = never;
  if (is_required) lanes_pay_after = 0;
  if (lanes_pay_after > runs) {
    more_pays_after = lanes_pay_after;
  } else if (std::optional<LaneAnalysis> lanes = find_lanes(program, strides)) {
    NativeProgram with_lanes = Grouping(std::move(program), strides, native, runs, report, std::move(lanes)).run();
    program = std::move(with_lanes.program);
    more_pays_after = with_lanes.more_pays_after;
  }
  NativeProgram result = Grouping(std::move(program), strides, native, runs, report).run();
  result.more_pays_after = std::min(result.more_pays_after, more_pays_after);
  return result;
}

const Program* native_program_of(const Program::Instruction& instruction) {
  return instruction.op == &op_native ? &static_cast<const NativeAttributes&>(*instruction.attributes).program
                                      : nullptr;
}

}  // namespace stave_detail
