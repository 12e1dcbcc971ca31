// The tape of reverse mode: a graph of entries, and the handler that records them.
// Internal to vjp_flat.h.
//
// An Entry is one recorded operation, or an input of the transform. It is owned by the notes on its
// outputs, by the entries that consumed them and, for results of the function, by the pullback. If
// all outputs die unconsumed, the entry is freed at once, with the values that it saved. Entries
// are freed in a loop, so a million operations need heap, not stack.
// A backward pass changes a tape only if it may consume it, so several passes may run at once.
#pragma once

#include <memory>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include <stave/core/effects/scope.h>
#include <stave/core/op/higher_order.h>
#include <stave/core/op/lost_derivatives.h>
#include <stave/core/tensor/note.h>
#include <stave/handlers/transforms/vjp_flat.h>

namespace stave_detail {

struct Entry;
using EntryPtr = IntrusivePtr<Entry>;
// Frees the entry and the entries that it alone kept alive, without recursion.
void destroy(Entry* entry) noexcept;

// The origin of a value: output `output` of an entry.
struct Slot {
  EntryPtr entry;
  int output = 0;
  /// A note that holds a slot without an entry marks a value for which nothing was recorded. Its
  /// `output` is `outside` if a handler outside of the transform computed the value to answer an
  /// effect, so that the derivative is lost, and 0 if a checkpoint's function computed the value.
  static constexpr int outside = -1;
};

// Additional data of the entry of a higher-order operation.
struct HigherOrderOutputs {
  SmallVector<Abstract, 1> abstracts;
  SmallVector<Device, 1> devices;
  // Residuals of a custom rule, or the values that a checkpoint saved.
  SmallVector<Tensor, 1> residuals;
};

// The cost of recomputing an entry's output from values that the tape keeps (its backward slice).
// rematerialization.cpp decides by it.
struct BackwardSlice {
  static constexpr std::uint16_t too_far = 0xffff;
  std::uint16_t back = 0;  // distance in entries to the earliest entry of the slice; or `too_far`
  // Upper bound on the entries that are recomputed; 0: the output is not known to be recomputable.
  std::uint16_t size = 0;
  bool kept = false;  // the output is kept for an entry that reads it
  // The output is not kept, but recomputed for an elementwise operation's rule.
  bool read_again = false;
};

// A recorded operation. One memory block holds the entry and its lists, because programs are long.
// The order in the block is:
//   saved inputs, their producers, saved outputs, lengths of all inputs' axes, each input's kind
struct Entry : RefCounted {
  struct Kind {
    Dtype dtype;
    std::uint16_t rank;
  };

  // `axes` is the total number of axes of all inputs.
  const std::uint32_t input_count = 0, output_count = 0, axes = 0;
  bool keeps_outputs : 1 = false;  // true if the rule of an input with a producer reads the outputs
  bool joins_regions : 1 = false;  // true if a region can perform the operation (Region::admits)
  // Mask of the inputs that a rule reads and that are recomputed from their producers.
  std::uint8_t dropped = 0;
  BackwardSlice slice;
  const std::uint64_t sequence;  // position in the order of recording
  const Op* const op = nullptr;  // null: an input of the transform
  AttributesPtr attributes;
  ScopePathPtr scopes;  // scopes in which the operation was performed, within the function
  std::unique_ptr<HigherOrderOutputs> carried;
  Entry* next_to_free = nullptr;

  static EntryPtr of_input(std::uint64_t sequence);
  static EntryPtr of(const Call& call, std::uint64_t sequence);
  ~Entry();
  static void operator delete(Entry* entry, std::destroying_delete_t) noexcept;

  // The saved inputs; an input that is not saved is undefined.
  std::span<Tensor> inputs() noexcept { return {static_cast<Tensor*>(lists()), input_count}; }
  // The producers of the inputs; empty slots for constants.
  std::span<Slot> producers() noexcept { return {reinterpret_cast<Slot*>(inputs().data() + input_count), input_count}; }
  // The saved outputs, undefined unless `keeps_outputs`; empty if no rule reads an output.
  std::span<Tensor> outputs() noexcept {
    return {reinterpret_cast<Tensor*>(producers().data() + input_count), op && op->reads_outputs() ? output_count : 0};
  }
  static constexpr std::size_t most_dropped = 8;  // only the first 8 inputs can be dropped
  bool drops(std::size_t i) const noexcept { return i < most_dropped && dropped >> i & 1; }
  SmallVector<Abstract, 2> input_abstracts();
  /// Returns true if computing the output again takes no longer than reading it from memory would.
  bool is_recomputable() const noexcept { return op->may_be_view() || (joins_regions && op->is_cheap()); }
  /// Releases the saved values and the producers.
  void clear() noexcept;

