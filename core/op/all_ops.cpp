// The table of all operations' records.
#include <stave/core/op/all_ops.h>

#include <stave/core/op/op.h>

namespace stave {

std::span<const Op* const> all_ops() {
  static constexpr const Op* ops[] = {
#define X(name, ...) &op_##name,
      STAVE_ALL_OPS(X)
#undef X
  };
  return ops;
}

}  // namespace stave
