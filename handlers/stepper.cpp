#include <stave/handlers/stepper.h>

#include <stave/core/fail.h>

namespace stave_detail {

// The controller under which the function runs, with the handler that looks at its operations: they stand on its stack.
class SteppedComputation final : public Controls<StandStill> {
 public:
  explicit SteppedComputation(std::function<void()> body) : body_(std::move(body)) {}

  static bool go(const std::shared_ptr<SteppedComputation>& self);
  // Where it must not throw now, it is to stand still again, and unwinds then.
  void drop() {
    stepping->go(Until::operation);
    std::exchange(rest_, {}).drop();
  }
  void drop_quietly() noexcept {
    stepping->go(Until::operation);
    body_ = nullptr;
    rest_ = {};
  }
  bool stands() const noexcept { return static_cast<bool>(rest_); }
  bool running() const noexcept { return running_; }
  bool ended() const noexcept { return !rest_ && !body_ && !running_; }
  std::string describe() const override { return ""; }

  // The handler is shared: functions of checkpoints may run again when the Stepper is gone.
  class Looking final : public Stepping {
   public:
    std::string describe() const override { return "Stepper"; }

   private:
    void stand() override { stave::perform(StandStill{this}); }
  };
  const std::shared_ptr<Looking> stepping = std::make_shared<Looking>();

 private:
  // What runs when no step is taken, or stands above another Stepper, which is dropped, is not held.
  void handle(StandStill& still, Resumption<StandStill> rest) override {
    if (running_ && still.stepping == stepping.get()) rest_ = std::move(rest);
    else rest.resume_last();
  }

  std::function<void()> body_;  // until it starts
  Resumption<StandStill> rest_;
  bool running_ = false;
};

bool SteppedComputation::go(const std::shared_ptr<SteppedComputation>& self) {
  struct Running {
    bool& running;
    explicit Running(bool& of) : running(of) { running = true; }
    ~Running() { running = false; }
  };
  {
    const Running running(self->running_);
    if (auto body = std::exchange(self->body_, nullptr))
      with(self, [looking = self->stepping, body = std::move(body)] { with(looking, body); });
    else std::exchange(self->rest_, {}).resume();
  }
  if (!self->stands()) self->stepping->go(Until::end);
  return self->stands();
}

AnyStepper::AnyStepper(std::function<void()> body)
    : computation_(std::make_shared<SteppedComputation>(std::move(body))) {}

AnyStepper::~AnyStepper() {
  if (computation_) computation_->drop_quietly();
}

bool AnyStepper::go(Until until) {
  if (computation_->running()) fail<TransformError>("Stepper: a step is taken inside the function while it runs");
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

Stop& AnyStepper::at() const {
  if (!computation_->stands())
    fail<TransformError>("Stepper: the function stands nowhere: {}",
                         computation_->ended() ? "it has ended" : "it has not begun; take a step");
  return *computation_->stepping->at();
}

bool AnyStepper::ended() const noexcept { return computation_->ended(); }

int AnyStepper::break_at(Breakpoint breakpoint) { return computation_->stepping->add(std::move(breakpoint)); }

void AnyStepper::remove_breakpoint(int number) {
  if (!computation_->stepping->remove(number)) fail<TransformError>("Stepper: there is no breakpoint {}", number);
}

}  // namespace stave_detail
