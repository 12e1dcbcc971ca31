// The sparsity of a model of ONNX, two convolutions: each result depends on 5 x 5 pixels, so a few
// directional derivatives give the whole Jacobian.
#include <cstdlib>
#include <iostream>

#include <stave/handlers/onnx/onnx.h>
#include <stave/handlers/structure/sparse_jacobian.h>
#include <stave/stave.h>

#include "check.h"
#include "digits.h"

using namespace stave;

int main() {
  const OnnxModel model = load_onnx(STAVE_EXAMPLE_DATA "/edges.onnx");
  const auto edges = [&](const Tensor& x) {
    return reshape(model({{"picture", reshape(x, {1, 1, 8, 8})}}).at("edges"), -1);
  };
  const Tensor picture = read_digits(STAVE_EXAMPLE_DATA "/digits.csv").pixels[0];

  const SparsityPattern pattern = jacobian_sparsity(edges)(picture);
  const auto sparse = sparse_jacobian(edges, picture);
  std::cout << pattern.entries() << " of " << pattern.rows * pattern.columns << " entries, from " << sparse.jvps()
            << " directional derivatives\n";

  // Two pixels whose rows and columns differ by at most 2 are in one window of windows.
  const Tensor row = floor_divide(arange(64), 8), column = arange(64) % 8;
  const Tensor near = abs(row(slice(), newaxis) - row) <= 2 && abs(column(slice(), newaxis) - column) <= 2;
  check(array_equal(pattern.dense(), near), "the pattern is that of windows of 5 x 5");

  const Tensor dense = jacfwd(edges)(picture);
  check(array_equal(pattern.dense(), dense != 0), "no entry is missing or superfluous");
  check(allclose(pattern.dense(sparse.values(picture)), dense, 1e-5, 1e-6), "the entries are those of jacfwd");
  const Tensor torch = read_csv(STAVE_EXAMPLE_DATA "/52_sparsity_of_a_model.csv", {.dtype = float32});
  check(allclose(dense, torch, 1e-4, 1e-5), "the Jacobian is that of PyTorch");
}
