// Notes: what a running handler keeps about a very value, on the value's node.
//
//   Notes<Tensor> tangents("jvp");                        // one for each installation of a handler; its id is never used twice
//   x = tangents.put(std::move(x), dx);                   // annotates: on this node if nobody else owns it, else on a clone
//   if (const Tensor* dx = tangents.find(x)) ...
//
// A note ends with its node or with the Notes that made it, whichever comes first, on whatever thread either does. The list on
// a node changes only while one handle owns the node; whoever shares it only reads. When Notes end, their notes count as absent
// and let go of what they hold; such a shell goes with its node. Of node and Notes, the one that goes last frees the note.
//
// An owner lists its notes, those that its own thread made. Other threads leave that list alone, but for the end of Notes on one
// of them. Therefore the list changes under a lock, except while its thread knows that the Notes cannot end elsewhere: then
// (`run`) notes come and go without a locked instruction.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include <stave/core/effects/effect.h>
#include <stave/core/tensor/tensor.h>

namespace stave_detail {

/// The library that has this address is not unloaded any more.
void keep_module_of(const void* address) noexcept;

}  // namespace stave_detail

namespace stave {

/// Who makes notes: outlives them all, says who they are.
struct NoteOwner : RefCounted {
  const InstallationId id = next_installation_id();
  const char* const name;    // of the transform, for errors
  const void* const thread;  // where it runs; null: nowhere
  const AnyHandler* const
      differentiates;               // the handler whose knowledge of derivatives the notes are; null: of another kind
  std::atomic<bool> running{true};  // false when the body it handles has ended
  std::atomic<bool> ended{false};   // the notes count as absent
  bool confined = false;            // the Notes cannot end on another thread. Of its own thread, as what follows is
  Note* first = nullptr;            // of the notes that it made

  NoteOwner(const char* transform, const AnyHandler* differentiates) noexcept;
  /// Of notes that are no transform's: any thread's, for as long as the program runs.
  explicit NoteOwner(const char* kind) noexcept;
  /// Ends all notes. On any thread.
  void end() noexcept;
  /// Counts a note, and lists it.
  void add(Note& note) noexcept;
  /// Takes a note out of the list, and its count back. False if the notes have ended.
  bool unlink(Note& note) noexcept;

  /// While it stands, the notes do not end.
  class Hold {
   public:
    explicit Hold(NoteOwner& owner) noexcept;
    ~Hold() {
      if (owner_) owner_->unlock();
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    NoteOwner* const owner_;
  };

 private:
  void lock() noexcept;
  void unlock() noexcept;

  // Each note counts as an owner of this. The references are taken in lots, so that on this thread, where most notes come and
  // go, counting one costs no locked instruction.
  static constexpr std::uint32_t lot = 1 << 16;
  std::uint32_t paid_ = 0;  // references that no note has
  std::atomic<bool> locked_{false};
};

/// Names the calling thread.
const void* id_of_this_thread() noexcept;

struct Note : stave_detail::Pooled {
  Note* next = nullptr;  // on the node
  Note* previous_of_owner = nullptr;
  Note* next_of_owner = nullptr;
  NoteOwner* const owner;
  std::atomic<std::uint8_t> ended{0};

  explicit Note(NoteOwner* maker) noexcept : owner(maker) { owner->add(*this); }
  virtual ~Note() = default;
  /// A note for a clone of the node.
  virtual Note* clone() const = 0;
  /// Lets go of what the note holds.
  virtual void drop() noexcept = 0;
  /// The value whose storage stands behind a node that has none of its own; null if this note knows none.
  virtual const Tensor* physical() const noexcept { return nullptr; }
  /// Whether notes of this kind know such a value while they live.
  virtual bool has_physical() const noexcept { return false; }
  /// What that one keeps in memory; the same whenever the program runs.
  virtual std::size_t bytes_behind() const noexcept { return 0; }
  /// The value is given a label (label.h), on a node that nobody else owns.
  virtual void labelled(const NamePtr&) {}
  /// The program reads the value: item, to_vector, data, str.
  virtual void was_read(const Tensor&) {}

  bool live() const noexcept { return !owner->ended.load(std::memory_order_acquire); }
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

/// Throws TransformError, naming `what` and `remedy`, if a transform that runs here follows the derivative of this value, which
/// is to be read out of all operations' sight: the derivative would be lost. A handler below that transform may read: the
/// derivative does not go through it.
void check_not_differentiated(const Node& node, const char* what, const char* remedy);

/// Tells those who keep notes on x that the program reads it.
void tell_read(const Tensor& x);

/// What keeping the value keeps in memory.
std::size_t bytes_kept_by(const Node& x) noexcept;

/// Throws TransformError if x has no storage, or carries a note of a handler that runs on another thread.
void check_not_escaped(const Node& node);

/// The notes of one installation, with payloads of type P. P is copied when a node is cloned.
template <class P>
class Notes {
 public:
  /// `differentiates`: the handler, if the notes are what it knows of derivatives; null: they are of another kind.
  explicit Notes(const char* transform, const AnyHandler* differentiates = nullptr)
      : Notes(make_intrusive<NoteOwner>(transform, differentiates)) {}
  explicit Notes(IntrusivePtr<NoteOwner> owner) : owner_(std::move(owner)) {
    // Shells of notes outlive this, in values of whoever has them.
    [[maybe_unused]] static const bool stays = [] {
      stave_detail::keep_module_of(&module_mark);
      return true;
    }();
  }
  Notes(Notes&&) noexcept = default;
  ~Notes() {
    if (owner_) owner_->end();
  }

  InstallationId id() const noexcept { return owner_->id; }
  NoteOwner& owner() const noexcept { return *owner_; }

  /// What `body` returns: the transform's function, on the owner's thread, by one who keeps these Notes meanwhile.
  template <class Body>
  auto run(Body&& body) const {
    struct Running {
      NoteOwner& owner;
      explicit Running(NoteOwner& notes) noexcept : owner(notes) { owner.confined = true; }
      ~Running() {
        owner.running.store(false, std::memory_order_release);
        owner.confined = false;
      }
    } running(*owner_);
    return std::forward<Body>(body)();
  }

  /// What is noted on x; null if nothing is.
  const P* find(const Tensor& x) const noexcept { return x.defined() ? find(*x.node_ptr()) : nullptr; }
  const P* find(const Node& node) const noexcept {
    for (const Note* note = node.notes; note; note = note->next)
      if (note->owner == owner_.get()) return &static_cast<const NoteOf*>(note)->payload;
    return nullptr;
  }

  /// x with `payload` noted on it, in place of what was.
  Tensor put(Tensor x, P payload) const {
    if (!x.node_ptr().unique()) x = clone_node(x);
    remove(x);
    attach(x, new NoteOf(owner_.get(), std::move(payload)));
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
  static inline char module_mark = 0;  // in the program or library whose code the notes run
  struct NoteOf final : Note {
    P payload;
    NoteOf(NoteOwner* of, P value) : Note(of), payload(std::move(value)) {}
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

  IntrusivePtr<NoteOwner> owner_;
};

}  // namespace stave
