// Reverse mode of operations that carry functions.
//
//   checkpoint    forward, the function runs below and nothing of it is recorded; backward, it runs again and is recorded then,
//                 under the same notes, so that values it captured get their cotangents as arguments do
//   custom_vjp    forward runs below, in place of the function; what it calls is ordinary to the handlers there, so a
//                 second derivative is that of forward and backward
//   custom_jvp    the tangent rule, as a function of tangents, is transposed
//   custom_vmap   nothing of reverse mode: its function is differentiated, and vmap's rule not used where grad stands inside
//
// Custom rules must not capture values that are differentiated: there would be no cotangent for them.
#include <stave/core/fail.h>
#include <stave/core/ops/create.h>
#include <stave/handlers/tape.h>
#include <stave/handlers/vjp.h>

namespace stave_detail {

namespace {

// Sees whether a function touches values with our notes, which it must have captured.
class Watcher final : public Handler {
 public:
  Watcher(InstallationId id, const char* transform, const Op& op, bool forbids)
      : transform_(transform), what_(op.name), id_(id), forbids_(forbids) {}
  Outputs handle(Call& call) override {
    for (const Tensor& input : call.inputs()) check(input);
    return perform(std::move(call));
  }
  void check(const Tensor& x) {
    if (!has_note(x, id_)) return;
    touched = true;
    if (forbids_)
      fail<TransformError>(
          "{}: its function captures a value that {} transforms, and the rule says nothing of it: pass it as an "
          "argument",
          what_, transform_);
  }
  std::string describe() const override { return fmt::format("{} of {}", what_, transform_); }
  bool touched = false;

 private:
  const char *transform_, *what_;
  InstallationId id_;
  bool forbids_;
};

struct PullbackAttributes final : Attributes {
  FlatPullback pullback;
  SmallVector<bool, 4> differentiated;  // input i has a cotangent
  std::string str() const override { return ""; }
};

Outputs with_zeros(std::span<const Tensor> cotangents, const Entry& entry) {
  Outputs full;
  for (std::size_t i = 0; i < entry.output_abstracts.size(); ++i) {
    const Abstract& output = entry.output_abstracts[i];
    const bool given = i < cotangents.size() && cotangents[i].defined();
    full.push_back(given ? cotangents[i] : zeros(output.shape, output.dtype, entry.output_devices[i]));
  }
  return full;
}

}  // namespace

std::shared_ptr<Handler> forbid_captures(InstallationId id, const char* transform, const Op& op) {
  return std::make_shared<Watcher>(id, transform, op, true);
}

Outputs GradHandler::handle_carrying(Call& call) {
  if (call.op().id == OpId::checkpoint) return checkpoint(call);
  if (call.op().id == OpId::custom_vmap) {
    if (is_noted(call)) {
      HandlerFrame frame(current, this, this);
      UnderFrame install(&frame);
      return functions_of(call).function(call.inputs());
    }
    return perform(std::move(call));
  }
  if (is_noted(call)) return call.op().id == OpId::custom_vjp ? custom_vjp(call) : custom_jvp(call);
  const auto guard = std::make_shared<UnderHandler>(forbid_captures(notes.id(), notes.owner().name, call.op()));
  return perform_carrying(call.op(), Inputs(call.inputs()), wrapped(functions_of(call), guard));
}

Outputs GradHandler::checkpoint(Call& call) {
  const auto watcher = std::make_shared<Watcher>(notes.id(), notes.owner().name, call.op(), false);
  Outputs outputs = perform_carrying(call.op(), without_notes(call.inputs()),
                                     wrapped(functions_of(call), std::make_shared<UnderHandler>(watcher)));
  for (const Tensor& output : outputs) watcher->check(output);  // a captured value itself
  if (!watcher->touched && !is_noted(call)) return outputs;
  return noted(without_notes(std::move(outputs)), record(call));
}

Outputs GradHandler::custom_vjp(Call& call) {
  const auto guard = std::make_shared<UnderHandler>(forbid_captures(notes.id(), notes.owner().name, call.op()));
  const FunctionAttributes functions = wrapped(functions_of(call), guard);
  const EntryPtr entry = record(call);
  entry->attributes = make_intrusive<FunctionAttributes>(functions);
  Forward forward = functions.forward(without_notes(call.inputs()));
  entry->outputs.append(forward.residuals.begin(), forward.residuals.end());
  return noted(without_notes(std::move(forward.outputs)), entry);
}

Outputs GradHandler::custom_jvp(Call& call) {
  const auto guard = std::make_shared<UnderHandler>(forbid_captures(notes.id(), notes.owner().name, call.op()));
  const FunctionAttributes functions = wrapped(functions_of(call), guard);
  const Inputs primals = without_notes(call.inputs());
  const auto pullback = make_intrusive<PullbackAttributes>();
  std::vector<Tensor> tangents;  // of the differentiated inputs
  for (const Tensor& input : call.inputs()) {
    pullback->differentiated.push_back(notes.find(input) != nullptr);
    if (pullback->differentiated.back()) tangents.push_back(zeros_like(notes.strip(input)));
  }
  Outputs outputs;
  FlatVjp transposed = vjp_flat(
      [&](std::span<const Tensor> given) {
        Inputs all = primals;
        for (std::size_t i = 0, next = 0; i < primals.size(); ++i)
          all.push_back(pullback->differentiated[i] ? given[next++] : zeros_like(primals[i]));
        const Outputs both = functions.tangents(all);
        const std::size_t count = both.size() / 2;
        outputs = Outputs(both.begin(), both.begin() + count);
        return Outputs(both.begin() + count, both.end());
      },
      tangents, "custom_jvp");
  pullback->pullback = std::move(transposed.pullback);
  const EntryPtr entry = record(call);
  entry->attributes = pullback;
  return noted(without_notes(std::move(outputs)), entry);
}

Outputs custom_cotangents(const Entry& entry, std::span<const Tensor> cotangents, bool consume) {
  const Outputs full = with_zeros(cotangents, entry);
  if (entry.op->id == OpId::custom_vjp) {
    Inputs arguments(entry.outputs.begin(), entry.outputs.end());
    arguments.append(full.begin(), full.end());
    return static_cast<const FunctionAttributes&>(*entry.attributes).backward(arguments);
  }
  const auto& rule = static_cast<const PullbackAttributes&>(*entry.attributes);
  FlatPullback pullback = rule.pullback;
  const std::vector<Tensor> found = consume ? pullback.consume(full) : pullback(full);
  Outputs result;
  for (std::size_t i = 0, next = 0; i < rule.differentiated.size(); ++i)
    result.push_back(rule.differentiated[i] ? found[next++] : Tensor());
  return result;
}

}  // namespace stave_detail
