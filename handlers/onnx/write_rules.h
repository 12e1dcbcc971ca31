// The rules by which operations of programs are written as nodes of ONNX.
#pragma once

#include <stave/core/program/writing_context.h>
#include <stave/handlers/onnx/builder.h>

namespace stave_detail {

using OnnxWriting = WritingContext<OnnxBuilder, const OnnxOuts&, const OnnxOuts&>;
using OnnxRule = OnnxOuts (*)(const OnnxWriting&);

/// The rule of an operation; null if ONNX has no operators for it.
OnnxRule onnx_rule_of(OpId id);
/// The families of rules. An elementwise operation has operands of the dtype in which it is
/// computed; its result is empty if there is none.
OnnxOut write_onnx_elementwise(OnnxBuilder& b, OpId id, const OnnxOut& x, const OnnxOut& y);
OnnxRule onnx_rule_of_layout(OpId id);
OnnxRule onnx_rule_of_rows(OpId id);
OnnxRule onnx_rule_of_products(OpId id);

/// The dtype in which onnxruntime computes: float32 for sixteen-bit floats, and int32 or int64 for
/// integers of other sizes. Numbers of it are rounded, or wrap, when they are cast back.
Dtype onnx_computed(Dtype dtype);

}  // namespace stave_detail
