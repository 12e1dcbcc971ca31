#include <stave/core/note.h>

#include <stave/core/fail.h>

namespace stave {
namespace {

enum : std::uint8_t { by_node = 1, by_owner = 2 };

// A note that is still linked with its owner, on the owner's thread.
void unlink(Note& note) noexcept {
  NoteOwner& owner = *note.owner;
  (note.previous_of_owner ? note.previous_of_owner->next_of_owner : owner.first) = note.next_of_owner;
  if (note.next_of_owner) note.next_of_owner->previous_of_owner = note.previous_of_owner;
}

}  // namespace

const void* this_thread() noexcept { return &stave_detail::current; }

NoteOwner::NoteOwner(const char* transform) noexcept : name(transform), thread(this_thread()) {}

void NoteOwner::end() noexcept {
  running.store(false, std::memory_order_release);
  while (Note* note = first) {
    first = note->next_of_owner;
    if (first) first->previous_of_owner = nullptr;
    note->id.store(0, std::memory_order_release);
    note->drop();  // may end further nodes, and with them notes of this list
    if (note->ended.fetch_or(by_owner, std::memory_order_acq_rel) & by_node) delete note;
  }
  ended_ = true;
  references.fetch_sub(std::exchange(paid_, 0), std::memory_order_acq_rel);  // Notes, which calls this, has one more
}

void NoteOwner::give_reference_back() noexcept {
  if (thread == this_thread() && !ended_) ++paid_;
  else if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

Note::Note(NoteOwner* maker) noexcept : id(maker->id), owner(maker) {
  owner->take_reference();
  next_of_owner = owner->first;
  if (next_of_owner) next_of_owner->previous_of_owner = this;
  owner->first = this;
}

void Note::node_ended() noexcept {
  if (!live()) {  // the owner ended before: whoever of the two comes last frees
    if (ended.fetch_or(by_node, std::memory_order_acq_rel) & by_owner) delete this;
  } else if (owner->thread == this_thread()) {
    unlink(*this);
    delete this;
  } else if (ended.fetch_or(by_node, std::memory_order_acq_rel) & by_owner) {
    delete this;
  }
}

void destroy(Node* node) noexcept { delete node; }

Node::~Node() {
  if (registered) stave_detail::forget(*this);
  while (Note* note = notes) {
    notes = note->next;
    note->node_ended();
  }
}

namespace {

[[noreturn]] void fail_on_other_thread(const Node& node, const char* transform) {
  stave_detail::fail<TransformError>(
      "a value of {} ({} {}) is used on another thread while {} runs: return it from the function instead", transform,
      name_of(node.dtype), node.shape, transform);
}

[[noreturn]] void fail_escaped(const Node& node) {
  const char* transform = "a transform";
  for (const Note* note = node.notes; note; note = note->next)
    if (note->has_physical()) transform = note->owner->name;  // not a grad or jvp that stood within
  stave_detail::fail<TransformError>(
      "a value of {} ({} {}) is used outside of it: it stands for the value of each lane and has none of its own. "
      "Return it from the function that {} maps instead of storing it",
      transform, name_of(node.dtype), node.shape, transform);
}

bool runs_on_other_thread(const Note& note) noexcept {
  return note.owner->thread != this_thread() && note.owner->running.load(std::memory_order_acquire);
}

}  // namespace

Tensor clone_node(const Tensor& x) {
  const Node& node = x.node();
  auto clone = NodePtr(new Node(node.dtype, node.device, node.shape, node.strides, node.storage, node.offset));
  if (node.registered) stave_detail::set_label(*clone, stave_detail::label_of(node));
  bool has_value = static_cast<bool>(node.storage);
  Note** end = &clone->notes;
  for (const Note* note = node.notes; note; note = note->next) {
    if (!note->live()) continue;
    if (runs_on_other_thread(*note)) fail_on_other_thread(node, note->owner->name);
    if (note->owner->thread != this_thread()) continue;  // ended there: a constant here
    Note* const copy = note->clone();
    {
      const auto lock = clone->lock_if_registered();
      *end = copy;
    }
    has_value |= note->physical() != nullptr;
    end = &(*end)->next;
  }
  if (!has_value) fail_escaped(node);
  return Tensor(std::move(clone));
}

int live_notes(const Tensor& x) {
  int count = 0;
  for (const Note* note = x.node().notes; note; note = note->next) count += note->live();
  return count;
}

bool has_note(const Tensor& x, InstallationId id) noexcept {
  for (const Note* note = x.node_ptr()->notes; note; note = note->next)
    if (note->id.load(std::memory_order_relaxed) == id) return true;
  return false;
}

void check_not_escaped(const Node& node) {
  for (const Note* note = node.notes; note; note = note->next)
    if (note->live() && runs_on_other_thread(*note)) fail_on_other_thread(node, note->owner->name);
  if (!node.storage) fail_escaped(node);
}

}  // namespace stave
