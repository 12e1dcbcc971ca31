// Which instruction set this process uses: the best one that the processor has, or the one named by STAVE_CPU_ISA.
#pragma once

#include <atomic>

#include <stave/backends/cpu/kernels/kernels.h>

namespace stave_cpu {

extern std::atomic<const Kernels*> chosen_kernels;
/// Throws stave::Error if STAVE_CPU_ISA names a set that is unknown, not built in, or not this processor's.
const Kernels& choose_kernels();

inline const Kernels& kernels() {
  const Kernels* table = chosen_kernels.load(std::memory_order_acquire);
  return table ? *table : choose_kernels();
}

/// The table of one set by name ("baseline", "avx2", "avx512"), or null if this build or processor lacks it. For tests.
const Kernels* kernels_for(const char* isa);
/// Makes every later operation use `table`; null: chosen again at the next one. For tests.
void use_kernels(const Kernels* table);

}  // namespace stave_cpu
