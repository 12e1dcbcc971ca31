// Plans: graphs of a file, checked and ready to run.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <stave/handlers/onnx/messages.h>
#include <stave/handlers/onnx/node.h>
#include <stave/handlers/onnx/tensors.h>

namespace stave_detail {

struct OnnxPlan {
  std::shared_ptr<const OnnxGraphPlan> graph;
  std::map<std::string, Tensor> weights;  // the floating-point initializers of the main graph
};

/// Checks the graphs of a file, and prepares them. Throws FileError if a value is read that is not
/// computed before, or computed twice; if functions call themselves; or if operators are not
/// supported, all of which the error names.
OnnxPlan plan_onnx(OnnxFile file, OnnxFiles& files);

}  // namespace stave_detail
