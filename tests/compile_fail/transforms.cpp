// Arguments and functions that transforms do not accept. Each case fails with one error,
// which has the expected text.
#include <stave/stave.h>

#include <set>
#include <span>
using namespace stave;

Tensor one(const Tensor& x) { return sum(x); }
Tensor two(const Tensor& x, const Tensor& y) { return sum(x * y); }
const Tensor x;

void f() {
#if CASE == 1
  // expect: stave: the function cannot be called with these arguments
  grad(two)(x);
#elif CASE == 2
  // expect: stave: the function cannot be called with these arguments
  value_and_grad([](const Tensor& w, int n) { return sum(w * n); })(x, "three");
#elif CASE == 3
  // expect: stave: the function cannot be called with these arguments
  vmap(two)(x);
#elif CASE == 4
  // expect: stave: the function cannot be called with these arguments
  vjp(one, x, x);
#elif CASE == 5
  // expect: stave: the function cannot be called with these arguments
  jvp(two, x, x);
#elif CASE == 6
  // expect: stave: the function cannot be called with these arguments
  check_grads(one, std::tuple(x, x));
#elif CASE == 7
  // expect: stave: the function cannot be called with these arguments
  hessian(one)(x, 4);
#elif CASE == 8
  // expect: stave: an argument number is out of range of the call's arguments
  grad<1>(one)(x);
#elif CASE == 9
  // expect: stave: argument numbers must be in rising order, as in grad<0, 2>
  grad<1, 0>(two)(x, x);
#elif CASE == 10
  // expect: stave: grad: argument numbers are template arguments: grad<0, 1>
  grad(two, {0, 1});
#elif CASE == 11
  // expect: stave: a differentiated argument is a number: give a tensor, such as tensor
  grad(one)(2.0);
#elif CASE == 12
  // expect: stave: jvp: the primal is a number: give a tensor, such as tensor
  jvp(one, 2., 1.);
#elif CASE == 13
  // expect: stave: a differentiated argument is not a tree of tensors
  grad([](const std::string&, const Tensor& y) { return sum(y); })(std::string(), x);
#elif CASE == 14
  // expect: stave: the function must return Tensor or std::pair<Tensor, Aux>
  grad([](const Tensor& y) { return y.item<float>(); })(x);
#elif CASE == 15
  // expect: stave: the function must return Tensor or std::pair<Tensor, Aux>
  grad([](const Tensor& y) { return std::tuple(sum(y), y, y); })(x);
#elif CASE == 16
  // expect: stave: the function must return a tree of tensors
  vmap([](const Tensor& y) { return y.rank(); })(x);
#elif CASE == 17
  // expect: stave: the function must return a tree of tensors
  vmap([](const Tensor&) {})(x);
#elif CASE == 18
  // expect: stave: the function must return a tree of tensors
  vjp([](const Tensor& y) { return y.rank(); }, x);
#elif CASE == 19
  // expect: stave: the function must return a tree of tensors
  jvp([](const Tensor& y) { return y.rank(); }, x, x);
#elif CASE == 20
  // expect: stave: the function must return a tree of tensors
  jacfwd([](const Tensor& y) { return y.rank(); })(x);
#elif CASE == 21
  // expect: stave: the function must return a tree of tensors
  checkpoint([](const Tensor&) { return "no tree"; })(x);
#elif CASE == 22
  // expect: stave: jvp: tangents must have the types of the primals
  jvp(two, std::tuple(x, x), std::tuple(x));
#elif CASE == 23
  // expect: stave: an argument holds tensors where transforms cannot find them
  vmap([](const Tensor& y, const std::set<Tensor>&) { return y; })(x, std::set<Tensor>());
#elif CASE == 24
  // expect: stave: an argument holds tensors where transforms cannot find them
  vmap([](const Tensor& y, std::span<const Tensor>) { return y; })(x, std::span<const Tensor>());
#endif
}
