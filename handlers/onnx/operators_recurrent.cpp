// Recurrent networks: RNN, GRU and LSTM. Each direction is a scan over the steps, which trace and
// compile record as one operation.
#include <algorithm>
#include <functional>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/rearrange.h>
#include <stave/handlers/onnx/operators.h>
#include <stave/handlers/transforms/loop.h>

namespace stave_detail {

namespace {

using Activation = std::function<Tensor(const Tensor&)>;
using States = std::vector<Tensor>;

// The activations of all directions, by the names and numbers of the attributes. Those activations
// that have parameters take them in order.
class Activations {
 public:
  Activations(const NodeCall& n, std::initializer_list<const char*> defaults, Index directions)
      : n_(n), alphas_(n.numbers("activation_alpha")), betas_(n.numbers("activation_beta")),
        clip_(n.number("clip", 0)) {
    std::vector<std::string> names = n.texts("activations");
    if (names.empty())
      for (Index d = 0; d < directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
    if (names.size() != defaults.size() * static_cast<std::size_t>(directions))
      fail<ShapeError>("there are {} activations for {} directions", names.size(), directions);
    for (const std::string& name : names) all_.push_back(clipped(named(name)));
  }
  const Activation& operator[](std::size_t i) const { return all_[i]; }

 private:
  double parameter(std::vector<double>& from, double otherwise) {
    if (from.empty()) return otherwise;
    const double value = from.front();
    from.erase(from.begin());
    return value;
  }
  double alpha(double otherwise) { return parameter(alphas_, otherwise); }
  double beta(double otherwise) { return parameter(betas_, otherwise); }

  Activation named(std::string name) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    if (name == "tanh") return [](const Tensor& x) { return tanh(x); };
    if (name == "sigmoid") return [](const Tensor& x) { return sigmoid(x); };
    if (name == "relu") return [](const Tensor& x) { return relu(x); };
    if (name == "softsign") return [](const Tensor& x) { return x / (1 + abs(x)); };
    if (name == "softplus") return [](const Tensor& x) { return softplus(x); };
    if (name == "leakyrelu") return [a = alpha(0.01)](const Tensor& x) { return leaky_relu(x, a); };
    if (name == "elu") return [a = alpha(1)](const Tensor& x) { return elu(x, a); };
    if (name == "thresholdedrelu") return [a = alpha(1)](const Tensor& x) { return where(x > a, x, zeros_like(x)); };
    if (name == "affine") return [a = alpha(1), b = beta(0)](const Tensor& x) { return a * x + b; };
    if (name == "scaledtanh") return [a = alpha(1), b = beta(1)](const Tensor& x) { return a * tanh(b * x); };
    if (name == "hardsigmoid")
      return [a = alpha(0.2), b = beta(0.5)](const Tensor& x) { return clip(a * x + b, 0, 1); };
    n_.refuse("there is no activation '{}'", name);
  }
  Activation clipped(Activation f) const {
    if (clip_ <= 0) return f;
    return [f = std::move(f), c = clip_](const Tensor& x) { return f(clip(x, -c, c)); };
  }

  const NodeCall& n_;
  std::vector<double> alphas_, betas_;
  double clip_;
  std::vector<Activation> all_;
};

// Applies `step` to all steps of one direction. step(products of x with weights, states) returns
// the next states, of which the first is the output. Steps after the end of a sequence keep its
// states, and their output is 0.
struct OneDirection {
  Tensor inputs;   // [steps, batch, gates * hidden]
  Tensor running;  // [steps, batch, 1] bools, or empty
  bool reverse;

