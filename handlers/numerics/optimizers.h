// Optimizers: pure functions of trees (tree.h), with the semantics and default values of Optax.
//
//   const auto optimizer = adam({.learning_rate = warmup_cosine_schedule(0, 1e-3, 100, 10'000)});
//   auto state = optimizer.init(mlp);
//   for (const auto& [x, y] : batches) {
//     const Mlp gradient = grad(loss)(mlp, x, y);
//     std::tie(mlp, state) = optimizer.update(mlp, clip_by_global_norm(gradient, 1.), state);
//   }
//
// - The state of an optimizer is a tree as well: it can be saved, mapped and differentiated like
//   any other. `step` counts updates, in int32.
// - Updates consist of ordinary operations. Rates may be tensors, so grad goes through updates,
//   and vmap tries many rates at once:
//     vmap([&](const Tensor& rate) { return train(sgd({.learning_rate = rate})); })(rates)
// - Rates are computed in float64, and rounded once to the dtype of the tensor that they multiply.
//   For float16 and bfloat16, moments are kept and updates are computed in float32. Tensors of a
//   tree that are not floats stay unchanged.
// - ShapeError is thrown if a parameter and its gradient differ in shape, or if trees differ
//   in structure.
#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <stave/core/ops/tree.h>
#include <stave/core/tensor/options.h>
#include <stave/core/tensor/tensor.h>

namespace stave {

/// A value for each step 0, 1, 2, ...: a constant, or a function that maps the step,
/// an int32 tensor of rank 0, to a tensor of rank 0.
class Schedule {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  Schedule(T value) : value_(static_cast<double>(value)) {}
  Schedule(Tensor value) : tensor_(std::move(value)) {}
  template <class F>
    requires(std::is_invocable_r_v<Tensor, const F&, const Tensor&> && !std::same_as<F, Schedule>)
  Schedule(F function) : function_(std::move(function)) {}

  /// Returns the schedule's value at a step. Throws ShapeError if the value is an empty Tensor or
  /// is not of rank 0.
  Tensor operator()(const Tensor& step) const;

 private:
  double value_ = 0;
  Tensor tensor_;
  std::function<Tensor(const Tensor&)> function_;
};

/// Returns a schedule from `from` to `to` in `steps` equal steps, after `begin` steps;
/// it is constant before and after.
Schedule linear_schedule(double from, double to, Index steps, Index begin = 0);
/// Returns a cosine schedule:
/// `from` * ((1 - alpha) * ((1 + cos(pi step / steps)) / 2)^exponent + alpha).
/// It is constant after `steps`. Loshchilov and Hutter, "SGDR", 2017.
Schedule cosine_schedule(double from, Index steps, double alpha = 0, double exponent = 1);
/// Returns a schedule that rises linearly from `from` to `peak`, then falls to `end` by a cosine.
/// `steps` counts both parts.
Schedule warmup_cosine_schedule(double from, double peak, Index warmup_steps, Index steps, double end = 0,
                                double exponent = 1);
struct ExponentialOptions {
  [[no_unique_address]] ByName by_name{};
  /// The step until which the value is constant.
  Index begin = 0;
  /// Whether the exponent is rounded down, so that the value changes only every `steps` steps.
  bool staircase = false;
  /// The bound at which the value stops: its minimum if it falls, its maximum if it rises.
  std::optional<double> end{};
};
/// Returns an exponential schedule: `from` * rate^(step / steps).
Schedule exponential_schedule(double from, Index steps, double rate, ExponentialOptions options = {});
/// Returns the schedule that starts at `from` and is multiplied by the factor of each pair (step,
/// factor) from that step on.
Schedule piecewise_schedule(double from, std::vector<std::pair<Index, double>> factors);
/// Returns the schedule that uses schedules[i] from step boundaries[i - 1] on; that step
/// is step 0 of schedules[i]. Throws ShapeError unless there is exactly one schedule more than
/// boundaries.
Schedule joined_schedule(std::vector<Schedule> schedules, std::vector<Index> boundaries);

}  // namespace stave

