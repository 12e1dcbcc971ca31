// Captures handler stacks for higher-order operations, and installs them again. Start at
// `perform_higher_order`.
#include <stave/core/op/higher_order.h>

#include <algorithm>

#include <stave/core/effects/controller.h>
#include <stave/core/effects/scope.h>
#include <stave/core/op/higher_order_answer.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

namespace {

template <class S>
class Copyable : public CapturedHandlers {
  IntrusivePtr<CapturedHandlers> copy() const override { return make_intrusive<S>(static_cast<const S&>(*this)); }
};

class CapturedScope final : public Copyable<CapturedScope> {
 public:
  explicit CapturedScope(NamePtr name) : name_(std::move(name)) {}

 private:
  void install_and_run(FunctionRef<void()> body) const override {
    const Scope scope(name_);
    body();
  }
  const NamePtr name_;
};

class CapturedUncancellable final : public Copyable<CapturedUncancellable> {
  void install_and_run(FunctionRef<void()> body) const override {
    const Uncancellable guard;
    body();
  }
};

class CapturedSharedHandler final : public Copyable<CapturedSharedHandler> {
 public:
  explicit CapturedSharedHandler(std::shared_ptr<AnyHandler> handler) : handler_(std::move(handler)) {}

 private:
  void install_and_run(FunctionRef<void()> body) const override {
    with(handler_, [&] { body(); });
  }
  const std::shared_ptr<AnyHandler> handler_;
};

// Takes the place of a handler that has ended. An effect of a type that the ended handler answered
// is an error, since no other handler may answer it.
class Ended final : public AnyHandler {
 public:
  Ended(const std::string& name, Answers answers) : name_(name), answers_(answers) {}
  std::string describe() const override { return ""; }
  void* handling(const EffectType& effect) override {
    if (!answers_ || !answers_(effect)) return nullptr;
    fail<TransformError>(
        "a function runs again (that of a rule, in the backward pass) and performs {}, but the handler that answered "
        "it, {}, has ended: install it outside of grad, or give `with` a std::shared_ptr of it",
        type_name(effect.type), name_);
  }

 private:
  const std::string& name_;
  const Answers answers_;
};

// Captures a handler, or the controller of a computation, that is not shared, so it may have ended
// when a function runs. Until the end, the handler is installed again. After the end:
// - A handler that only observed is left out.
// - For a handler that saw operations, running the function is an error.
// - In place of any other handler, `Ended` is installed.
class CapturedBorrowedHandler : public Copyable<CapturedBorrowedHandler> {
 public:
  explicit CapturedBorrowedHandler(HandlerFrame& frame)
      : handler_(frame.handler), installation_(&frame.installation()), sees_operations_(handler_->slot()),
        only_observes_(handler_->properties().only_observes), answers_(handler_->answered_effects()),
        name_(handler_->describe()) {}

 protected:
  bool is_installed() const noexcept { return installation_->installed; }
  void install_and_run(FunctionRef<void()> body) const override {
    if (is_installed()) return run_under(handler_, handler_->slot(), body);
    if (only_observes_) return body();
    if (sees_operations_)
      fail<TransformError>(
          "a function runs again (that of a checkpoint, in the backward pass), but the handler that sees its "
          "operations, {}, has ended: install it outside of grad, or give `with` a std::shared_ptr of it",
          name_);
    Ended ended(name_, answers_);
    run_under(&ended, {}, body);
  }
  void run_under(AnyHandler* handler, SlotHandling slot, FunctionRef<void()> body) const {
    HandlerFrame frame(current, handler, slot);
    frame.reinstalled_by = this;
    UnderFrame install(&frame);
    body();
  }

  AnyHandler* const handler_;

 private:
  const IntrusivePtr<HandlerFrame::Installation> installation_;
  const bool sees_operations_, only_observes_;
  const AnyHandler::Answers answers_;
  const std::string name_;
};

// Captures a controller. If the calling code runs on the controller's computation and the
// controller handles no operations, the function becomes a part of that computation, which the
// controller may suspend. Otherwise each run of the function is a new computation.
class CapturedController final : public CapturedBorrowedHandler {
 public:
  explicit CapturedController(HandlerFrame& frame)
      : CapturedBorrowedHandler(frame), computation_(&Computation::of(frame)),
        controlled_(&computation_->controlled()) {}