  template <class Step>
  std::pair<States, Tensor> run(States states, Step step) const {
    const auto one = [step, masked = running.defined()](const States& before, const States& row) {
      States after = step(row[0], before);
      Tensor y = after[0];
      if (masked) {
        for (std::size_t i = 0; i < after.size(); ++i) after[i] = where(row[1], after[i], before[i]);
        y = where(row[1], y, zeros_like(y));
      }
      return std::pair(after, y);
    };
    States rows{inputs};
    if (running.defined()) rows.push_back(running);
    return scan(one, {.reverse = reverse})(std::move(states), rows);
  }
};

// The weights and initial states of all directions of a node, and its results.
class Recurrence {
 public:
  Recurrence(const NodeCall& n, Index gates, std::size_t states)
      : n_(n), batch_first_(n.integer("layout", 0) != 0), x_(batch_first_ ? swapaxes(n(0), 0, 1) : n(0)),
        directions_(n(1).shape(0)), hidden_(n(2).shape(-1)), gates_(gates), outputs_(1 + states) {
    const std::string direction = n.text("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
      n.refuse("there is no direction '{}'", direction);
    if (directions_ != (direction == "bidirectional" ? 2 : 1))
      fail<ShapeError>("there are weights of {} directions for '{}'", directions_, direction);
    reverse_ = direction == "reverse";
  }
  Index directions() const { return directions_; }
  Index hidden() const { return hidden_; }

  /// [hidden, gates * hidden]
  Tensor recurrent_weights(Index d) const { return transpose(n_(2)[d]); }
  /// The bias of the recurrent part [gates * hidden]; empty if there is none.
  Tensor recurrent_bias(Index d) const { return n_.has(3) ? n_(3)[d](slice(gates_ * hidden_, none)) : Tensor(); }
  OneDirection direction(Index d) const {
    Tensor inputs = matmul(x_, transpose(n_(1)[d]));
    if (n_.has(3)) inputs = inputs + n_(3)[d](slice(gates_ * hidden_));
    Tensor running;
    if (n_.has(4))
      running = expand_dims(reshape(arange(0, x_.shape(0), 1, int64), {x_.shape(0), 1}) < as_int64(n_(4)), -1);
    return {inputs, running, reverse_ || d == 1};
  }
  Tensor initial(std::size_t input, Index d) const {
    if (!n_.has(input)) return zeros({x_.shape(1), hidden_}, x_.dtype());
    return (batch_first_ ? swapaxes(n_(input), 0, 1) : n_(input))[d];
  }

  void add(std::pair<States, Tensor> result) {
    ys_.push_back(std::move(result.second));
    last_.push_back(std::move(result.first));
  }
  OnnxValues results() const {
    // Y is [steps, directions, batch, hidden], or with `layout` [batch, steps, directions, hidden].
    Tensor y = stack(ys_, 1);
    OnnxValues all{OnnxValue(batch_first_ ? permute_dims(y, {2, 0, 1, 3}) : y)};
    for (std::size_t i = 0; i + 1 < outputs_; ++i) {
      std::vector<Tensor> states;
      for (const States& of_direction : last_) states.push_back(of_direction[i]);
      all.emplace_back(stack(states, batch_first_ ? 1 : 0));
    }
    return all;
  }

 private:
  const NodeCall& n_;
  const bool batch_first_;
  const Tensor x_;  // [steps, batch, inputs]
  const Index directions_, hidden_, gates_;
  const std::size_t outputs_;
  bool reverse_ = false;
  std::vector<Tensor> ys_;
  std::vector<States> last_;
};

Tensor plus(const Tensor& x, const Tensor& bias) { return bias.defined() ? x + bias : x; }

// Part i of the gates along the last axis.
Tensor gate(const Tensor& gates, Index i, Index hidden) { return gates(ellipsis, slice(i * hidden, (i + 1) * hidden)); }

OnnxValues rnn(const NodeCall& n) {
  Recurrence all(n, 1, 1);
  const Activations f(n, {"Tanh"}, all.directions());
  for (Index d = 0; d < all.directions(); ++d) {
    const auto step = [r = all.recurrent_weights(d), b = all.recurrent_bias(d), g = f[static_cast<std::size_t>(d)]](
                          const Tensor& x, const States& s) { return States{g(plus(x + matmul(s[0], r), b))}; };
    all.add(all.direction(d).run({all.initial(5, d)}, step));
  }
  return all.results();
}

// The gates are z (update), r (reset) and h (hidden).
OnnxValues gru(const NodeCall& n) {
  Recurrence all(n, 3, 1);
  const Activations f(n, {"Sigmoid", "Tanh"}, all.directions());
  const bool linear_before_reset = n.integer("linear_before_reset", 0) != 0;
  const Index hidden = all.hidden();
  for (Index d = 0; d < all.directions(); ++d) {
    const Tensor r = all.recurrent_weights(d), bias = all.recurrent_bias(d);
    const Tensor bias_h = bias.defined() ? gate(bias, 2, hidden) : Tensor();
    const auto step = [=, r_h = gate(r, 2, hidden), f0 = f[static_cast<std::size_t>(2 * d)],
                       f1 = f[static_cast<std::size_t>(2 * d + 1)]](const Tensor& x, const States& s) {
      const Tensor& h = s[0];
      const Tensor products = plus(matmul(h, r), bias);
      const Tensor z = f0(gate(x, 0, hidden) + gate(products, 0, hidden)),
                   reset = f0(gate(x, 1, hidden) + gate(products, 1, hidden));
      const Tensor from_h =
          linear_before_reset ? reset * gate(products, 2, hidden) : plus(matmul(reset * h, r_h), bias_h);
      const Tensor candidate = f1(gate(x, 2, hidden) + from_h);
      return States{(1 - z) * candidate + z * h};
    };
    all.add(all.direction(d).run({all.initial(5, d)}, step));
  }
  return all.results();
}

// The gates are i (input), o (output), f (forget) and c (cell).
OnnxValues lstm(const NodeCall& n) {
  Recurrence all(n, 4, 2);
  const Activations f(n, {"Sigmoid", "Tanh", "Tanh"}, all.directions());
  const bool coupled = n.integer("input_forget", 0) != 0;
  const Index hidden = all.hidden();
  for (Index d = 0; d < all.directions(); ++d) {
    const Tensor peephole = n.has(7) ? n(7)[d] : Tensor();
    const auto peep = [=](const Tensor& x, Index i, const Tensor& c) {
      return peephole.defined() ? x + gate(peephole, i, hidden) * c : x;
    };
    const auto at = static_cast<std::size_t>(3 * d);
    const auto step = [=, r = all.recurrent_weights(d), b = all.recurrent_bias(d), f0 = f[at], f1 = f[at + 1],
                       f2 = f[at + 2]](const Tensor& x, const States& s) {
      const Tensor gates = plus(x + matmul(s[0], r), b);
      const Tensor i = f0(peep(gate(gates, 0, hidden), 0, s[1]));
      const Tensor forget = coupled ? 1 - i : f0(peep(gate(gates, 2, hidden), 2, s[1]));
      const Tensor c = forget * s[1] + i * f1(gate(gates, 3, hidden));
      const Tensor o = f0(peep(gate(gates, 1, hidden), 1, c));
      return States{o * f2(c), c};
    };
    all.add(all.direction(d).run({all.initial(5, d), all.initial(6, d)}, step));
  }
  return all.results();
}

constexpr OnnxOperator recurrent_rows[] = {
    {"GRU", 7, gru},
    {"LSTM", 7, lstm},
    {"RNN", 7, rnn},
};

}  // namespace

std::span<const OnnxOperator> onnx_recurrent() { return recurrent_rows; }

}  // namespace stave_detail