namespace stave_detail {

// The core of the optimizers, which works on single tensors (optimizers.cpp).

Tensor first_step(const std::vector<Tensor>& leaves);
Tensor next_step(const Tensor& step);
/// Returns zeros with the shape of x; float32 if x is float16 or bfloat16.
Tensor zero_moment(const Tensor& x);
Tensor sgd_step(const Tensor& rate, const Tensor& x, const Tensor& gradient);
/// Returns the next parameter and its velocity.
std::array<Tensor, 2> momentum_step(const Tensor& rate, double decay, bool nesterov, const Tensor& x,
                                    const Tensor& gradient, const Tensor& velocity);

enum class AdamKind { adam, adamw, lamb };
struct AdamStep {
  AdamKind kind;
  double beta1, beta2, epsilon;
  // The learning rate and weight decay at this step; adam has no decay.
  Tensor rate, decay;
  // The bias corrections 1 - beta^t.
  Tensor correction1, correction2;
  /// Returns the next parameter and its moments.
  std::array<Tensor, 3> operator()(bool decays, const Tensor& x, const Tensor& gradient, const Tensor& mean,
                                   const Tensor& variance) const;
};

/// Returns the factor that scales the norm of all floats together to at most `most`;
/// undefined if there are no floats.
Tensor clipping_factor(const std::vector<Tensor>& leaves, const Operand& most);
Tensor scaled_by(const Tensor& x, const Tensor& factor);
Tensor clipped(const Tensor& x, const Operand& most);

}  // namespace stave_detail

namespace stave {

// ---- stochastic gradient descent ---------------------------------------------------------

struct SgdOptions {
  [[no_unique_address]] ByName by_name{};
  Schedule learning_rate = 0.01;
};
struct SgdState {
  Tensor step;
};
/// Stochastic gradient descent: x - rate g.
class Sgd {
 public:
  explicit Sgd(SgdOptions options) : options_(std::move(options)) {}
  template <class Tree>
  SgdState init(const Tree& tree) const {
    return {stave_detail::first_step(tree_leaves(tree))};
  }
  template <class Tree>
  std::pair<Tree, SgdState> update(const Tree& tree, const Tree& gradient, const SgdState& state) const {
    const Tensor rate = options_.learning_rate(state.step);
    const auto step = [&](const Tensor& x, const Tensor& g) { return stave_detail::sgd_step(rate, x, g); };
    return {tree_map(step, tree, gradient), SgdState{stave_detail::next_step(state.step)}};
  }

 private:
  SgdOptions options_;
};
inline Sgd sgd(SgdOptions options = {}) { return Sgd(std::move(options)); }

struct MomentumOptions {
  [[no_unique_address]] ByName by_name{};
  Schedule learning_rate = 0.01;
  double decay = 0.9;
  bool nesterov = false;
};
template <class Tree>
struct MomentumState {
  Tensor step;
  Tree velocity;
};
/// Gradient descent with momentum: v = g + decay v; x - rate v, or with Nesterov momentum
/// x - rate (g + decay v). Sutskever et al., "On the importance of initialization and momentum
/// in deep learning", 2013.
class Momentum {
 public:
  explicit Momentum(MomentumOptions options) : options_(std::move(options)) {}
  template <class Tree>
  MomentumState<Tree> init(const Tree& tree) const {
    return {stave_detail::first_step(tree_leaves(tree)), tree_map(stave_detail::zero_moment, tree)};
  }
  template <class Tree>
  std::pair<Tree, MomentumState<Tree>> update(const Tree& tree, const Tree& gradient,
                                              const MomentumState<Tree>& state) const {
    const Tensor rate = options_.learning_rate(state.step);
    auto [next, velocity] = tree_map(
        [&](const Tensor& x, const Tensor& g, const Tensor& v) {
          return stave_detail::momentum_step(rate, options_.decay, options_.nesterov, x, g, v);
        },
        tree, gradient, state.velocity);
    return {std::move(next), MomentumState<Tree>{stave_detail::next_step(state.step), std::move(velocity)}};
  }