 private:
  IntrusivePtr<CapturedHandlers> copy() const override { return make_intrusive<CapturedController>(*this); }
  void install_and_run(FunctionRef<void()> body) const override {
    if (is_installed() && !handler_->slot() && computation_->running()) return run_under(handler_, {}, body);
    if (!controlled_->exists()) return CapturedBorrowedHandler::install_and_run(body);
    if (!controlled_->run_nested(body))
      fail<TransformError>(
          "a controller kept the continuation of a function that an operation runs, such as a checkpoint's: it must "
          "resume or drop the continuation before `handle` returns");
  }
  Computation* const computation_;  // valid while the captured frame exists
  const ControlledPtr controlled_;
};

// Captures a frame that the call has passed.
IntrusivePtr<CapturedHandlers> captured_handlers_of(HandlerFrame& frame) {
  if (frame.reinstalled_by) return frame.reinstalled_by->copy();
  if (frame.kind == Frame::Kind::computation) return make_intrusive<CapturedController>(frame);
  if (frame.owner) return make_intrusive<CapturedSharedHandler>(*frame.owner);
  if (const NamePtr* name = frame.handler->scope_name()) return make_intrusive<CapturedScope>(*name);
  if (const auto answers = frame.handler->answered_effects(); answers && answers(effect_type<UncancellableMark>()))
    return make_intrusive<CapturedUncancellable>();
  return make_intrusive<CapturedBorrowedHandler>(frame);
}

}  // namespace

EffectLog::EffectLog() : around_(perform(WhichPath{})) {}

EffectLog::Run& EffectLog::run() {
  const auto is_around = [&](const PathStep& step) {
    return std::any_of(around_.begin(), around_.end(), [&](const PathStep& known) { return known.run == step.run; });
  };
  std::vector<int> path;
  for (const PathStep& step : perform(WhichPath{}))
    if (is_around(step) || step.carried) path.push_back(is_around(step) ? 0 : step.number);
  const std::lock_guard lock(mutex_);
  return runs_[path];
}

FunctionAttributes lifted(FunctionAttributes functions, Lift lift) {
  const auto shared = std::make_shared<const Lift>(std::move(lift));
  for (const FunctionRole role : function_roles) {
    FunctionArgument& function = functions[role];
    if (!function) continue;
    function = [shared, role, own = std::move(function), around = functions.around](const FunctionInputs& given) {
      return (*shared)(role, given, [&](const FunctionInputs& xs) {
        FunctionResults results;
        CapturedHandlers::run(around.get(), [&] { results = own(xs); });
        return results;
      });
    };
  }
  functions.around = nullptr;
  functions.results = nullptr;
  return functions;
}

// Passes the call outwards to the next handler of operations. The functions will run
// under the frames that the call passes, and under every handler that has received the
// call before and performs it again here.
Outputs perform_higher_order(Call& call) {
  auto functions = make_intrusive<FunctionAttributes>(functions_of(call));
  const auto pass = [&](Frame& passed) {
    functions->around = CapturedHandlers::around(captured_handlers_of(static_cast<HandlerFrame&>(passed)),
                                                 std::move(functions->around));
  };
  const auto received = [&](const Frame* frame) {
    return std::find(functions->received.begin(), functions->received.end(), frame) != functions->received.end();
  };
  Frame* frame = current;
  for (; frame && !frame->slot; frame = frame->below) {
    if (frame->kind != Frame::Kind::interception) pass(*frame);
    else if (Frame* answering = static_cast<Interception*>(frame)->answering; received(answering)) pass(*answering);
  }
  if (frame) functions->received.push_back(frame);
  if (frame && !frame->answers_need_no_check) record_results(*functions);
  Call next = call.with_attributes(std::move(functions));
  if (!frame) {
    // The captured handler stack has all frames, so the function runs under that stack alone.
    Interception below_all(current);
    UnderFrame nothing(&below_all);
    return functions_of(next).run(FunctionRole::function, next.inputs());
  }
  return answered(frame, next);
}

Outputs perform_functions(Inputs inputs, FunctionAttributes functions) {
  functions.received.clear();
  return perform(Call(op_call, std::move(inputs), make_intrusive<FunctionAttributes>(std::move(functions))));
}

void check_defined(const char* name, const char* what, std::span<const Tensor> results) {
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!results[i].defined())
      fail<TransformError>("{}: {} {} is an empty Tensor (default-constructed or moved from)", name, what, i);
}

}  // namespace stave_detail

namespace stave {

Inputs FunctionInputs::flat() const {
  Inputs all(inputs.begin(), inputs.end());
  all.append(derivatives.begin(), derivatives.end());
  return all;
}

Outputs FunctionResults::flat() && {
  Outputs all = std::move(static_cast<Outputs&>(*this));
  all.append(more.begin(), more.end());
  return all;
}

FunctionResults FunctionResults::split(Outputs all, std::size_t outputs) {
  Outputs more(all.begin() + static_cast<std::ptrdiff_t>(outputs), all.end());
  all.resize(outputs);
  return {std::move(all), std::move(more)};
}

FunctionResults FunctionAttributes::run(FunctionRole role, const FunctionInputs& given) const {
  FunctionResults results;
  stave_detail::CapturedHandlers::run(around.get(), [&] { results = (*this)[role](given); });
  return results;
}

}  // namespace stave
