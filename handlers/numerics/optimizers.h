// Optimizers: pure functions of trees (tree.h), with Optax's meanings and figures.
//
//   const auto optimizer = adam({.learning_rate = warmup_cosine_schedule(0, 1e-3, 100, 10'000)});
//   auto state = optimizer.init(mlp);
//   for (const auto& [x, y] : batches) {
//     const Mlp gradient = grad(loss)(mlp, x, y);
//     std::tie(mlp, state) = optimizer.update(mlp, clip_by_global_norm(gradient, 1.), state);
//   }
//
// - A state is a tree as well: it is saved, mapped and differentiated like any other. `step` counts updates, in int32.
// - Everything is made of ordinary operations. Rates may be tensors, so grad goes through updates, and vmap tries many rates at once:
//     vmap([&](const Tensor& rate) { return train(sgd({.learning_rate = rate})); })(rates)
// - Rates are computed in float64, and rounded once to the dtype of what they multiply. Of halves moments are kept, and updates computed,
//   in float32. Tensors of a tree that are no floats stay as they are.
// - Throws ShapeError if a parameter and its gradient differ in shape, or trees in structure.
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

/// A number for each step 0, 1, 2, ...: one and the same, or a function of the step, an int32 tensor of rank 0, that gives a tensor of
/// rank 0.
class Schedule {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  Schedule(T value) : value_(static_cast<double>(value)) {}
  Schedule(Tensor value) : tensor_(std::move(value)) {}
  template <class F>
    requires(std::is_invocable_r_v<Tensor, const F&, const Tensor&> && !std::same_as<F, Schedule>)
  Schedule(F function) : function_(std::move(function)) {}

  /// Throws ShapeError if the number is none, but of another rank.
  Tensor operator()(const Tensor& step) const;

 private:
  double value_ = 0;
  Tensor tensor_;
  std::function<Tensor(const Tensor&)> function_;
};

/// From `from` to `to` in so many steps, after `begin` steps; constant before and after.
Schedule linear_schedule(double from, double to, Index steps, Index begin = 0);
/// from (1 - alpha) ((1 + cos(pi step / steps)) / 2)^exponent + from alpha, until `steps`; then constant. Loshchilov and Hutter, "SGDR",
/// 2017.
Schedule cosine_schedule(double from, Index steps, double alpha = 0, double exponent = 1);
/// `from` to `peak` in a line, then to `end` by a cosine; `steps` counts both.
Schedule warmup_cosine_schedule(double from, double peak, Index warmup_steps, Index steps, double end = 0,
                                double exponent = 1);
struct ExponentialOptions {
  [[no_unique_address]] ByName by_name{};
  Index begin = 0;              ///< constant until then
  bool staircase = false;       ///< by whole powers
  std::optional<double> end{};  ///< not beyond this
};
/// from rate^(step / steps).
Schedule exponential_schedule(double from, Index steps, double rate, ExponentialOptions options = {});
/// `from`, times the factor of each pair (step, factor) from that step on.
Schedule piecewise_schedule(double from, std::vector<std::pair<Index, double>> factors);
/// schedules[i] from step boundaries[i - 1] on, which is 0 to it. Throws ShapeError unless there is one schedule more than boundaries.
Schedule joined_schedule(std::vector<Schedule> schedules, std::vector<Index> boundaries);

}  // namespace stave

namespace stave_detail {

// The flat core of optimizers, of single tensors (optimizers.cpp).

Tensor first_step(const std::vector<Tensor>& leaves);
Tensor next_step(const Tensor& step);
/// Zeros like x; float32 for halves.
Tensor zero_moment(const Tensor& x);
Tensor sgd_step(const Tensor& rate, const Tensor& x, const Tensor& gradient);
/// The parameter and its velocity.
std::array<Tensor, 2> momentum_step(const Tensor& rate, double decay, bool nesterov, const Tensor& x,
                                    const Tensor& gradient, const Tensor& velocity);

enum class AdamKind { adam, adamw, lamb };
struct AdamStep {
  AdamKind kind;
  double beta1, beta2, epsilon;
  Tensor rate, decay;               // at this step; decay: of adamw and lamb
  Tensor correction1, correction2;  // 1 - beta^t
  /// The parameter and its moments.
  std::array<Tensor, 3> operator()(bool decays, const Tensor& x, const Tensor& gradient, const Tensor& mean,
                                   const Tensor& variance) const;
};

/// What x is multiplied with so that the norm of all is at most `most`; undefined for none.
Tensor clipping_factor(const std::vector<Tensor>& leaves, const Operand& most);
Tensor scaled_by(const Tensor& x, const Tensor& factor);
Tensor clipped(const Tensor& x, const Operand& most);

}  // namespace stave_detail

namespace stave {

// ---- stochastic gradient descent ----------------------------------------------------------------------------

struct SgdOptions {
  [[no_unique_address]] ByName by_name{};
  Schedule learning_rate = 0.01;
};
struct SgdState {
  Tensor step;
};
/// x - rate g.
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
/// v = g + decay v; x - rate v, or (Nesterov) x - rate (g + decay v). Sutskever et al., "On the importance of initialization and
/// momentum in deep learning", 2013.
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

// ---- adaptive moments ---------------------------------------------------------------------------------------

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
  std::function<bool(const Tensor&)> decays{};  ///< which parameters decay; empty: all
};
struct LambOptions {
  [[no_unique_address]] ByName by_name{};
  Schedule learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6;
  Schedule weight_decay = 0;
  std::function<bool(const Tensor&)> decays{};  ///< which parameters decay; empty: all
};
template <class Tree>
struct AdamState {
  Tensor step;
  Tree mean, variance;  ///< running ones of gradients and of their squares, not corrected
};
/// adam, adamw and lamb.
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
/// m and v, running means of g and g^2, corrected for their start at 0: x - rate m / (sqrt(v) + epsilon). Kingma and Ba, "Adam", 2015.
Adam adam(AdamOptions options = {});
/// The same, and x decays: x - rate (m / (sqrt(v) + epsilon) + weight_decay x). Loshchilov and Hutter, "Decoupled weight decay
/// regularization", 2019. Often of matrices alone: .decays = [](const Tensor& x) { return x.rank() > 1; }.
Adam adamw(AdamWOptions options = {});
/// adamw, each tensor's step scaled to norm(x); by 1 where a norm is 0. You et al., "Large batch optimization for deep learning", 2020.
Adam lamb(LambOptions options = {});

// ---- clipping -----------------------------------------------------------------------------------------------

/// The tree, scaled so that the norm of all its floats together is at most `most`.
template <class Tree>
Tree clip_by_global_norm(const Tree& tree, const std::type_identity_t<Operand>& most) {
  const Tensor factor = stave_detail::clipping_factor(tree_leaves(tree), most);
  return tree_map([&](const Tensor& x) { return stave_detail::scaled_by(x, factor); }, tree);
}
/// All floats of a tree within [-most, most].
template <class Tree>
Tree clip_by_value(const Tree& tree, const std::type_identity_t<Operand>& most) {
  return tree_map([&](const Tensor& x) { return stave_detail::clipped(x, most); }, tree);
}

}  // namespace stave
