// Models of ONNX (onnx_models.py), compiled for inference, beside onnxruntime (peer_onnx.py): each
// for batches of 1 and 32, on one thread and on two. STAVE_ONNX_MODELS names the folder of the
// models, which run.sh makes; without it no benchmark is registered.
//
// The benchmarks of memory run in processes of their own, and their times are bytes: the most
// memory that a process with one model takes.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include <tbb/task_arena.h>

#include <stave/handlers/onnx/onnx.h>

#include "bench.h"

namespace {

using namespace stave_bench;

struct Case {
  const char* model;
  Shape image;  // an input without its batch
};
const Case cases[] = {{"mlp", {784}}, {"resnet", {3, 224, 224}}, {"encoder", {64, 512}}};

auto compiled(const Case& of, const std::string& folder) {
  return compile(
      [model = load_onnx(folder + "/" + of.model + ".onnx")](const Tensor& x) {
        return model({{"input", x}}).at("output");
      },
      {.for_inference = true});
}
Tensor batch(const Case& of, Index count) {
  Shape shape{count};
  for (const Index length : of.image) shape.push_back(length);
  return scattered(shape, 4);
}

void run_model(benchmark::State& state, const Case& of, Index count, int threads, const std::string& folder) {
  tbb::task_arena(threads).execute([&] { compare(state, compiled(of, folder), batch(of, count)); });
}

// Runs the model in a child, which is a new program, so that it has no memory of this process.
void take_memory(benchmark::State& state, const Case& of, Index count) {
  for (auto _ : state) {
    const pid_t child = fork();
    if (child == 0) {
      setenv("STAVE_BENCH_MEMORY_OF", (std::string(of.model) + " " + std::to_string(count)).c_str(), 1);
      execl("/proc/self/exe", "stave_bench", nullptr);
      _exit(1);
    }
    int status = 0;
    rusage used{};
    if (child < 0 || wait4(child, &status, 0, &used) < 0 || status != 0)
      return state.SkipWithError("no memory measured");
    state.SetIterationTime(static_cast<double>(used.ru_maxrss) * 1024 * 1e-9);
  }
}

[[maybe_unused]] const bool registered = [] {
  const char* const folder = std::getenv("STAVE_ONNX_MODELS");
  if (!folder) return false;
  const std::string at = folder;
  if (const char* const of = std::getenv("STAVE_BENCH_MEMORY_OF")) {
    const std::string text = of;
    for (const Case& it : cases)
      if (text.starts_with(it.model)) {
        const auto f = compiled(it, at);
        const Tensor x = batch(it, std::stoi(text.substr(text.find(' '))));
        for (int run = 0; run < 3; ++run) f(x);
        _exit(0);
      }
    _exit(1);
  }
  for (const Case& it : cases)
    for (const Index count : {1, 32}) {
      const std::string name = "onnx_" + std::string(it.model) + "_" + std::to_string(count);
      for (const int threads : {1, 2})
        benchmark::RegisterBenchmark((name + "_" + std::to_string(threads)).c_str(), [&it, count, threads,
                                                                                      at](benchmark::State& state) {
          run_model(state, it, count, threads, at);
        })->UseRealTime();
      benchmark::RegisterBenchmark((name + "_memory").c_str(),
                                   [&it, count](benchmark::State& state) { take_memory(state, it, count); })
          ->UseManualTime()
          ->Iterations(1);
    }
  return true;
}();

}  // namespace
