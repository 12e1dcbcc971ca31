// Effects and a handler for the tests of compiled functions that perform effects.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include <stave/core/effects/effect.h>
#include <stave/core/tensor/tensor.h>

namespace stave_test {

using stave::Handles;
using stave::Tensor;

/// Answers an effect by a function, and counts the answers.
template <class E>
struct By : Handles<E> {
  std::function<typename E::Result(E&)> answer;
  int asked = 0;
  explicit By(std::function<typename E::Result(E&)> f) : answer(std::move(f)) {}
  typename E::Result handle(E& effect) override {
    ++asked;
    return answer(effect);
  }
};
template <class E, class F>
By<E> by(F f) {
  return By<E>(std::move(f));
}

struct Rate {
  using Result = double;
};
struct Weights {
  using Result = Tensor;
  std::string name;
};
struct Log {
  using Result = void;
  std::string name;
  Tensor value;
};
struct Through {
  using Result = Tensor;
  Tensor value;
};

}  // namespace stave_test
