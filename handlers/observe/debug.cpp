#include <stave/handlers/observe/debug.h>
#include <stave/handlers/transforms/linear_in.h>

#include <iostream>
#include <mutex>

#include <fmt/format.h>

#include <stave/core/effects/fork.h>
#include <stave/core/op/notation.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/note.h>
#include <stave/core/tensor/print.h>
#include <stave/handlers/model/summary.h>

namespace stave {

using namespace stave_detail;

namespace {

// Formats the scopes of a place: "  [layer1]  [backward of grad]".
std::string text_of(const Place& place) {
  std::string text;
  for (const NamePtr& scope : place.scopes) text += "  [" + scope->text + "]";
  return text;
}

// Formats the beginning of a line: "sum axes=[0] f32[64] -> ".
std::string left_side(const Call& call) { return notation(call) + " -> "; }

// ---- values ------------------------------------------------------------------------------

std::string text_of(const Tensor& x) {
  if (!x.defined()) return "undefined";
  const Statistics summary = statistics_of(x);
  if (summary.elements == 0) return "no elements";
  const char* const of_complex = is_complex(x.dtype()) ? "abs: " : "";
  if (summary.elements == 1) return (*of_complex ? "abs " : "value ") + (summary.nans ? "nan" : summary.least);
  std::string text = fmt::format("{}min {} max {} mean {}", of_complex, summary.least, summary.greatest, summary.mean);
  if (is_inexact(x.dtype())) text += fmt::format(" nan {} inf {}", summary.nans, summary.infinities);
  return text;
}

// ---- output ------------------------------------------------------------------------------

constexpr int details_column = 56;

std::string details_of(const Outputs& outputs, Clock::duration duration, const DebugOptions& options) {
  std::string details;
  if (options.values)
    for (const Tensor& output : outputs) details += (details.empty() ? "" : "; ") + text_of(output);
  if (options.bytes) details += (details.empty() ? "" : "  ") + size_text(bytes_of(outputs));
  if (options.time) details += (details.empty() ? "" : "  ") + duration_text(duration);
  return details;
}

constinit std::mutex one_writer;
const HeldOverFork<one_writer> writer_over_fork;

// Writes a line in one write and under a lock, so that lines of several threads do not mix.
void write_line(std::ostream* out, std::string line) {
  line += '\n';
  const std::lock_guard<std::mutex> lock(one_writer);
  (out ? *out : std::cerr).write(line.data(), static_cast<std::streamsize>(line.size()));
}

// ---- trap_nan, trap_inf ------------------------------------------------------------------

// A kind of values at which to stop.
struct Trap {
  const char *name, *one;  // "NaN", "a NaN"
  Index (*count)(const Tensor&);
};
constexpr Trap nan_trap{"NaN", "a NaN", nans_in}, infinity_trap{"infinity", "an infinity", infinities_in};

// Describes where the trapped value came from: an operand, or this operation. If an operand has
// one, no operation that this Debug saw computed that operand, because the trap would have thrown
// then.
std::string origin(const Trap& trap, const Call& call) {
  for (std::size_t i = 0; i < call.inputs().size(); ++i)
    if (trap.count(call.input(i)))
      return fmt::format(
          "Operand {} has {} already, but no operation that was observed here produced it: it came from outside", i,
          trap.name);
  return fmt::format("No operand has {}: it arises here", trap.one);
}

void throw_if_found(const Trap& trap, const Call& call, const Outputs& outputs) {
  for (const Tensor& output : outputs)
    if (const Index count = trap.count(output))
      fail<TransformError>("{}: {} in {} of {} elements of the result ({}{}). {}", call.op().name, trap.name, count,
                           statistics_of(output).elements, left_side(call), notation(outputs), origin(trap, call));
}

}  // namespace
}  // namespace stave

