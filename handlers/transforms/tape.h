// The tape of reverse mode: a graph of entries, and the handler that records them. Internal to vjp_flat.h.
//
// An Entry is one recorded operation; it is owned by the notes on its outputs and by the entries that consumed them. When an
// output dies unconsumed, its entry goes at once, and with it what it saved. Releasing is a loop, so a million operations
// need heap, not stack. A backward pass changes nothing here but what it is told to consume: several may run at once.
#pragma once

#include <memory>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include <stave/core/effects/scope.h>
#include <stave/core/op/carried.h>
#include <stave/core/op/lost_derivatives.h>
#include <stave/core/tensor/note.h>
#include <stave/handlers/transforms/vjp_flat.h>

namespace stave_detail {

struct Entry;
using EntryPtr = IntrusivePtr<Entry>;
void destroy(Entry* entry) noexcept;  // and, in a loop, what it alone kept

// Where a value came from: output `output` of an entry.
struct Slot {
  EntryPtr entry;
  int output = 0;
  /// Without an entry: a value whose derivative is lost, for whoever answered an effect outside
  /// computed it; or a checkpoint's function.
  static constexpr int outside = -1;
};

// Of an operation that carries functions.
struct CarriedOutputs {
  SmallVector<Abstract, 1> abstracts;
  SmallVector<Device, 1> devices;
  SmallVector<Tensor, 1> residuals;  // of a custom rule; what a checkpoint saved
};

// What it takes to compute an entry's output again from values that the tape keeps: what anchors.cpp decides by.
struct Cone {
  static constexpr std::uint16_t too_far = 0xffff;
  std::uint16_t back = 0;   // by so many entries was the earliest recorded before; or too far before
  std::uint16_t size = 0;   // entries that are computed again, at most; 0: something is not kept
  bool kept = false;        // the output is, for somebody who reads it
  bool read_again = false;  // it is not, and computed again for an elementwise operation's rule
};

// One block holds an entry and its lists, for programs are long. In this order: saved inputs, their producers, saved outputs,
// the lengths of all inputs' axes, and each input's kind.
struct Entry : RefCounted {
  struct Kind {
    Dtype dtype;
    std::uint16_t rank;
  };

  const std::uint32_t input_count = 0, output_count = 0, axes = 0;  // axes: of all inputs
  bool keeps_outputs = false;                                       // a rule reads them
  std::uint8_t dropped = 0;  // a mask of the inputs that a rule reads and that are computed again from their producers
  Cone cone;
  const std::uint64_t sequence;  // the order of recording
  const Op* const op = nullptr;  // null: an input of the transform
  AttributesPtr attributes;
  ScopePathPtr scopes;  // where it was performed, within the function
  std::unique_ptr<CarriedOutputs> carried;
  Entry* next_to_free = nullptr;

  static EntryPtr of_input(std::uint64_t sequence);
  static EntryPtr of(const Call& call, std::uint64_t sequence);
  ~Entry();
  static void operator delete(Entry* entry, std::destroying_delete_t) noexcept;

  // Saved values; undefined if the rule does not read them.
  std::span<Tensor> inputs() noexcept { return {static_cast<Tensor*>(lists()), input_count}; }
  // Of the inputs; empty slots for constants.
  std::span<Slot> producers() noexcept { return {reinterpret_cast<Slot*>(inputs().data() + input_count), input_count}; }
  std::span<Tensor> outputs() noexcept {  // saved values; none if the rule reads none
    return {reinterpret_cast<Tensor*>(producers().data() + input_count), op && op->reads_outputs() ? output_count : 0};
  }
  static constexpr std::size_t most_dropped = 8;  // of the first inputs
  bool drops(std::size_t i) const noexcept { return i < most_dropped && dropped >> i & 1; }
  SmallVector<Abstract, 2> input_abstracts();
  /// Lets go of what it saved, and of where that came from.
  void clear() noexcept;

