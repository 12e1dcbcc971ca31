// C source compiled by the compilers of this machine: as a library that this process loads, and as
// a program under sanitizers.
#pragma once

#include <dlfcn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <stave/core/ops/create.h>
#include <stave/core/ops/layout.h>
#include <stave/core/program/write_c_plain.h>

#include "files.h"

namespace stave_test {

using namespace stave;

/// The installed ones of gcc and clang.
inline const std::vector<std::string>& c_compilers() {
  static const std::vector<std::string> found = [] {
    std::vector<std::string> names;
    for (const char* const name : {"gcc", "clang"})
      if (std::system(("command -v " + std::string(name) + " > /dev/null").c_str()) == 0) names.push_back(name);
    return names;
  }();
  return found;
}

inline const std::string strict_c = " -std=c99 -pedantic -Wall -Wextra -Wconversion -Werror -ffp-contract=off ";

/// Runs a command of the shell. Throws an error with what it printed if it fails.
inline void run(const std::string& command, const std::string& log) {
  if (const int status = std::system((command + " > " + log + " 2>&1").c_str()); status != 0)
    throw std::runtime_error(command + "\n" + bytes_of(log));
}

/// A lowered program as a C function `f`, with a function `call` that takes arrays of pointers.
class CompiledC {
 public:
  CompiledC(const stave_detail::Lowered& code, std::string compiler, std::string flags = "-O2")
      : compiler_(std::move(compiler)), flags_(std::move(flags)) {
    for (std::size_t i = 0; i < code.inputs() + code.outputs(); ++i) bytes_.push_back(size_of_buffer(code, i));
    inputs_ = code.inputs();
    for (std::size_t i = 0; i < code.outputs(); ++i) {
      dtypes_.push_back(code.buffers[inputs_ + i].dtype);
      shapes_.push_back(code.output_shapes[i]);
    }
    std::ostringstream source, header;
    stave_detail::write_c_plain(source, &header, code, {.name = "f"});
    text_ = source.str();
    with_bytes(folder_ / "f.c", text_);
    with_bytes(folder_ / "f.h", header.str());
    std::string call =
        "#include \"f.h\"\n#include <stddef.h>\nsize_t work_size(void);\nsize_t work_size(void) { return "
        "f_work_size; }\nint call(const void* const* in, void* const* out, void* work);\n"
        "int call(const void* const* in, void* const* out, void* work)\n{\n  (void)in;\n  (void)out;\n  return f(";
    for (std::size_t i = 0; i < code.inputs(); ++i) call += "in[" + std::to_string(i) + "], ";
    for (std::size_t i = 0; i < code.outputs(); ++i) call += "out[" + std::to_string(i) + "], ";
    with_bytes(folder_ / "call.c", call + "work);\n}\n");
  }

  const std::string& text() const { return text_; }
  std::string header() const { return bytes_of(folder_ / "f.h"); }
  void compile(const std::string& command) { run("cd " + folder_.path + " && " + command, folder_ / "log"); }

  /// The outputs for these inputs, by a library that is loaded into this process.
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs, int expected = 0) {
    if (!library_) {
      compile(compiler_ + strict_c + flags_ + " -shared -fPIC f.c call.c -o f.so -lm");
      library_ = dlopen((folder_ / "f.so").c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!library_) throw std::runtime_error(dlerror());
    }
    const auto call = reinterpret_cast<int (*)(const void* const*, void* const*, void*)>(dlsym(library_, "call"));
    const auto work_size = reinterpret_cast<std::size_t (*)()>(dlsym(library_, "work_size"));
    std::vector<std::vector<char>> arrays;
    std::vector<const void*> in;
    std::vector<void*> out;
    for (std::size_t i = 0; i < inputs_; ++i) {
      arrays.push_back(bytes_of_tensor(inputs[i]));
      in.push_back(arrays.back().data());
    }
    const std::size_t first = arrays.size();
    for (std::size_t i = inputs_; i < bytes_.size(); ++i) {
      arrays.emplace_back(bytes_[i] + 1, static_cast<char>(0xa5));
      out.push_back(arrays.back().data());
    }
    std::vector<char> work(work_size(), static_cast<char>(0xa5));
    if (const int found = call(in.data(), out.data(), work.data()); found != expected)
      throw std::runtime_error("f returned " + std::to_string(found));
    std::vector<Tensor> outputs;
    for (std::size_t i = 0; i < out.size(); ++i) outputs.push_back(tensor_of(i, arrays[first + i]));
    return outputs;
  }

