// A program that transforms take whole: one operation, with rules that are programs.
//
//   without handlers     an Executable (executable.h) of it
//   grad, jvp, vmap      the operation `call` (core/op/carried.h). Forward and backward pass, tangents and lanes are programs again
//                        (derive.h), made at the first use and kept, and taken whole by the transforms around
//   other handlers       see its operations, one by one
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <stave/core/program/executable.h>
#include <stave/handlers/compile/derive.h>

namespace stave_detail {

/// Whether all handlers of operations that stand here take programs whole.
bool takes_programs() noexcept;
/// What errors call the nearest one that does not.
std::string describe_who_takes_no_programs();
/// How many derivatives are taken of these values at once: the transforms that run and follow one
/// of them.
int orders_of_derivative(std::span<const Tensor> xs);

class WholeProgram;
using WholeProgramPtr = std::shared_ptr<const WholeProgram>;

class WholeProgram : public std::enable_shared_from_this<WholeProgram> {
 public:
  /// The program has no reads. `name` says what it is of, and is not copied.
  explicit WholeProgram(Program program, const char* name = "compile");

  /// Throws what its operations throw.
  Outputs operator()(std::span<const Tensor> inputs) const;

 private:
  using Mask = std::vector<bool>;
  struct InTwo {
    WholeProgramPtr first, rest;  // Parts
    InTwo(Parts parts, const char* name);
  };
  /// What some outputs, which depend on no lane, need; and the rest.
  struct Apart {
    Mask outputs;
    InTwo parts;
  };
  struct Lanes {
    Index count;
    Mask batched;
    friend bool operator==(const Lanes&, const Lanes&) = default;
  };
  /// The last few of what was made, by what it was made for.
  template <class Key, class Value>
  class Kept {
   public:
    template <class Make>
    Value find(const Key& key, Make make);

   private:
    static constexpr std::size_t most = 8;
    std::vector<std::pair<Key, Value>> kept_;
  };

  Outputs run(std::span<const Tensor> inputs) const;
  // What depends on no lane apart: the program may read it, as it may without this.
  static Outputs run_apart(const Apart& apart, std::span<const Tensor> inputs, const Mask& lanes);
  Mask depending(const Mask& inputs) const;
  // The outputs that move with these inputs: a derivative flows to them.
  Mask moved_by(const Mask& inputs) const;
  // As the operation `call`, with derivatives by the wanted inputs.
  Outputs call(std::span<const Tensor> inputs, const Mask& wanted) const;
  void add_derivatives(FunctionAttributes& functions, const Mask& wanted) const;
  // Made at the first use, kept.
  InTwo reverse(const Mask& wanted, std::span<const Tensor> inputs) const;
  InTwo tangents(const Mask& wanted, std::span<const Tensor> inputs) const;
  std::shared_ptr<const Apart> apart_from(const Mask& lanes) const;  // null: all outputs depend on them
  WholeProgramPtr batched(const Lanes& lanes, std::span<const Tensor> inputs) const;

  const Program program_;
  const char* const name_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Program> optimized_;  // null: not yet
  mutable Kept<std::vector<Strides>, std::shared_ptr<const Executable>> executables_;
  mutable Kept<Mask, InTwo> reverse_, tangents_;
  mutable Kept<Mask, std::shared_ptr<const Apart>> apart_;
  mutable Kept<Mask, Mask> moved_;
  mutable Kept<Lanes, WholeProgramPtr> batched_;
};

}  // namespace stave_detail