namespace stave_detail {

namespace {

template <class Body>
auto past_all(Body body) {
  UnderFrame past_all_handlers(nullptr);
  return body();
}

}  // namespace

// Tracks which zeros were chosen, as by where or relu, rather than computed by arithmetic
// (debug.h). Values that operations computed carry a note: a tensor `live` that is 0 at chosen
// zeros and 1 elsewhere, or an undefined tensor if no zero was chosen. For linear operations and
// products, the chosen zeros of the result are found by applying the operation to the `live`
// tensors of the operands.
class ChosenZeros {
 public:
  // `running = false` permits values with notes of this object on any thread. Zeros are tracked
  // only on the thread that made this object.
  ChosenZeros() { live_.owner().running = false; }

  void follow(const Call& call, Outputs& outputs) {
    if (outputs.size() != 1 || !is_float(outputs[0].dtype()) || !followed(call, outputs[0])) return;
    if (call.op().id == OpId::scale || call.op().id == OpId::scale_by_inverse) check(call, outputs[0]);
    Tensor live = live_after(call, outputs[0]);
    if (live.defined()) live = past_all([&] { return astype(live != 0, outputs[0].dtype()); });
    outputs[0] = live_.put(std::move(outputs[0]), std::move(live));
  }

 private:
  bool followed(const Call& call, const Tensor& output) const {
    if (call.op().is_higher_order || id_of_this_thread() != live_.owner().thread || !output.node().storage)
      return false;
    // If this Debug did not see a value being computed, a view of the value does not count as
    // computed either.
    bool computed = !call.op().view;
    for (const Tensor& input : call.inputs()) {
      if (!input.node().storage) return false;
      computed |= live_.find(input) != nullptr;
    }
    return computed;
  }
  // Returns a tensor that is 0 at the chosen zeros of x; undefined if no chosen zeros are known.
  Tensor live(const Tensor& x) const {
    if (!is_float(x.dtype())) return past_all([&] { return astype(observed(x) != 0, float32); });
    const Tensor* found = live_.find(x);
    return found ? *found : Tensor();
  }
  Tensor live_or_ones(const Tensor& x) const {
    const Tensor known = live(x);
    return known.defined() ? known : past_all([&] { return ones_like(observed(x)); });
  }
  Tensor nonzero(const Tensor& x) const {
    return past_all([&] { return astype(observed(x) != 0, x.dtype()); });
  }

  Tensor live_after(const Call& call, const Tensor& output) const {
    const Op& op = call.op();
    switch (op.id) {
      case OpId::full:
      case OpId::relu:
      case OpId::maximum:
      case OpId::minimum:
      case OpId::max:
      case OpId::min: return nonzero(output);
      case OpId::astype:
        if (!is_float(call.input(0).dtype())) return nonzero(output);
        break;
      case OpId::negative:
      case OpId::divide:
      case OpId::scale_by_inverse:
      case OpId::stop_gradient: return live(call.input(0));
      case OpId::add:
      case OpId::subtract: return combined(op_add, call);
      case OpId::multiply:
      case OpId::scale: return combined(op_multiply, call);
      case OpId::pad: return padded(call);
      default: break;
    }
    const bool bilinear = op.derivative == Derivative::bilinear;
    return bilinear || op.derivative == Derivative::linear ? mask_of_linear_op(call) : Tensor();
  }

