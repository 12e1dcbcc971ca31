// Rows of higher-order operations. All compute sin(a) b, so that they differ only in the operation
// that carries the function.

#include <cmath>

#include <stave/handlers/transforms/checkpoint.h>
#include <stave/handlers/transforms/custom.h>
#include <stave/handlers/transforms/linearize.h>
#include <stave/stave.h>

#include "table/reference.h"
#include "table/row.h"

namespace table {

namespace {

using Call = Tensor (*)(const Tensor&, const Tensor&);

Tensor plain(const Tensor& a, const Tensor& b) { return sin(a) * b; }

Tensor checkpointed(const Tensor& a, const Tensor& b) { return checkpoint(plain)(a, b); }
Tensor checkpointed_capture(const Tensor& a, const Tensor& b) {
  return checkpoint([a](const Tensor& x) { return plain(a, x); })(b);
}
Tensor with_vjp(const Tensor& a, const Tensor& b) {
  return custom_vjp([](const Tensor& x, const Tensor& y) { return plain(x, y); },
                    [](const Tensor& x, const Tensor& y) { return std::pair(plain(x, y), std::pair(x, y)); },
                    [](const std::pair<Tensor, Tensor>& residuals, const Tensor& g) {
                      const auto& [x, y] = residuals;
                      return std::tuple(g * cos(x) * y, g * sin(x));
                    })(a, b);
}
Tensor with_jvp(const Tensor& a, const Tensor& b) {
  return custom_jvp([](const Tensor& x, const Tensor& y) { return plain(x, y); },
                    [](const Tensor& x, const Tensor& y, const Tensor& dx, const Tensor& dy) {
                      return std::pair(plain(x, y), cos(x) * y * dx + sin(x) * dy);
                    })(a, b);
}
Tensor with_vmap(const Tensor& a, const Tensor& b) {
  return custom_vmap([](const Tensor& x, const Tensor& y) { return plain(x, y); },
                     [](Index, const std::vector<bool>& batched, const Tensor& x, const Tensor& y) {
                       const Tensor lanes_x = batched[0] ? x : expand_dims(x, 0);
                       return plain(lanes_x, batched[1] ? y : expand_dims(y, 0));
                     })(a, b);
}
// The derivative of cos(x) at a along -b.
Tensor linearized(const Tensor& a, const Tensor& b) {
  return linearize([](const Tensor& x) { return cos(x); }, a).second(negative(b));
}

Row row_of(const std::string& name, std::vector<std::pair<std::string, Call>> calls) {
  const auto variants = [calls](Dtype dtype) {
    std::vector<Variant> all;
    for (const auto& [which, call] : calls)
      for (const Shape& shape : {Shape{2, 3}, Shape{5}, Shape{2, 0}, Shape{}})
        all.push_back({.name = which + shape.str(),
                       .inputs = {{dtype, shape}, {dtype, shape}},
                       .call = [call = call](auto xs) { return call(xs[0], xs[1]); },
                       .reference =
                           [dtype](auto xs) {
                             return Arrays{make(dtype, xs[0].shape,
                                                [&](const Shape& p) { return std::sin(xs[0](p)) * xs[1](p); })};
                           }});
    return all;
  };
  return {.name = name, .dtypes = float_dtypes, .variants = variants};
}

}  // namespace

void add_function_rows(std::vector<Row>& rows) {
  rows.push_back(row_of("checkpoint", {{"arguments", checkpointed}, {"a capture", checkpointed_capture}}));
  rows.push_back(row_of("custom_vjp", {{"", with_vjp}}));
  rows.push_back(row_of("custom_jvp", {{"", with_jvp}}));
  rows.push_back(row_of("custom_vmap", {{"", with_vmap}}));
  rows.push_back(row_of("linearize", {{"", linearized}}));
}

}  // namespace table
