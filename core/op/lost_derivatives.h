// Detects derivatives that are lost where an effect is answered outside of a transform.
//
// grad and jvp see the operations that are performed inside of them. A handler that is installed
// outside of them and answers an effect receives values that the transform differentiates. It may
// compute with these values, but the transform does not see those operations. Three kinds of
// tensors come back in the answer:
//
//   a tensor of the effect        it is unchanged and keeps its derivative
//   a tensor computed from it     its derivative is unknown to the transform: it is `lost`, and
//                                 it is an error if the transform's result depends on it
//   any other tensor              a constant to the transform; outer transforms differentiate it
//
// Marks on the tensors distinguish the kinds. While an effect is answered outside of a transform,
// an operation on values that the transform differentiates marks its results as lost, if the
// transform does not see the operation. Elements that the host reads become constants.
#pragma once

#include <cstdint>

#include <stave/core/op/op.h>
#include <stave/core/tensor/note.h>

namespace stave_detail {

/// The interface of a handler that tracks the derivatives of values, such as the handlers of grad
/// and jvp.
class FollowsDerivatives {
 public:
  /// Marks x as a value whose derivative is lost.
  virtual Tensor lost(Tensor x) const = 0;
  /// Returns true if the handler tracks the derivative of x, or has lost it.
  virtual bool follows(const Tensor& x) const noexcept = 0;

 protected:
  ~FollowsDerivatives() = default;
};

/// The interface of a handler that represents a transform which tracks derivatives.
class RepresentsTransform {
 public:
  virtual const AnyHandler* stands_for() const noexcept = 0;

 protected:
  ~RepresentsTransform() = default;
};

/// The number of effects that are being answered on this thread outside of a transform that
/// tracks derivatives, plus the number of TracksValues objects. It is usually 0, and then
/// operations check nothing further.
extern constinit thread_local int answered_outside;

/// A handler that is installed around a transform. An effect that reaches this handler is answered
/// outside of the transform, and counts in `answered_outside` while it is being answered.
class AnsweredOutside final : public Remembers {
 public:
  std::string describe() const override { return ""; }
  void* handling(const EffectType& effect) override;
  const std::any* next_answer() override { return nullptr; }
  void remember(std::any) override {}
  void forget(const std::type_info&) override {}
  int* at_work() noexcept override { return &answered_outside; }
  HandlerProperties properties() const noexcept override { return {.only_observes = true}; }
  /// The name of the last effect that passed this handler, for errors.
  std::string effect() const { return effect_ ? type_name(effect_->type) : "an effect"; }

 private:
  const EffectType* effect_ = nullptr;
};

/// Throws TransformError: the result of the transform depends on a value that was computed outside
/// of it to answer an effect.
[[noreturn]] void fail_lost(const char* transform, const std::string& effect);

/// Tracks for each result the numbered values that it depends on. While this object lives, each
/// operation marks its results with the numbers of its inputs, even if no handler sees the
/// operation.
class TracksValues {
 public:
  TracksValues() noexcept;
  virtual ~TracksValues();
  TracksValues(const TracksValues&) = delete;
  TracksValues& operator=(const TracksValues&) = delete;
  /// A mask: bit n is set if x is value n or was computed from it; the last bit stands for all
  /// numbers from 63 on. 0: x depends on no numbered value.
  virtual std::uint64_t sources(const Tensor& x) const noexcept = 0;
  /// Marks x as computed from these values.
  virtual Tensor made_of(Tensor x, std::uint64_t sources) const = 0;
  static constexpr std::uint64_t source(std::size_t number) noexcept {
    return std::uint64_t{1} << (number < 63 ? number : 63);
  }

 private:
  friend class LostDerivativeMarks;
  TracksValues* previous_ = nullptr;
  TracksValues* next_;
};

/// Marks the results of one operation: as lost for the transforms that do not see the operation,
/// and with the numbers of the tracked values that the operation reads.
class LostDerivativeMarks {
 public:
  /// Reads the inputs, so it is constructed before the operation may move from them.
  LostDerivativeMarks(const Op& op, std::span<const Tensor> inputs);
  Outputs operator()(Outputs outputs) const;

 private:
  friend Tensor mark_lost(Tensor y, std::span<const Tensor> xs);
  LostDerivativeMarks(std::span<const Tensor> inputs) { look_for_transforms(inputs); }
  void look_for_transforms(std::span<const Tensor> inputs);
  Tensor marked(Tensor x) const;

  SmallVector<IntrusivePtr<NotesState>, 2> transforms_;
  SmallVector<std::pair<TracksValues*, std::uint64_t>, 1> trackers_;
};

/// Marks y, which was computed from xs, as lost for the transforms that differentiate xs and do not
/// see the calling code.
Tensor mark_lost(Tensor y, std::span<const Tensor> xs);

/// For a handler that is answering an effect: the transforms that are installed between the code
/// that performed the effect and this handler, from inside out.
std::vector<const FollowsDerivatives*> transforms_passed();

}  // namespace stave_detail