  // Returns the `live` tensor of a sum or product, computed by `op` from those of the operands; an
  // undefined tensor if neither operand has chosen zeros.
  Tensor combined(const Op& op, const Call& call) const {
    if (!live(call.input(0)).defined() && !live(call.input(1)).defined()) return {};
    Inputs inputs{live_or_ones(call.input(0)), live_or_ones(call.input(1))};
    return past_all([&] { return apply(op, inputs); });
  }
  Tensor padded(const Call& call) const {
    const auto& pad = call.as<PadAttributes>();
    const Scalar filled = pad.value.floating != 0 ? 1. : 0.;
    const Tensor inside = live_or_ones(call.input(0));
    return past_all([&] {
      return apply(op_pad, {inside}, make_intrusive<PadAttributes>(pad.shape, pad.starts, pad.steps, filled));
    });
  }
  // Returns the `live` tensor of the output of a linear or bilinear operation, computed by applying
  // the operation to the `live` tensors of the operands; an undefined tensor if no operand has
  // chosen zeros. For `where`, all zeros of an operand count as chosen if this Debug did not see
  // the operand being computed.
  Tensor mask_of_linear_op(const Call& call) const {
    const bool selects = call.op().id == OpId::where;
    bool any = selects;
    Inputs inputs;
    for (std::size_t i = 0; i < call.inputs().size(); ++i) {
      const Tensor& x = call.input(i);
      if (!is_float(x.dtype()) || lacks_derivative_by(call.op(), i)) {
        inputs.push_back(observed(x));
        continue;
      }
      any |= live(x).defined();
      inputs.push_back(selects && !live_.find(x) ? nonzero(x) : live_or_ones(x));
    }
    if (!any) return {};
    return past_all([&] { return apply(call.op(), inputs, call.attributes_ptr()); });
  }

  void check(const Call& call, const Tensor& output) const {
    const bool inverse = call.op().id == OpId::scale_by_inverse;
    const auto factor = [&](std::size_t i) {
      const Tensor x = observed(call.input(i));
      return inverse && i == 1 ? past_all([&] { return reciprocal(x); }) : x;
    };
    Index swallowed = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      const Tensor a = factor(i), b = factor(1 - i);
      const Tensor zero = inverse && i == 1 ? past_all([&] { return ones_like(a); }) : live_or_ones(call.input(i));
      swallowed += past_all([&] {
        return sum(astype(logical_and(logical_and(a == 0, zero != 0), logical_not(isfinite(b))), int64)).item<Index>();
      });
    }
    if (swallowed)
      fail<TransformError>(
          "scale: in {} of {} elements a zero swallows an infinity or NaN ({}{}): the derivative there is 0 by the "
          "rule for branches not taken, but this zero is the result of arithmetic. Write the function so that it does "
          "not overflow, or select the branch by where",
          swallowed, output.size(), left_side(call), notation({&output, 1}));
  }

  Notes<Tensor> live_{"debug"};
};

}  // namespace stave_detail

namespace stave {

Debug::Debug(DebugOptions options) : options_(options) {
  if (options.trap_nan) zeros_ = std::make_shared<ChosenZeros>();
}

Outputs Debug::handle(Call& call) {
  if (!options_.trap_nan && !options_.trap_inf) return performed(call);
  // The copy keeps the operands alive, to examine them after the operation. So the operation cannot
  // reuse their buffers.
  const Call kept = call;
  Outputs outputs = performed(call);
  if (options_.trap_nan) throw_if_found(nan_trap, kept, outputs);
  if (options_.trap_inf) throw_if_found(infinity_trap, kept, outputs);
  if (zeros_) zeros_->follow(kept, outputs);
  return outputs;
}

// Performs the call and writes its line.
Outputs Debug::traced(Call& call) {
  const Place place = place_of_performer();
  const std::string scopes = text_of(place);
  const std::string left = std::string(static_cast<std::size_t>(2 * place.depth), ' ') + left_side(call);
  const auto stopwatch = options_.time ? stopwatch_of(call) : nullptr;
  Outputs outputs;
  try {
    outputs = perform(std::move(call));
  } catch (...) {
    write_line(options_.out, left + "throws" + scopes);
    throw;
  }
  const Clock::duration duration = stopwatch ? stopwatch->elapsed() : Clock::duration();
  std::string line = left + notation(outputs) + scopes;
  if (const std::string details = details_of(outputs, duration, options_); !details.empty())
    line = fmt::format("{:<{}}  {}", line, details_column, details);
  write_line(options_.out, std::move(line));
  return outputs;
}

}  // namespace stave
