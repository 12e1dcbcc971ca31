// A function of tensors for Python. It takes and returns arrays. Its derivatives, forward and
// reverse, and its batched version are functions of the same type.
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"

namespace arrays {

using Tensors = std::vector<Tensor>;

class Function {
 public:
  using Body = std::function<Tensors(const Tensors&)>;

  /// Compiles `body`. `like` holds, for each result, the number of the argument whose shape and
  /// dtype it has.
  Function(std::size_t arguments, std::vector<std::size_t> like, const Body& body)
      : arguments_(arguments), like_(std::move(like)), body_(compile(body)) {}

  py::object operator()(const py::args& arrays) const {
    if (arrays.size() != arguments_)
      throw py::type_error("this function takes " + std::to_string(arguments_) + " arrays");
    Tensors arguments, results;
    for (const py::handle array : arrays) arguments.push_back(tensor_of(py::reinterpret_borrow<py::object>(array)));
    {
      const py::gil_scoped_release others_run;
      results = body_(arguments);
    }
    py::tuple given(results.size());
    for (std::size_t i = 0; i < results.size(); ++i) given[i] = Array{results[i]};
    return results.size() == 1 ? py::object(given[0]) : py::object(given);
  }

  const std::vector<std::size_t>& like() const { return like_; }

  /// Returns the function that maps arguments and cotangents of the results to cotangents of the
  /// arguments.
  std::shared_ptr<Function> pullback() {
    if (pullback_) return pullback_;
    std::vector<std::size_t> same(arguments_);
    for (std::size_t i = 0; i < arguments_; ++i) same[i] = i;
    return pullback_ =
               std::make_shared<Function>(arguments_ + like_.size(), same,
                                          [f = body_, n = static_cast<std::ptrdiff_t>(arguments_)](const Tensors& all) {
                                            const auto [results, pull] = vjp(f, Tensors(all.begin(), all.begin() + n));
                                            return std::get<0>(pull(Tensors(all.begin() + n, all.end())));
                                          });
  }

  /// Returns the function that maps arguments and their tangents to tangents of the results.
  std::shared_ptr<Function> pushforward() {
    if (pushforward_) return pushforward_;
    return pushforward_ = std::make_shared<Function>(
               2 * arguments_, like_, [f = body_, n = static_cast<std::ptrdiff_t>(arguments_)](const Tensors& all) {
                 return jvp(f, Tensors(all.begin(), all.begin() + n), Tensors(all.begin() + n, all.end())).second;
               });
  }

  /// Returns the function of many examples at once. The lanes are axis 0 of the mapped arguments,
  /// and of all results.
  std::shared_ptr<Function> lanes(const std::vector<bool>& mapped) {
    std::shared_ptr<Function>& known = lanes_[mapped];
    if (known) return known;
    std::vector<MapAxis> axes;
    for (const bool is_mapped : mapped) axes.push_back(is_mapped ? MapAxis(0) : MapAxis(unmapped));
    return known = std::make_shared<Function>(arguments_, like_, vmap(body_, {.in_axes = {MapAxes(axes)}}));
  }

 private:
  std::size_t arguments_;
  std::vector<std::size_t> like_;
  Body body_;
  std::shared_ptr<Function> pullback_, pushforward_;
  std::map<std::vector<bool>, std::shared_ptr<Function>> lanes_;
};

/// Returns f as a Function. Its result has the shape and dtype of argument `like`.
template <std::same_as<Tensor>... X>
std::shared_ptr<Function> function(Tensor (*f)(const X&...), std::size_t like) {
  return std::make_shared<Function>(sizeof...(X), std::vector{like}, [f](const Tensors& xs) {
    const auto apply = [&]<std::size_t... i>(std::index_sequence<i...>) { return Tensors{f(xs[i]...)}; };
    return apply(std::index_sequence_for<X...>());
  });
}

inline void add_function(py::module_& module) {
  py::class_<Function, std::shared_ptr<Function>>(module, "Function", "A function of arrays.")
      .def("__call__", &Function::operator())
      .def("vmap", &Function::lanes, py::arg("mapped"))
      .def_property_readonly("vjp", &Function::pullback)
      .def_property_readonly("jvp", &Function::pushforward)
      .def_property_readonly("like", [](const Function& f) { return py::tuple(py::cast(f.like())); });
}

}  // namespace arrays
