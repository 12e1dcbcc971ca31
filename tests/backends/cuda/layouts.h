// Shapes and strides of operands, for tests of kernels.
#pragma once

#include <algorithm>
#include <vector>

#include "cuda/on_host.h"

namespace stave_cuda {

struct Layout {
  const char* name;
  stave::Shape shape;
  stave::Strides strides;
  // In elements.
  std::size_t misaligned_by = 0;
};

/// Groups of layouts of operands, one group for each output shape: flat, odd lengths, misaligned,
/// broadcast, transposed, reversed, with gaps, with more axes than an index map holds, empty.
inline std::vector<std::vector<Layout>> operand_layouts() {
  using stave::Shape;
  std::vector<std::vector<Layout>> groups;
  for (Index n : {Index{1}, Index{7}, Index{16}, Index{1000}, Index{4099}})
    groups.push_back({{"flat", {n}, {1}},
                      {"misaligned", {n}, {1}, 1},
                      {"repeated", {n}, {0}},
                      {"reversed", {n}, {-1}},
                      {"spread", {n}, {3}}});
  const Shape matrix{24, 64};
  groups.push_back({{"matrix", matrix, {64, 1}},
                    {"row", matrix, {0, 1}},
                    {"column", matrix, {1, 0}},
                    {"transposed", matrix, {1, 24}},
                    {"scalar", matrix, {0, 0}},
                    {"rows apart", matrix, {80, 1}},
                    {"rows oddly apart", matrix, {67, 1}},
                    {"rows reversed", matrix, {-64, 1}},
                    {"misaligned rows", matrix, {0, 1}, 3}});
  const Shape odd{9, 31};
  groups.push_back({{"odd matrix", odd, {31, 1}}, {"odd row", odd, {0, 1}}, {"odd transposed", odd, {1, 9}}});
  const Shape cube{5, 1, 6, 8};
  groups.push_back({{"cube", cube, {48, 48, 8, 1}},
                    {"middle broadcast", cube, {8, 8, 0, 1}},
                    {"permuted", cube, {1, 7, 5, 30}},
                    {"outer broadcast", cube, {0, 0, 8, 1}}});
  const Shape many{2, 2, 3, 2, 2, 2, 3, 2, 2};
  groups.push_back({{"many axes", many, contiguous_strides(many)},
                    {"many axes reversed", many, {1, 2, 4, 12, 24, 48, 96, 288, 576}}});
  groups.push_back({{"rank 0", Shape(), Shape()}, {"another rank 0", Shape(), Shape()}});
  groups.push_back({{"empty", {3, 0, 2}, {0, 2, 1}}, {"another empty", {3, 0, 2}, {5, 1, 1}}});
  return groups;
}

}  // namespace stave_cuda
