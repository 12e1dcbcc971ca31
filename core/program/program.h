// Program: the operations that a function performed, as a list that can be printed, run again and
// transformed (a jaxpr in JAX, a graph in torch.fx).
//
//   const auto p = trace(loss)(w, x);         // trace.h
//   std::cout << p;                           // a:f32[2] b:f32[3,2] ->
//                                             //   c:f32[3] = matmul b a
//                                             //   d:f32[] = sum c axes=[0]
//                                             //   in d
//   Tensor l = p(w, x2);                      // performs these operations, through the current
//                                             // handlers
//
// Variables are numbered, and each is assigned once: it is an input, a constant, or an output of an
// instruction. Passes (passes/) take a Program and return one that computes the same, bit for bit.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <stave/core/effects/scope.h>
#include <stave/core/op/higher_order.h>
#include <stave/core/op/op.h>

namespace stave {

struct Program {
  struct Variable {
    Shape shape;
    Dtype dtype;
    Device device = cpu;
    NamePtr label;

    std::uint64_t bytes() const { return static_cast<std::uint64_t>(shape.elements()) * size_of(dtype); }
  };
  struct Instruction {
    /// Null for a read: a place where the recorded function read the value of the instruction's one
    /// input, found `read_value`, and may have branched on it. A replay throws an error if the
    /// value differs from `read_value` in any bit.
    const Op* op = nullptr;
    AttributesPtr attributes = nullptr;
    SmallVector<int, 3> inputs{};
    SmallVector<int, 1> outputs{};
    stave_detail::ScopePathPtr scopes{};
    /// The number of the rerun to which the instruction belongs, such as the backward pass of a
    /// checkpoint; 0 for none. Passes do not merge instructions with different barriers, because a
    /// rerun computes values again on purpose, to save memory.
    std::uint64_t barrier = 0;
    Tensor read_value{};

    bool is_read() const noexcept { return !op; }
  };
  struct Constant {
    int variable;
    Tensor value;
  };

  std::vector<Variable> variables;
  std::vector<int> inputs;
  std::vector<Constant> constants;
  std::vector<Instruction> instructions;
  std::vector<int> outputs;  // variables; -1: an empty Tensor

  int add_variable(Shape shape, Dtype dtype, Device device = cpu, NamePtr label = nullptr);
  const Variable& variable(int number) const { return variables[static_cast<std::size_t>(number)]; }

  /// Performs the program's operations through the current handlers. Throws TransformError for a
  /// wrong number of inputs, for an empty Tensor as an input that the program needs, and where a
  /// read finds another value than at recording. Throws ShapeError, DtypeError or DeviceError for
  /// an input that differs from the recorded one in that respect. Throws what the operations throw.
  Outputs operator()(std::span<const Tensor> given) const;

  /// The program as text, one line for each instruction: "c:f32[3] = matmul b a @layer1".
  std::string str() const;
  /// Writes the program as a graph in the language of Graphviz.
  void write_dot(std::ostream& out) const;
  /// Writes the program as JSON:
  /// {"inputs": [...], "constants": [...], "instructions": [...], "outputs": [...]}
  void write_json(std::ostream& out) const;
};

std::ostream& operator<<(std::ostream& out, const Program& program);

/// The cost of one run of a program, computed from its shapes alone. Each step of a loop counts. A
/// call of a function (checkpoint, custom rules) counts as one operation of 0 flops: inline calls
/// first (with_calls_inlined).
struct ProgramCost {
  std::int64_t operations = 0;  // all but views and reads (Program::Instruction::is_read)
  std::uint64_t bytes = 0;      // bytes that these operations read and write
  // 1 per element of an elementwise operation, 2 n m k per matrix product: see Op::flops_of
  std::uint64_t flops = 0;
  // the most bytes that values take at any one time, without inputs and constants
  std::uint64_t peak_bytes = 0;
};
/// Estimates the cost of a program before it runs.
ProgramCost cost_of(const Program& program);

}  // namespace stave

namespace stave_detail {

/// Throws the TransformError for a program of more than a million operations.
[[noreturn]] void fail_too_long();

/// Returns true if the output of the instruction may be a view of its first input. A read is not a
/// view.
inline bool is_view(const Program::Instruction& instruction) {
  return !instruction.is_read() && instruction.op->may_be_view();
}

/// Returns true if the instruction, which must not be a read, may throw even if the shapes and
/// dtypes of its inputs are right. A loop may throw if an instruction of its body may.
bool may_throw(const Program::Instruction& instruction);

/// Returns true if one of the instructions is a read. Called functions are not searched.
bool has_read(std::span<const Program::Instruction> instructions);

/// Returns true if both instructions compute the same: one operation, on the same variables, with
/// equal attributes and behind the same barrier. Two reads of one variable count as the same,
/// whatever values they found.
bool compute_the_same(const Program::Instruction& a, const Program::Instruction& b);

/// Returns true if x has one element in memory, which its strides may repeat, and the host can read
/// that memory.
bool is_one_number(const Tensor& x);

/// The one element of x in memory, as a tensor of rank 0. is_one_number(x) must be true.
Tensor one_number(const Tensor& x);

/// A tensor without memory, for functions that read only the layout of their inputs. The strides
/// and the offset are in elements.
Tensor layout_tensor(Dtype dtype, Device device, const Shape& shape, Strides strides, Index offset = 0);

/// Returns true if both tensors have the same dtype, shape and bits.
bool same_bits(const Tensor& a, const Tensor& b);

/// Returns true if two constants are equal: they view the same storage in the same way, as two
/// captures of one tensor do, or have equal bits, as tensors that each recording makes anew do.
bool same_constant(const Tensor& a, const Tensor& b);

/// A section of a program.
struct ProgramPart {
  std::span<const Program::Variable> variables;
  std::span<const Program::Constant> constants;
  std::span<const Program::Instruction> instructions;
};
/// Returns true if both sections have equal instructions (compute_the_same, and the same outputs),
/// equal constants, and variables of the same shapes, dtypes and devices.
bool same_parts(const ProgramPart& a, const ProgramPart& b);
/// Returns true if both programs have the same inputs and outputs, and are equal by same_parts.
bool same_program(const Program& a, const Program& b);

class RecordedRules;

/// The attributes of a `call` in a program: the called function as a program, and its rules
/// (rules.h). The instruction's inputs are the inputs of the call, then the captured values.
struct RecordedFunctions final : Attributes {
  const char* name = "";
  bool rematerializes = false;
  std::shared_ptr<const Saveable> saves;
  std::size_t captured = 0;  // the number of captured values
  // The called function, and the function that replaces it when reverse mode runs it again
  // (FunctionAttributes::again; null: the function itself).
  std::shared_ptr<const Program> function, again;
  std::shared_ptr<RecordedRules> rules;  // null if the call has no rules
  std::string str() const override { return name; }
  bool equals(const Attributes& other) const override;
  /// Performs the call.
  Outputs perform(Inputs inputs) const;
};

}  // namespace stave_detail
