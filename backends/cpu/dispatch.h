// The choice of the instruction set of this process: the best one that the processor has,
// or the one named by STAVE_CPU_ISA.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include <stave/backends/cpu/kernels/kernels.h>

namespace stave_cpu {

extern std::atomic<const Kernels*> chosen_kernels;
/// Chooses the kernels of this process. Throws stave::Error if STAVE_CPU_ISA names a set
/// that is unknown, not built in, or not supported by this processor.
const Kernels& choose_kernels();

inline const Kernels& kernels() {
  const Kernels* table = chosen_kernels.load(std::memory_order_acquire);
  return table ? *table : choose_kernels();
}

/// Returns the names of the sets of this build, from the best to the plainest.
std::vector<std::string> built_isas();
/// Returns the table of one set by name ("avx2"), or null if this build or processor lacks
/// it. For tests.
const Kernels* kernels_for(std::string_view isa);
/// Makes every later operation use `table`. If it is null, the next operation chooses
/// again. For tests.
void use_kernels(const Kernels* table);

}  // namespace stave_cpu
