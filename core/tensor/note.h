// Notes: data that a running handler attaches to one value; a note is stored on the value's node.
//
//   Notes<Tensor> tangents("jvp");       // one for each installation; its id is never used twice
//   x = tangents.put(std::move(x), dx);  // on this node if it has no other owner, else on a clone
//   if (const Tensor* dx = tangents.find(x)) ...
//
// A note ends with its node or with the Notes object that made it, whichever comes first,
// on any thread. The list of notes on a node changes only while one handle owns the node;
// code that shares the node only reads the list. When a Notes object ends, its notes count as
// absent and release their contents; an empty note stays on its node. The later of the two,
// node or Notes, frees the note.
//
// A NotesState keeps a list of the notes that were made on its own thread. Another thread touches
// that list only if the Notes object is destroyed there, so removing a note takes a lock. During
// Notes::run the object cannot be destroyed on another thread: then its own thread adds and removes
// notes without a lock and without a locked instruction.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include <stave/core/effects/effect.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

/// Prevents the library that contains this address from being unloaded.
void keep_module_of(const void* address) noexcept;

}  // namespace stave_detail

namespace stave {

/// The common properties of the notes that one installation of a handler makes. It outlives these
/// notes and identifies them.
struct NotesState : RefCounted {
  const InstallationId id = next_installation_id();
  const char* const name;    // the transform's name, for errors
  const void* const thread;  // the thread on which the transform runs; null: none
  const AnyHandler* const
      // The handler whose derivatives the notes describe; null: the notes are of another kind.
      differentiates;
  // True while the transform runs its function: then values with its notes may not be used on
  // other threads than `thread`.
  std::atomic<bool> running{true};
  std::atomic<bool> ended{false};  // true: the notes count as absent
  // True if the Notes object cannot end on another thread. Used only on the owner's thread.
  bool ends_on_this_thread = false;
  // The first note of the owner's list. Used only on the owner's thread.
  Note* first = nullptr;

  NotesState(const char* transform, const AnyHandler* differentiates) noexcept;
  /// Makes the owner of notes that belong to no transform. They can be used on any thread.
  explicit NotesState(const char* kind) noexcept;
  /// Ends all notes. May be called on any thread.
  void end() noexcept;
  /// Adds a note to the list, and counts its reference to this object.
  void add(Note& note) noexcept;
  /// Removes a note from the list and gives its reference back. Returns false, and does nothing,
  /// if end() has been called.
  bool unlink(Note& note) noexcept;

  /// While this object lives, end() on another thread waits, so that the notes stay live.
  class Hold {
   public:
    explicit Hold(NotesState& owner) noexcept;
    ~Hold() {
      if (owner_) owner_->unlock();
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    NotesState* const owner_;
  };

 private:
  void lock() noexcept;
  void unlock() noexcept;

  // Each note holds a reference to this object. The count is raised by `reference_batch` in
  // advance, so a note that this thread makes or frees, as most are, needs no locked instruction.
  static constexpr std::uint32_t reference_batch = 1 << 16;
  // References that are counted in advance and that no note holds yet.
  std::uint32_t prepaid_references_ = 0;
  std::atomic<bool> locked_{false};
};

/// An address that identifies the calling thread.
const void* id_of_this_thread() noexcept;

struct Note : stave_detail::Pooled {
  Note* next = nullptr;  // the next note on the same node
  Note* previous_of_owner = nullptr;
  Note* next_of_owner = nullptr;
  NotesState* const owner;
  std::atomic<std::uint8_t> ended{0};

  explicit Note(NotesState* maker) noexcept : owner(maker) { owner->add(*this); }
  virtual ~Note() = default;
  /// Returns a copy of this note, for a clone of the node.
  virtual Note* clone() const = 0;
  /// Releases the contents of the note.
  virtual void drop() noexcept = 0;
  /// The value that provides the storage for a node without storage: the batch of all lanes. Null
  /// if this note has no such value.
  virtual const Tensor* physical() const noexcept { return nullptr; }
  /// Returns true if notes of this kind have a `physical()` value while they live.
  virtual bool has_physical() const noexcept { return false; }
  /// The size in bytes of the storage behind `physical()`; 0 if this note has no such value. It is
  /// the same in every run of the program.
  virtual std::size_t bytes_behind() const noexcept { return 0; }
  /// Says why the node, which has this note, has a shape and a dtype and no elements (an abstract
  /// tensor, eval_shape.h); empty for a note of another kind.
  virtual std::string why_no_elements(const Node&) const { return ""; }
  /// Called when the value gets a label (label.h), on a node with a single owner.
  virtual void labelled(const NamePtr&) {}
  /// Called when the program reads the value: item, to_vector, data, str.
  virtual void was_read(const Tensor&) {}

