#include <stave/handlers/debugger/stepper.h>

#include <stave/core/tensor/fail.h>

namespace stave_detail {

// The handler that examines a function's operations during a step. It is shared,
// because functions of checkpoints may run again after the end of the Stepper.
class StepByStep final : public Stepping {
 public:
  bool running = false;  // true while a step is in progress
  bool dropped = false;

  std::string describe() const override { return "Stepper"; }
  Outputs handle(Call& call) override {
    // If a dropped computation could not unwind its stack immediately, it does so at the next
    // operation at which an exception may be thrown.
    if (dropped) on_stop();
    return running ? Stepping::handle(call) : stave::perform(std::move(call));
  }
  void handle(BreakpointReached& reached) override {
    if (running) Stepping::handle(reached);
  }

 private:
  void on_stop() override { stave::perform(PauseStepping{this}); }
};

// Runs the function as a coroutine with its own call stack. It is the controller that suspends the
// function at a stop.
class SteppedComputation final : public Controls<PauseStepping> {
 public:
  explicit SteppedComputation(std::function<void()> body) : body_(std::move(body)) {}

  static bool go(const std::shared_ptr<SteppedComputation>& self);
  void drop() {
    stepping->dropped = true;
    std::exchange(rest_, {}).drop();
  }
  void drop_quietly() noexcept {
    stepping->dropped = exists();
    body_ = nullptr;
    rest_ = {};
  }
  bool exists() const noexcept { return static_cast<bool>(rest_); }
  bool ended() const noexcept { return !rest_ && !body_ && !stepping->running; }
  std::string describe() const override { return ""; }

  const std::shared_ptr<StepByStep> stepping = std::make_shared<StepByStep>();

 private:
  // Suspends the function, except in two cases: no step is in progress because the function runs
  // again, or the effect belongs to another Stepper, which was dropped. The function then continues
  // immediately.
  void handle(PauseStepping& still, Resumption<PauseStepping> rest) override {
    if (stepping->running && still.stepping == stepping.get()) rest_ = std::move(rest);
    else rest.resume_last();
  }

  std::function<void()> body_;  // Null after the start.
  Resumption<PauseStepping> rest_;
};

bool SteppedComputation::go(const std::shared_ptr<SteppedComputation>& self) {
  struct Running {
    bool& running;
    explicit Running(bool& of) : running(of) { running = true; }
    ~Running() { running = false; }
  } running_guard(self->stepping->running);
  if (auto body = std::exchange(self->body_, nullptr))
    with(self, [stepping = self->stepping, body = std::move(body)] { with(stepping, body); });
  else std::exchange(self->rest_, {}).resume();
  return self->exists();
}

AnyStepper::AnyStepper(std::function<void()> body)
    : computation_(std::make_shared<SteppedComputation>(std::move(body))) {}

AnyStepper::~AnyStepper() {
  if (computation_) computation_->drop_quietly();
}

bool AnyStepper::go(Until until) {
  if (computation_->stepping->running)
    fail<TransformError>("Stepper: this step is taken inside the function, while it runs");
  if (computation_->ended()) fail<TransformError>("Stepper: the function has ended, and no step is left");
  computation_->stepping->go(until);
  return SteppedComputation::go(computation_);
}

bool AnyStepper::perform() {
  if (at().call(), at().has_outputs())
    fail<TransformError>("Stepper: {} has its outputs already", at().call().op().name);
  computation_->stepping->perform_and_stay();
  return SteppedComputation::go(computation_);
}

void AnyStepper::drop() {
  static_cast<void>(at());
  computation_->drop();
}

StopPoint& AnyStepper::at() const {
  if (!computation_->exists())
    fail<TransformError>("Stepper: the function is not at a stop: {}",
                         computation_->ended() ? "it has ended" : "it has not begun: take a step");
  return *computation_->stepping->at();
}

bool AnyStepper::ended() const noexcept { return computation_->ended(); }

int AnyStepper::break_at(Breakpoint breakpoint) { return computation_->stepping->add(std::move(breakpoint)); }

void AnyStepper::remove_breakpoint(int number) {
  if (!computation_->stepping->remove(number)) fail<TransformError>("Stepper: there is no breakpoint {}", number);
}

}  // namespace stave_detail
