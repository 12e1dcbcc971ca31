// The choice of the instruction set that this process uses: the best one that the processor
// supports, or the one named by the environment variable STAVE_CPU_ISA.
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

/// Returns the names of the instruction sets of this build, best first.
std::vector<std::string> built_isas();
/// Returns the kernel table of an instruction set by its name ("avx2"), or null if this build
/// or processor lacks the set. For tests.
const Kernels* kernels_for(std::string_view isa);
/// Makes every later operation use `table`. If `table` is null, the next operation calls
/// choose_kernels again. For tests.
void use_kernels(const Kernels* table);

}  // namespace stave_cpu
