// Types of trees for the tests of trees.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <stave/stave.h>

namespace tree_test {

using namespace stave;

inline Tensor number(double x) { return full({}, x, float32); }

template <class T>
std::vector<float> leaves(const T& tree) {
  std::vector<float> result;
  for (const Tensor& leaf : tree_leaves(tree)) result.push_back(leaf.item<float>());
  return result;
}

// Classes that the trees below contain.
struct Point {
  Tensor x, y;
};
struct Empty {};
struct Mixed {
  int layers;
  Tensor weight;
  std::string name;
  double rate;
  Tensor bias;
  bool trained;
};
struct Nested {
  Point from;
  std::vector<Point> path;
  std::optional<Point> to;
  Empty nothing;
};
struct Arrays {  // arrays of tensors and of a class with members, beside other members
  Tensor first;
  Tensor plain[3];
  std::array<Tensor, 2> library;
  Point points[2];
  int counts[4];
  Tensor last;
};
struct ArrayFirst {
  Point points[2];
  Tensor rest;
};
struct OnlyArray {
  Tensor rows[4];
};
struct Made {  // not default-constructible
  explicit Made(int) {}
  Made(const Made&) = default;
};
struct ArraysOfAllKinds {
  Made made[2];
  Tensor grid[2][3];
  std::vector<std::unique_ptr<Tensor>> owners;
  std::unique_ptr<Tensor> owner[3];
  Made one;
};

class Opaque {  // no aggregate, no traits
 public:
  explicit Opaque(Tensor x) : x_(std::move(x)) {}
  const Tensor& x() const { return x_; }

 private:
  Tensor x_;
};
class Layer {  // no aggregate, but with traits
 public:
  Layer(Tensor weights, int id) : weights_(std::move(weights)), id_(id) {}
  Tensor& weights() { return weights_; }
  const Tensor& weights() const { return weights_; }
  int id() const { return id_; }

 private:
  Tensor weights_;
  int id_;
};
struct Virtual {
  virtual ~Virtual() = default;
  Tensor x;
};

class Logbook {  // no aggregate, declared to hold no tensors
 public:
  explicit Logbook(std::string text) : text_(std::move(text)) {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace tree_test

template <>
struct stave::TreeTraits<tree_test::Logbook> {};
template <>
struct stave::TreeTraits<tree_test::Layer> {
  template <class L, class F>
  static void visit(L& layer, F&& f) {
    f(layer.weights());
  }
};
