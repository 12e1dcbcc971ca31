// StableHLO modules that jaxlib compiles and runs in another process (run.py).
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <stave/core/ops/create.h>
#include <stave/core/ops/layout.h>
#include <stave/core/program/write_stablehlo.h>

#include "files.h"

namespace stave_test {

using namespace stave;

/// The exit status of a test without a Python that has jax.
inline constexpr int no_jax = 77;

/// A program with the inputs that it is called with.
struct HloProgram {
  std::string name;
  Program program;
  std::vector<Tensor> inputs;
  StableHloOptions options = {};
};
/// What a module computed, or what went wrong.
struct HloRun {
  std::vector<Tensor> outputs;
  std::string error;
};

class HloModules {
 public:
  /// Adds a module `name` of a program, as write_stablehlo writes it.
  void add(const HloProgram& it) {
    std::ostringstream text;
    write_stablehlo(text, it.program, it.options);
    write(it.name, text.str(), {&it, 1});
  }
  /// Adds one module of several programs, whose main has the inputs and outputs of all.
  void add(const std::string& name, std::span<const HloProgram> programs) {
    std::ostringstream text;
    text << "module @" << name << " {\n";
    std::string arguments, calls, results, result_types;
    int argument = 0, result = 0;
    for (std::size_t k = 0; k < programs.size(); ++k) {
      const HloProgram& it = programs[k];
      std::ostringstream functions;
      stave_detail::write_stablehlo_functions(functions, it.program, "f" + std::to_string(k), it.options);
      std::string body = functions.str();
      body.replace(body.find("public"), 6, "private");
      text << body;
      std::string given, given_types, found, found_types;
      for (const Type& type : inputs_of(it)) {
        const std::string value = "%in" + std::to_string(argument++);
        append(arguments, value + ": " + text_of(type));
        append(given, value);
        append(given_types, text_of(type));
      }
      for (const Type& type : outputs_of(it)) {
        const std::string value = "%out" + std::to_string(result++);
        append(found, value);
        append(found_types, text_of(type));
      }
      calls += "    " + (found.empty() ? "" : found + " = ") + "call @f" + std::to_string(k) + "(" + given + ") : (" +
               given_types + ") -> (" + found_types + ")\n";
      if (found.empty()) continue;
      append(results, found);
      append(result_types, found_types);
    }
    text << "  func.func public @main(" << arguments << ") -> (" << result_types << ") {\n"
         << calls << "    return " << results << " : " << result_types << "\n  }\n}\n";
    write(name, text.str(), programs);
  }

  /// Runs all modules. Returns false if there is no jax.
  bool run() const {
    const char* const python = std::getenv("STAVE_PYTHON");
    const std::string command = std::string(python ? python : "python3") + " -B " + STAVE_SOURCE_DIR +
                                "/tests/core/program/stablehlo/run.py " + folder_.path;
    std::fflush(stdout);
    const int status = std::system(command.c_str());
    if (WIFEXITED(status) && WEXITSTATUS(status) == no_jax) return false;
    if (status != 0) throw std::runtime_error(command + " failed");
    return true;
  }

  /// What the module computed for these programs.
  std::vector<HloRun> results(const std::string& name, std::span<const HloProgram> programs) const {
    const std::string error = folder_ / (name + ".err"), out = folder_ / (name + ".out");
    if (std::filesystem::exists(error)) return std::vector<HloRun>(programs.size(), {{}, bytes_of(error)});
    const std::string bytes = bytes_of(out);
    std::vector<HloRun> found;
    std::size_t start = 0;
    for (const HloProgram& it : programs) {
      HloRun& run = found.emplace_back();
      for (const Type& type : outputs_of(it)) {
        const auto elements = static_cast<std::size_t>(type.shape.elements());
        run.outputs.push_back(from_bytes(bytes.data() + start, elements, type.dtype, type.shape));
        start += elements * size_of(type.dtype);
      }
    }
    return found;
  }
  std::string text(const std::string& name) const { return bytes_of(folder_ / (name + ".mlir")); }

 private:
  struct Type {
    Dtype dtype;
    Shape shape;
  };
  static void append(std::string& list, const std::string& item) { list += (list.empty() ? "" : ", ") + item; }
  static std::string text_of(const Type& type) {
    static constexpr const char* names[] = {"i1",  "ui8", "ui16", "ui32", "ui64", "i8",           "i16",         "i32",
                                            "i64", "f16", "bf16", "f32",  "f64",  "complex<f32>", "complex<f64>"};
    std::string text = "tensor<";
    for (const Index length : type.shape) text += std::to_string(length) + "x";
    return text + names[static_cast<int>(type.dtype)] + ">";
  }
  static std::vector<Type> inputs_of(const HloProgram& it) {
    std::vector<Type> types;
    for (const int input : it.program.inputs)
      types.push_back({it.program.variable(input).dtype, it.program.variable(input).shape});
    return types;
  }
  static std::vector<Type> outputs_of(const HloProgram& it) {
    std::vector<Type> types;
    for (const int output : it.program.outputs)
      types.push_back({it.program.variable(output).dtype, it.program.variable(output).shape});
    if (it.options.checks) types.push_back({bool_, {}});
    return types;
  }
  static std::string lines(const std::vector<Type>& types) {
    std::string text;
    for (const Type& type : types) {
      text += name_of(type.dtype);
      for (const Index length : type.shape) text += " " + std::to_string(length);
      text += "\n";
    }
    return text;
  }
  void write(const std::string& name, const std::string& text, std::span<const HloProgram> programs) {
    std::string bytes, inputs, outputs;
    for (const HloProgram& it : programs) {
      inputs += lines(inputs_of(it));
      outputs += lines(outputs_of(it));
      for (const Tensor& x : it.inputs) {
        const Tensor dense = contiguous(x);
        if (x.size() > 0)
          bytes.append(static_cast<const char*>(dense.node().data()),
                       static_cast<std::size_t>(x.size()) * size_of(x.dtype()));
      }
    }
    with_bytes(folder_ / (name + ".mlir"), text);
    with_bytes(folder_ / (name + ".in"), bytes);
    with_bytes(folder_ / (name + ".txt"), inputs + "->\n" + outputs);
  }

  Folder folder_;
};

}  // namespace stave_test