  /// The same by a program under the address and undefined-behaviour sanitizers, whose arrays have
  /// exactly the size that the function needs.
  std::vector<Tensor> sanitized(const std::vector<Tensor>& inputs) {
    return by_program(
        inputs, compiler_ + " -g -O1 -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all", "");
  }
  /// The same by a program that `run_by` runs, such as an emulator. `compile_by` is a compiler with
  /// its options.
  std::vector<Tensor> by_program(const std::vector<Tensor>& inputs, const std::string& compile_by,
                                 const std::string& run_by) {
    std::string main =
        "#include <stdio.h>\n#include <stdlib.h>\n#include <stddef.h>\nsize_t work_size(void);\n"
        "int call(const void* const* in, void* const* out, void* work);\nint main(void)\n{\n"
        "  void* a[" +
        std::to_string(bytes_.size() + 1) + "];\n  int result;\n";
    std::string all;
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const std::string at = "a[" + std::to_string(i) + "]", n = std::to_string(bytes_[i]);
      main += "  " + at + " = malloc(" + n + ");\n";
      if (i >= inputs_) continue;
      main += "  if (fread(" + at + ", 1, " + n + ", stdin) != " + n + ") return 99;\n";
      const std::vector<char> bytes = bytes_of_tensor(inputs[i]);
      all.append(bytes.data(), bytes_[i]);
    }
    const std::string count = std::to_string(bytes_.size()), in = std::to_string(inputs_);
    main += "  a[" + count + "] = malloc(work_size());\n  result = call((const void* const*)a, a + " + in + ", a[" +
            count + "]);\n";
    for (std::size_t i = inputs_; i < bytes_.size(); ++i)
      main += "  fwrite(a[" + std::to_string(i) + "], 1, " + std::to_string(bytes_[i]) + ", stdout);\n";
    main += "  for (int i = 0; i <= " + count + "; ++i) free(a[i]);\n  return result;\n}\n";
    with_bytes(folder_ / "main.c", main);
    with_bytes(folder_ / "in", all);
    compile(compile_by + " -std=c99 -ffp-contract=off f.c call.c main.c -o f.exe -lm && " + run_by +
            " ./f.exe < in 2> errors > out || (cat errors; exit 1)");
    const std::string found = bytes_of(folder_ / "out");
    std::vector<Tensor> outputs;
    std::size_t place = 0;
    for (std::size_t i = inputs_; i < bytes_.size(); place += bytes_[i++])
      outputs.push_back(
          tensor_of(i - inputs_, std::vector<char>(found.begin() + static_cast<std::ptrdiff_t>(place), found.end())));
    return outputs;
  }

  ~CompiledC() {
    if (library_) dlclose(library_);
  }
  CompiledC(const CompiledC&) = delete;

 private:
  static std::size_t size_of_buffer(const stave_detail::Lowered& code, std::size_t i) {
    return static_cast<std::size_t>(code.buffers[i].elements) * size_of(code.buffers[i].dtype);
  }
  static std::vector<char> bytes_of_tensor(const Tensor& x) {
    const Tensor row_major = contiguous(x);
    const char* const data = static_cast<const char*>(row_major.node().data());
    std::vector<char> bytes(data, data + static_cast<std::size_t>(x.size()) * size_of(x.dtype()));
    bytes.push_back(0);  // data() of an empty vector may be null
    return bytes;
  }
  Tensor tensor_of(std::size_t output, const std::vector<char>& bytes) const {
    return from_bytes(bytes.data(), static_cast<std::size_t>(shapes_[output].elements()), dtypes_[output],
                      shapes_[output]);
  }

  Folder folder_;
  std::string compiler_, flags_, text_;
  std::vector<std::size_t> bytes_;
  std::size_t inputs_ = 0;
  std::vector<Dtype> dtypes_;
  std::vector<Shape> shapes_;
  void* library_ = nullptr;
};

}  // namespace stave_test
