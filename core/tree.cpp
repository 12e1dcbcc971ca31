#include <stave/core/tree.h>

#include <stave/core/fail.h>

namespace stave_detail {

void fail_tree_mismatch(const char* operation, std::size_t expected, std::size_t got) {
  fail<ShapeError>("{}: the trees differ in structure: {} tensors in one, {} in another", operation, expected, got);
}

}  // namespace stave_detail
