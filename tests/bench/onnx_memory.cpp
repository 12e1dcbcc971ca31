// stave_onnx_memory FOLDER MODEL BATCH: runs a model of onnx_models.py, compiled for inference, and
// writes the most memory that the process has taken, in bytes.
#include <cstdio>
#include <fstream>
#include <iostream>

#include "inference.h"

int main(int count, char** arguments) {
  using namespace stave_bench;
  if (count != 4) return 1;
  for (const OnnxCase& of : onnx_cases) {
    if (std::string(of.model) != arguments[2]) continue;
    const auto f = compiled(of, arguments[1]);
    const Tensor x = batch(of, std::stoi(arguments[3]));
    for (int run = 0; run < 3; ++run) f(x);
  }
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) std::cout << 1024 * std::stoll(line.substr(6)) << "\n";
}
