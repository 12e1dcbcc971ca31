// The handler of Taylor mode. Its notes hold the series of values (tower.h).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <stave/core/op/derivative_order.h>
#include <stave/core/op/higher_order.h>
#include <stave/core/op/lost_derivatives.h>
#include <stave/core/tensor/note.h>
#include <stave/handlers/taylor/jet_flat.h>
#include <stave/handlers/taylor/tower.h>
#include <stave/handlers/transforms/record_loop.h>

namespace stave_detail {

class JetHandler final : public Handles<Call, RecordLoop>,
                         public FollowsDerivatives,
                         public TakesHigherDerivatives,
                         public std::enable_shared_from_this<JetHandler> {
 public:
  /// A handler of coefficients up to `order`.
  explicit JetHandler(int order) : order(order) {}

  Outputs handle(Call& call) override;
  Index handle(RecordLoop& loop) override;
  std::string describe() const override { return "jet"; }
  HandlerProperties properties() const noexcept override { return {.runs_no_user_code = true}; }
  Tensor lost(Tensor x) const override;
  bool follows(const Tensor& x) const noexcept override { return notes.find(x) != nullptr; }
  int highest_derivative() const noexcept override { return order; }

  /// Returns the result of the function, which runs with this handler installed around it.
  template <class F>
  auto run(F&& f) {
    return notes.run([&] { return with(outside_, [&] { return with(*this, f); }); });
  }

  /// The series of x; null if x is a constant. Throws TransformError if the derivative of x is
  /// lost, or if a custom rule computed x and x is used outside of the rule.
  SeriesPtr series_of(const Tensor& x) const;
  /// Returns x with a series; with null, x without one.
  Tensor put(Tensor x, SeriesPtr series) const;
  /// Returns x with the series of these coefficients (undefined: zero).
  Tensor put(Tensor x, std::span<const Tensor> coefficients) const;
  /// Coefficient k >= 1 of a value of the program; zeros if it has none.
  Tensor coefficient(const Tensor& x, int k) const;
  /// Returns y'(t) for each output of a call with a custom derivative rule, computed by that rule.
  /// `tangents` holds x'(t) for the inputs with a series.
  std::vector<ValueWithSeries> by_custom_rule(const Call& call, std::span<const Tensor> tangents);

  const int order;
  Notes<SeriesPtr> notes{"jet", this};
  Tower* tower = nullptr;  // the tower that is being built
  double largest_tower = 0;

 private:
  Outputs handle_higher_order(Call& call);
  Outputs checkpoint(Call& call);
  Outputs custom_rule(Call& call);
  FunctionResults tangents_by_jvp(const Call& call, const Inputs& tangents);
  bool has_series(const Call& call) const;
  SmallVector<SeriesPtr, 3> series_of_inputs(const Call& call) const;
  Outputs stripped(Outputs outputs) const;
  Outputs with_series(const Lazy& y) const;
  Outputs completed(Tower& tower, Lazy& y);
  std::vector<InstallationId> ids() const;
  JetHandler& for_rules();

  // Custom rules run under a handler of their own, which builds the same tower. A value that a rule
  // captured has notes of this handler then, and an argument of the rule has not.
  JetHandler* parent_ = nullptr;
  std::shared_ptr<JetHandler> for_rules_;
  AnsweredOutside outside_;
  mutable std::string lost_by_;  // the effect whose answer first lost a derivative
};

/// Installs the tower to which a handler adds operations.
class InTower {
 public:
  InTower(JetHandler& jet, Tower* tower) : jet_(jet), before_(std::exchange(jet.tower, tower)) {}
  ~InTower() { jet_.tower = before_; }
  InTower(const InTower&) = delete;

 private:
  JetHandler& jet_;
  Tower* const before_;
};

/// jet_flat under this handler.
FlatJet jet_of_function(JetHandler& handler, FlatFunction f, std::span<const Tensor> primals,
                        std::span<const std::vector<Tensor>> coefficients, InputNames names);

}  // namespace stave_detail
