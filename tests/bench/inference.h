// The models of inference.cpp and onnx_memory.cpp.
#pragma once

#include <string>

#include <stave/handlers/onnx/onnx.h>

#include "bench.h"

namespace stave_bench {

/// A model of onnx_models.py.
struct OnnxCase {
  const char* model;
  Shape image;  // an input without its batch
};
inline const OnnxCase onnx_cases[] = {{"mlp", {784}}, {"resnet", {3, 224, 224}}, {"encoder", {64, 512}}};

inline auto compiled(const OnnxCase& of, const std::string& folder) {
  return compile(
      [model = load_onnx(folder + "/" + of.model + ".onnx")](const Tensor& x) {
        return model({{"input", x}}).at("output");
      },
      {.for_inference = true});
}
inline Tensor batch(const OnnxCase& of, Index count) {
  Shape shape{count};
  for (const Index length : of.image) shape.push_back(length);
  return scattered(shape, 4);
}

}  // namespace stave_bench
