// Fusion report: explains why elementwise operations of which one reads the output of another did
// not become one region. with_regions writes it on request.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <stave/core/effects/function_ref.h>
#include <stave/core/program/dataflow.h>

namespace stave_detail {

/// Collects the explanations while with_regions goes through a program. The instructions given to
/// add() and ended() must stay unchanged, at their addresses, until the last call of joined(). The
/// program must stay valid as long.
class FusionReport {
 public:
  explicit FusionReport(const Program& program) : program_(program), maker_(program) {}

  /// Registers the next instruction, before `joined` examines what it reads. `elementwise` is true
  /// if the instruction can join a region.
  void add(const Program::Instruction& step, bool elementwise);
  /// Notes that the region which computes these values ends, because `reader` reads one of the
  /// values of that region.
  void ended(std::span<const int> values, const Program::Instruction& reader);
  /// Explains why the instruction does not share a region with elementwise operations whose outputs
  /// it reads, directly or through a view or one other operation. together(input) is true for the
  /// inputs that are computed in the same region.
  void joined(const Program::Instruction& step, FunctionRef<bool(int)> together);
  /// Notes that a region of this many operations was divided, because instructions outside of it
  /// read `values` of its values, more than `most`.
  void divided(std::size_t operations, std::size_t values, std::size_t most);

  /// The explanations, one line for each reason and operation: "exp of [4] is broadcast to
  /// [1000,4]: it would be computed 1000 times".
  std::vector<std::string> lines() const;

 private:
  const Program::Instruction* maker(int variable) const { return maker_[variable].step; }
  bool is_elementwise(const Program::Instruction* step) const { return step && maker_[step->outputs[0]].elementwise; }
  // Returns the instruction that computes the variable or, if the variable is a view, the array
  // that it views. Sets `view` to the first view of that array, if there is one.
  const Program::Instruction* computing(int variable, const Program::Instruction*& view) const;

  std::string described(const Program::Instruction& step) const;
  std::string why_view(const Program::Instruction& made, const Program::Instruction& view, int read) const;
  std::string why_not_elementwise(const Program::Instruction& step) const;
  std::string why_not_with(const Program::Instruction& step, const Program::Instruction& made, int read) const;
  void tell(std::string line, const Program::Instruction& of);

  struct Maker {
    const Program::Instruction* step = nullptr;
    bool elementwise = false;
    const Program::Instruction* ended_by = nullptr;
  };
  const Program& program_;
  PerVariable<Maker> maker_;  // for each variable, the instruction that computes it
  // The instructions that were explained as obstacles to fusion. An elementwise one is explained
  // once for each number of elements that a view of its output has. Any other one is explained
  // once, and its number is 0.
  std::set<std::pair<const Program::Instruction*, Index>> explained_;
  std::vector<std::string> order_;
  std::map<std::string, int> times_;
};

}  // namespace stave_detail
