// operation_table: tests every public tensor function, under each transform,
// in each dtype and layout, against references that do not use Stave (row.h);
// derivatives against central differences (derivatives.cpp), vmap against a loop (batching.cpp).
//
//   operation_table                  everything
//   operation_table --list           the names of the operations, one a line
//   operation_table --op NAME        one operation
//   operation_table --all-values     values of all operations: for each instruction set
//                                    (STAVE_CPU_ISA); exits with 77 if the set is not available
//   operation_table --completeness   checks that every operation and public function has a row
//   operation_table --markdown       docs/operations.md: what each admits, found by trying
//   operation_table --documented     checks that docs/operations.md is up to date
//
// A device can be given before these options. `--device cuda` computes everything on the first
// CUDA device (exits with 77 if there is none). `--device separate` uses a device that is the CPU
// with separate memory (separate_backend.h); in cuda_table_on_host its linear algebra runs
// the bodies of CUDA's kernels (cuda/kernels_on_host.h).

#include <cstdio>
#include <memory>
#include <string_view>

#include <stave/core/ops/elementwise.h>

#include "table/place.h"
#include "table/run.h"

#ifdef STAVE_KERNELS_ON_HOST
#include "cuda/kernels_on_host.h"
using SeparateDevice = stave_test::KernelsOnHost;
#else
#include "separate_backend.h"
using SeparateDevice = stave_test::SeparateBackend;
#endif

using namespace table;

namespace {

int conclude(const Report& report) {
  std::printf("%s%s\n", report.summary().c_str(),
              report.failures ? ("  FAILURES " + std::to_string(report.failures)).c_str() : "");
  return report.failures ? 1 : 0;
}

int list() {
  for (const Row& row : all_rows()) std::printf("%s\n", row.name.c_str());
  return 0;
}

int run_one(std::string_view name) {
  Report report;
  for (const Row& row : all_rows())
    if (row.name == name) run_row(row, Columns::all, report);
  if (report.operations == 1) return conclude(report);
  std::fprintf(stderr, "operation_table: no operation %s (see --list)\n", std::string(name).c_str());
  return 2;
}

/// Runs the rows that "K/N" names: K, K + N, ..., counted from 1.
int run_part(const std::string& part) {
  int k = 0, n = 0, end = 0;
  if (std::sscanf(part.c_str(), "%d/%d%n", &k, &n, &end) != 2 || part.size() != static_cast<std::size_t>(end) ||
      k < 1 || k > n) {
    std::fprintf(stderr, "operation_table: %s is not a part K/N with 1 <= K <= N\n", part.c_str());
    return 2;
  }
  Report report;
  int row_number = 0;
  for (const Row& row : all_rows())
    if (++row_number % n == k % n) run_row(row, Columns::all, report);
  return conclude(report);
}

int run_all(Columns columns) {
  Report report;
  for (const Row& row : all_rows()) run_row(row, columns, report);
  if (columns == Columns::all) check_completeness(report);
  return conclude(report);
}

int completeness() {
  Report report;
  check_completeness(report);
  return report.failures ? 1 : 0;
}

/// Returns true if kernels for the instruction set that STAVE_CPU_ISA names can run here.
bool instruction_set_is_there() {
  try {
    static_cast<void>(Tensor(1) + Tensor(1));
    return true;
  } catch (const Error& error) {
    if (!std::string_view(error.what()).starts_with("STAVE_CPU_ISA=")) throw;
    std::printf("%s\n", error.what());
    return false;
  }
}

int run_option(int argc, char** argv) {
  const std::string_view option = argc > 1 ? argv[1] : "";
  if (option == "--list" && argc == 2) return list();
  if (option == "--op" && argc == 3) return run_one(argv[2]);
  if (option == "--part" && argc == 3) return run_part(argv[2]);
  if (option == "--completeness" && argc == 2) return completeness();
  if (option == "--markdown" && argc == 2) return std::fputs(markdown().c_str(), stdout) < 0;
  if (option == "--documented" && argc == 2) return is_documented() ? 0 : 1;
  if (option == "--all-values" && argc == 2) return instruction_set_is_there() ? run_all(Columns::values) : 77;
  if (argc == 1) return run_all(Columns::all);
  std::fputs(
      "usage: operation_table [--device cuda|separate] [--list | --op NAME | --part K/N | --all-values | "
      "--completeness]\n"
      "       operation_table --markdown | --documented\n",
      stderr);
  return 2;
}

int run_on(std::string_view device, int argc, char** argv) {
  std::unique_ptr<SeparateDevice> separate;
  if (device == "separate") separate = std::make_unique<SeparateDevice>(0);
  else if (device != "cuda") return run_option(0, nullptr);
  else if (!stave::cuda_available()) return std::puts("operation_table: no CUDA device can be used here"), 77;
  place() = stave::cuda(0);
  AtPlace handler;
  const int status = with(handler, [&] { return run_option(argc, argv); });
  for (const std::string& name : handler.without_kernel())
    std::printf("%s has no kernel on the device, and was computed on the CPU\n", name.c_str());
  return status;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 2 && std::string_view(argv[1]) == "--device") return run_on(argv[2], argc - 2, argv + 2);
  return run_option(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "operation_table: %s\n", error.what());
  return 2;
}
