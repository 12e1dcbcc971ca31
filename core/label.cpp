#include <stave/core/label.h>

#include <stave/core/note.h>

namespace stave {

Tensor label(Tensor x, std::string name) {
  return stave_detail::relabel(std::move(x), make_intrusive<const Name>(name));
}

std::string label_of(const Tensor& x) {
  const NamePtr label = stave_detail::label_of(x.node());
  return label ? label->text : "";
}

}  // namespace stave

namespace stave_detail {

using namespace stave;

Tensor relabel(Tensor x, NamePtr name) {
  if (!name) return x;
  static_cast<void>(x.node());  // throws for an empty Tensor
  if (!x.node_ptr().unique()) x = clone_node(x);
  Node& node = *x.node_ptr();
  set_label(node, name->text.empty() ? nullptr : name);
  for (Note* note = node.notes; note; note = note->next)
    if (note->live() && note->owner->thread == this_thread()) note->labelled(name);
  return x;
}

}  // namespace stave_detail
