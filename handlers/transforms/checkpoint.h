// checkpoint: less memory for more time.
//
//   auto y = checkpoint(layer)(w, x);
//
// Under grad nothing of what `layer` computes is kept but its arguments; in the backward pass it runs again. It runs exactly
// twice, with bit-equal results, and user effects inside it get the same answers both times. Without a derivative it is
// layer(w, x). A policy keeps some of what it computes, which then does not run again:
//
//   auto z = checkpoint(layer, products_saveable)(w, x);                    // what matmul, convolution and attention yield
//   auto t = checkpoint(layer, save_only_these_labels("scores"))(w, x);     // what layer calls label(..., "scores")
//
// Works in any nest, at any order, and for captured values as for arguments.
#pragma once

#include <stave/handlers/transforms/carried_trees.h>

namespace stave {

/// What a checkpoint keeps of what its function computes, besides the arguments, and does not compute again.
class CheckpointPolicy {
 public:
  /// What operations yield that `saves` chooses. Operations of an inner checkpoint, or of a function with rules of its own, are not
  /// asked for: they run again as these say.
  explicit CheckpointPolicy(bool (*saves)(const Op&)) : saves_(std::make_shared<Saveable>(Saveable{saves, {}})) {}
  explicit CheckpointPolicy(std::vector<std::string> labels)
      : saves_(std::make_shared<Saveable>(Saveable{nullptr, std::move(labels)})) {}
  static CheckpointPolicy nothing() { return CheckpointPolicy(true); }
  static CheckpointPolicy everything() { return CheckpointPolicy(false); }

  void add_to(FunctionAttributes& functions) const {
    functions.runs_again = runs_again_;
    functions.saves = saves_;
  }

 private:
  explicit CheckpointPolicy(bool runs_again) : runs_again_(runs_again) {}
  bool runs_again_ = true;
  std::shared_ptr<const Saveable> saves_;
};

/// Nothing, which is the default; everything, as if there were no checkpoint.
inline const CheckpointPolicy nothing_saveable = CheckpointPolicy::nothing();
inline const CheckpointPolicy everything_saveable = CheckpointPolicy::everything();
/// What products yield: matmul (and dot, einsum ..., which are made of it), convolution, attention.
inline const CheckpointPolicy products_saveable{
    [](const Op& op) { return op.id == OpId::matmul || op.id == OpId::convolution || op.id == OpId::attention; }};
/// The values to which the function gives one of these labels (label.h).
template <class... Labels>
CheckpointPolicy save_only_these_labels(Labels&&... labels) {
  return CheckpointPolicy(std::vector<std::string>{std::forward<Labels>(labels)...});
}

}  // namespace stave

namespace stave_detail {

struct RunsAgain {
  static constexpr const char* name = "checkpoint";
  CheckpointPolicy policy;
  void add(FunctionAttributes& functions, const auto&, const auto&) const { policy.add_to(functions); }
};

}  // namespace stave_detail

namespace stave {

/// f, of which a derivative remembers the arguments alone, and what the policy saves. A copy of f
/// is kept and called again during the backward pass, maybe long after the call: so capture by
/// value. Arguments and the result are trees; other arguments are copied.
template <class F>
auto checkpoint(F f, CheckpointPolicy policy = nothing_saveable) {
  return stave_detail::WithRule<F, stave_detail::RunsAgain>(std::move(f), {std::move(policy)});
}

#define STAVE_NAMES(Name)                                                                               \
  inline auto checkpoint(stave_detail::Name f, CheckpointPolicy policy = nothing_saveable) {            \
    return stave_detail::WithRule<stave_detail::Name, stave_detail::RunsAgain>(f, {std::move(policy)}); \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