 private:
  explicit Entry(std::uint64_t sequence) noexcept : sequence(sequence) {}
  Entry(const Call& call, std::uint64_t sequence, std::uint32_t axes) noexcept;
  void* lists() noexcept { return this + 1; }
  Index* lengths() noexcept { return reinterpret_cast<Index*>(outputs().data() + outputs().size()); }
  Kind* kinds() noexcept { return reinterpret_cast<Kind*>(lengths() + axes); }
};

/// Returns true if operations that are performed here reach only the library's own handlers. These
/// handlers give the same values when an operation is performed again, and do not depend on whether
/// operations are fused.
bool is_undisturbed();

/// Chooses which of the values that rules will read are saved on a tape (rematerialisation).
class Rematerialization {
 public:
  explicit Rematerialization(Recompute when, std::uint64_t first = 0) noexcept
      : when_(when), active_(when == Recompute::always), least_(when == Recompute::automatic ? large
                                                                : when == Recompute::always  ? 0
                                                                                             : ~std::size_t{0}),
        first_(first) {}
  Recompute when() const noexcept { return when_; }

  /// Sets the transform's inputs (primals). Those that a recomputation needs are kept. `stay`: the
  /// caller keeps all of them alive in any case.
  void set_primals(std::span<const Tensor> primals, bool stay);
  void release_primals();
  const Tensor& primal(const Entry& input) const { return primals_[input.sequence]; }

  /// Returns true if plan() must be called for a new entry that saves x: x is large enough to be
  /// dropped, or has no storage of its own.
  bool may_drop_later(const Tensor& x) const noexcept {
    const Storage* const storage = x.node_ptr()->storage.get();
    return !storage || storage->bytes >= least_;
  }
  bool active() const noexcept { return active_; }
  /// Drops the inputs of an entry that need not be saved, and keeps the others.
  void plan(Entry& entry, const Call& call, const Rematerialization& of_primals);
  void keep(const Tensor& output);

 private:
  // The size in bytes below which recording an operation anew takes longer than performing it.
  static constexpr std::size_t large = std::size_t{16} << 10;
  bool begins(Entry& entry, std::size_t bytes);
  bool may_drop(const Entry& reader, Entry& producer, const Tensor& x) const;
  BackwardSlice slice_of(Entry& entry, std::size_t bytes, const Rematerialization& of_primals);
  bool takes(Entry& entry, std::size_t i, std::size_t bytes, const Rematerialization& of_primals, BackwardSlice& slice);
  void search_nearby(Entry& entry, const Rematerialization& of_primals);
  void continue_run(const Entry& entry, const Shape& shape);
  bool is_own(const Entry& entry) const noexcept { return entry.sequence >= first_; }

  const Recompute when_;
  bool active_, primals_stay_ = false;
  const std::size_t least_;    // values of fewer bytes are never dropped
  const std::uint64_t first_;  // first entry of this tape; earlier entries belong to other tapes
  std::size_t kept_ = 0;       // bytes of the kept values that were computed from the inputs
  std::uint64_t run_ = 0;      // all entries since this one are elementwise and of one shape
  Shape shape_;
  std::vector<Tensor> primals_;
  std::vector<bool> needed_;  // needed_[i]: primal i is needed
};

/// The outputs of one operation of a checkpoint's function, which are not recomputed when the
/// function runs again. `number` counts the operations of the function. Higher-order operations,
/// and the operations inside them, have no number.
struct SavedOutputs {
  std::size_t number;
  const Op* op;
  Outputs outputs;
};
class Replay {
 public:
  explicit Replay(std::vector<SavedOutputs> saved) : saved_(std::move(saved)) {}
  /// Returns the saved outputs of the next operation; null: it must be performed.
  /// Throws TransformError if another operation was performed in the first run.
  const Outputs* next(const Call& call);
  int inside = 0;  // nesting depth inside functions of higher-order operations

 private:
  const std::vector<SavedOutputs> saved_;
  std::size_t number_ = 0, next_ = 0;
};

class GradHandler final : public Handler, public FollowsDerivatives, public std::enable_shared_from_this<GradHandler> {
 public:
  GradHandler(const char* transform, Recompute recompute) : notes(transform, this), rematerialization(recompute) {}
  /// Creates the handler that records the second run of a checkpoint's function. This handler knows
  /// the values that `base` recorded, and numbers its entries from `sequence` on.
  GradHandler(std::shared_ptr<const GradHandler> base, std::uint64_t sequence, std::vector<SavedOutputs> saved)
      : notes(base->notes.owner().name, this), rematerialization(base->rematerialization.when(), sequence),
        base_(std::move(base)), sequence_(sequence) {
    if (!saved.empty()) replay_.emplace(std::move(saved));
  }

