#include <stave/handlers/inference/support.h>

#include <cmath>
#include <numbers>

#include <stave/core/tensor/fail.h>

namespace stave {

namespace {
bool is_infinite(const NumberOrTensor& bound) { return bound.is_number() && std::isinf(*bound.number()); }
}  // namespace

Support Support::interval(NumberOrTensor low, NumberOrTensor high) {
  if (is_infinite(low)) return is_infinite(high) ? real() : below(std::move(high));
  if (is_infinite(high)) return above(std::move(low));
  return Support(Bijector::interval(std::move(low), std::move(high)));
}

Support Support::circle() { return interval(-std::numbers::pi, std::numbers::pi); }

Support Support::positive_definite() {
  return Support(Bijector::chain({Bijector::lower_cholesky(), Bijector::cholesky_product()}));
}

const Bijector& Support::map() const {
  if (!map_)
    stave_detail::fail<TransformError>(
        "Support: a discrete distribution has no map from R^n: sum over its values, or condition on it");
  return *map_;
}

}  // namespace stave