 private:
  MomentumOptions options_;
};
inline Momentum momentum(MomentumOptions options = {}) { return Momentum(std::move(options)); }

// ---- adaptive moments --------------------------------------------------------------------

struct AdamOptions {
  [[no_unique_address]] ByName by_name{};
  Schedule learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};
struct AdamWOptions {
  [[no_unique_address]] ByName by_name{};
  Schedule learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  Schedule weight_decay = 1e-4;
  /// Returns whether weight decay applies to a parameter; empty means that it applies to all.
  std::function<bool(const Tensor&)> decays{};
};
struct LambOptions {
  [[no_unique_address]] ByName by_name{};
  Schedule learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6;
  Schedule weight_decay = 0;
  /// Returns whether weight decay applies to a parameter; empty means that it applies to all.
  std::function<bool(const Tensor&)> decays{};
};
template <class Tree>
struct AdamState {
  Tensor step;
  /// Running means of the gradients and of their squares, without bias correction.
  Tree mean, variance;
};
/// The optimizers adam, adamw and lamb.
class Adam {
 public:
  Adam(stave_detail::AdamKind kind, LambOptions options) : kind_(kind), options_(std::move(options)) {}
  template <class Tree>
  AdamState<Tree> init(const Tree& tree) const {
    return {stave_detail::first_step(tree_leaves(tree)), tree_map(stave_detail::zero_moment, tree),
            tree_map(stave_detail::zero_moment, tree)};
  }
  template <class Tree>
  std::pair<Tree, AdamState<Tree>> update(const Tree& tree, const Tree& gradient, const AdamState<Tree>& state) const {
    const Tensor after = stave_detail::next_step(state.step);
    const stave_detail::AdamStep step = at(state.step, after);
    auto [next, mean, variance] =
        tree_map([&](const Tensor& x, const Tensor& g, const Tensor& m,
                     const Tensor& v) { return step(!options_.decays || options_.decays(x), x, g, m, v); },
                 tree, gradient, state.mean, state.variance);
    return {std::move(next), AdamState<Tree>{after, std::move(mean), std::move(variance)}};
  }

 private:
  stave_detail::AdamStep at(const Tensor& step, const Tensor& after) const;

  stave_detail::AdamKind kind_;
  LambOptions options_;
};
/// Returns the optimizer Adam: x - rate m / (sqrt(v) + epsilon), where m and v are bias-corrected
/// running means of g and g^2. Kingma and Ba, "Adam", 2015.
Adam adam(AdamOptions options = {});
/// Returns Adam with weight decay: x - rate (m / (sqrt(v) + epsilon) + weight_decay x).
/// Loshchilov and Hutter, "Decoupled weight decay regularization", 2019. Often only matrices decay:
/// .decays = [](const Tensor& x) { return x.rank() > 1; }.
Adam adamw(AdamWOptions options = {});
/// Returns adamw with the step of each tensor scaled to the length norm(x); it is not scaled
/// if a norm is 0. You et al., "Large batch optimization for deep learning", 2020.
Adam lamb(LambOptions options = {});

// ---- clipping ----------------------------------------------------------------------------

/// Returns the tree scaled so that the norm of all its floats together is at most `most`.
template <class Tree>
Tree clip_by_global_norm(const Tree& tree, const std::type_identity_t<Operand>& most) {
  const Tensor factor = stave_detail::clipping_factor(tree_leaves(tree), most);
  return tree_map([&](const Tensor& x) { return stave_detail::scaled_by(x, factor); }, tree);
}
/// Returns the tree with all its floats clipped to [-most, most].
template <class Tree>
Tree clip_by_value(const Tree& tree, const std::type_identity_t<Operand>& most) {
  return tree_map([&](const Tensor& x) { return stave_detail::clipped(x, most); }, tree);
}

}  // namespace stave
