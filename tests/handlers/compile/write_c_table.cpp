// write_c_table: writes all rows of the table of operations as C, with their gradients, and
// compares what the C computes with what the library does. A row that cannot be lowered is counted
// and named.
//
//   write_c_table               all operations, and gradients in float64
//   write_c_table NAME          one of them
//   write_c_table --optimised   all, and the C compilers optimise all files
//
// Many functions are one C file, since starting a compiler takes longer than a function of a row.
// Nearly all of the time goes to the C compilers, and twice as much if they optimise. So they
// optimise one file of four without the option.

#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>
#include <utility>

#include <stave/handlers/compile/record.h>
#include <stave/handlers/compile/write_c.h>
#include <stave/handlers/transforms/vjp_flat.h>

#include "compiled_c.h"
#include "table/run.h"

namespace {

using namespace table;

/// A program, the inputs that it is called with, and what it computes from them.
struct Compared {
  std::string where, name;
  stave::Program program;
  std::vector<Tensor> inputs;
  Arrays expected;
  bool derivative;
  Real unit;
};

class Comparison {
 public:
  explicit Comparison(bool optimised) : optimised_(optimised) {}

  void add(const std::string& where, stave::FlatFunction f, const std::vector<Tensor>& inputs, bool derivative,
           Real unit) {
    stave::Program program = stave_detail::record("write_c_table", f, inputs).program;
    if (std::count(program.outputs.begin(), program.outputs.end(), -1) > 0) return;
    const std::string name = "f" + std::to_string(functions_.size());
    std::ostringstream source;
    try {
      stave::write_c(source, program, {.name = name});
    } catch (const stave::Error& error) {
      const std::string text = error.what();
      ++refused[text.substr(0, text.find(';'))];
      return;
    }
    text_ += source.str();
    const stave::Outputs outputs = program(inputs);
    functions_.push_back({where, name, std::move(program), inputs, to_arrays(outputs), derivative, unit});
    if (functions_.size() == most) compare_all();
  }

