#include <stave/handlers/model/param.h>

#include <cmath>

#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/scoped_name.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {
namespace {

void check_shape(const std::string& name, const Shape& asked, const Tensor& value, const char* from) {
  if (!value.defined()) fail<Error>("param \"{}\": {} an empty Tensor", name, from);
  if (value.shape() != asked)
    fail<ShapeError>("param \"{}\": {} shape {}, but {} is requested", name, from, value.shape(), asked);
}

struct Fans {
  double in, out;
};
Fans fans_of(const Shape& shape, const char* initializer) {
  if (shape.rank() < 2)
    fail<ShapeError>("{}: a kernel needs at least two axes, [..., inputs, outputs], but has shape {}", initializer,
                     shape);
  double window = 1;
  for (int axis = 0; axis + 2 < shape.rank(); ++axis) window *= static_cast<double>(shape[axis]);
  return {window * static_cast<double>(shape[shape.rank() - 2]), window * static_cast<double>(shape[shape.rank() - 1])};
}

}  // namespace

Tensor Param::unhandled() const {
  fail<Error>(
      "param: no handler provides \"{}\": make parameters by init_params(f)(key, args...), and pass them by "
      "functional_call(f, params)(args...)",
      name);
}

Tensor InitParams::handle(Param& param) {
  const std::string name = scoped_name(param.name);
  auto found = params.find(name);
  if (found == params.end()) {
    found = params.emplace(name, param.initial(fold_in_name(key_, name))).first;
    check_shape(name, param.shape, found->second, "its initializer gives");
  }
  check_shape(name, param.shape, found->second, "it was made before with");
  return found->second;
}

Tensor SupplyParams::handle(Param& param) {
  const std::string name = scoped_name(param.name);
  const auto found = params_.find(name);
  if (found == params_.end())
    fail<Error>("param \"{}\": it is not among the parameters given to functional_call: {}", name,
                listed_keys(params_));
  used_.insert(name);
  check_shape(name, param.shape, found->second, "functional_call was given");
  return found->second;
}

void SupplyParams::check_all_used() const {
  for (const auto& [name, value] : params_)
    if (!used_.contains(name)) fail<Error>("functional_call: the function does not request the param \"{}\"", name);
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

Tensor param(const std::string& name, const Shape& shape, const Initializer& initializer) {
  return perform(Param{name, shape, [&](const Key& key) { return initializer(key, shape); }});
}

Tensor param(const std::string& name, const Tensor& initial) {
  return perform(Param{name, initial.shape(), [&](const Key&) { return initial; }});
}

Tensor lecun_normal(const Key& key, const Shape& shape) {
  return normal(key, shape) * std::sqrt(1 / fans_of(shape, "lecun_normal").in);
}

Tensor he_normal(const Key& key, const Shape& shape) {
  return normal(key, shape) * std::sqrt(2 / fans_of(shape, "he_normal").in);
}

Tensor glorot_uniform(const Key& key, const Shape& shape) {
  const Fans fans = fans_of(shape, "glorot_uniform");
  return uniform(key, shape, -1, 1) * std::sqrt(6 / (fans.in + fans.out));
}

}  // namespace stave
