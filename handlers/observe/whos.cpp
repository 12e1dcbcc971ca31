#include <stave/handlers/observe/whos.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <set>

#include <stave/core/op/notation.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/label.h>
#include <stave/core/tensor/memory_holder.h>
#include <stave/core/tensor/note.h>
#include <stave/core/tensor/storage.h>

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

bool is_lent(const Storage& storage) noexcept { return !storage.owner && !storage.is_host_constant; }

LiveTensor describe(const Node& node) {
  const NamePtr label = label_of(node);
  return {node.shape,
          node.dtype,
          node.device,
          node.storage.get(),
          node.storage ? node.storage->bytes : 0,
          node.references.load(std::memory_order_relaxed),
          label ? label->text : "",
          owners_of_notes(node),
          node.storage && is_lent(*node.storage)};
}

// Orders by bytes, largest first. Tensors that share a storage are adjacent: whole values before
// views of a part, and labelled ones first.
bool larger(const LiveTensor& a, const LiveTensor& b) {
  if (a.bytes != b.bytes) return a.bytes > b.bytes;
  if (a.storage != b.storage) return std::less<>()(b.storage, a.storage);
  if (a.shape.elements() != b.shape.elements()) return a.shape.elements() > b.shape.elements();
  return a.label > b.label;
}

// Describes a program. `counted` holds the storages that the sums include already; the storages
// of the program are added to it. Sets `bytes` to the memory of the program without storages that
// were counted before, and `own` to the part of `bytes` that does not belong to another library or
// a file.
LiveProgram describe(const MemoryHolder::Held& held, std::set<const void*>& counted, std::size_t& bytes,
                     std::size_t& own) {
  LiveProgram program{held.name, held.device, held.arenas, held.arena_bytes, 0};
  bytes = own = held.arena_bytes;
  for (const Storage* constant : std::set<const Storage*>(held.constants.begin(), held.constants.end())) {
    program.constant_bytes += constant->bytes;
    if (!counted.insert(constant).second) continue;
    bytes += constant->bytes;
    if (!is_lent(*constant)) own += constant->bytes;
  }
  return program;
}

bool holds_more(const LiveProgram& a, const LiveProgram& b) {
  const std::size_t of_a = a.arena_bytes + a.constant_bytes, of_b = b.arena_bytes + b.constant_bytes;
  return of_a != of_b ? of_a > of_b : a.name < b.name;
}

const char* plural(std::size_t count) { return count == 1 ? "" : "s"; }

}  // namespace

LiveTensors whos() {
  if (trackings.load(std::memory_order_relaxed) == 0)
    fail<TransformError>(
        "whos: no tensors are tracked: write `const TensorTracking tracking;` before the tensors of interest are made");
  LiveTensors live;
  visit_tracked([&](const Node& node) { live.tensors.push_back(describe(node)); });
  std::sort(live.tensors.begin(), live.tensors.end(), larger);
  std::size_t cpu_bytes = 0;
  std::set<const void*> counted;
  for (const LiveTensor& tensor : live.tensors) {
    if (!tensor.storage || !counted.insert(tensor.storage).second) continue;
    ++live.storages;
    live.bytes += tensor.bytes;
    if (tensor.device == cpu && !tensor.lent) cpu_bytes += tensor.bytes;
  }
  visit_memory_holders([&](const MemoryHolder::Held& held) {
    std::size_t bytes = 0, own = 0;
    live.programs.push_back(describe(held, counted, bytes, own));
    live.program_bytes += bytes;
    if (held.device == cpu) cpu_bytes += own;
  });
  std::sort(live.programs.begin(), live.programs.end(), holds_more);
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
    rows.push_back({tensor.shape.str(), name_of(tensor.dtype), tensor.storage ? size_text(tensor.bytes) : "lanes",
                    std::move(number), fmt::format("{}", tensor.handles), tensor.label, std::move(notes)});
  }
  std::string text = table(rows);
  if (!programs.empty()) {
    rows = {{"program", "arenas", "bytes", "constants"}};
    for (const LiveProgram& program : programs)
      rows.push_back({program.name, fmt::format("{}", program.arenas), size_text(program.arena_bytes),
                      size_text(program.constant_bytes)});
    text += "\n" + table(rows);
  }
  text += fmt::format("{} tensor{}, {} in {} storage{}", tensors.size(), plural(tensors.size()), size_text(bytes),
                      storages, plural(storages));
  if (!programs.empty())
    text += fmt::format("; {} program{}, {}", programs.size(), plural(programs.size()), size_text(program_bytes));
  if (untracked_bytes) text += "; " + size_text(untracked_bytes) + " more in tensors made before tracking began";
  return text + "\n";
}

std::ostream& operator<<(std::ostream& out, const LiveTensors& live) { return out << live.str(); }

}  // namespace stave
