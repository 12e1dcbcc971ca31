// Conversions between element types.
#include <stave/core/io/elements.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/handlers/onnx/operators.h>

namespace stave_detail {

namespace {

// The same bits as another type of the same size. They are read on the host.
Tensor bits_as(const NodeCall& n) {
  const Tensor& x = n(0);
  const Dtype to = n.dtype("to");
  if (size_of(x.dtype()) != size_of(to)) n.refuse("{} has not as many bits as {}", x.dtype(), to);
  if (x.dtype() == to) return x;
  Tensor converted;
  with_elements(x, [&](std::span<const char> bytes) {
    converted = from_bytes(bytes.data(), static_cast<std::size_t>(x.size()), to, x.shape());
  });
  return converted;
}

constexpr OnnxOperator cast_rows[] = {
    {"BitCast", 26, bits_as},
    {"Cast", 6, [](const NodeCall& n) { return astype(n(0), n.dtype("to")); }},
    {"CastLike", 15, [](const NodeCall& n) { return astype(n(0), n(1).dtype()); }},
};

}  // namespace

std::span<const OnnxOperator> onnx_cast() { return cast_rows; }

}  // namespace stave_detail
