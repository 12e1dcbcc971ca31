// The check of check_op (handlers/transforms/check_op.h) that the number of operations in Taylor
// mode does not grow exponentially with the order.
#include <cmath>

#include <stave/core/tensor/fail.h>
#include <stave/handlers/taylor/jet_handler.h>
#include <stave/handlers/transforms/check.h>
#include <stave/handlers/transforms/linear_in.h>

namespace stave_detail {

namespace {

// A tower is measured at this order, and at twice this order.
constexpr int low_order = 5;
// The number of operations may grow by this factor when the order doubles, as it does where it is
// proportional to the third power of the order. If it doubled at each order, it would grow by 2^5.
constexpr double largest_growth = 8;

double tower_size(FlatFunction f, std::span<const Tensor> xs, int order) {
  const auto handler = std::make_shared<JetHandler>(order);
  std::vector<std::vector<Tensor>> coefficients(static_cast<std::size_t>(order), random_like(xs, 5));
  jet_of_function(*handler, f, xs, coefficients, numbered_inputs);
  return handler->largest_tower;
}

}  // namespace

void check_tower_growth(FlatFunction f, std::span<const Tensor> xs) {
  double low = 0, high = 0;
  try {
    low = tower_size(f, xs, low_order);
    high = tower_size(f, xs, 2 * low_order);
  } catch (const NoDerivativeError&) {
    return;  // The rule performs an operation that has no derivatives, so there is no series.
  }
  if (high > largest_growth * low)
    fail<TransformError>(
        "the JVP rule performs {:.0f} operations for Taylor coefficients up to order {}, and {:.0f} up to order {}: "
        "it grows exponentially, because the rule performs its own operation on several other inputs, or on larger "
        "ones. Write the rule with the operation's result in place of them, or give the record a rule for series "
        "(Op::series)",
        low, low_order, high, 2 * low_order);
}

}  // namespace stave_detail
