// Programs: what a function performed, as a list of operations that prints, replays and can be transformed.
//
//   const auto p = trace(loss)(w, x);         // trace.h
//   std::cout << p;                           // w:f32[2] x:f32[3,2] ->
//                                             //   c:f32[3] = matmul x w
//                                             //   d:f32[] = sum c axes=[0]
//                                             //   in d
//   Tensor l = p(w, x2);                      // performs these operations, through the handlers that stand there
//
// Variables are numbered, each is given once: an input, a constant, or what an instruction gives. Passes (passes/) take a Program
// and give one that computes the same, bit for bit.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <stave/core/effects/scope.h>
#include <stave/core/op/carried.h>
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
    /// Null: a read. The function looked at its one input, and went on as for `met`: a replay for which the value is another, bit for
    /// bit, is an error.
    const Op* op = nullptr;
    AttributesPtr attributes = nullptr;
    SmallVector<int, 3> inputs{};
    SmallVector<int, 1> outputs{};
    stave_detail::ScopePathPtr scopes{};
    std::uint64_t epoch =
        0;  // not 0: part of what a checkpoint computes again, which is kept apart from what it repeats
    Tensor met{};

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
  std::vector<int> outputs;  // -1: an empty Tensor

  int add_variable(Shape shape, Dtype dtype, Device device = cpu, NamePtr label = nullptr);
  const Variable& variable(int number) const { return variables[static_cast<std::size_t>(number)]; }

  /// Performs it. Throws TransformError for another number of inputs, ShapeError, DtypeError or DeviceError for one that is not as
  /// when the program was recorded, TransformError where a read meets another value.
  Outputs operator()(std::span<const Tensor> given) const;

  /// A line for each instruction: "c:f32[3] = matmul x w @layer1".
  std::string str() const;
  /// In the language of Graphviz.
  void write_dot(std::ostream& out) const;
  /// {"inputs": [...], "constants": [...], "instructions": [...], "outputs": [...]}
  void write_json(std::ostream& out) const;
};

std::ostream& operator<<(std::ostream& out, const Program& program);

/// What a program will take, before it runs.
struct ProgramCost {
  std::int64_t operations = 0;   // that compute: no views, no reads
  std::uint64_t bytes = 0;       // read and written by them
  std::uint64_t flops = 0;       // one for each element of an elementwise operation, 2 n m k of a product
  std::uint64_t peak_bytes = 0;  // of its values at once, inputs and constants not counted
};
ProgramCost cost_of(const Program& program);

}  // namespace stave

namespace stave_detail {

[[noreturn]] void fail_too_long();

/// For each variable the last instruction that reads it; of an output the number of instructions; -1: none reads it.
std::vector<int> last_reads(const Program& program);

/// Whether an instruction's output may lie in its first input's storage.
bool is_view(const Program::Instruction& instruction);

/// Whether an operation may throw, whatever its inputs' shapes.
bool may_throw(const Op& op);
/// The same for one that is no read.
bool may_throw(const Program::Instruction& instruction);

/// Whether two instructions give the same: the same operation on the same variables, in one epoch.
bool compute_the_same(const Program::Instruction& a, const Program::Instruction& b);

/// Throws if `given` are not what the program was recorded for; one that is never read (`last`: last_reads) may be empty.
void check_arguments(const Program& program, std::span<const Tensor> given, std::span<const int> last);

/// Whether it is one number, repeated or not, that the host may look at.
bool is_one_number(const Tensor& x);

/// Whether both have the same bits.
bool same_bits(const Tensor& a, const Tensor& b);

/// Whether two constants are the same: one that was captured is where it was; one that is made anew
/// each time has the same content, however large.
bool same_constant(const Tensor& a, const Tensor& b);

/// Whether two stretches of programs are the same, variable for variable.
struct ProgramPart {
  std::span<const Program::Variable> variables;
  std::span<const Program::Constant> constants;
  std::span<const Program::Instruction> instructions;
};
bool same_parts(const ProgramPart& a, const ProgramPart& b);
/// The same for whole programs.
bool same_program(const Program& a, const Program& b);

class RecordedRules;

/// The attributes of a `call` in a program: its function as a program, and its rules (rules.h).
/// Inputs of the instruction are the call's, then values that the functions captured.
struct RecordedFunctions final : Attributes {
  const char* name = "";
  bool runs_again = false;
  std::shared_ptr<const Saveable> saves;
  std::size_t captured = 0;
  std::shared_ptr<const Program> function, again;  // `again` may be null
  std::shared_ptr<RecordedRules> rules;            // null: it has none
  std::string str() const override { return name; }
  bool equals(const Attributes& other) const override;
  /// Performs the call.
  Outputs perform(Inputs inputs) const;
};

}  // namespace stave_detail
