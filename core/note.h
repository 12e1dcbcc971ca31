// Notes: what a running handler keeps about a very value, on the value's node.
//
//   Notes<Tensor> tangents("jvp");                        // one for each installation of a handler; its id is never used twice
//   x = tangents.put(std::move(x), dx);                   // annotates: on this node if nobody else owns it, else on a clone
//   if (const Tensor* dx = tangents.find(x)) ...
//
// A note ends with its node or with the Notes that made it, whichever comes first. Nodes may be shared between threads, so:
//   - the list on a node changes only while one handle owns the node; whoever shares it only reads;
//   - when Notes end, they do not unlink: each note is killed (id becomes 0, the payload dies) and its shell goes with the node;
//   - a node that dies on another thread than the notes' leaves its note to be freed by the Notes.
// Of node and Notes, the one that goes last frees the note (`Note::ended`). No lock anywhere.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include <stave/core/effect.h>
#include <stave/core/tensor.h>

namespace stave {

/// Who makes notes: outlives them all, says who they are.
struct NoteOwner : RefCounted {
  const InstallationId id = next_installation_id();
  const char* const name;           // of the transform, for errors
  const void* const thread;         // where it runs
  std::atomic<bool> running{true};  // false when the body it handles has ended
  Note* first = nullptr;            // of its notes; touched by its own thread only

  explicit NoteOwner(const char* transform) noexcept;
  /// Kills all notes.
  void end() noexcept;
};

/// Names the calling thread.
const void* this_thread() noexcept;

struct Note : stave_detail::Pooled {
  std::atomic<InstallationId> id;  // 0: ended
  std::atomic<std::uint8_t> ended{0};
  Note* next = nullptr;  // on the node
  Note* previous_of_owner = nullptr;
  Note* next_of_owner = nullptr;
  IntrusivePtr<NoteOwner> owner;

  explicit Note(IntrusivePtr<NoteOwner> owner) noexcept;
  virtual ~Note() = default;
  /// A note for a clone of the node.
  virtual Note* clone() const = 0;
  /// Lets go of what the note holds.
  virtual void drop() noexcept = 0;
  /// The value whose storage stands behind a node that has none of its own; null if this note knows none.
  virtual const Tensor* physical() const noexcept { return nullptr; }
  /// Whether notes of this kind know such a value while they live.
  virtual bool has_physical() const noexcept { return false; }

  bool live() const noexcept { return id.load(std::memory_order_acquire) != 0; }
  /// The node dies.
  void node_ended() noexcept;
};

/// A new node for the same value: same storage, live notes cloned. Not an operation. This is what gives an input of a
/// transform an identity of its own. Throws TransformError for a value of a transform that runs on another thread.
Tensor clone_node(const Tensor& x);

/// The live notes on x.
int live_notes(const Tensor& x);
/// Whether x carries a note of this installation.
bool has_note(const Tensor& x, InstallationId id) noexcept;

/// Throws TransformError if x has no storage, or carries a note of a handler that runs on another thread.
void check_not_escaped(const Node& node);

/// The notes of one installation, with payloads of type P. P is copied when a node is cloned.
template <class P>
class Notes {
 public:
  explicit Notes(const char* transform) : owner_(make_intrusive<NoteOwner>(transform)) {}
  Notes(Notes&&) noexcept = default;
  ~Notes() {
    if (owner_) owner_->end();
  }

  InstallationId id() const noexcept { return owner_->id; }
  NoteOwner& owner() const noexcept { return *owner_; }

  /// What is noted on x; null if nothing is.
  const P* find(const Tensor& x) const noexcept {
    for (Note* note = x.node_ptr()->notes; note; note = note->next)
      if (note->id.load(std::memory_order_relaxed) == owner_->id) return &static_cast<NoteOf*>(note)->payload;
    return nullptr;
  }

  /// x with `payload` noted on it, in place of what was.
  Tensor put(Tensor x, P payload) const {
    if (!x.node_ptr().unique()) x = clone_node(x);
    remove(x);
    attach(x, new NoteOf(owner_, std::move(payload)));
    return x;
  }

  /// x without a note of ours: x itself if it has none.
  Tensor strip(Tensor x) const {
    if (!find(x)) return x;
    if (!x.node_ptr().unique()) x = clone_node(x);
    remove(x);
    return x;
  }

 private:
  struct NoteOf final : Note {
    P payload;
    NoteOf(IntrusivePtr<NoteOwner> owner, P value) : Note(std::move(owner)), payload(std::move(value)) {}
    Note* clone() const override { return new NoteOf(owner, payload); }
    void drop() noexcept override {
      [[maybe_unused]] const P ended = std::move(payload);
      payload = P();
    }
    const Tensor* physical() const noexcept override {
      if constexpr (requires { payload.physical(); }) return payload.physical();
      else return nullptr;
    }
    bool has_physical() const noexcept override {
      return requires { payload.physical(); };
    }
  };
  static void attach(Tensor& x, Note* note) noexcept {
    note->next = x.node_ptr()->notes;
    x.node_ptr()->notes = note;
  }
  void remove(Tensor& x) const noexcept {
    for (Note** link = &x.node_ptr()->notes; *link; link = &(*link)->next) {
      if ((*link)->id.load(std::memory_order_relaxed) != owner_->id) continue;
      Note* note = std::exchange(*link, (*link)->next);
      note->node_ended();
      return;
    }
  }

  IntrusivePtr<NoteOwner> owner_;
};

}  // namespace stave
