// Distribution: a type-erased distribution.
#pragma once

#include <concepts>
#include <memory>
#include <typeinfo>
#include <utility>
#include <vector>

#include <stave/core/ops/random.h>
#include <stave/core/tensor/tensor.h>
#include <stave/handlers/inference/erased_tree.h>
#include <stave/handlers/inference/support.h>

namespace stave {

/// A type-erased distribution: holds any class of distributions.h, or one of your own.
class Distribution {
 public:
  template <class D>
    requires(!std::same_as<D, Distribution> &&
             requires(const D& d, const Tensor& x, const Key& key, const Shape& shape) {
               { d.log_prob(x) } -> std::convertible_to<Tensor>;
               { d.sample(key, shape) } -> std::convertible_to<Tensor>;
               { d.support() } -> std::convertible_to<Support>;
             })
  Distribution(D distribution) : held_(std::make_shared<const Held<D>>(std::move(distribution))) {}
  Tensor log_prob(const Tensor& x) const { return held_->log_prob(x); }
  Tensor sample(const Key& key, const Shape& shape = {}) const { return held_->sample(key, shape); }
  Support support() const { return held_->support(); }
  /// Returns the number of trailing axes of a draw that belong together: 0 for numbers, 1 for
  /// vectors, 2 for matrices. It is 0 for a class without this function.
  int event_rank() const { return held_->event_rank(); }

  // Access for transforms (tree.h).
  std::vector<Tensor> leaves() const { return held_->leaves(); }
  Distribution with_leaves(const std::vector<Tensor>& leaves) const { return Distribution(held_->with_leaves(leaves)); }
  bool same_besides_leaves(const Distribution& other) const { return held_->same(*other.held_); }

 private:
  struct Any {
    virtual ~Any() = default;
    virtual Tensor log_prob(const Tensor& x) const = 0;
    virtual Tensor sample(const Key& key, const Shape& shape) const = 0;
    virtual Support support() const = 0;
    virtual int event_rank() const = 0;
    virtual std::vector<Tensor> leaves() const = 0;
    virtual std::shared_ptr<const Any> with_leaves(const std::vector<Tensor>& leaves) const = 0;
    virtual bool same(const Any& other) const = 0;
  };
  template <class D>
  struct Held final : Any {
    explicit Held(D d) : distribution(std::move(d)) {}
    Tensor log_prob(const Tensor& x) const override { return distribution.log_prob(x); }
    Tensor sample(const Key& key, const Shape& shape) const override { return distribution.sample(key, shape); }
    Support support() const override { return distribution.support(); }
    int event_rank() const override {
      if constexpr (requires { distribution.event_rank(); }) return distribution.event_rank();
      else return 0;
    }
    std::vector<Tensor> leaves() const override { return stave_detail::erased_leaves(distribution); }
    std::shared_ptr<const Any> with_leaves(const std::vector<Tensor>& leaves) const override {
      if constexpr (stave_detail::can_replace_leaves<D>())
        return std::make_shared<const Held>(stave_detail::with_leaves(distribution, leaves));
      else return nullptr;  // there are no leaves, and this function is not called
    }
    bool same(const Any& other) const override {
      return typeid(other) == typeid(Held) &&
             stave_detail::erased_same(distribution, static_cast<const Held&>(other).distribution);
    }
    D distribution;
  };
  explicit Distribution(std::shared_ptr<const Any> held) : held_(std::move(held)) {}
  std::shared_ptr<const Any> held_;
};

template <>
struct TreeTraits<Distribution> {
  template <class D, class F>
  static void visit(D& distribution, F&& f) {
    stave_detail::visit_erased(distribution, f);
  }
  static bool same(const Distribution& a, const Distribution& b) { return a.same_besides_leaves(b); }
};

}  // namespace stave
