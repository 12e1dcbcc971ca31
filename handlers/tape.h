// The tape of reverse mode: a graph of entries, and the handler that records them. Internal to vjp.h.
//
// An Entry is one recorded operation; it is owned by the notes on its outputs and by the entries that consumed them. When an
// output dies unconsumed, its entry goes at once, and with it what it saved. Releasing is a loop, so a million operations
// need heap, not stack.
#pragma once

#include <memory>

#include <stave/core/carried.h>
#include <stave/core/note.h>
#include <stave/core/scope.h>

namespace stave_detail {

struct Entry;
using EntryPtr = IntrusivePtr<Entry>;
void destroy(Entry* entry) noexcept;  // and, in a loop, what it alone kept

// Where a value came from: output `output` of an entry.
struct Slot {
  EntryPtr entry;
  int output = 0;
};

struct Entry : ThreadCounted, Pooled {
  bool waiting = false;    // in the backward pass's queue
  std::uint64_t sequence;  // the order of recording
  const Op* op = nullptr;  // null: an input of the transform
  AttributesPtr attributes;
  ScopePathPtr scopes;            // where it was performed, within the function
  SmallVector<Tensor, 2> inputs;  // saved values; undefined if the rule does not read them
  SmallVector<Abstract, 2> input_abstracts;
  SmallVector<Slot, 2> producers;             // of the inputs; empty slots for constants
  SmallVector<Tensor, 1> outputs;             // saved values; of a custom rule, its residuals
  SmallVector<Abstract, 1> output_abstracts;  // of an operation that carries functions
  SmallVector<Device, 1> output_devices;      // of such a one as well
  std::uint32_t output_count = 0;
  SmallVector<Tensor, 1> cotangents;  // during a backward pass
  Entry* next_to_free = nullptr;

  explicit Entry(std::uint64_t sequence) noexcept : sequence(sequence) {}
};

class GradHandler final : public Handler {
 public:
  explicit GradHandler(const char* transform) : notes(transform) {}

  Outputs handle(Call& call) override;
  std::string describe() const override { return notes.owner().name; }
  bool discreet() const noexcept override { return true; }
  EntryPtr new_entry() { return EntryPtr(new Entry(sequence_++)); }

  Notes<Slot> notes;

 private:
  bool is_noted(const Call& call) const noexcept;
  EntryPtr record(const Call& call);
  Outputs noted(Outputs outputs, const EntryPtr& entry) const;
  Outputs without_notes(Outputs outputs) const;
  Inputs without_notes(std::span<const Tensor> inputs) const;

  // Operations that carry functions: tape_carried.cpp.
  Outputs handle_carrying(Call& call);
  Outputs checkpoint(Call& call);
  Outputs custom_vjp(Call& call);
  Outputs custom_jvp(Call& call);

  std::uint64_t sequence_ = 0;
  ScopePathPtr scopes_;  // of the last operation in scopes
};

/// A handler that throws where a function touches a value with a note of `id`.
std::shared_ptr<Handler> forbid_captures(InstallationId id, const char* transform, const Op& op);

/// The cotangents of the inputs of an entry whose operation has a custom rule; undefined: zero. `consume`: for the last time.
Outputs custom_cotangents(const Entry& entry, std::span<const Tensor> cotangents, bool consume);

}  // namespace stave_detail
