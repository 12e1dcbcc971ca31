// Models of ONNX (onnx_models.py), compiled for inference, beside onnxruntime (peer_onnx.py): each
// for batches of 1 and 32, on one thread and on two. STAVE_ONNX_MODELS names the folder of the
// models, which run.sh makes; without it no benchmark is registered.
//
// The times of the benchmarks of memory are bytes: the most memory that a process with one model
// takes.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <tbb/task_arena.h>

#include "inference.h"

namespace {

using namespace stave_bench;

void run_model(benchmark::State& state, const OnnxCase& of, Index count, int threads, const std::string& folder) {
  tbb::task_arena(threads).execute([&] { compare(state, compiled(of, folder), batch(of, count)); });
}

/// The memory in bytes, which stands for the time in nanoseconds, of the program onnx_memory.cpp.
void take_memory(benchmark::State& state, const OnnxCase& of, Index count, const std::string& folder) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "stave_onnx_memory";
  const std::string command = program + " '" + folder + "' " + of.model + " " + std::to_string(count);
  for (auto _ : state) {
    double bytes = 0;
    FILE* const output = popen(command.c_str(), "r");
    const bool is_read = output && std::fscanf(output, "%lf", &bytes) == 1;
    if (!output || pclose(output) != 0 || !is_read) return state.SkipWithError("no memory measured");
    state.SetIterationTime(bytes * 1e-9);
  }
}

[[maybe_unused]] const bool registered = [] {
  const char* const folder = std::getenv("STAVE_ONNX_MODELS");
  if (!folder) return false;
  const std::string at = folder;
  for (const OnnxCase& it : onnx_cases)
    for (const Index count : {1, 32}) {
      const std::string name = "onnx_" + std::string(it.model) + "_" + std::to_string(count);
      for (const int threads : {1, 2})
        benchmark::RegisterBenchmark((name + "_" + std::to_string(threads)).c_str(), [&it, count, threads,
                                                                                      at](benchmark::State& state) {
          run_model(state, it, count, threads, at);
        })->UseRealTime();
      benchmark::RegisterBenchmark((name + "_memory").c_str(),
                                   [&it, count, at](benchmark::State& state) { take_memory(state, it, count, at); })
          ->UseManualTime()
          ->Iterations(1);
    }
  return true;
}();

}  // namespace
