// The steps of optimizers on single tensors, and schedules. The formulas are those of Optax.

#include <stave/handlers/numerics/optimizers.h>

#include <cmath>
#include <numbers>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using stave_detail::fail;

// ---- schedules ---------------------------------------------------------------------------

Tensor Schedule::operator()(const Tensor& step) const {
  if (!function_ && !tensor_.defined()) return full({}, value_, float64, step.device());
  const Tensor value = function_ ? function_(step) : tensor_;
  if (!value.defined()) fail<ShapeError>("a schedule gave an empty Tensor: a single number is needed");
  if (value.rank() != 0)
    fail<ShapeError>("a schedule gave shape {}: a single number is needed: vmap over them", value.shape());
  return value;
}

namespace {

void check_steps(Index steps, const char* schedule) {
  if (steps <= 0) fail<Error>("{}: {} steps: at least one is needed", schedule, steps);
}

Tensor as_number(const Tensor& step) { return astype(step, float64); }

}  // namespace

Schedule linear_schedule(double from, double to, Index steps, Index begin) {
  check_steps(steps, "linear_schedule");
  return [=](const Tensor& step) {
    const Tensor left = 1 - as_number(clip(step - begin, 0, steps)) / static_cast<double>(steps);
    return (from - to) * left + to;
  };
}

Schedule cosine_schedule(double from, Index steps, double alpha, double exponent) {
  check_steps(steps, "cosine_schedule");
  return [=](const Tensor& step) {
    const Tensor angle = as_number(minimum(step, steps)) * (std::numbers::pi / static_cast<double>(steps));
    return from * ((1 - alpha) * pow(0.5 * (1 + cos(angle)), exponent) + alpha);
  };
}

Schedule warmup_cosine_schedule(double from, double peak, Index warmup_steps, Index steps, double end,
                                double exponent) {
  if (warmup_steps < 0 || steps <= warmup_steps)
    fail<Error>("warmup_cosine_schedule: {} steps, {} of which are for warming up: some must be left", steps,
                warmup_steps);
  const Schedule decay = cosine_schedule(peak, steps - warmup_steps, peak == 0 ? 0 : end / peak, exponent);
  if (warmup_steps == 0) return decay;
  return joined_schedule({linear_schedule(from, peak, warmup_steps), decay}, {warmup_steps});
}

Schedule exponential_schedule(double from, Index steps, double rate, ExponentialOptions options) {
  check_steps(steps, "exponential_schedule");
  if (!(rate > 0)) fail<Error>("exponential_schedule: rate {} is not positive", rate);
  return [=](const Tensor& step) {
    const Tensor gone = as_number(maximum(step - options.begin, 0)) / static_cast<double>(steps);
    const Tensor value = from * pow(rate, options.staircase ? floor(gone) : gone);
    if (!options.end) return value;
    return rate < 1 ? maximum(value, *options.end) : minimum(value, *options.end);
  };
}

Schedule piecewise_schedule(double from, std::vector<std::pair<Index, double>> factors) {
  return [from, factors = std::move(factors)](const Tensor& step) {
    Tensor value = full({}, from, float64, step.device());
    for (const auto& [begin, factor] : factors) value = where(step < begin, value, value * factor);
    return value;
  };
}

Schedule joined_schedule(std::vector<Schedule> schedules, std::vector<Index> boundaries) {
  if (schedules.size() != boundaries.size() + 1)
    fail<ShapeError>("joined_schedule: {} schedules and {} boundaries: one schedule more than boundaries is needed",
                     schedules.size(), boundaries.size());
  return [schedules = std::move(schedules), boundaries = std::move(boundaries)](const Tensor& step) {
    Tensor value = schedules[0](step);
    for (std::size_t i = 0; i < boundaries.size(); ++i)
      value = where(step < boundaries[i], value, schedules[i + 1](step - boundaries[i]));
    return value;
  };
}

}  // namespace stave

