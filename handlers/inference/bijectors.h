// Bijectors: invertible smooth functions, with the logarithm of the determinant of the Jacobian.
//
//   const Bijector b = Bijector::chain({Bijector::exp(), Bijector::affine(1, 2)});
//   b.forward(x), b.inverse(y), b.log_det(x)         // the function 1 + 2 exp(x)
//
// - A bijector maps events to events. An event is a number, a vector or a matrix: the last
//   input_rank() axes of x, the last output_rank() axes of the result. The other axes are a batch.
//   log_det has one element for each event of x.
// - Parameters are numbers or tensors, as those of distributions. They broadcast with x and take
//   its dtype.
// - A bijector is a tree of its parameters. Any class with forward(x), inverse(y) and log_det(x)
//   converts to Bijector. Its events are numbers, unless it has input_rank() and output_rank().
// - Names and formulas are those of NumPyro and TensorFlow Probability.
#pragma once

#include <concepts>
#include <memory>
#include <typeinfo>
#include <utility>
#include <vector>

#include <stave/core/tensor/tensor.h>
#include <stave/handlers/inference/erased_tree.h>
#include <stave/handlers/inference/number_or_tensor.h>

namespace stave {

/// A type-erased bijector. The static functions make the standard ones.
class Bijector {
 public:
  template <class B>
    requires(!std::same_as<B, Bijector> &&
             requires(const B& b, const Tensor& x) {
               { b.forward(x) } -> std::convertible_to<Tensor>;
               { b.inverse(x) } -> std::convertible_to<Tensor>;
               { b.log_det(x) } -> std::convertible_to<Tensor>;
             })
  Bijector(B bijector) : held_(std::make_shared<const Held<B>>(std::move(bijector))) {}

  Tensor forward(const Tensor& x) const { return held_->forward(x); }
  Tensor inverse(const Tensor& y) const { return held_->inverse(y); }
  /// Returns log |det(d forward(x) / dx)| for each event of x. For matrices it is the determinant
  /// of the independent elements: those of the lower triangle.
  Tensor log_det(const Tensor& x) const { return held_->log_det(x); }
  int input_rank() const { return held_->input_rank(); }
  int output_rank() const { return held_->output_rank(); }

  // ---- numbers
  static Bijector identity();
  static Bijector exp();
  /// location + scale x, where scale is not 0.
  static Bijector affine(NumberOrTensor location, NumberOrTensor scale);
  static Bijector sigmoid();
  /// low + (high - low) sigmoid(x).
  static Bijector interval(NumberOrTensor low, NumberOrTensor high);
  /// low + exp(x).
  static Bijector above(NumberOrTensor low);
  /// high - exp(x).
  static Bijector below(NumberOrTensor high);
  static Bijector softplus();
  static Bijector tanh();
  /// x^exponent for positive x, where the exponent is not 0.
  static Bijector power(NumberOrTensor exponent);

  // ---- vectors and matrices
  /// Maps R^(n-1) onto the probability vectors of length n, by Stan's stick breaking.
  static Bijector stick_breaking();
  /// location + l x for vectors x, where l = scale_tril is a lower triangular matrix [..., n, n].
  static Bijector lower_triangular_affine(NumberOrTensor location, Tensor scale_tril);
  /// Maps R^(n (n + 1) / 2) onto the lower triangular matrices [n, n] with a positive diagonal. The
  /// elements below the diagonal come first, row by row; then the logarithms of the diagonal.
  static Bijector lower_cholesky();
  /// l l^T for a lower triangular l with a positive diagonal; the inverse is `cholesky`.
  static Bijector cholesky_product();
  /// Maps R^(n (n - 1) / 2) onto the Cholesky factors [n, n] of correlation matrices, by tanh and
  /// signed stick breaking of each row (Stan Reference Manual, 10.12).
  static Bijector correlation_cholesky();

  // ---- combinations
  /// Applies the bijectors in their order: the first one comes first.
  static Bijector chain(std::vector<Bijector> bijectors);
  /// The bijector whose forward is the inverse of `bijector`.
  static Bijector inverse_of(Bijector bijector);

  // Access for transforms (tree.h).
  std::vector<Tensor> leaves() const { return held_->leaves(); }
  Bijector with_leaves(const std::vector<Tensor>& leaves) const { return Bijector(held_->with_leaves(leaves)); }
  bool same_besides_leaves(const Bijector& other) const { return held_->same(*other.held_); }

 private:
  struct Any {
    virtual ~Any() = default;
    virtual Tensor forward(const Tensor& x) const = 0;
    virtual Tensor inverse(const Tensor& y) const = 0;
    virtual Tensor log_det(const Tensor& x) const = 0;
    virtual int input_rank() const = 0;
    virtual int output_rank() const = 0;
    virtual std::vector<Tensor> leaves() const = 0;
    virtual std::shared_ptr<const Any> with_leaves(const std::vector<Tensor>& leaves) const = 0;
    virtual bool same(const Any& other) const = 0;
  };
  template <class B>
  struct Held final : Any {
    explicit Held(B b) : bijector(std::move(b)) {}
    Tensor forward(const Tensor& x) const override { return bijector.forward(x); }
    Tensor inverse(const Tensor& y) const override { return bijector.inverse(y); }
    Tensor log_det(const Tensor& x) const override { return bijector.log_det(x); }
    int input_rank() const override {
      if constexpr (requires { bijector.input_rank(); }) return bijector.input_rank();
      else return 0;
    }
    int output_rank() const override {
      if constexpr (requires { bijector.output_rank(); }) return bijector.output_rank();
      else return 0;
    }
    std::vector<Tensor> leaves() const override { return stave_detail::erased_leaves(bijector); }
    std::shared_ptr<const Any> with_leaves(const std::vector<Tensor>& leaves) const override {
      if constexpr (stave_detail::can_replace_leaves<B>())
        return std::make_shared<const Held>(stave_detail::with_leaves(bijector, leaves));
      else return nullptr;  // there are no leaves, and this function is not called
    }
    bool same(const Any& other) const override {
      return typeid(other) == typeid(Held) &&
             stave_detail::erased_same(bijector, static_cast<const Held&>(other).bijector);
    }
    B bijector;
  };
  explicit Bijector(std::shared_ptr<const Any> held) : held_(std::move(held)) {}
  std::shared_ptr<const Any> held_;
};

template <>
struct TreeTraits<Bijector> {
  template <class B, class F>
  static void visit(B& bijector, F&& f) {
    stave_detail::visit_erased(bijector, f);
  }
  static bool same(const Bijector& a, const Bijector& b) { return a.same_besides_leaves(b); }
};

}  // namespace stave
