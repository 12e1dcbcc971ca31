#include <stave/core/carried.h>

#include <algorithm>

#include <stave/core/controller.h>
#include <stave/core/fail.h>

namespace stave_detail {

FunctionAttributes wrapped(FunctionAttributes attributes, const std::shared_ptr<Surroundings>& surroundings) {
  attributes.function = wrapped(std::move(attributes.function), surroundings);
  attributes.forward = wrapped(std::move(attributes.forward), surroundings);
  attributes.backward = wrapped(std::move(attributes.backward), surroundings);
  attributes.tangents = wrapped(std::move(attributes.tangents), surroundings);
  attributes.batch = wrapped(std::move(attributes.batch), surroundings);
  return attributes;
}

Outputs perform_carrying(const Op& op, Inputs inputs, FunctionAttributes attributes) {
  attributes.received.clear();
  return perform(Call(op, std::move(inputs), make_intrusive<FunctionAttributes>(std::move(attributes))));
}

namespace {

class UnderScope final : public Surroundings {
 public:
  explicit UnderScope(NamePtr name) : name_(std::move(name)) {}
  void run(FunctionRef<void()> body) override {
    Scope scope(name_);
    body();
  }

 private:
  NamePtr name_;
};

// A handler that is not shared, while its frame stands.
class UnderFrameOf final : public Surroundings {
 public:
  explicit UnderFrameOf(HandlerFrame& frame) : handler_(frame.handler), operations_(frame.operations) {
    if (!frame.standing) frame.standing = make_intrusive<HandlerFrame::Standing>();
    standing_ = frame.standing;
    if (operations_) name_ = handler_->describe();
  }
  void run(FunctionRef<void()> body) override {
    if (!standing_->stands) {
      if (!operations_) return body();  // its answers are logged
      fail<TransformError>(
          "a function runs again (that of a checkpoint, in the backward pass), but {}, which stood around it and sees "
          "its "
          "operations, has ended: install it outside of grad, or give `with` a std::shared_ptr of it",
          name_);
    }
    HandlerFrame frame(current, handler_, operations_);
    UnderFrame install(&frame);
    body();
  }

 private:
  AnyHandler* handler_;
  Handling<Call>* operations_;
  IntrusivePtr<HandlerFrame::Standing> standing_;
  std::string name_;
};

// A controller of operations: each run is a computation of its own.
class UnderController final : public Surroundings {
 public:
  explicit UnderController(Frame& frame) : computation_(&Computation::of(frame)) {}
  void run(FunctionRef<void()> body) override { computation_->run_nested(body); }

 private:
  ComputationPtr computation_;
};

// A controller of other effects, while the program runs on its computation's stack; later, answers are logged.
class UnderControllerOfEffects final : public Surroundings {
 public:
  explicit UnderControllerOfEffects(Frame& frame) : computation_(&Computation::of(frame)), handler_(frame.handler) {}
  void run(FunctionRef<void()> body) override {
    if (!computation_->running()) return body();
    HandlerFrame frame(current, handler_, nullptr);
    UnderFrame install(&frame);
    body();
  }

 private:
  ComputationPtr computation_;
  AnyHandler* handler_;
};

class UnderGuard final : public Surroundings {
 public:
  void run(FunctionRef<void()> body) override {
    Uncancellable guard;
    body();
  }
};

class UnderLog final : public Surroundings {
 public:
  explicit UnderLog(LogFrame& frame) : frame_(frame) {
    if (!frame.standing) frame.standing = make_intrusive<HandlerFrame::Standing>();
    standing_ = frame.standing;
  }
  void run(FunctionRef<void()> body) override {
    if (!standing_->stands) return body();
    LogFrame frame(current, frame_);
    UnderFrame install(&frame);
    body();
  }

 private:
  LogFrame& frame_;
  IntrusivePtr<HandlerFrame::Standing> standing_;
};

std::shared_ptr<Surroundings> surroundings_of(Frame& frame, bool received) {
  switch (frame.kind) {
    case Frame::Kind::scope: return std::make_shared<UnderScope>(static_cast<ScopeFrame&>(frame).name);
    case Frame::Kind::log: return std::make_shared<UnderLog>(static_cast<LogFrame&>(frame));
    case Frame::Kind::computation:
      if (received && frame.operations != passing_on()) return std::make_shared<UnderController>(frame);
      return std::make_shared<UnderControllerOfEffects>(frame);
    case Frame::Kind::handler:
      if (auto& installed = static_cast<HandlerFrame&>(frame); installed.owner)
        return std::make_shared<UnderHandler>(*installed.owner, frame.operations);
      return std::make_shared<UnderFrameOf>(static_cast<HandlerFrame&>(frame));
    case Frame::Kind::uncancellable: return std::make_shared<UnderGuard>();
    case Frame::Kind::interception: break;
  }
  return nullptr;
}

bool contains(const std::vector<const Frame*>& frames, const Frame* frame) {
  return std::find(frames.begin(), frames.end(), frame) != frames.end();
}

}  // namespace

// Down to the next handler of operations; every frame on the way, and every handler that passes the call on, wraps.
Outputs carry(Call& call) {
  FunctionAttributes attributes = functions_of(call);
  const auto wrap = [&](Frame& frame, bool received) {
    if (const auto surroundings = surroundings_of(frame, received))
      attributes = wrapped(std::move(attributes), surroundings);
  };
  Frame* frame = current;
  for (; frame && !frame->operations; frame = frame->below) {
    if (frame->kind != Frame::Kind::interception) {
      wrap(*frame, false);
    } else if (Frame* answering = static_cast<Interception*>(frame)->answering;
               contains(attributes.received, answering)) {
      wrap(*answering, true);
    }
  }
  if (frame) attributes.received.push_back(frame);
  Call next = call.with_attributes(make_intrusive<FunctionAttributes>(std::move(attributes)));
  if (!frame) {
    UnderFrame nothing(nullptr);  // what stood here is in the functions
    return functions_of(next).function(next.inputs());
  }
  Intercept intercept(frame);
  return frame->operations->handle(next);
}

}  // namespace stave_detail
