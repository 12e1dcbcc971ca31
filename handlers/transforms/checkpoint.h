// checkpoint: gradients with less memory for more time (rematerialisation).
//
//   auto y = checkpoint(layer)(w, x);
//
// Under grad, the tape keeps only the arguments of `layer`, and none of the values that it
// computes. `layer` runs again in the backward pass (each time if a pullback is called repeatedly),
// with results that are equal bit for bit. User effects inside it then get the answers of the first
// run, unless the effect's type declares `remembered = false`.
// Outside of a derivative, checkpoint(layer)(w, x) equals layer(w, x). A policy saves some of the
// values, which are then not computed again:
//
//   // saves the results of matmul, convolution and attention
//   auto z = checkpoint(layer, products_saveable)(w, x);
//   // saves the values to which layer gives label(..., "scores")
//   auto t = checkpoint(layer, save_only_these_labels("scores"))(w, x);
//
// checkpoint works in any nest of transforms, at any order of derivatives, and for captured
// values as for arguments. One case throws TransformError: in vmap(grad(f)), lanes that split
// (vmap.h) inside a checkpoint whose policy saves some values.
#pragma once

#include <stave/handlers/transforms/higher_order_trees.h>

namespace stave {

/// Says which values a checkpoint saves besides its arguments, and so does not compute again.
class CheckpointPolicy {
 public:
  /// Saves the outputs of the operations for which `saves` returns true. The policy does not apply
  /// to operations inside an inner higher-order operation, such as a checkpoint or a function
  /// with custom rules: these run again as that operation specifies.
  explicit CheckpointPolicy(bool (*saves)(const Op&)) : saves_(std::make_shared<Saveable>(Saveable{saves, {}})) {}
  explicit CheckpointPolicy(std::vector<std::string> labels)
      : saves_(std::make_shared<Saveable>(Saveable{nullptr, std::move(labels)})) {}
  static CheckpointPolicy nothing() { return CheckpointPolicy(true); }
  static CheckpointPolicy everything() { return CheckpointPolicy(false); }

  void add_to(FunctionAttributes& functions) const {
    functions.rematerializes = rematerializes_;
    functions.saves = saves_;
  }

 private:
  explicit CheckpointPolicy(bool rematerializes) : rematerializes_(rematerializes) {}
  bool rematerializes_ = true;
  std::shared_ptr<const Saveable> saves_;
};

/// nothing_saveable, the default, saves nothing; everything_saveable behaves as if
/// there were no checkpoint.
inline const CheckpointPolicy nothing_saveable = CheckpointPolicy::nothing();
inline const CheckpointPolicy everything_saveable = CheckpointPolicy::everything();
/// Saves the results of products: matmul (and dot, einsum ..., which are made of it),
/// convolution and attention.
inline const CheckpointPolicy products_saveable{
    [](const Op& op) { return op.id == OpId::matmul || op.id == OpId::convolution || op.id == OpId::attention; }};
/// Returns a policy that saves the values to which the function gives one of these labels
/// (label.h).
template <class... Labels>
CheckpointPolicy save_only_these_labels(Labels&&... labels) {
  return CheckpointPolicy(std::vector<std::string>{std::forward<Labels>(labels)...});
}

}  // namespace stave

namespace stave_detail {

struct CheckpointRule {
  static constexpr const char* name = "checkpoint";
  CheckpointPolicy policy;
  void add(FunctionAttributes& functions, const auto&, const auto&) const { policy.add_to(functions); }
};

}  // namespace stave_detail

namespace stave {

/// Returns f as a checkpoint: under a derivative, the tape keeps only the arguments of f and the
/// values that the policy saves. A copy of f is kept and called again during the backward pass,
/// maybe long after the call, so capture by value. The result must be a tree. Arguments that are
/// not trees are kept too: by reference if they are named objects that cannot be copied, else
/// as copies.
template <class F>
auto checkpoint(F f, CheckpointPolicy policy = nothing_saveable) {
  return stave_detail::WithRule<F, stave_detail::CheckpointRule>(std::move(f), {std::move(policy)});
}

#define STAVE_NAMES(Name)                                                                                    \
  inline auto checkpoint(stave_detail::Name f, CheckpointPolicy policy = nothing_saveable) {                 \
    return stave_detail::WithRule<stave_detail::Name, stave_detail::CheckpointRule>(f, {std::move(policy)}); \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