 private:
  explicit Entry(std::uint64_t sequence) noexcept : sequence(sequence) {}
  Entry(const Call& call, std::uint64_t sequence, std::uint32_t axes) noexcept;
  void* lists() noexcept { return this + 1; }
  Index* lengths() noexcept { return reinterpret_cast<Index*>(outputs().data() + outputs().size()); }
  Kind* kinds() noexcept { return reinterpret_cast<Kind*>(lengths() + axes); }
};

/// Whether what is performed here goes to the library's own handlers alone: these compute again what they computed, and nobody sees
/// whether an operation is performed as part of another.
bool is_undisturbed();

/// Chooses which of the values that rules will read a tape saves.
class Anchors {
 public:
  explicit Anchors(Recompute when, std::uint64_t first = 0) noexcept
      : when_(when), active_(when == Recompute::always), least_(when == Recompute::automatic ? large
                                                                : when == Recompute::always  ? 0
                                                                                             : ~std::size_t{0}),
        first_(first) {}
  Recompute when() const noexcept { return when_; }

  /// The transform's inputs, of which it keeps those that it needs. `stay`: others keep them in any case.
  void set_primals(std::span<const Tensor> primals, bool stay);
  void release_primals();
  const Tensor& primal(const Entry& input) const { return primals_[input.sequence]; }

  /// Whether settle() has something to do where a new entry saves x: most values are small.
  bool minds(const Tensor& x) const noexcept {
    const Storage* const storage = x.node_ptr()->storage.get();
    return !storage || storage->bytes >= least_;
  }
  bool active() const noexcept { return active_; }
  /// Drops inputs of an entry that need not be saved. What it does not drop is kept.
  void settle(Entry& entry, const Call& call, const Anchors& of_primals);
  void keep(const Tensor& output);

 private:
  // Bytes. Below this, recording an operation anew takes longer than performing it.
  static constexpr std::size_t large = std::size_t{16} << 10;
  bool begins(Entry& entry, std::size_t bytes);
  bool may_drop(const Op& reader, Entry& producer, const Tensor& x) const;
  Cone cone_of(Entry& entry, std::size_t bytes, const Anchors& of_primals);
  bool takes(Entry& entry, std::size_t i, std::size_t bytes, const Anchors& of_primals, Cone& cone);
  void search_nearby(Entry& entry, const Anchors& of_primals);
  void continue_run(const Entry& entry, const Shape& shape);
  bool is_own(const Entry& entry) const noexcept { return entry.sequence >= first_; }

  const Recompute when_;
  bool active_, primals_stay_ = false;
  const std::size_t least_;    // bytes of values that are dropped
  const std::uint64_t first_;  // entry of the tape: those before are others'
  std::size_t kept_ = 0;       // bytes, of values that others computed from the inputs
  std::uint64_t run_ = 0;      // since this entry all are elementwise, of one shape
  Shape shape_;
  std::vector<Tensor> primals_;
  std::vector<bool> needed_;  // of the primals
};

/// What a checkpoint's function computed, as the operation of this number, and is not computed when it runs again. Operations inside
/// of functions that operations carry have no number.
struct SavedOutputs {
  std::size_t number;
  const Op* op;
  Outputs outputs;
};
class Replay {
 public:
  explicit Replay(std::vector<SavedOutputs> saved) : saved_(std::move(saved)) {}
  /// Null: it is to be performed. Throws TransformError if another operation was performed at first.
  const Outputs* next(const Call& call);
  int inside = 0;  // of functions that operations carry

 private:
  const std::vector<SavedOutputs> saved_;
  std::size_t number_ = 0, next_ = 0;
};

/// A handler to which each operation may be one that was saved, or is to be: a loop is its steps.
class CountsOperations {
 public:
  virtual bool counts() const noexcept = 0;

