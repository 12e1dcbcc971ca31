// Derivatives that would be lost where an effect is answered outside of a transform.
//
// grad and jvp see the operations that are performed inside of them. An effect goes further out:
// whoever answers it there is given values whose derivatives the transform follows, and computes
// with them unseen. Three kinds of tensors come back:
//
//   a tensor that was given        is what it was, with its derivative
//   one that was computed from it  has a derivative that the transform does not know: `lost`,
//                                  an error where the result depends on it
//   any other                      a constant to the transform; transforms further outside follow it
//
// Which is which, operations say: while an effect is answered outside of a transform, each
// operation on values of which the transform knows, performed where it does not see that, marks
// what it yields. The host makes constants of the elements that it reads.
#pragma once

#include <cstdint>

#include <stave/core/op/op.h>
#include <stave/core/tensor/note.h>

namespace stave_detail {

/// A handler that follows derivatives.
class FollowsDerivatives {
 public:
  /// x, whose derivative it does not know though there is one.
  virtual Tensor lost(Tensor x) const = 0;
  /// Whether it follows the derivative of x, or has lost it.
  virtual bool follows(const Tensor& x) const noexcept = 0;

 protected:
  ~FollowsDerivatives() = default;
};

/// A handler that stands in the place of one that follows derivatives.
class StandsForTransform {
 public:
  virtual const AnyHandler* stands_for() const noexcept = 0;

 protected:
  ~StandsForTransform() = default;
};

/// How many effects are being answered on this thread outside of a transform that follows
/// derivatives, or for somebody who tracks values: most often none, and operations look no further.
extern constinit thread_local int answered_outside;

/// Stands around a transform, and knows that an effect of it is being answered outside.
class AnsweredOutside final : public Remembers {
 public:
  std::string describe() const override { return ""; }
  void* handling(const EffectType& effect) override;
  const std::any* next_answer() override { return nullptr; }
  void remember(std::any) override {}
  void forget(const std::type_info&) override {}
  int* at_work() noexcept override { return &answered_outside; }
  bool only_observes() const noexcept override { return true; }
  /// The last effect, for errors.
  std::string effect() const { return effect_ ? type_name(effect_->type) : "an effect"; }

 private:
  const EffectType* effect_ = nullptr;
};

/// Throws TransformError: the result of the transform depends on what was computed outside to
/// answer an effect.
[[noreturn]] void fail_lost(const char* transform, const std::string& effect);

/// While it stands, numbers of values spread to what operations make of them, though nobody sees
/// these.
class TracksValues {
 public:
  TracksValues() noexcept;
  virtual ~TracksValues();
  TracksValues(const TracksValues&) = delete;
  TracksValues& operator=(const TracksValues&) = delete;
  /// Bit n: x is, or is made of, value n; the last bit stands for all numbers from 63 on. 0:
  /// neither.
  virtual std::uint64_t sources(const Tensor& x) const noexcept = 0;
  /// x, made of these.
  virtual Tensor made_of(Tensor x, std::uint64_t sources) const = 0;
  static constexpr std::uint64_t source(std::size_t number) noexcept {
    return std::uint64_t{1} << (number < 63 ? number : 63);
  }

 private:
  friend class Unseen;
  TracksValues* previous_ = nullptr;
  TracksValues* next_;
};

/// An operation, as far as somebody is to know of it who does not see it.
class Unseen {
 public:
  /// To be asked before the operation takes its inputs.
  Unseen(const Op& op, std::span<const Tensor> inputs);
  Outputs operator()(Outputs outputs) const;

 private:
  friend Tensor losing(Tensor y, std::span<const Tensor> xs);
  Unseen(std::span<const Tensor> inputs) { look_for_transforms(inputs); }
  void look_for_transforms(std::span<const Tensor> inputs);
  Tensor marked(Tensor x) const;

  SmallVector<IntrusivePtr<NoteOwner>, 2> transforms_;
  SmallVector<std::pair<TracksValues*, std::uint64_t>, 1> trackers_;
};

/// y, made of xs where transforms that follow these, and stand further inside than who calls this,
/// do not see it.
Tensor losing(Tensor y, std::span<const Tensor> xs);

/// The transforms that an effect has passed on its way to the handler that is at work here; from
/// inside out.
std::vector<const FollowsDerivatives*> transforms_passed();

}  // namespace stave_detail