namespace stave_detail {

namespace {

bool is_parameter(const Tensor& x) {
  if (is_complex(x.dtype()))
    fail<DtypeError>("an optimizer updates real parameters, not {}: make the real and the imaginary part parameters",
                     x.dtype());
  return is_float(x.dtype());
}
// Returns x in the dtype that updates are computed in: float32 for float16 and bfloat16.
Tensor in_update_dtype(const Tensor& x) { return astype(x, computed_in(x.dtype())); }

// Returns a single number with the device and dtype of a computation with x.
Tensor number_for(const Tensor& x, const Tensor& number) {
  return astype(number.device() == x.device() ? number : to(number, x.device()), computed_in(x.dtype()));
}

void check_gradient(const char* optimizer, const Tensor& x, const Tensor& gradient) {
  if (require_defined(gradient, optimizer, 1).shape() != require_defined(x, optimizer).shape())
    fail<ShapeError>("{}: a parameter has shape {}, its gradient {}", optimizer, x.shape(), gradient.shape());
}

// Returns x + step, rounded once to the dtype of x.
Tensor moved(const Tensor& x, const Tensor& step) { return astype(in_update_dtype(x) + step, x.dtype()); }

// Returns the running mean beta m + (1 - beta) g.
Tensor running_mean(double beta, const Tensor& m, const Tensor& g) { return (1 - beta) * g + beta * m; }

}  // namespace

Tensor first_step(const std::vector<Tensor>& leaves) {
  return zeros({}, int32, leaves.empty() ? cpu : require_defined(leaves[0], "init").device());
}
Tensor next_step(const Tensor& step) { return step + 1; }

Tensor zero_moment(const Tensor& x) {
  return zeros(require_defined(x, "init").shape(), computed_in(x.dtype()), x.device());
}

Tensor sgd_step(const Tensor& rate, const Tensor& x, const Tensor& gradient) {
  check_gradient("sgd", x, gradient);
  if (!is_parameter(x)) return x;
  return moved(x, -number_for(x, rate) * astype(gradient, computed_in(x.dtype())));
}

std::array<Tensor, 2> momentum_step(const Tensor& rate, double decay, bool nesterov, const Tensor& x,
                                    const Tensor& gradient, const Tensor& velocity) {
  check_gradient("momentum", x, gradient);
  if (!is_parameter(x)) return {x, velocity};
  const Tensor g = astype(gradient, computed_in(x.dtype())), v = g + decay * velocity;
  return {moved(x, -number_for(x, rate) * (nesterov ? g + decay * v : v)), v};
}

std::array<Tensor, 3> AdamStep::operator()(bool decays, const Tensor& x, const Tensor& gradient, const Tensor& mean,
                                           const Tensor& variance) const {
  check_gradient(kind == AdamKind::adam ? "adam" : kind == AdamKind::adamw ? "adamw" : "lamb", x, gradient);
  if (!is_parameter(x)) return {x, mean, variance};
  const Tensor g = astype(gradient, computed_in(x.dtype()));
  const Tensor m = running_mean(beta1, mean, g), v = running_mean(beta2, variance, square(g));
  Tensor step = m / number_for(x, correction1) / (sqrt(v / number_for(x, correction2)) + epsilon);
  if (decay.defined() && decays) step = step + number_for(x, decay) * in_update_dtype(x);
  if (kind == AdamKind::lamb) {
    const Tensor length = norm(in_update_dtype(x)), stepped = norm(step);
    const Tensor none = logical_or(length == 0, stepped == 0);
    step = where(none, 1, length / where(none, 1, stepped)) * step;
  }
  return {moved(x, -number_for(x, rate) * step), m, v};
}

Tensor clipping_factor(const std::vector<Tensor>& leaves, const Operand& most) {
  std::vector<Tensor> norms;
  for (const Tensor& x : leaves)
    if (is_parameter(require_defined(x, "clip_by_global_norm"))) {
      const Tensor length = norm(in_update_dtype(x));
      norms.push_back(norms.empty() || length.device() == norms[0].device() ? length : to(length, norms[0].device()));
    }
  if (norms.empty()) return Tensor();
  const Tensor length = norm(stack(norms)), over = length > most;
  return where(over, most / where(over, length, 1), 1);
}

Tensor scaled_by(const Tensor& x, const Tensor& factor) {
  if (!is_parameter(x)) return x;
  return astype(in_update_dtype(x) * number_for(x, factor), x.dtype());
}

Tensor clipped(const Tensor& x, const Operand& most) {
  if (!is_parameter(require_defined(x, "clip_by_value"))) return x;
  if (most.is_scalar()) return clip(x, -most.scalar().floating, most);
  const Tensor bound = astype(most.tensor(), x.dtype());
  return clip(x, -bound, bound);
}

}  // namespace stave_detail

namespace stave {

using stave_detail::AdamKind, stave_detail::AdamStep;

// The bias correction depends on the number of updates, including this one.
AdamStep Adam::at(const Tensor& step, const Tensor& after) const {
  const auto correction = [&](double beta) { return 1 - pow(beta, astype(after, float64)); };
  return {kind_,
          options_.beta1,
          options_.beta2,
          options_.epsilon,
          options_.learning_rate(step),
          kind_ == AdamKind::adam ? Tensor() : options_.weight_decay(step),
          correction(options_.beta1),
          correction(options_.beta2)};
}

Adam adam(AdamOptions options) {
  return {AdamKind::adam,
          {.learning_rate = std::move(options.learning_rate),
           .beta1 = options.beta1,
           .beta2 = options.beta2,
           .epsilon = options.epsilon}};
}
Adam adamw(AdamWOptions options) {
  return {AdamKind::adamw,
          {.learning_rate = std::move(options.learning_rate),
           .beta1 = options.beta1,
           .beta2 = options.beta2,
           .epsilon = options.epsilon,
           .weight_decay = std::move(options.weight_decay),
           .decays = std::move(options.decays)}};
}
Adam lamb(LambOptions options) { return {AdamKind::lamb, std::move(options)}; }

}  // namespace stave
