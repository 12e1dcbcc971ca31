// A training program ported from PyTorch. docs/guides/porting_from_pytorch.md shows both programs
// side by side, and explains the differences.
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <tuple>
#include <utility>

#include <stave/stave.h>

#include "check.h"
#include "digits.h"

using namespace stave;

// ---- the model ----------------------------------------------------------------------------------

struct Dense {
  Tensor weight, bias;  // [out, in], as in PyTorch, and [out]
  static constexpr const char* names[] = {"weight", "bias"};
  Tensor operator()(const Tensor& x) const { return matmul(x, transpose(weight)) + bias; }
};

struct Mlp {
  Dense hidden, out;
  static constexpr const char* names[] = {"hidden", "out"};
  Tensor operator()(const Tensor& x) const { return out(relu(hidden(x))); }
};

Tensor loss(const Mlp& model, const Tensor& x, const Tensor& y) { return cross_entropy(model(x), y); }

// Uniform in +-1 / sqrt(in), PyTorch's initialisation.
Dense dense(const Key& key, Index in, Index out) {
  const auto [for_weight, for_bias] = split<2>(key);
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  return {uniform(for_weight, {out, in}, -bound, bound), uniform(for_bias, {out}, -bound, bound)};
}

Mlp random_model(const Key& key) {
  const auto [for_hidden, for_out] = split<2>(key);
  return {dense(for_hidden, 64, 32), dense(for_out, 32, 10)};
}

// Numbers that a program in another language can generate as well, for comparison.
Mlp known_model() {
  const auto numbers = [](const Shape& shape) {
    return astype(0.1 * sin(arange(0, shape.elements(), 1, float64)), float32);
  };
  const auto layer = [&](Index in, Index out) {
    return Dense{reshape(numbers({out * in}), {out, in}), numbers({out})};
  };
  return {layer(64, 32), layer(32, 10)};
}

// ---- training -----------------------------------------------------------------------------------

constexpr Index batch = 64, steps = 40, training = 1438;

Mlp train(Mlp model, const Digits& digits, float& last) {
  const auto optimizer = adamw({.learning_rate = 1e-2, .weight_decay = 1e-2});
  auto state = optimizer.init(model);
  for (Index step = 0; step < steps; ++step) {
    const auto these = slice(step * batch % (training - batch), step * batch % (training - batch) + batch);
    const Tensor x = digits.pixels(these), y = digits.labels(these);
    const auto [value, gradient] = value_and_grad(loss)(model, x, y);
    std::tie(model, state) = optimizer.update(model, clip_by_global_norm(gradient, 1.), state);
    last = value.item<float>();
  }
  return model;
}

float accuracy(const Mlp& model, const Tensor& x, const Tensor& y) {
  return mean(astype(argmax(model(x), 1) == y, float32)).item<float>();
}

// ---- what differs in meaning --------------------------------------------------------------------

void differences() {
  const Tensor x = tensor({1., 2., 4.}), i = tensor({1, 2, 3});

  check((i / 2).dtype() == float32 && floor_divide(i, 2).dtype() == int32, "integers divide to floats");
  check((astype(i, int64) + x).dtype() == float32, "an integer and a float: the float's dtype");
  check((x + 1).dtype() == float32 && (i + 0.5).dtype() == float32, "C++ numbers are weak");
  check(arange(3).dtype() == int32 && argmax(x).dtype() == int32, "integers are int32");
  check(allclose(stave::std(tensor({1., 3.})), tensor(1.)), "std divides by n");
  check(allclose(stave::std(tensor({1., 3.}), all_axes, drop_dims, 1), sqrt(tensor(2.))),
        "unless it is told otherwise");

  const Tensor y = x, changed = x.at(0).set(9);
  check(allclose(y, tensor({1., 2., 4.})) && changed[0].item<float>() == 9, "a tensor never changes");
  check(throws<IndexError>([&] { take(x, tensor({3})); }), "an index out of range is an error");
  const auto size = [](const Tensor& z) { return square(abs(z)); };
  check(allclose(grad(size)(complex(tensor(3.), tensor(4.))), complex(6, -8)), "gradients are conjugates of PyTorch's");

  const auto f = [](const Tensor& v) { return sum(v * stop_gradient(v)); };
  check(allclose(grad(f)(x), x), "detach is stop_gradient");
  check(allclose(grad(f)(x), grad(f)(x)), "gradients do not add up");

  const auto [out, pullback] = vjp([](const Tensor& v) { return square(v); }, x);
  const auto [first] = pullback(ones({3}));
  const auto [again] = pullback(ones({3}));  // retain_graph=True
  check(allclose(first, 2 * x) && allclose(again, first), "a pullback may be called again");

  const Tensor m = tensor({{1., 2.}, {3., 4.}}), columns = tensor({{1}, {0}});
  check(allclose(take_along_axis(m, columns, 1), tensor({{2.}, {3.}})), "torch.gather is take_along_axis");
}

int main() {
  const Digits digits = read_digits(STAVE_EXAMPLE_DATA "/digits.csv");
  const auto test = slice(training, none);
  const Tensor test_x = digits.pixels(test), test_y = digits.labels(test);

  float last = 0;
  const Mlp model = train(known_model(), digits, last);
  std::printf("last loss %.4f, accuracy on digits not seen %.3f\n", static_cast<double>(last),
              static_cast<double>(accuracy(model, test_x, test_y)));

  check(std::abs(last - 0.22071f) < 1e-3f, "the loss is PyTorch's");

  const auto path = (std::filesystem::temp_directory_path() / "stave_33_from_pytorch.npz").string();
  save_npz(path, model);                     // hidden/weight, hidden/bias, out/weight, out/bias
  const Mlp loaded = load_npz(path, model);  // shapes and dtypes must be those of `model`
  check(array_equal(loaded(test_x), model(test_x)), "what was saved is what is loaded");
  std::filesystem::remove(path);

  const Mlp other = train(random_model(Key(0)), digits, last);
  check(accuracy(other, test_x, test_y) > 0.8, "it learns from random numbers, too");
  differences();
}
