#include <stave/handlers/whos.h>

#include <algorithm>
#include <map>
#include <ostream>

#include <stave/core/fail.h>
#include <stave/core/label.h>
#include <stave/core/note.h>
#include <stave/core/storage.h>
#include <stave/handlers/notation.h>

namespace stave {

using namespace stave_detail;

namespace {

std::vector<std::string> owners_of_notes(const Node& node) {
  std::vector<std::string> names;
  for (const Note* note = node.notes; note; note = note->next)
    if (note->live() && note->owner->thread && std::find(names.begin(), names.end(), note->owner->name) == names.end())
      names.emplace_back(note->owner->name);
  return names;
}

LiveTensor describe(const Node& node) {
  const NamePtr label = label_of(node);
  return {node.shape,
          node.dtype,
          node.device,
          node.storage.get(),
          node.storage ? node.storage->bytes : 0,
          node.references.load(std::memory_order_relaxed),
          label ? label->text : "",
          owners_of_notes(node)};
}

// Tensors of one storage together, whole values before views of a part, labels first.
bool larger(const LiveTensor& a, const LiveTensor& b) {
  if (a.bytes != b.bytes) return a.bytes > b.bytes;
  if (a.storage != b.storage) return std::less<>()(b.storage, a.storage);
  if (a.shape.elements() != b.shape.elements()) return a.shape.elements() > b.shape.elements();
  return a.label > b.label;
}

}  // namespace

LiveTensors whos() {
  if (trackings.load(std::memory_order_relaxed) == 0)
    fail<TransformError>(
        "whos: no tensors are tracked: write `const TensorTracking tracking;` before the tensors of interest are made");
  LiveTensors live;
  visit_tracked([&](const Node& node) { live.tensors.push_back(describe(node)); });
  std::sort(live.tensors.begin(), live.tensors.end(), larger);
  std::size_t cpu_bytes = 0;
  const void* last = nullptr;
  for (const LiveTensor& tensor : live.tensors) {
    if (std::exchange(last, tensor.storage) == tensor.storage || !tensor.storage) continue;
    ++live.storages;
    live.bytes += tensor.bytes;
    if (tensor.device == cpu) cpu_bytes += tensor.bytes;
  }
  const std::size_t all = memory_stats(cpu).live_bytes;
  live.untracked_bytes = all > cpu_bytes ? all - cpu_bytes : 0;
  return live;
}

std::string LiveTensors::str() const {
  std::vector<Row> rows{{"shape", "dtype", "bytes", "storage", "handles", "label", "notes"}};
  std::map<const void*, std::size_t> numbers;
  for (const LiveTensor& tensor : tensors) {
    std::string notes, number;
    for (const std::string& note : tensor.notes) notes += (notes.empty() ? "" : ", ") + note;
    if (tensor.storage)
      number = fmt::format("{}", numbers.try_emplace(tensor.storage, numbers.size() + 1).first->second);
    rows.push_back({tensor.shape.str(), name_of(tensor.dtype), tensor.storage ? in_bytes(tensor.bytes) : "lanes",
                    std::move(number), fmt::format("{}", tensor.handles), tensor.label, std::move(notes)});
  }
  std::string text =
      table(rows) + fmt::format("{} tensor{}, {} in {} storage{}", tensors.size(), tensors.size() == 1 ? "" : "s",
                                in_bytes(bytes), storages, storages == 1 ? "" : "s");
  if (untracked_bytes) text += "; " + in_bytes(untracked_bytes) + " more in tensors made before tracking began";
  return text + "\n";
}

std::ostream& operator<<(std::ostream& out, const LiveTensors& live) { return out << live.str(); }

}  // namespace stave
