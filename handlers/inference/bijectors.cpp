#include <stave/handlers/inference/bijectors.h>

#include <algorithm>
#include <numbers>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/handlers/inference/events.h>

namespace stave {

namespace {

using T = const Tensor&;
using stave_detail::log_sech_squared, stave_detail::sum_events;

struct Identity {
  Tensor forward(T x) const { return x; }
  Tensor inverse(T y) const { return y; }
  Tensor log_det(T x) const { return zeros_like(x); }
};

struct Exp {
  Tensor forward(T x) const { return stave::exp(x); }
  Tensor inverse(T y) const { return log(y); }
  Tensor log_det(T x) const { return x; }
};

struct Affine {
  NumberOrTensor location, scale;
  Tensor forward(T x) const { return location.like(x) + scale.like(x) * x; }
  Tensor inverse(T y) const { return (y - location.like(y)) / scale.like(y); }
  Tensor log_det(T x) const { return log(abs(scale.like(x))) + zeros_like(x); }
};

struct Sigmoid {
  Tensor forward(T x) const { return stave::sigmoid(x); }
  Tensor inverse(T y) const { return logit(y); }
  Tensor log_det(T x) const { return log_sigmoid(x) + log_sigmoid(-x); }
};

struct Interval {
  NumberOrTensor low, high;
  Tensor forward(T x) const {
    const Tensor l = low.like(x);
    return l + (high.like(x) - l) * stave::sigmoid(x);
  }
  Tensor inverse(T y) const { return log(y - low.like(y)) - log(high.like(y) - y); }
  Tensor log_det(T x) const { return log(high.like(x) - low.like(x)) + log_sigmoid(x) + log_sigmoid(-x); }
};

struct Above {
  NumberOrTensor low;
  Tensor forward(T x) const { return low.like(x) + stave::exp(x); }
  Tensor inverse(T y) const { return log(y - low.like(y)); }
  Tensor log_det(T x) const { return x; }
};

struct Below {
  NumberOrTensor high;
  Tensor forward(T x) const { return high.like(x) - stave::exp(x); }
  Tensor inverse(T y) const { return log(high.like(y) - y); }
  Tensor log_det(T x) const { return x; }
};

struct Softplus {
  Tensor forward(T x) const { return stave::softplus(x); }
  // log(e^y - 1) = y + log(1 - e^-y)
  Tensor inverse(T y) const { return y + log(-expm1(-y)); }
  Tensor log_det(T x) const { return log_sigmoid(x); }
};

struct Tanh {
  Tensor forward(T x) const { return stave::tanh(x); }
  Tensor inverse(T y) const { return atanh(y); }
  Tensor log_det(T x) const { return log_sech_squared(x); }
};

struct Power {
  NumberOrTensor exponent;
  Tensor forward(T x) const { return pow(x, exponent.like(x)); }
  Tensor inverse(T y) const { return pow(y, 1 / exponent.like(y)); }
  Tensor log_det(T x) const {
    const Tensor p = exponent.like(x);
    return log(abs(p)) + (p - 1) * log(x);
  }
};

struct Chain {
  std::vector<Bijector> parts;
  // The event of the chain is the smallest one that contains whole events of each part.
  int input_rank() const {
    int rank = 0, gained = 0;
    for (const Bijector& part : parts) {
      rank = std::max(rank, part.input_rank() - gained);
      gained += part.output_rank() - part.input_rank();
    }
    return rank;
  }
  int output_rank() const {
    int rank = input_rank();
    for (const Bijector& part : parts) rank += part.output_rank() - part.input_rank();
    return rank;
  }
  Tensor forward(T x) const {
    Tensor y = x;
    for (const Bijector& part : parts) y = part.forward(y);
    return y;
  }
  Tensor inverse(T y) const {
    Tensor x = y;
    for (std::size_t i = parts.size(); i-- > 0;) x = parts[i].inverse(x);
    return x;
  }
  Tensor log_det(T x) const {
    Tensor y = x, total;
    int rank = input_rank();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Bijector& part = parts[i];
      const Tensor one = sum_events(part.log_det(y), rank - part.input_rank());
      total = total.defined() ? total + one : one;
      rank += part.output_rank() - part.input_rank();
      if (i + 1 < parts.size()) y = part.forward(y);
    }
    return total.defined() ? total : zeros_like(x);
  }
};

struct InverseOf {
  Bijector bijector;
  int input_rank() const { return bijector.output_rank(); }
  int output_rank() const { return bijector.input_rank(); }
  Tensor forward(T x) const { return bijector.inverse(x); }
  Tensor inverse(T y) const { return bijector.forward(y); }
  Tensor log_det(T x) const { return -bijector.log_det(bijector.inverse(x)); }
};

}  // namespace

Bijector Bijector::identity() { return Identity{}; }
Bijector Bijector::exp() { return Exp{}; }
Bijector Bijector::affine(NumberOrTensor location, NumberOrTensor scale) {
  return Affine{std::move(location), std::move(scale)};
}
Bijector Bijector::sigmoid() { return Sigmoid{}; }
Bijector Bijector::interval(NumberOrTensor low, NumberOrTensor high) {
  return Interval{std::move(low), std::move(high)};
}
Bijector Bijector::above(NumberOrTensor low) { return Above{std::move(low)}; }
Bijector Bijector::below(NumberOrTensor high) { return Below{std::move(high)}; }
Bijector Bijector::softplus() { return Softplus{}; }
Bijector Bijector::tanh() { return Tanh{}; }
Bijector Bijector::power(NumberOrTensor exponent) { return Power{std::move(exponent)}; }
Bijector Bijector::chain(std::vector<Bijector> bijectors) { return Chain{std::move(bijectors)}; }
Bijector Bijector::inverse_of(Bijector bijector) { return InverseOf{std::move(bijector)}; }

}  // namespace stave
