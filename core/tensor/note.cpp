// The implementation of notes: lists of notes, how notes end, clones of nodes, and checks for
// values that have escaped from their transform.
#include <stave/core/tensor/note.h>

#include <dlfcn.h>

#include <mutex>
#include <thread>

#include <stave/core/effects/fork.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

void keep_module_of(const void* address) noexcept {
  Dl_info module;
  if (!dladdr(address, &module) || !module.dli_fname) return;
  if (void* handle = dlopen(module.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE)) dlclose(handle);
}

}  // namespace stave_detail

namespace stave {
namespace {

enum : std::uint8_t { by_node = 1, by_owner = 2 };

// A thread holds this mutex while it locks an owner that belongs to another thread. fork() waits
// for the mutex, so in the child no owner of the forking thread is locked.
constinit std::mutex for_others;
const auto notes_over_fork = [] {
  // A note is copied under this lock, and its memory comes from the pool.
  stave_detail::hold_pool_over_fork();
  return stave_detail::HeldOverFork<for_others>();
}();

// Deletes the note. Its payload may hold a value that has notes, and so on. These notes wait in a
// list, so that a long chain does not overflow the stack.
void free_note(Note* note) noexcept { stave_detail::delete_in_loop<&Note::next>(note); }

// Records that the note's node has died (by_node) or that its Notes object has ended (by_owner).
// The later of the two events frees the note.
void leave(Note& note, std::uint8_t who) noexcept {
  if ((note.ended.fetch_or(who, std::memory_order_acq_rel) | who) != (by_node | by_owner)) return;
  const auto counted = IntrusivePtr<NotesState>::adopt(note.owner);
  free_note(&note);
}

}  // namespace

const void* id_of_this_thread() noexcept { return &stave_detail::current; }

NotesState::NotesState(const char* transform, const AnyHandler* handler) noexcept
    : name(transform), thread(id_of_this_thread()), differentiates(handler) {}
NotesState::NotesState(const char* kind) noexcept
    : name(kind), thread(nullptr), differentiates(nullptr), running(false) {}

void NotesState::lock() noexcept {
  if (thread != id_of_this_thread()) for_others.lock();
  while (locked_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
}

void NotesState::unlock() noexcept {
  const bool other = thread != id_of_this_thread();
  locked_.store(false, std::memory_order_release);
  if (other) for_others.unlock();
}

NotesState::Hold::Hold(NotesState& owner) noexcept
    : owner_(owner.thread == id_of_this_thread() && owner.ends_on_this_thread ? nullptr : &owner) {
  if (owner_) owner_->lock();
}

void NotesState::add(Note& note) noexcept {
  // A note that another thread makes is in no list, so `end` does not find it. It is marked as
  // ended by the owner from the start.
  if (thread != id_of_this_thread()) {
    references.fetch_add(1, std::memory_order_relaxed);
    note.ended.store(by_owner, std::memory_order_relaxed);
    return;
  }
  if (prepaid_references_ == 0) references.fetch_add(prepaid_references_ = reference_batch, std::memory_order_relaxed);
  --prepaid_references_;
  note.next_of_owner = first;
  if (first) first->previous_of_owner = &note;
  first = &note;
}

bool NotesState::unlink(Note& note) noexcept {
  const Hold hold(*this);
  if (!note.live()) return false;
  (note.previous_of_owner ? note.previous_of_owner->next_of_owner : first) = note.next_of_owner;
  if (note.next_of_owner) note.next_of_owner->previous_of_owner = note.previous_of_owner;
  ++prepaid_references_;
  return true;
}

void NotesState::end() noexcept {
  running.store(false, std::memory_order_release);
  lock();
  ended.store(true, std::memory_order_release);
  Note* left = std::exchange(first, nullptr);
  const std::uint32_t unused = std::exchange(prepaid_references_, 0);
  unlock();
  // The count does not reach 0: the Notes object that calls this function holds a reference.
  references.fetch_sub(unused, std::memory_order_acq_rel);
  while (left) {
    Note* const note = std::exchange(left, left->next_of_owner);
    note->drop();
    leave(*note, by_owner);
  }
}

void Note::node_ended() noexcept {
  const bool listed = ended.load(std::memory_order_relaxed) == 0 && owner->thread == id_of_this_thread();
  if (listed && owner->unlink(*this)) free_note(this);
  else leave(*this, by_node);
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
    if (const std::string why = note->why_no_elements(node); !why.empty())
      stave_detail::fail<TransformError>("{}", why);
  for (const Note* note = node.notes; note; note = note->next)
    // only notes of vmap have a physical value: this skips a grad or jvp that ran inside the vmap
    if (note->has_physical()) transform = note->owner->name;
  stave_detail::fail<TransformError>(
      "a value of {} ({} {}) is used outside of it: it has a value in each lane and none of its own. Return it from "
      "the function that {} maps instead of storing it",
      transform, name_of(node.dtype), node.shape, transform);
}

bool runs_on_other_thread(const Note& note) noexcept {
  return note.owner->thread != id_of_this_thread() && note.owner->running.load(std::memory_order_acquire);
}

}  // namespace

Tensor clone_node(const Tensor& x) {
  const Node& node = x.node();
  auto clone = NodePtr(new Node(node.dtype, node.device, node.shape, node.strides, node.storage, node.offset));
  bool has_value = static_cast<bool>(node.storage);
  Note** end = &clone->notes;
  for (const Note* note = node.notes; note; note = note->next) {
    if (!note->live()) continue;
    if (runs_on_other_thread(*note)) fail_on_other_thread(node, note->owner->name);
    const NotesState::Hold hold(*note->owner);
    if (!note->live()) continue;
    Note* const copy = note->clone();
    {
      const auto lock = clone->lock_if_registered();
      *end = copy;
    }
    has_value |= note->has_physical();
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
    if (note->owner->id == id && note->live()) return true;
  return false;
}

void check_not_differentiated(const Node& node, const char* what, const char* remedy) {
  for (const Note* note = node.notes; note; note = note->next) {
    if (!note->owner->differentiates || !note->live()) continue;
    for (const Frame* frame = stave_detail::current; frame; frame = frame->below)
      if (frame->handler == note->owner->differentiates)
        stave_detail::fail<TransformError>(
            "{}: {} differentiates this value ({} {}), and its derivative would be lost: {}", what, note->owner->name,
            name_of(node.dtype), node.shape, remedy);
  }
}

void notify_read(const Tensor& x) {
  for (Note* note = x.node().notes; note; note = note->next)
    if (note->live()) note->was_read(x);
}

std::size_t bytes_kept_by(const Node& x) noexcept {
  if (x.storage) return x.storage->bytes;
  for (const Note* note = x.notes; note; note = note->next)
    if (note->live() && note->has_physical()) return note->bytes_behind();
  return 0;
}

void check_not_escaped(const Node& node) {
  for (const Note* note = node.notes; note; note = note->next)
    if (note->live() && runs_on_other_thread(*note)) fail_on_other_thread(node, note->owner->name);
  if (!node.storage) fail_escaped(node);
}

}  // namespace stave
