// An HTML report of a training run: its operations, their times and memory, and the loss, as one
// file for any browser.
//   build/release/examples/30_report report.html
#include <filesystem>
#include <iostream>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

struct Network {
  Tensor w1, b1, w2, b2;
};

Tensor predict(const Network& net, const Tensor& x) {
  Tensor hidden;
  {
    const Scope layer("layer1");
    hidden = label(tanh(matmul(x, net.w1) + net.b1), "hidden");
  }
  const Scope layer("layer2");
  return matmul(hidden, net.w2) + net.b2;
}

// Fits sin(3 x) on [-1, 1].
double train(int steps) {
  const Key key(0);
  const Tensor x = label(reshape(linspace(-1, 1, 256), {256, 1}), "x"), y = label(sin(3 * x), "y");
  std::tuple<Tensor, Tensor, Tensor, Tensor> net{2 * normal(fold_in(key, 1), {1, 64}), normal(fold_in(key, 2), {64}),
                                                 0.1f * normal(fold_in(key, 3), {64, 1}), zeros({1})};
  double last = 0;
  for (int i = 0; i < steps; ++i) {
    const Scope step("step");
    const auto loss = [&](const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2) {
      return mean(square(predict({w1, b1, w2, b2}, x) - y));
    };
    const auto& [w1, b1, w2, b2] = net;
    const auto [value, gradients] = value_and_grad<0, 1, 2, 3>(loss)(w1, b1, w2, b2);
    report("loss", value);  // works at any depth inside
    const Scope update("update");
    const float rate = 0.02f;
    const auto& [g1, g2, g3, g4] = gradients;
    report("gradient", g1);  // for many numbers, the page shows mean, least and greatest
    net = {label(w1 - rate * g1, "w1"), label(b1 - rate * g2, "b1"), label(w2 - rate * g3, "w2"),
           label(b2 - rate * g4, "b2")};
    last = value.item<double>();
  }
  return last;
}

int main(int argc, char** argv) {
  const std::string path = argc > 1 ? argv[1] : (std::filesystem::temp_directory_path() / "report.html").string();

  HtmlReport seen({.title = "sin(3 x) by a small network"});
  const double loss = with(seen, [] { return train(200); });
  seen.write_html(path);

  std::cout << seen.operations() << " operations, loss " << loss << ": look at " << path << "\n";
  check(loss < 0.1, "the network learns");
  check(loss == train(200), "nothing changes by being looked at");
  check(std::filesystem::file_size(path) > 100'000, "the page has what was seen");
}
