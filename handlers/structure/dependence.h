// The handler that follows which elements of some inputs each element of a value depends on.
//
// It is installed below jvp, with the sets of the inputs' elements on the tangents: jvp turns every
// function into operations that are linear in the tangents, and of these only a few kinds remain.
// So softmax, factorisations, attention, custom rules, checkpoints and derivatives inside the
// function need no rules of their own. The alternative, a handler of the function itself, would
// find more dependences than there are (the condition of a `where`, an index), and would miss
// those of a custom rule that does not act as its function.
//
// A value has one of three states:
//   a note with sets      a tangent: each element depends on a set of elements of the inputs
//   a note without sets   a value that the inputs or an effect's answer determine, such as a primal
//   no note               a constant: a number, or a tensor that the function captured
// Rules may look at constants: a factor 0 ends a dependence, and an index says which element moves.
// They may look at values of the second kind only if the pattern is that of one point (`here`).
#pragma once

#include <memory>
#include <set>
#include <string>

#include <stave/core/op/op.h>
#include <stave/core/ops/element_sets.h>
#include <stave/core/tensor/note.h>

namespace stave_detail {

using namespace stave;

class DependenceHandler final : public Handler {
 public:
  explicit DependenceHandler(bool here) : Handler(all_effects), here_(here) {}

  /// Returns x, with these sets for its elements; undefined: x is determined by the inputs, but is
  /// not followed.
  Tensor follow(Tensor x, Tensor numbers = {});
  /// The numbers of the sets of x's elements, with the shape of x; undefined: all sets are empty.
  Tensor sets_of(const Tensor& x) const;

  Outputs handle(Call& call) override;
  void* handling(const EffectType& effect) override;
  std::any answer_recordable(const EffectType& effect, std::any performed) override;
  std::string describe() const override { return "sparsity"; }

  ElementSets sets;
  /// The operations about which no rule says anything: each element of their results counts as
  /// dependent on all elements of all inputs.
  std::set<std::string> dense_operations;
  /// True if the function read a value that the inputs or an effect's answer determine.
  bool has_read = false;

 private:
  struct Followed {
    std::shared_ptr<const Tensor> numbers;
    bool* has_read = nullptr;
    void was_read(const Tensor&) const {
      if (has_read) *has_read = true;
    }
  };

  Outputs find(const Call& call);
  Outputs dense_sets(const Call& call, std::span<const Tensor> inputs);
  Tensor read(const Tensor& x) const;
  void sweep();
  void collect();

  const bool here_;
  // The number of operations that reached this handler, without higher-order ones.
  std::uint64_t handled_ = 0;
  // True if an effect was answered with a value whose tensors cannot be visited.
  bool has_hidden_answers_ = false;
  Notes<Followed> notes_{"sparsity"};
  std::vector<std::weak_ptr<const Tensor>> live_;  // the numbers in notes
  std::size_t live_after_sweep_ = 0;
};

}  // namespace stave_detail
