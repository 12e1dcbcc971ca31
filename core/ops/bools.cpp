// Checks whether bytes are valid bools, and converts bytes to bools.
#include <stave/core/ops/bools.h>

#include <algorithm>

#include <stave/core/effects/effect.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>

namespace stave_detail {

bool are_bools(const char* data, std::size_t bytes) noexcept {
  unsigned char all = 0;  // the loop has no branch, so that the compiler vectorises it
  for (std::size_t i = 0; i < bytes; ++i) all |= static_cast<unsigned char>(data[i]);
  return all <= 1;
}

void make_bools(char* data, std::size_t bytes) noexcept {
  std::transform(data, data + bytes, data, [](char c) { return static_cast<char>(c != 0); });
}

Tensor as_bools(const Tensor& x) {
  if (x.size() == 0) return x;
  const UnderFrame past_all_handlers(nullptr);
  const Node& node = x.node();
  Shape distinct = node.shape;  // Elements that are repeated by a stride of 0 are read once.
  for (std::size_t axis = 0; axis < distinct.size(); ++axis)
    if (node.strides[axis] == 0) distinct[axis] = 1;
  const Tensor bytes(NodePtr(new Node(uint8, node.device, distinct, node.strides, node.storage, node.offset)));
  if (max(bytes).item<int>() <= 1) return x;
  return broadcast_to(bytes != 0, node.shape);
}

}  // namespace stave_detail
