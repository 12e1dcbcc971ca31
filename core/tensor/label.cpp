// The implementation of labels, each of which is a note (note.h) on the value's node.
#include <stave/core/tensor/label.h>

#include <stave/core/tensor/note.h>

namespace stave {

Tensor label(Tensor x, std::string name) {
  return stave_detail::relabel(std::move(x), make_intrusive<const SharedName>(name));
}

std::string label_of(const Tensor& x) {
  const NamePtr label = stave_detail::label_of(x.node());
  return label ? label->text : "";
}

}  // namespace stave

namespace stave_detail {

using namespace stave;

namespace {

// The notes are never destroyed: a tensor may be a global variable that dies last.
const Notes<NamePtr>& labels() {
  static const auto& notes = *new Notes<NamePtr>(make_intrusive<NotesState>("label"));
  return notes;
}

}  // namespace

NamePtr label_of(const Node& node) {
  const NamePtr* label = labels().find(node);
  return label ? *label : nullptr;
}

Tensor relabel(Tensor x, NamePtr name) {
  if (!name) return x;
  static_cast<void>(x.node());  // throws for an empty Tensor
  if (!x.node_ptr().unique()) x = clone_node(x);
  x = name->text.empty() ? labels().strip(std::move(x)) : labels().put(std::move(x), name);
  for (Note* note = x.node_ptr()->notes; note; note = note->next)
    if (note->live() && note->owner->thread == id_of_this_thread()) note->labelled(name);
  return x;
}

}  // namespace stave_detail
