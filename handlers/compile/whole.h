// WholeProgram: a program as one operation, whose rules are programs (JAX's closed_call).
//
//   without handlers     an Executable (executable.h) runs it
//   grad, jvp, vmap      receive the operation `call` (core/op/carried.h). Forward and backward
//                        pass, tangents and batched forms are programs again (derive.h), made at
//                        the first use and kept; outer transforms receive them as closed calls
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

/// Returns true if all handlers of operations around this point accept closed calls.
bool takes_programs() noexcept;
/// The description, for errors, of the nearest handler that does not accept closed calls.
std::string describe_who_takes_no_programs();
/// Returns how many derivatives are taken of these values at once: the number of running transforms
/// that trace one of them.
int orders_of_derivative(std::span<const Tensor> xs);

class WholeProgram;
using WholeProgramPtr = std::shared_ptr<const WholeProgram>;

class WholeProgram : public std::enable_shared_from_this<WholeProgram> {
 public:
  /// The program must have no reads. `name` is the name for errors and reports, and is not copied.
  explicit WholeProgram(Program program, const char* name = "compile");

  /// Performs the program. Throws what its operations throw. Thread-safe.
  Outputs operator()(std::span<const Tensor> inputs) const;

 private:
  using Mask = std::vector<bool>;
  // A partition of the program as two closed calls.
  struct InTwo {
    WholeProgramPtr first, rest;  // the known part and the rest: Parts
    InTwo(Parts parts, const char* name);
  };
  /// The partition of the program by lanes: the first part computes the outputs that depend on no
  /// lane.
  struct Apart {
    /// The outputs that depend on no lane.
    Mask outputs;
    InTwo parts;
  };
  struct Lanes {
    Index count;
    Mask batched;
    friend bool operator==(const Lanes&, const Lanes&) = default;
  };
  /// A cache of the last few results.
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
  // Runs the outputs that depend on no lane separately, so that the caller may read them,
  // as it may without compile.
  static Outputs run_apart(const Apart& apart, std::span<const Tensor> inputs, const Mask& lanes);
  Mask depending(const Mask& inputs) const;
  // The outputs to which a derivative flows from these inputs.
  Mask moved_by(const Mask& inputs) const;
  // Performs the program as the operation `call`, with derivatives with respect to the wanted
  // inputs.
  Outputs call(std::span<const Tensor> inputs, const Mask& wanted) const;
  void add_derivatives(FunctionAttributes& functions, const Mask& wanted) const;
  // Programs that are made at their first use and kept.
  InTwo reverse(const Mask& wanted, std::span<const Tensor> inputs) const;
  InTwo tangents(const Mask& wanted, std::span<const Tensor> inputs) const;
  // null: all outputs depend on lanes
  std::shared_ptr<const Apart> apart_from(const Mask& lanes) const;
  WholeProgramPtr batched(const Lanes& lanes, std::span<const Tensor> inputs) const;

  const Program program_;
  const char* const name_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Program> optimized_;  // null: not made yet
  mutable Kept<std::vector<Strides>, std::shared_ptr<const Executable>> executables_;
  mutable Kept<Mask, InTwo> reverse_, tangents_;
  mutable Kept<Mask, std::shared_ptr<const Apart>> apart_;
  mutable Kept<Mask, Mask> moved_;
  mutable Kept<Lanes, WholeProgramPtr> batched_;
};

}  // namespace stave_detail
