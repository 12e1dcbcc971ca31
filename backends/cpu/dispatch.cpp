// Chooses, at run time, the kernel table of an instruction set.
#include <stave/backends/cpu/dispatch.h>

#include <cstdlib>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>

#include <stave/core/effects/error.h>
#include <stave/core/effects/fork.h>

// The instruction sets of this build, best first. CMake writes the list.
#define STAVE_ISA(name)                         \
  namespace stave_kernels_##name {              \
    bool supported();                           \
    void fill_table(stave_cpu::Kernels& table); \
  }
#include <isas.inc>
#undef STAVE_ISA

namespace stave_cpu {

constinit std::atomic<const Kernels*> chosen_kernels{nullptr};

namespace {

struct Isa {
  const char* name;
  bool (*supported)();
  void (*fill)(Kernels& table);
};
constexpr Isa isas[] = {
#define STAVE_ISA(name) {#name, stave_kernels_##name::supported, stave_kernels_##name::fill_table},
#include <isas.inc>
#undef STAVE_ISA
};
constexpr int isa_count = static_cast<int>(std::size(isas));

constinit std::mutex dispatch_mutex;
const stave_detail::HeldOverFork<dispatch_mutex> dispatch_over_fork;
// Each table is filled in at most once, under the mutex.
constinit Kernels tables[isa_count] = {};

const Kernels* filled(int i) {
  std::lock_guard lock(dispatch_mutex);
  if (!tables[i].isa) isas[i].fill(tables[i]);
  return &tables[i];
}

[[noreturn]] void refuse(std::string_view wanted) {
  std::string usable;
  for (const Isa& isa : isas)
    if (isa.supported()) usable += (usable.empty() ? "" : ", ") + std::string(isa.name);
  throw stave::Error("STAVE_CPU_ISA=" + std::string(wanted) +
                     ": this build or this processor does not have that instruction set; usable here: " + usable);
}

}  // namespace

std::vector<std::string> built_isas() {
  std::vector<std::string> names;
  for (const Isa& isa : isas) names.emplace_back(isa.name);
  return names;
}

const Kernels* kernels_for(std::string_view name) {
  for (int i = 0; i < isa_count; ++i)
    if (name == isas[i].name && isas[i].supported()) return filled(i);
  return nullptr;
}

void use_kernels(const Kernels* table) { chosen_kernels.store(table, std::memory_order_release); }

const Kernels& choose_kernels() {
  const Kernels* table = nullptr;
  if (const char* wanted = std::getenv("STAVE_CPU_ISA"); wanted && *wanted) {
    table = kernels_for(wanted);
    if (!table) refuse(wanted);
  }
  for (int i = 0; !table && i < isa_count; ++i)
    if (isas[i].supported()) table = filled(i);
  if (!table)
    throw stave::Error(
        "this processor supports none of the instruction sets that the library was built for; build it with another "
        "STAVE_CPU_ISAS");
  use_kernels(table);
  return *table;
}

}  // namespace stave_cpu
