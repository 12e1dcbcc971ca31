// The operation `call`: checks of the results of its function and rules, and the effect log of
// functions that run again.
#include <stave/core/op/function.h>

#include <stave/core/op/recorded_answer.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/tensor/fail.h>

namespace stave {

// The outputs of `call` are known only when its function has run.
constinit const Op op_call{
    .id = OpId::call,
    .is_higher_order = true,
    .name = "call",
    .infer = [](const Call&, SmallVector<Abstract, 1>&) {},
    .reads = {0u, 0u},
};

}  // namespace stave

namespace stave_detail {
namespace {

// Gives the effects of later runs the answers of the first run.
class LogHandler final : public Remembers {
 public:
  LogHandler(EffectLog& log, EffectLog::Run& run) noexcept : log_(log), run_(run), replays_(run.complete) {
    if (!replays_) run_.answers.clear();
  }
  std::string describe() const override { return "the log of a checkpoint's effects"; }
  HandlerProperties properties() const noexcept override { return {.replays_answers = true}; }
  void* handling(const EffectType& effect) override {
    return effect.recordable && effect.remembering ? effect.recordable->handling : effect.remembering;
  }
  const std::any* next_answer() override {
    if (!replays_) return nullptr;
    if (next_ == run_.answers.size())
      fail<TransformError>(
          "checkpoint: the function performed more effects when it ran again than in its first run, which performed {}",
          next_);
    return &run_.answers[next_++];
  }
  void remember(std::any answer) override { run_.answers.push_back(std::move(answer)); }
  void forget(const std::type_info& effect) override { throw_not_copyable(effect); }
  int* at_work() noexcept override { return &log_.answering; }

  std::any answer_recordable(const EffectType& effect, std::any performed) override {
    const std::any* const known = next_answer();
    const int first = tensors_.add(effect, performed);
    if (known) return answered(recorded_as<RecordedAnswer>(*known, effect));
    tensors_.put_marked(effect, performed, first);
    RecordedAnswer recorded;
    try {
      struct AtWork {
        int& count;
        explicit AtWork(int& at_work) : count(at_work) { ++count; }
        ~AtWork() { --count; }
      } at_work(log_.answering);
      recorded = RecordedAnswer(effect, effect.recordable->perform(performed));
    } catch (...) {
      remember(Threw{std::current_exception()});
      throw;
    }
    tensors_.recognise(recorded);
    remember(recorded);
    return answered(recorded);
  }

 private:
  std::any answered(const RecordedAnswer& recorded) const {
    return recorded.with([&](std::size_t i) {
      const int number = recorded.passed[i];
      if (number >= tensors_.size()) throw_other_effect(recorded.type->type);
      return number >= 0 ? tensors_[number] : recorded.tensors[i];
    });
  }

  EffectLog& log_;
  EffectLog::Run& run_;
  const bool replays_;
  std::size_t next_ = 0;
  EffectTensors tensors_{"checkpoint"};  // the tensors of the effects of this run
};

Outputs run_logged(FunctionRef<FunctionResults(const FunctionInputs&)> run, EffectLog& log,
                   const FunctionInputs& given) {
  EffectLog::Run& logged = log.run();
  LogHandler handler(log, logged);
  HandlerFrame frame(current, &handler);
  UnderFrame install(&frame);
  Outputs outputs = run(given);
  if (!logged.complete) logged.complete = true;
  return outputs;
}

Outputs checked_cotangents(Outputs cotangents, std::span<const Abstract> inputs) {
  if (cotangents.size() != inputs.size())
    fail<TransformError>("custom_vjp: the backward rule gave {} cotangents for {} inputs", cotangents.size(),
                         inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensor& cotangent = cotangents[i];
    if (!cotangent.defined()) continue;
    if (!is_inexact(inputs[i].dtype)) cotangent = Tensor();  // an integer input has no cotangent
    else if (cotangent.shape() != inputs[i].shape || cotangent.dtype() != inputs[i].dtype)
      fail<TransformError>("the VJP rule of custom_vjp gave a cotangent {} {} for input {}, which is {} {}",
                           cotangent.dtype(), cotangent.shape(), i, inputs[i].dtype, inputs[i].shape);
  }
  return cotangents;
}

}  // namespace

FunctionResults with_tangents(Outputs outputs, Outputs tangents) {
  if (outputs.size() != tangents.size())
    fail<TransformError>("custom_jvp: the rule gave {} results and {} tangents", outputs.size(), tangents.size());
  check_defined("custom_jvp", "result", outputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& output = outputs[i];
    Tensor& tangent = tangents[i];
    if (!tangent.defined() || !is_inexact(output.dtype())) tangent = zeros_like(output);
    if (tangent.shape() != output.shape() || tangent.dtype() != output.dtype())
      fail<TransformError>("the JVP rule of custom_jvp gave a tangent {} {} for result {}, which is {} {}",
                           tangent.dtype(), tangent.shape(), i, output.dtype(), output.shape());
  }
  return {std::move(outputs), std::move(tangents)};
}

Outputs call_function(FunctionAttributes functions, Inputs inputs) {
  if (functions.rematerializes) functions.log = make_intrusive<EffectLog>();
  SmallVector<Abstract, 2> abstracts;
  if (functions.backward)
    for (const Tensor& input : inputs) abstracts.emplace_back(input.shape(), input.dtype());
  const auto check = [name = functions.name, log = functions.log, abstracts](
                         FunctionRole role, const FunctionInputs& given, auto run) -> FunctionResults {
    if (role == FunctionRole::backward) return checked_cotangents(run(given), abstracts);
    const bool is_rule = role != FunctionRole::function && role != FunctionRole::again;
    FunctionResults results = log && !is_rule ? FunctionResults(run_logged(run, *log, given)) : run(given);
    if (role == FunctionRole::tangents || role == FunctionRole::batch) return results;
    check_defined(name, "result", results);
    check_defined(name, "residual", results.more);
    return results;
  };
  const auto results = functions.results;
  functions = lifted(std::move(functions), check);
  functions.results = results;
  return perform_functions(std::move(inputs), std::move(functions));
}

void fail_unknown_results(const char* name) {
  fail<TransformError>(
      "{}: a handler answered the call without running its function, so the form of the outputs is not known: perform "
      "the call",
      name);
}
void fail_other_results(const char* name, std::size_t expected, std::size_t got) {
  fail<TransformError>("{}: the function returned {} tensors at first, but {} in another run or from another rule",
                       name, expected, got);
}

Tensor broadcast_lanes(const Tensor& x, Index lanes) {
  Shape shape = x.shape();
  shape.insert(shape.begin(), lanes);
  naming("vmap", [&] { return shape.elements(); });  // throws if there are too many elements
  return broadcast_quietly(x, shape);
}

}  // namespace stave_detail
