// onnx_table: writes all rows of the table of operations as models of ONNX, with their gradients,
// each beside its inputs and what the library computes. run_onnxruntime.py runs them.
//
//   onnx_table FOLDER          all programs
//   onnx_table FOLDER ROW      those of one row
//
// The models of operations that cannot be written are counted by their reasons, and listed.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include <stave/handlers/compile/record.h>
#include <stave/handlers/onnx/builder.h>
#include <stave/handlers/onnx/write_onnx.h>
#include <stave/handlers/transforms/vjp_flat.h>

#include "table/run.h"

namespace {

using namespace table;
namespace detail = stave_detail;

class Models {
 public:
  explicit Models(std::string folder) : folder_(std::move(folder)) { std::filesystem::create_directories(folder_); }

  using Function = std::function<Outputs(std::span<const Tensor>)>;
  void add(const std::string& name, const Function& f, const std::vector<Tensor>& inputs) {
    const stave::Program program = detail::record("onnx_table", f, inputs).program;
    if (std::count(program.outputs.begin(), program.outputs.end(), -1) > 0 || program.instructions.empty()) return;
    const std::string path = folder_ + "/" + std::to_string(written);
    try {
      std::ofstream out(path + ".onnx", std::ios::binary);
      write_onnx(out, program);
    } catch (const stave::TransformError& error) {
      const std::string text = error.what();
      ++refused[text.substr(0, text.find(" ("))];
      std::filesystem::remove(path + ".onnx");
      return;
    }
    detail::ProtobufWriter graph;
    const auto put = [&](const char* kind, std::size_t i, const Tensor& x) {
      graph.message(5, detail::onnx_tensor(kind + std::to_string(i), x));
    };
    for (std::size_t i = 0; i < inputs.size(); ++i) put("in/input_", i, inputs[i]);
    const Outputs outputs = program(inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) put("out/output_", i, outputs[i]);
    graph.text(2, name);
    std::ofstream(path + ".data", std::ios::binary) << detail::ProtobufWriter().message(7, graph).bytes;
    ++written;
  }

  int written = 0;
  std::map<std::string, int> refused;  // for each reason, the number of programs

 private:
  std::string folder_;
};

void write_case(const Case& c, const std::string& where, Models& models) {
  if (!c.variant.refusal.empty()) return;
  models.add(
      where, [&](std::span<const Tensor> xs) { return c.call(xs); }, c.tensors);
  if (c.active.empty() || !is_float(c.dtype)) return;
  const std::vector<Tensor> primals = c.active_of(c.tensors);
  Random random(c.seed + "/onnx");
  const Arrays outputs = to_arrays(c.call_active(primals));
  const std::vector<Tensor> cotangents = cotangents_for(outputs, random.weights_like(outputs));
  if (std::any_of(cotangents.begin(), cotangents.end(), [](const Tensor& x) { return !x.defined(); })) return;
  const auto gradient = [&](std::span<const Tensor> xs) {
    stave::FlatVjp vjp =
        stave::vjp_flat([&](std::span<const Tensor> ys) { return c.call_active(ys); }, xs.first(primals.size()), "vjp");
    const std::vector<Tensor> found = vjp.pullback.consume(xs.subspan(primals.size()));
    return Outputs(found.begin(), found.end());
  };
  models.add(where + ", vjp", gradient, joined(primals, cotangents));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: onnx_table FOLDER [ROW]\n"), 2;
  Models models(argv[1]);
  for (const Row& row : all_rows()) {
    if (argc > 2 && row.name != argv[2]) continue;
    for (const Dtype dtype : row.dtypes) {
      if (dtype != stave::float32 && dtype != stave::int32 && dtype != stave::bool_ && dtype != stave::uint8) continue;
      for (const Variant& variant : row.variants(dtype)) {
        // The position of NaN is the runtime's choice.
        if (row.name == "argmax_pool" && variant.name.find("special values") != std::string::npos) continue;
        const std::string where = row.name + " " + variant.name + ", " + stave::name_of(dtype);
        try {
          write_case(Case(row, variant, dtype, layouts_of(variant).front()), where, models);
        } catch (const std::exception& error) {
          std::printf("FAIL %s: %s\n", where.c_str(), error.what());
        }
      }
    }
  }
  for (const auto& [reason, programs] : models.refused) std::printf("%d times: %s\n", programs, reason.c_str());
  std::printf("%d models\n", models.written);
}
