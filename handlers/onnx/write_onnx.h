// write_onnx: a Program as an ONNX model, which onnxruntime and other tools run.
//
//   std::ofstream out("gradient.onnx", std::ios::binary);
//   write_onnx(out, trace(grad(loss))(w, x));   // inputs are named by labels (core/tensor/label.h)
//
// In Python: onnxruntime.InferenceSession("gradient.onnx").run(None, {"w": w, "x": x})
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include <stave/core/program/program.h>
#include <stave/core/tensor/options.h>

namespace stave {

struct WriteOnnxOptions {
  [[no_unique_address]] ByName by_name{};
  std::string name = "main";  ///< the name of the graph
  /// The names of inputs and outputs. If there are none, labels are taken; values without a label,
  /// or with one that is taken, are called "input_0", "output_0" ...
  std::vector<std::string> inputs{}, outputs{};
};
/// Writes a program as an ONNX model of opset 21 to `out`, in binary. Each operation becomes a node
/// or is composed of several; loop and scan become Scan, and functions of checkpoints are written
/// where they are called. Constants become initializers of the model.
///
/// The model computes what the program does, up to rounding, with these exceptions. ONNX has no
/// errors, so an index out of range is what the runtime makes of it. The order of NaN in sorting
/// and in maxima, conversions of floats too large for an integer, and divisions of integers by 0
/// are the runtime's.
///
/// Throws TransformError, which names the operation, for what ONNX has no operators for: random
/// numbers, factors of matrices, complex numbers, most special functions, operations of one's own,
/// reads, and fused regions (write the program itself, not optimized(program)). Nothing is written
/// then.
void write_onnx(std::ostream& out, const Program& program, const WriteOnnxOptions& options = {});

}  // namespace stave
