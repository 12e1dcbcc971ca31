// The tape of reverse mode: a graph of entries, and the handler that records them. Internal to vjp_flat.h.
//
// An Entry is one recorded operation; it is owned by the notes on its outputs and by the entries that consumed them. When an
// output dies unconsumed, its entry goes at once, and with it what it saved. Releasing is a loop, so a million operations
// need heap, not stack. A backward pass changes nothing here but what it is told to consume: several may run at once.
#pragma once

#include <memory>
#include <new>
#include <span>

#include <stave/core/carried.h>
#include <stave/core/effects/scope.h>
#include <stave/core/note.h>

namespace stave_detail {

struct Entry;
using EntryPtr = IntrusivePtr<Entry>;
void destroy(Entry* entry) noexcept;  // and, in a loop, what it alone kept

// Where a value came from: output `output` of an entry.
struct Slot {
  EntryPtr entry;
  int output = 0;
};

// Of an operation that carries functions.
struct CarriedOutputs {
  SmallVector<Abstract, 1> abstracts;
  SmallVector<Device, 1> devices;
  SmallVector<Tensor, 1> residuals;  // of a custom rule
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
  const std::uint64_t sequence;                                     // the order of recording
  const Op* const op = nullptr;                                     // null: an input of the transform
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

class GradHandler final : public Handler, public std::enable_shared_from_this<GradHandler> {
 public:
  explicit GradHandler(const char* transform) : notes(transform, this) {}
  /// Records a function that runs again: knows what `base` recorded, and goes on with entries from `sequence`.
  GradHandler(std::shared_ptr<const GradHandler> base, std::uint64_t sequence)
      : notes(base->notes.owner().name, this), base_(std::move(base)), sequence_(sequence) {}

  Outputs handle(Call& call) override;
  std::string describe() const override { return notes.owner().name; }
  bool discreet() const noexcept override { return true; }
  EntryPtr entry_of_input() { return Entry::of_input(sequence_++); }
  /// Where x came from; null for constants. A slot without an entry: from inside a checkpoint, where nothing was recorded.
  const Slot* find(const Tensor& x) const noexcept {
    const Slot* slot = notes.find(x);
    return slot || !base_ ? slot : base_->find(x);
  }
  Outputs unrecorded(Outputs outputs) const;
  Tensor without_notes(Tensor x) const;
  Outputs without_notes(Outputs outputs) const;
  Inputs without_notes(std::span<const Tensor> inputs) const;

  Notes<Slot> notes;

 private:
  bool is_noted(const Call& call) const noexcept;
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
  ScopePathPtr scopes_;  // of the last operation in scopes
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

/// Throws for a value that the tape knows nothing of, though it depends on differentiated ones.
void check_recorded(const Slot* slot);

/// The cotangents of the inputs of an entry whose operation has a custom rule; undefined: zero. `consume`: for the last time.
Outputs custom_cotangents(Entry& entry, std::span<const Tensor> cotangents, bool consume);

}  // namespace stave_detail
