// Why elementwise operations of which one reads what the other gives did not become one region: what with_regions says when asked.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <stave/core/effects/function_ref.h>
#include <stave/core/program/program.h>

namespace stave_detail {

/// Told of a program's instructions, in their order; they live as long as it does.
class Apart {
 public:
  explicit Apart(const Program& program) : program_(program), maker_(program.variables.size()) {}

  /// An instruction, with what it reads yet to be looked at. `elementwise`: it is one that joins a region.
  void add(const Program::Instruction& step, bool elementwise);
  /// The region that gives these values is performed, because `reader` reads one of them.
  void ended(std::span<const int> values, const Program::Instruction& reader);
  /// The instruction joins, or ends, the region of the values for which `together` holds.
  void joined(const Program::Instruction& step, FunctionRef<bool(int)> together);
  void divided(std::size_t operations, std::size_t values, std::size_t most);

  /// One for each reason and operation: "exp of [4] is broadcast to [1000,4]: it would be computed 1000 times".
  std::vector<std::string> lines() const;

 private:
  const Program::Instruction* maker(int variable) const { return maker_[static_cast<std::size_t>(variable)].step; }
  bool is_elementwise(const Program::Instruction* step) const {
    return step && maker_[static_cast<std::size_t>(step->outputs[0])].elementwise;
  }
  // What computes the variable, past views, of which `view` is the last.
  const Program::Instruction* computing(int variable, const Program::Instruction*& view) const;

  std::string said(const Program::Instruction& step) const;
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
  std::vector<Maker> maker_;                                      // of each variable
  std::set<std::pair<const Program::Instruction*, Index>> told_;  // by the elements of the reader
  std::vector<std::string> order_;
  std::map<std::string, int> times_;
};

}  // namespace stave_detail