  bool live() const noexcept { return !owner->ended.load(std::memory_order_acquire); }
  /// Called when the node dies.
  void node_ended() noexcept;
};

/// Returns a new node for the same value: the same storage, with live notes cloned.
/// It is not an operation. Transforms use it to give an input an identity of its own.
/// Throws TransformError for a value of a transform that runs on another thread.
Tensor clone_node(const Tensor& x);

/// The number of live notes on x.
int live_notes(const Tensor& x);
/// Returns true if x carries a live note of this installation.
bool has_note(const Tensor& x, InstallationId id) noexcept;

/// Throws TransformError, naming `what` and `remedy`, if a transform around this point
/// differentiates this value. Reads that perform no operation call this function, since they would
/// lose the derivative. A handler that is installed outside that transform may read the value,
/// since the derivative does not pass through the handler.
void check_not_differentiated(const Node& node, const char* what, const char* remedy);

/// Notifies the live notes on x that the program reads it.
void notify_read(const Tensor& x);

/// The size in bytes of this value's storage or, for a value of a lane, of the batch of all lanes.
std::size_t bytes_kept_by(const Node& x) noexcept;

/// Throws TransformError if the value has escaped from its transform: the node has no storage, or
/// carries a note of a handler that runs on another thread.
void check_not_escaped(const Node& node);

/// The notes of one installation, with payloads of type P. P is copied when a node is cloned.
template <class P>
class Notes {
 public:
  /// `differentiates`: the handler, if the notes describe derivatives; null for notes
  /// of another kind.
  explicit Notes(const char* transform, const AnyHandler* differentiates = nullptr)
      : Notes(make_intrusive<NotesState>(transform, differentiates)) {}
  explicit Notes(IntrusivePtr<NotesState> owner) : owner_(std::move(owner)) {
    // Empty notes outlive this object on values that other code holds, and their
    // virtual functions must stay loaded.
    [[maybe_unused]] static const bool keeps_module = [] {
      stave_detail::keep_module_of(&module_mark);
      return true;
    }();
  }
  Notes(Notes&&) noexcept = default;
  ~Notes() {
    if (owner_) owner_->end();
  }

  InstallationId id() const noexcept { return owner_->id; }
  NotesState& owner() const noexcept { return *owner_; }

  /// Runs the transform's function `body` on the owner's thread and returns its result.
  /// The caller keeps this object alive meanwhile.
  template <class Body>
  auto run(Body&& body) const {
    struct Running {
      NotesState& owner;
      explicit Running(NotesState& notes) noexcept : owner(notes) { owner.ends_on_this_thread = true; }
      ~Running() {
        owner.running.store(false, std::memory_order_release);
        owner.ends_on_this_thread = false;
      }
    } running(*owner_);
    return std::forward<Body>(body)();
  }

  /// The payload of the note on x; null if there is none.
  const P* find(const Tensor& x) const noexcept { return x.defined() ? find(*x.node_ptr()) : nullptr; }
  const P* find(const Node& node) const noexcept {
    for (const Note* note = node.notes; note; note = note->next)
      if (note->owner == owner_.get()) return &static_cast<const NoteOf*>(note)->payload;
    return nullptr;
  }

  /// Returns x with `payload` as its note, which replaces an earlier one.
  Tensor put(Tensor x, P payload) const {
    if (!x.node_ptr().unique()) x = clone_node(x);
    remove(x);
    attach(x, new NoteOf(owner_.get(), std::move(payload)));
    return x;
  }

  /// Returns x without a note of this installation: x itself if it has none.
  Tensor strip(Tensor x) const {
    if (!find(x)) return x;
    if (!x.node_ptr().unique()) x = clone_node(x);
    remove(x);
    return x;
  }

 private:
  // Its address identifies the program or shared library that contains the code of these notes.
  static inline char module_mark = 0;
  struct NoteOf final : Note {
    P payload;
    NoteOf(NotesState* of, P value) : Note(of), payload(std::move(value)) {}
    Note* clone() const override { return new NoteOf(owner, payload); }
    void drop() noexcept override {
      [[maybe_unused]] P dropped = std::move(payload);
      payload = P();
    }
    const Tensor* physical() const noexcept override {
      if constexpr (requires { payload.physical(); }) return payload.physical();
      else return nullptr;
    }
    bool has_physical() const noexcept override {
      return requires { payload.physical(); };
    }
    std::size_t bytes_behind() const noexcept override {
      if constexpr (requires { payload.bytes(); }) return payload.bytes();
      else return 0;
    }
    std::string why_no_elements(const Node& node) const override {
      if constexpr (requires { payload.why_no_elements(node); }) return payload.why_no_elements(node);
      else return "";
    }
    void labelled(const NamePtr& name) override {
      if constexpr (requires { payload.labelled(name); }) payload.labelled(name);
    }
    void was_read(const Tensor& x) override {
      if constexpr (requires { payload.was_read(x); }) payload.was_read(x);
    }
  };
  static void attach(Tensor& x, Note* note) {
    const auto lock = x.node_ptr()->lock_if_registered();
    note->next = x.node_ptr()->notes;
    x.node_ptr()->notes = note;
  }
  void remove(Tensor& x) const {
    for (Note** link = &x.node_ptr()->notes; *link; link = &(*link)->next) {
      if ((*link)->owner != owner_.get()) continue;
      Note* note = *link;
      {
        const auto lock = x.node_ptr()->lock_if_registered();
        *link = note->next;
      }
      note->node_ended();
      return;
    }
  }

  IntrusivePtr<NotesState> owner_;
};

}  // namespace stave
