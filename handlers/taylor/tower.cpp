#include <stave/handlers/taylor/tower.h>

#include <algorithm>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/series.h>
#include <stave/core/program/program.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/taylor/jet_handler.h>
#include <stave/handlers/transforms/jvp_rules.h>
#include <stave/handlers/transforms/linear_in.h>

namespace stave_detail {

namespace {

// The largest size of a tower, for each operation of the program. Rules of the library stay below
// 600 at order 40.
constexpr double largest_size = 10'000;

double elements_of(std::span<const Tensor> xs) {
  double elements = 0;
  for (const Tensor& x : xs) elements += static_cast<double>(x.size());
  return std::max(elements, 1.);
}

// A constant of one number in memory, without notes.
bool is_literal(const Tensor& x) {
  return x.device() == cpu && x.node().storage && live_notes(x) == 0 && is_one_number(x);
}

std::size_t key_of(const Call& call, const SmallVector<SeriesPtr, 3>& inputs) {
  std::size_t key = std::hash<const void*>()(&call.op());
  for (const SeriesPtr& series : inputs) key = key * 1'000'003 + std::hash<const void*>()(series.get());
  return key;
}

// Returns true if two constants are known to be the same value. Literals of rules, which are new
// tensors each time that a rule runs, are compared by their one number. A value with a note is
// never known to be the same: an outer transform may give equal values different derivatives, or
// record them.
bool is_same_constant(const Tensor& a, const Tensor& b) {
  if (a.node_ptr().get() == b.node_ptr().get()) return true;
  return a.shape() == b.shape() && a.dtype() == b.dtype() && is_literal(a) && is_literal(b) && same_bits(a, b);
}

bool is_same(const Lazy& y, const Call& call, const SmallVector<SeriesPtr, 3>& inputs) {
  if (&y.call->op() != &call.op() || !same_attributes(y.call->attributes(), call.attributes())) return false;
  if (y.inputs.size() != inputs.size()) return false;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (y.inputs[i] != inputs[i] || (!inputs[i] && !is_same_constant(y.call->inputs()[i], call.inputs()[i])))
      return false;
  return true;
}

// Returns true if the coefficients follow directly from those of the inputs, without performing the
// JVP rule on series.
bool has_structure(const Op& op) { return op.series || op.derivative != Derivative::rules; }

// Returns the number of coefficients that are known for every input. All coefficients of a finished
// series are known.
int count_known(const Lazy& y, int order) {
  auto known = static_cast<std::size_t>(order);
  for (const SeriesPtr& series : y.inputs)
    if (series && series->source) known = std::min(known, series->known.size());
  return static_cast<int>(known);
}

}  // namespace

// ---- operations ---------------------------------------------------------------------------------

Tower::~Tower() {
  for (const auto& y : all_)
    for (const SeriesPtr& series : y->series) {
      if (!series) continue;
      series->source = nullptr;
      series->has_ended = series->known.size() < static_cast<std::size_t>(order_);
    }
}

Lazy& Tower::add(std::unique_ptr<Lazy> y) {
  count(*y);
  y->is_in_loop = is_in_loop_;
  for (Tensor& output : y->outputs) {
    y->series.emplace_back();
    if (!is_inexact(output.dtype())) continue;
    y->series.back() = std::make_shared<Series>();
    y->series.back()->source = y.get();
  }
  all_.push_back(std::move(y));
  return *all_.back();
}

void Tower::count(const Lazy& y) {
  if (deriving_ == 0) {
    if (!y.call) return;
    name_ = y.call->op().is_higher_order ? functions_of(*y.call).name : y.call->op().name;
    unit_ = std::max(unit_, elements_of(y.call->inputs()) + elements_of(y.outputs));
    most_ += largest_size;
    return;
  }
  size_ += std::max(1., elements_of(y.outputs) / unit_);
  if (size_ > most_)
    fail<TransformError>(
        "jet: the derivative rule of {} performs too many operations for coefficients up to order {}: if a rule "
        "performs its own operation on several other inputs, or on larger ones, then the number grows exponentially "
        "with the order. Write the rule with the operation's result in place of them, or give the record a rule for "
        "series (Op::series)",
        name_, order_);
}

Lazy& Tower::perform_call(JetHandler& jet, const Call& call, SmallVector<SeriesPtr, 3> inputs) {
  // An operation with has_structure at the start of a tower, outside of rules, is the only one
  // there, so it needs no entry in calls_.
  const bool is_known = deriving_ > 0 || !all_.empty() || !has_structure(call.op());
  const std::size_t key = is_known ? key_of(call, inputs) : 0;
  if (is_known) {
    const auto [begin, end] = calls_.equal_range(key);
    for (auto it = begin; it != end; ++it)
      if (is_same(*it->second, call, inputs)) return *it->second;
  }
  Outputs outputs = perform(call.borrowed());
  Lazy& y = add_call(jet, call, std::move(inputs), std::move(outputs));
  if (is_known && !is_in_loop_) calls_.emplace(key, &y);
  return y;
}

Lazy& Tower::add_call(JetHandler& jet, Call call, SmallVector<SeriesPtr, 3> inputs, Outputs outputs) {
  auto y = std::make_unique<Lazy>();
  y->jet = &jet;
  y->outputs = std::move(outputs);
  y->call.emplace(std::move(call));
  y->inputs = std::move(inputs);
  return add(std::move(y));
}

Lazy& Tower::add_solution(JetHandler& jet, Tensor start) {
  auto y = std::make_unique<Lazy>();
  y->jet = &jet;
  y->outputs.push_back(std::move(start));
  y->is_derived = true;
  return add(std::move(y));
}

void Tower::complete(Lazy& y) {
  for (int k = 1; k <= order_; ++k)
    for (const SeriesPtr& series : y.series)
      if (series) coefficient(series, k);
}

void Tower::complete_solution(Lazy& y) {
  const std::size_t performed = all_.size();
  for (int k = 1; k <= order_; ++k) {
    for (std::size_t i = 0; k > 1 && i < performed; ++i) {
      if (all_[i]->is_in_loop) continue;
      for (const SeriesPtr& series : all_[i]->series)
        if (series) coefficient(series, k - 1);
    }
    coefficient(y.series[0], k);
  }
}

// ---- coefficients -------------------------------------------------------------------------------

class Tower::Context final : public SeriesContext {
 public:
  Context(Tower& tower, Lazy& y, int k, int last)
      : SeriesContext(*y.call, y.outputs, k, last, y.kept), tower_(tower), y_(y) {}
  Tensor in(std::size_t i, int k) const override { return tower_.in(y_, i, k); }
  Tensor out(int k, std::size_t i) const override {
    return k == 0 ? y_.outputs[i] : tower_.coefficient(y_.series[i], k);
  }

