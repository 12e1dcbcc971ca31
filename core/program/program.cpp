#include <stave/core/program/program.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include <stave/core/op/function.h>
#include <stave/core/op/rematerialization_barrier.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/program/dataflow.h>
#include <stave/core/program/loop.h>
#include <stave/core/program/rules.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/label.h>
#include <stave/core/tensor/note.h>
#include <stave/core/tensor/print.h>
#include <stave/core/tensor/read_storage.h>
#include <stave/core/tensor/storage.h>

namespace stave_detail {

namespace {

Outputs performed(const Program::Instruction& step, Inputs operands) {
  const ReenteredScopes scopes(step.scopes.get());
  if (loop_of(step))
    return perform_loop(IntrusivePtr<const LoopAttributes>(static_cast<const LoopAttributes*>(step.attributes.get())),
                        std::move(operands));
  if (!step.op->is_higher_order) return perform(Call(*step.op, std::move(operands), step.attributes));
  return static_cast<const RecordedFunctions&>(*step.attributes).perform(std::move(operands));
}

void check_read(const Program::Instruction& read, const Tensor& value) {
  const Tensor found = read_value(value);
  if (!same_bits(found, read.read_value))
    fail<TransformError>(
        "program: the traced function read a value ({} {}) that was {}, but now it is {}: trace the function for this "
        "value, or use compile(f), which records each path that f takes",
        value.dtype(), value.shape(), read.read_value.str(), observed(found).str());
  notify_read(found);
}

FunctionArgument replayed(const std::shared_ptr<const Program>& program, const Inputs& captured) {
  if (!program) return nullptr;
  return [program, captured](const FunctionInputs& given) {
    std::vector<Tensor> all(given.inputs.begin(), given.inputs.end());
    all.insert(all.end(), captured.begin(), captured.end());
    return (*program)(all);
  };
}

// Throws if the `given` tensors do not match the program's inputs. An input that no instruction
// reads and that is not an output may be an empty Tensor. `last` is last_reads(program).
void check_arguments(const Program& program, std::span<const Tensor> given, const PerVariable<int>& last) {
  if (given.size() != program.inputs.size())
    fail<TransformError>("program: it was recorded for {} tensors, but {} are given", program.inputs.size(),
                         given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Program::Variable& wanted = program.variable(program.inputs[i]);
    if (!given[i].defined()) {
      if (last[program.inputs[i]] < 0) continue;
      fail<TransformError>("program: input {} is an empty Tensor", i);
    }
    const auto differs = [&]<class E>(std::type_identity<E>) {
      fail<E>(
          "program: input {} is {} {} on {}, but was {} {} on {} when the program was recorded: trace the function for "
          "these inputs",
          i, given[i].dtype(), given[i].shape(), given[i].device().str(), wanted.dtype, wanted.shape,
          wanted.device.str());
    };
    if (given[i].shape() != wanted.shape) differs(std::type_identity<ShapeError>());
    if (given[i].dtype() != wanted.dtype) differs(std::type_identity<DtypeError>());
    if (given[i].device() != wanted.device) differs(std::type_identity<DeviceError>());
  }
}

}  // namespace

bool RecordedFunctions::equals(const Attributes& other) const {
  const auto& with = static_cast<const RecordedFunctions&>(other);
  const auto same = [](const auto& a, const auto& b) { return a == b || (a && b && same_program(*a, *b)); };
  const auto same_saves = [](const Saveable& a, const Saveable& b) {
    return a.operations == b.operations && a.labels == b.labels;
  };
  return std::string_view(name) == with.name && rematerializes == with.rematerializes && captured == with.captured &&
         (saves == with.saves || (saves && with.saves && same_saves(*saves, *with.saves))) &&
         same(function, with.function) && same(again, with.again) &&
         (rules == with.rules || (rules && with.rules && rules->equals(*with.rules)));
}

Outputs RecordedFunctions::perform(Inputs inputs) const {
  const Inputs captured(inputs.end() - static_cast<std::ptrdiff_t>(this->captured), inputs.end());
  Inputs arguments(inputs.begin(), inputs.end() - static_cast<std::ptrdiff_t>(this->captured));
  FunctionAttributes functions;
  functions.name = name;
  functions.rematerializes = rematerializes;
  functions.saves = saves;
  functions.function = replayed(function, captured);
  functions.again = replayed(again, captured);
  if (rules) rules->add_to(functions, captured);
  return call_function(std::move(functions), std::move(arguments));
}

void fail_too_long() {
  fail<TransformError>(
      "trace: the function performs more than a million operations, where a loop counts once per iteration");
}

bool may_throw(const Program::Instruction& instruction) {
  const LoopAttributes* const loop = loop_of(instruction);
  if (!loop) return instruction.op->may_throw();
  return std::any_of(loop->body->instructions.begin(), loop->body->instructions.end(),
                     [](const auto& step) { return may_throw(step); });
}

bool has_read(std::span<const Program::Instruction> instructions) {
  return std::any_of(instructions.begin(), instructions.end(), [](const auto& step) { return step.is_read(); });
}

bool compute_the_same(const Program::Instruction& a, const Program::Instruction& b) {
  return a.op == b.op && a.barrier == b.barrier && a.inputs == b.inputs &&
         same_attributes(a.attributes.get(), b.attributes.get());
}

bool same_constant(const Tensor& a, const Tensor& b) {
  if (a.node().storage && a.node().storage == b.node().storage && a.node().offset == b.node().offset &&
      a.shape() == b.shape() && a.strides() == b.strides() && a.dtype() == b.dtype())
    return true;
  return same_bits(a, b);
}

bool same_parts(const ProgramPart& a, const ProgramPart& b) {
  const auto equal = [](const auto& xs, const auto& ys, auto same) {
    return std::equal(xs.begin(), xs.end(), ys.begin(), ys.end(), same);
  };
  return equal(a.instructions, b.instructions,
               [](const auto& x, const auto& y) { return compute_the_same(x, y) && x.outputs == y.outputs; }) &&
         equal(a.variables, b.variables,
               [](const auto& x, const auto& y) {
                 return x.dtype == y.dtype && x.device == y.device && x.shape == y.shape;
               }) &&
         equal(a.constants, b.constants, [](const auto& x, const auto& y) {
           return x.variable == y.variable && same_constant(x.value, y.value);
         });
}

bool same_program(const Program& a, const Program& b) {
  return &a == &b ||
         (a.inputs == b.inputs && a.outputs == b.outputs &&
          same_parts({a.variables, a.constants, a.instructions}, {b.variables, b.constants, b.instructions}));
}

Tensor one_number(const Tensor& x) {
  const Node& node = x.node();
  return Tensor(NodePtr(new Node(node.dtype, node.device, {}, {}, node.storage, node.offset)));
}

Tensor layout_tensor(Dtype dtype, Device device, const Shape& shape, Strides strides, Index offset) {
  static const StoragePtr& placeholder = *new StoragePtr(new Storage);
  return Tensor(NodePtr(new Node(dtype, device, shape, std::move(strides), placeholder, offset)));
}

bool is_one_number(const Tensor& x) {
  const Node& node = x.node();
  return node.storage && node.memory() == cpu && x.size() > 0 && repeats_one_element(x);
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.size() == 0) return true;
  const auto same_memory = [&](std::size_t bytes) { return std::memcmp(a.node().data(), b.node().data(), bytes) == 0; };
  const auto is_dense_on_cpu = [](const Tensor& x) {
    return x.node().storage && x.node().memory() == cpu && x.node().contiguous();
  };
  if (is_one_number(a) && is_one_number(b)) return same_memory(size_of(a.dtype()));
  if (is_dense_on_cpu(a) && is_dense_on_cpu(b))
    return same_memory(static_cast<std::size_t>(a.size()) * size_of(a.dtype()));
  const Tensor of_a = observed(a), of_b = observed(b);
  return visit_dtype(a.dtype(), [&](auto zero) {
    using T = std::conditional_t<std::is_same_v<decltype(zero), bool>, bool, decltype(zero)>;
    const std::vector<T> left = read_elements<T>(of_a), right = read_elements<T>(of_b);
    if constexpr (std::is_same_v<T, bool>) return left == right;
    else return left.empty() || std::memcmp(left.data(), right.data(), left.size() * sizeof(T)) == 0;
  });
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

int Program::add_variable(Shape shape, Dtype dtype, Device device, NamePtr label) {
  variables.push_back({std::move(shape), dtype, device, std::move(label)});
  return static_cast<int>(variables.size()) - 1;
}

Outputs Program::operator()(std::span<const Tensor> given) const {
  const PerVariable<int> last = last_reads(*this);
  check_arguments(*this, given, last);
  PerVariable<Tensor> values(*this);
  for (std::size_t i = 0; i < given.size(); ++i) values[inputs[i]] = given[i];
  for (const Constant& constant : constants) values[constant.variable] = constant.value;
  // Each barrier of the program becomes a new one, so that a recording of this run also keeps the
  // reruns apart.
  std::map<std::uint64_t, std::uint64_t> barriers;
  for (std::size_t k = 0; k < instructions.size(); ++k) {
    const Instruction& step = instructions[k];
    std::optional<RematerializationBarrier> barrier;
    if (step.barrier != 0) {
      std::uint64_t& number = barriers[step.barrier];
      if (number == 0) number = next_rematerialization_barrier();
      barrier.emplace(number);
    }
    Inputs operands;
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      const int variable = step.inputs[i];
      const bool is_read_again =
          std::find(step.inputs.begin() + i + 1, step.inputs.end(), variable) != step.inputs.end();
      if (last[variable] == static_cast<int>(k) && !is_read_again) operands.push_back(std::move(values[variable]));
      else operands.push_back(values[variable]);
    }
    if (step.is_read()) {
      check_read(step, operands[0]);
      continue;
    }
    Outputs found = performed(step, std::move(operands));
    for (std::size_t i = 0; i < step.outputs.size(); ++i)
      if (const int output = step.outputs[i]; last[output] >= 0)
        values[output] = relabel(std::move(found[i]), variable(output).label);
  }
  Outputs results;
  for (const int output : outputs) results.push_back(output < 0 ? Tensor() : values[output]);
  return results;
}

}  // namespace stave