 protected:
  ~CountsOperations() = default;
};

class GradHandler final : public Handler,
                          public CountsOperations,
                          public FollowsDerivatives,
                          public std::enable_shared_from_this<GradHandler> {
 public:
  GradHandler(const char* transform, Recompute recompute) : notes(transform, this), anchors(recompute) {}
  /// Records a function that runs again: knows what `base` recorded, and goes on with entries from `sequence`.
  GradHandler(std::shared_ptr<const GradHandler> base, std::uint64_t sequence, std::vector<SavedOutputs> saved)
      : notes(base->notes.owner().name, this), anchors(base->anchors.when(), sequence), base_(std::move(base)),
        sequence_(sequence) {
    if (!saved.empty()) replay_.emplace(std::move(saved));
  }

  Outputs handle(Call& call) override;
  std::string describe() const override { return notes.owner().name; }
  bool discreet() const noexcept override { return true; }
  bool takes_programs() const noexcept override { return !base_; }  // a checkpoint runs again as it ran
  bool counts() const noexcept override { return replay_.has_value(); }
  EntryPtr entry_of_input() { return Entry::of_input(sequence_++); }
  /// Where x came from; null for constants. A slot without an entry: from inside a checkpoint, where nothing was recorded.
  const Slot* find(const Tensor& x) const noexcept {
    const Slot* slot = notes.find(x);
    return slot || !base_ ? slot : base_->find(x);
  }
  Tensor lost(Tensor x) const override;
  bool follows(const Tensor& x) const noexcept override { return find(x) != nullptr; }
  /// One id for this handler and those that record for it what a checkpoint performs again.
  InstallationId tape() const noexcept { return root().notes.id(); }
  /// The sequence number of the last entry: of the operation that this handler performs now, if it recorded that.
  std::uint64_t last_sequence() const noexcept { return sequence_ - 1; }
  /// Returns what the function returns, when this is installed around it.
  template <class F>
  auto run(F&& f) {
    return notes.run([&] { return with(outside_, [&] { return with(*this, f); }); });
  }
  /// Throws for a value that the tape knows nothing of, though it depends on differentiated ones.
  void check_recorded(const Slot* slot) const;
  /// As values of which nothing is recorded; `like` one.
  Outputs unrecorded(Outputs outputs, const Slot& like = {}) const;
  Tensor without_notes(Tensor x) const;
  Outputs without_notes(Outputs outputs) const;
  Inputs without_notes(std::span<const Tensor> inputs) const;

  /// The value of an input of the transform.
  const Tensor& primal(const Entry& input) const { return root().anchors.primal(input); }

  Notes<Slot> notes;
  Anchors anchors;

 private:
  const GradHandler& root() const noexcept {
    const GradHandler* handler = this;
    while (handler->base_) handler = handler->base_.get();
    return *handler;
  }
  Outputs performed(Call& call, const Outputs* saved);
  bool is_noted(const Call& call) const noexcept;
  const Slot* find_lost(const Call& call) const noexcept;
  EntryPtr record(const Call& call);
  Outputs noted(Outputs outputs, EntryPtr entry) const;

  // The operation `call`: tape_carried.cpp.
  Outputs handle_carrying(Call& call);
  Outputs checkpoint(Call& call);
  Outputs custom_vjp(Call& call, FunctionAttributes functions);
  Outputs custom_jvp(Call& call, const FunctionAttributes& functions);
  std::vector<InstallationId> ids() const;

  // For as long as what this recorded is walked back over: values still carry its notes. The first one lives as long as the tape.
  const std::shared_ptr<const GradHandler> base_;
  std::uint64_t sequence_ = 0;
  std::optional<Replay> replay_;
  AnsweredOutside outside_;
  mutable std::string lost_by_;  // the effect whose answer was the first without a derivative
  ScopePathPtr scopes_;          // of the last operation in scopes
};

/// The scope of a backward pass. It tells observers whose rule is at work.
class BackwardScope final : public AnyHandler {
 public:
  BackwardScope(NamePtr name, InstallationId tape_) noexcept : AnyHandler(0), tape(tape_), name_(std::move(name)) {
    ++open_scopes;
  }
  ~BackwardScope() override { --open_scopes; }
  std::string describe() const override { return name_->text; }
  void* handling(const EffectType&) override { return nullptr; }
  const NamePtr* scope_name() const noexcept override { return &name_; }

  const InstallationId tape;  // GradHandler::tape() of the handler that recorded
  Entry* entry = nullptr;     // the recorded operation whose rule is performed now; null: none

 private:
  const NamePtr name_;
};

/// The functions, which throw where they touch or return values with notes of `ids`.
FunctionAttributes without_captures(const FunctionAttributes& functions, std::vector<InstallationId> ids,
                                    const char* transform);

/// Of an entry whose operation carries functions: whether it is a checkpoint.
bool runs_again(const Entry& entry);
/// What a checkpoint's function yields when it runs again, and who recorded that.
struct Recorded {
  Outputs outputs;
  std::shared_ptr<GradHandler> recorder;
};
Recorded run_again(Entry& entry);

/// The cotangents of the inputs of an entry whose operation has a custom rule; undefined: zero. `consume`: for the last time.
Outputs custom_cotangents(Entry& entry, std::span<const Tensor> cotangents, bool consume);

}  // namespace stave_detail