 private:
  Tower& tower_;
  Lazy& y_;
};

Tensor Tower::coefficient(const SeriesPtr& series, int k) {
  if (!series) return {};
  const auto wanted = static_cast<std::size_t>(k);
  while (series->known.size() < wanted) {
    if (series->has_ended)
      fail<TransformError>(
          "jet: a value that a derivative rule computed is used after the rule had ended, when its coefficients cannot "
          "be computed any more: let the rule return the value");
    if (!series->source) return {};
    extend(*series->source, static_cast<int>(series->known.size()) + 1);
  }
  return series->known[wanted - 1];
}

Tensor Tower::in(const Lazy& y, std::size_t i, int k) {
  return k == 0 ? y.call->inputs()[i] : coefficient(y.inputs[i], k);
}

// Coefficient k - 1 of the derivative, which is k x_k. It is not added to the slopes of the series,
// which may be that of a value outside of a loop's step or a checkpoint that runs now: what such a
// function computes must not be used after it. This tower keeps it as a coefficient of x'.
Tensor Tower::slope(const SeriesPtr& series, int k) {
  const Tensor c = coefficient(series, k);
  const auto place = static_cast<std::size_t>(k - 1);
  if (place < series->slopes.size() && series->slopes[place].defined()) return series->slopes[place];
  return times_order(c, k);
}

void Tower::extend(Lazy& y, int k) {
  if (y.derivative_of) y.series[0]->known.push_back(slope(y.derivative_of, k + 1));
  else if (!y.call) by_rule(y, k);
  else if (has_structure(y.call->op())) by_structure(y, k);
  else by_rule(y, k);
}

void Tower::by_structure(Lazy& y, int k) {
  const Call& call = *y.call;
  const Op& op = call.op();
  Outputs found(y.outputs.size(), Tensor());
  if (op.series) {
    const int last = std::max(k, count_known(y, order_));
    found = op.series(Context(*this, y, k, last));
    if (found.empty() || found.size() % y.outputs.size() != 0 ||
        found.size() > y.outputs.size() * static_cast<std::size_t>(last - k + 1))
      fail<TransformError>("jet: the series rule of {} gave {} coefficients for {} outputs", op.name, found.size(),
                           y.outputs.size());
  } else if (op.derivative == Derivative::bilinear) {
    const auto a = [&](int i) { return in(y, 0, i); };
    const auto b = [&](int i) { return in(y, 1, i); };
    // Derivative rules multiply by `scale`, whose product is 0 if a factor is 0.
    const bool is_product = op.id == OpId::multiply || op.id == OpId::scale;
    const bool is_square = is_product && call.input(0).node_ptr() == call.input(1).node_ptr();
    if (is_square) found[0] = coefficient_of_square(k, a);
    else if (is_product) found[0] = coefficient_of_product(k, a, b);
    else
      found[0] = coefficient_of_product(k, a, b, [&](const Tensor& left, const Tensor& right) {
        return apply(call.with_inputs({left, right}));
      });
  } else {
    SmallVector<Tensor, 3> coefficients;
    bool any = false, all = true;
    for (std::size_t i = 0; i < call.inputs().size(); ++i) {
      const bool constant = lacks_derivative_by(op, i);
      if (constant && y.inputs[i]) fail_not_linear("jet", op, i);
      coefficients.push_back(constant ? Tensor() : in(y, i, k));
      any |= coefficients.back().defined();
      all &= coefficients.back().defined();
    }
    // The rule knows what to leave out if an input has no coefficient.
    if (any) found = op.jvp && !all ? op.jvp(JvpContext{call, y.outputs, coefficients}) : linear(y, coefficients);
  }
  for (std::size_t i = 0; i < found.size(); ++i)
    if (const SeriesPtr& series = y.series[i % y.series.size()]) series->known.push_back(std::move(found[i]));
}

// Performs a linear operation on coefficients. An input in which it is not linear stays what it is.
Outputs Tower::linear(const Lazy& y, std::span<const Tensor> coefficients) {
  const Call& call = *y.call;
  Inputs inputs;
  for (std::size_t i = 0; i < coefficients.size(); ++i) {
    if (coefficients[i].defined()) inputs.push_back(coefficients[i]);
    else if (lacks_derivative_by(call.op(), i)) inputs.push_back(call.inputs()[i]);
    else inputs.push_back(zeros_like(call.inputs()[i]));
  }
  return perform(call.with_inputs(std::move(inputs)));
}

void Tower::by_rule(Lazy& y, int k) {
  if (!y.is_derived) derive(y);
  for (std::size_t i = 0; i < y.outputs.size(); ++i) {
    if (!y.series[i]) continue;
    const ValueWithSeries& derivative = y.derivative[i];
    Tensor slope = k == 1 ? derivative.value : coefficient(derivative.series, k - 1);
    if (k > 1 && slope.defined()) {
      y.series[i]->slopes.resize(static_cast<std::size_t>(k));
      y.series[i]->slopes.back() = slope;
      slope = slope / static_cast<double>(k);
    }
    y.series[i]->known.push_back(std::move(slope));
  }
}

// ---- rules --------------------------------------------------------------------------------------

// Returns x'(t) as a value that a rule can use; undefined if x is a constant.
Tensor Tower::derivative_of(JetHandler& jet, const Tensor& x, const SeriesPtr& series) {
  if (!series) return {};
  Lazy*& known = derivatives_[series.get()];
  if (!known) {
    const Tensor first = coefficient(series, 1);
    auto y = std::make_unique<Lazy>();
    y->jet = &jet;
    y->outputs.push_back(first.defined() ? clone_node(first) : zeros_like(x));
    y->derivative_of = series;
    known = &add(std::move(y));
  }
  return jet.put(known->outputs[0], known->series[0]);
}

void Tower::derive(Lazy& y) {
  struct Deriving {
    int& depth;
    explicit Deriving(int& rules) : depth(rules) { ++depth; }
    ~Deriving() { --depth; }
  } deriving(deriving_);
  const InTower in(*y.jet, this);
  const Call& call = *y.call;
  const Op& op = call.op();
  y.is_derived = true;
  SmallVector<Tensor, 3> tangents;
  for (std::size_t i = 0; i < call.inputs().size(); ++i)
    tangents.push_back(derivative_of(*y.jet, call.inputs()[i], y.inputs[i]));
  if (op.is_higher_order) {
    y.derivative = y.jet->by_custom_rule(call, tangents);
    return;
  }
  if (!op.jvp) fail_no_jvp_rule("jet", op);
  Outputs outputs;  // with their series, for the rule may read them
  for (std::size_t i = 0; i < y.outputs.size(); ++i) outputs.push_back(y.jet->put(y.outputs[i], y.series[i]));
  const Outputs found = with(*y.jet, [&] { return op.jvp(JvpContext{call, outputs, tangents}); });
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].defined() && y.series[i]) check_tangent_of_rule(op, y.outputs[i], found[i]);
    const SeriesPtr series = found[i].defined() ? y.jet->series_of(found[i]) : nullptr;
    y.derivative.push_back({series ? y.jet->put(found[i], nullptr) : found[i], series});
  }
}

}  // namespace stave_detail