  // Compiles the functions and compares what they compute.
  void compare_all() {
    if (functions_.empty()) return;
    std::string text = std::exchange(text_, {});
    const std::vector<Compared> functions = std::exchange(functions_, {});
    const std::string command = next_compiler();
    for (const Compared& it : functions) {
      text += "int call_" + it.name + "(const void* const* in, void* const* out);\nint call_" + it.name +
              "(const void* const* in, void* const* out)\n{\n  static " + it.name +
              "_workspace work;\n  (void)in;\n  (void)out;\n  return " + it.name + "(";
      for (std::size_t i = 0; i < it.inputs.size(); ++i) text += "in[" + std::to_string(i) + "], ";
      for (std::size_t i = 0; i < it.expected.size(); ++i) text += "out[" + std::to_string(i) + "], ";
      text += "&work);\n}\n";
    }
    const stave_test::Folder folder;
    stave_test::with_bytes(folder / "f.c", text);
    stave_test::run(
        command + stave_test::strict_c + "-shared -fPIC " + (folder / "f.c") + " -o " + (folder / "f.so") + " -lm",
        folder / "log");
    void* const library = dlopen((folder / "f.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) throw std::runtime_error(dlerror());
    for (const Compared& it : functions) try {
        compare(it, dlsym(library, ("call_" + it.name).c_str()));
      } catch (const std::exception& error) {
        report.fail(it.where + ", by " + command, error.what());
      }
    dlclose(library);
    compared += static_cast<int>(functions.size());
  }

  int compared = 0;
  std::map<std::string, int> refused;  // for each reason, the number of programs
  Report report;

 private:
  static constexpr std::size_t most = 300;

  // The compilers take turns, and optimise in their first turn of four.
  std::string next_compiler() {
    const std::vector<std::string>& compilers = stave_test::c_compilers();
    const std::size_t file = files_++, turn = file / compilers.size();
    return compilers[file % compilers.size()] + (optimised_ || turn % 4 == 0 ? " -O1" : " -O0");
  }

  static void compare(const Compared& it, void* function) {
    std::vector<Tensor> kept;
    std::vector<const void*> in;
    for (const Tensor& x : it.inputs) {
      kept.push_back(contiguous(x));
      in.push_back(kept.back().node().data());
    }
    std::vector<std::vector<char>> arrays;
    std::vector<void*> out;
    for (const Array& x : it.expected) {
      arrays.emplace_back(static_cast<std::size_t>(x.shape.elements()) * size_of(x.dtype) + 1);
      out.push_back(arrays.back().data());
    }
    const int error = reinterpret_cast<int (*)(const void* const*, void* const*)>(function)(in.data(), out.data());
    if (error) throw Mismatch("error " + std::to_string(error));
    Arrays found;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const Array& like = it.expected[i];
      found.push_back(to_array(
          from_bytes(arrays[i].data(), static_cast<std::size_t>(like.shape.elements()), like.dtype, like.shape)));
    }
    table::compare("C", it.derivative ? Kind::first : Kind::lanes, found, it.expected, it.unit);
  }

  bool optimised_;
  std::vector<Compared> functions_;
  std::string text_;
  std::size_t files_ = 0;
};

void run_case(const Case& c, const std::string& where, Comparison& comparison) {
  if (!c.variant.refusal.empty()) return;
  const Real unit = 2 * std::max<Real>(accuracy_here(c.row), 4);
  try {
    comparison.add(
        where, [&](std::span<const Tensor> xs) { return c.call(xs); }, c.tensors, false, unit);
    if (c.active.empty() || c.dtype != stave::float64) return;
    const std::vector<Tensor> primals = c.active_of(c.tensors);
    Random random(c.seed + "/c");
    const std::vector<Tensor> cotangents =
        cotangents_for(to_arrays(c.call_active(primals)), random.weights_like(to_arrays(c.call_active(primals))));
    if (std::any_of(cotangents.begin(), cotangents.end(), [](const Tensor& x) { return !x.defined(); })) return;
    const auto gradient = [&](std::span<const Tensor> xs) {
      stave::FlatVjp vjp = stave::vjp_flat([&](std::span<const Tensor> ys) { return c.call_active(ys); },
                                           xs.first(primals.size()), "vjp");
      const std::vector<Tensor> found = vjp.pullback.consume(xs.subspan(primals.size()));
      return Outputs(found.begin(), found.end());
    };
    comparison.add(where + ", vjp", gradient, joined(primals, cotangents), true, unit);
  } catch (const std::exception& error) {
    comparison.report.fail(where, error.what());
  }
}

// The dtypes of integers differ in few operations, which tests/core/program/write_c_test.cpp tests.
bool is_run(Dtype dtype) { return dtype == bool_ || dtype == int32 || dtype == float32 || dtype == float64; }

void run_row(const Row& row, Comparison& comparison) {
  for (const Dtype dtype : row.dtypes) {
    if (!is_run(dtype)) continue;
    for (const Variant& variant : row.variants(dtype)) {
      const Case c(row, variant, dtype, layouts_of(variant).front());
      run_case(c, row.name + " " + variant.name + ", " + stave::name_of(dtype), comparison);
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  std::setbuf(stdout, nullptr);
  if (stave_test::c_compilers().empty()) return std::printf("there is no C compiler\n"), 77;
  const std::string argument = argc > 1 ? argv[1] : "";
  const bool optimised = argument == "--optimised", all = optimised || argument.empty();
  Comparison comparison(optimised);
  for (const Row& row : all_rows())
    if (all || row.name == argument) run_row(row, comparison);
  comparison.compare_all();
  for (const auto& [reason, programs] : comparison.refused) std::printf("%d times: %s\n", programs, reason.c_str());
  std::printf("programs %d  failures %d\n", comparison.compared, comparison.report.failures);
  return comparison.report.failures || comparison.compared == 0 ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "write_c_table: %s\n", error.what());
  return 2;
}
