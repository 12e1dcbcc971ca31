// Each computation runs under a handler that performs each operation on the computation's own
// stack, under the handlers of the caller of concurrently, and then suspends the computation (if
// `at_operations`). So the caller's handlers have no operation in progress when another computation
// continues.
#include <stave/handlers/transforms/concurrently.h>

#include <algorithm>

#include <stave/core/effects/computation.h>
#include <stave/core/op/op.h>

namespace stave_detail {

namespace {

// The suspension of a computation until its next turn. It waits for no other answer, so hand_over
// marks the answer as ready at once.
struct Turn final : Suspension {
  Turn() noexcept : Suspension(type()) {}
  static const EffectType& type() noexcept { return stave::effect_type<YieldPoint>(); }
  void hand_over(Computation&) override { answer = Answer::value; }
};

// Runs the function of a higher-order operation without interruption. The operation as a whole is
// one turn, which ends when it has been performed.
struct UninterruptedBody final : Controlled {
  UninterruptedBody() noexcept : Controlled(nullptr) {}
  bool run_nested(FunctionRef<void()> body) override { return body(), true; }
};

class Concurrent final : public Computation, public Handles<Call, YieldPoint> {
 public:
  Concurrent(FunctionRef<void()> body, bool at_operations)
      : Computation(nullptr, make_intrusive<UninterruptedBody>()), body_(body), at_operations_(at_operations) {
    install(this, slot());
  }

  bool reads_next() const noexcept { return reads_next_; }
  bool is_put_off() noexcept {
    // The limit prevents a deadlock: another computation may perform operations until the value
    // that is read has arrived.
    constexpr int most = 64;
    return reads_next_ && put_off_++ < most;
  }
  /// Runs the computation until its turn ends or the function has returned. Rethrows an exception
  /// that leaves the function.
  void take_turn() {
    reads_next_ = false;
    put_off_ = 0;
    run<Turn>();
  }

 private:
  void body() override { body_(); }
  ControlledPtr make_controlled(std::shared_ptr<AnyController>) override { return make_intrusive<UninterruptedBody>(); }

  Outputs handle(Call& call) override {
    if (!at_operations_) return perform(std::move(call));
    if (cancelled()) wait_for_turn();
    Outputs outputs = perform(std::move(call));
    wait_for_turn();
    return outputs;
  }
  void handle(YieldPoint& point) override {
    reads_next_ = point.waits;
    wait_for_turn();
    perform(YieldPoint(point));  // the caller of concurrently may itself take turns
  }
  /// Suspends the computation until its next turn. If the computation is cancelled instead, throws
  /// Cancelled, or returns where it must not throw (core/effects/controller.h).
  void wait_for_turn() {
    Turn turn;
    if (suspend(turn) == Outcome::cancelled) throw Cancelled{.in_progress = true};
  }

  std::string describe() const override { return "concurrently"; }
  HandlerProperties properties() const noexcept override { return {.only_observes = true}; }

  const FunctionRef<void()> body_;
  const bool at_operations_;
  bool reads_next_ = false;  // whether the next turn reads from a device
  int put_off_ = 0;          // number of rounds of turns for which the read has been deferred
};

using Computations = std::vector<IntrusivePtr<Concurrent>>;

void take_turns(Computations& computations) {
  const auto reads = [](const auto& of) { return of->reads_next(); };
  const bool all_read = std::all_of(computations.begin(), computations.end(), reads);
  for (const auto& computation : computations)
    if (all_read || !computation->is_put_off()) computation->take_turn();
  std::erase_if(computations, [](const auto& of) { return of->ended(); });
}

}  // namespace

void run_concurrently(std::span<const FunctionRef<void()>> bodies, const ConcurrentlyOptions& options) {
  Computations computations;
  computations.reserve(bodies.size());
  try {
    for (const FunctionRef<void()>& body : bodies) {
      computations.push_back(make_intrusive<Concurrent>(body, options.at_operations));
      computations.back()->take_turn();
    }
    std::erase_if(computations, [](const auto& of) { return of->ended(); });
    while (!computations.empty()) take_turns(computations);
  } catch (...) {
    for (const auto& computation : computations) computation->cancel_quietly();
    throw;
  }
}

}  // namespace stave_detail
