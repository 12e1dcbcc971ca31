// The choice of kernels at run time.
#include <stave/backends/cpu/dispatch.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>

#include <stave/core/error.h>

namespace stave_cpu {

constinit std::atomic<const Kernels*> chosen_kernels{nullptr};

namespace {

bool has_baseline() { return true; }

// x86-64-v3 and -v4 as the psABI defines them, as far as compilers name the features; LZCNT comes with BMI.
[[maybe_unused]] bool has_avx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("sse4.2");
}
[[maybe_unused]] bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

struct Isa {
  const char* name;
  bool (*supported)();
  void (*fill)(Kernels& table);
};
// From best to plainest.
constexpr Isa isas[] = {
#ifdef STAVE_HAVE_AVX512
    {"avx512", has_avx512, stave_kernels_avx512::fill_table},
#endif
#ifdef STAVE_HAVE_AVX2
    {"avx2", has_avx2, stave_kernels_avx2::fill_table},
#endif
    {"baseline", has_baseline, stave_kernels_baseline::fill_table},
};
constexpr int isa_count = static_cast<int>(sizeof isas / sizeof isas[0]);

constinit std::mutex mutex;
constinit Kernels tables[isa_count] = {};  // each filled in at most once, under the mutex

const Kernels* filled(int i) {
  std::lock_guard lock(mutex);
  if (!tables[i].isa) isas[i].fill(tables[i]);
  return &tables[i];
}

[[noreturn]] void refuse(std::string_view wanted) {
  std::string usable;
  for (const Isa& isa : isas)
    if (isa.supported()) usable += (usable.empty() ? "" : ", ") + std::string(isa.name);
  throw stave::Error("STAVE_CPU_ISA=" + std::string(wanted) +
                     ": no such instruction set in this build, or not this processor's; usable here: " + usable);
}

}  // namespace

const Kernels* kernels_for(const char* name) {
  for (int i = 0; i < isa_count; ++i)
    if (std::string_view(name) == isas[i].name && isas[i].supported()) return filled(i);
  return nullptr;
}

void use_kernels(const Kernels* table) { chosen_kernels.store(table, std::memory_order_release); }

const Kernels& choose_kernels() {
  const Kernels* table = nullptr;
  if (const char* wanted = std::getenv("STAVE_CPU_ISA"); wanted && *wanted) {
    table = kernels_for(wanted);
    if (!table) refuse(wanted);
  }
  for (int i = 0; !table; ++i)
    if (isas[i].supported()) table = filled(i);
  use_kernels(table);
  return *table;
}

}  // namespace stave_cpu