  Outputs handle(Call& call) override;
  std::string describe() const override { return notes.owner().name; }
  // A checkpoint that runs again accepts no closed calls, because it must perform the same
  // operations as in its first run. Saved outputs are identified by the number of their operation.
  HandlerProperties properties() const noexcept override {
    return {.runs_no_user_code = true, .takes_closed_calls = !base_, .counts_slot_effects = replay_.has_value()};
  }
  EntryPtr entry_of_input() { return Entry::of_input(sequence_++); }
  /// Returns the origin of x; null for constants. A slot without an entry marks a value from inside
  /// a checkpoint, where nothing was recorded, or a value whose derivative is lost.
  const Slot* find(const Tensor& x) const noexcept {
    const Slot* slot = notes.find(x);
    return slot || !base_ ? slot : base_->find(x);
  }
  Tensor lost(Tensor x) const override;
  bool follows(const Tensor& x) const noexcept override { return find(x) != nullptr; }
  /// Returns one id for this handler and the handlers that record rerun checkpoints for it.
  InstallationId tape() const noexcept { return root().notes.id(); }
  /// Returns the sequence number of the last entry. It belongs to the operation that this handler
  /// performs now, if it recorded that operation.
  std::uint64_t last_sequence() const noexcept { return sequence_ - 1; }
  /// Returns the result of the function, which runs with this handler installed around it.
  template <class F>
  auto run(F&& f) {
    return notes.run([&] { return with(outside_, [&] { return with(*this, f); }); });
  }
  /// Throws TransformError if the slot marks a value that depends on differentiated values, but for
  /// which nothing was recorded.
  void check_recorded(const Slot* slot) const;
  /// Marks the floating outputs, by notes that hold the slot `like`, as values for which nothing is
  /// recorded.
  Outputs unrecorded(Outputs outputs, const Slot& like = {}) const;
  Tensor without_notes(Tensor x) const;
  Outputs without_notes(Outputs outputs) const;
  Inputs without_notes(std::span<const Tensor> inputs) const;

  /// Returns the value of an input of the transform.
  const Tensor& primal(const Entry& input) const { return root().rematerialization.primal(input); }

  Notes<Slot> notes;
  Rematerialization rematerialization;

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

  // The operation `call`: tape_higher_order.cpp.
  Outputs handle_higher_order(Call& call);
  Outputs checkpoint(Call& call);
  Outputs custom_vjp(Call& call, FunctionAttributes functions);
  Outputs custom_jvp(Call& call, const FunctionAttributes& functions);
  std::vector<InstallationId> ids() const;

  // Keeps the base handler alive during a walk back over the entries of this one, because values
  // still carry the base handler's notes. The first handler lives as long as the tape.
  const std::shared_ptr<const GradHandler> base_;
  std::uint64_t sequence_ = 0;
  std::optional<Replay> replay_;
  AnsweredOutside outside_;
  mutable std::string lost_by_;  // the effect whose answer first lost a derivative
  ScopePathPtr scopes_;          // scopes of the last operation that was performed in scopes
};

/// The scope of a backward pass. It tells observers which operation's rule is being performed.
class BackwardScope final : public AnyHandler {
 public:
  BackwardScope(NamePtr name, InstallationId tape_) noexcept : AnyHandler(0), tape(tape_), name_(std::move(name)) {
    ++open_scopes;
  }
  ~BackwardScope() override { --open_scopes; }
  std::string describe() const override { return name_->text; }
  void* handling(const EffectType&) override { return nullptr; }
  const NamePtr* scope_name() const noexcept override { return &name_; }

  const InstallationId tape;  // GradHandler::tape() of the handler that recorded the tape
  Entry* entry = nullptr;     // the recorded operation whose rule is performed now; null: none

 private:
  const NamePtr name_;
};

/// Returns the functions with a check: they throw TransformError if they use or return values with
/// notes of the handlers `ids`.
FunctionAttributes without_captures(const FunctionAttributes& functions, std::vector<InstallationId> ids,
                                    const char* transform);

/// Returns true if the entry of a higher-order operation is a checkpoint.
bool rematerializes(const Entry& entry);
/// The outputs of a checkpoint's function in its second run, and the handler
/// that recorded that run.
struct Recorded {
  Outputs outputs;
  std::shared_ptr<GradHandler> recorder;
};
Recorded run_again(Entry& entry);

/// Returns the cotangents of the inputs of an entry whose operation has a custom rule; undefined:
/// zero. `consume` says that the entry is used for the last time.
Outputs custom_cotangents(Entry& entry, std::span<const Tensor> cotangents, bool consume);

}  // namespace stave_detail
