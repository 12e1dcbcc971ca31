// The rows of random programs: operations, and nests of transforms, handlers and wrappers around a
// function f(x, c).
#include "generator.h"

namespace stave_fuzz {

namespace {

#define STAVE_EXPRESSION(...)                                   \
  [](const Fn& f, const Tensor& a, const Tensor& b) -> Tensor { \
    (void)f, (void)a, (void)b;                                  \
    return __VA_ARGS__;                                         \
  }
// An operation, the same in both routes.
#define OPERATION(...) \
  { #__VA_ARGS__, STAVE_EXPRESSION(__VA_ARGS__), STAVE_EXPRESSION(__VA_ARGS__), Row::operation }
#define KINKED(...) \
  { #__VA_ARGS__, STAVE_EXPRESSION(__VA_ARGS__), STAVE_EXPRESSION((look_for_kinks(a, b), __VA_ARGS__)), Row::kinked }
#define PARTS(...) \
  { #__VA_ARGS__, STAVE_EXPRESSION(__VA_ARGS__), STAVE_EXPRESSION((look_for_kinks(a, b), __VA_ARGS__)), Row::parts }
#define CATCHES(function)                                                                                      \
  {                                                                                                            \
    #function "(a, b)", STAVE_EXPRESSION(function(a, b)), STAVE_EXPRESSION(looking_for_steps(function, a, b)), \
        Row::catches                                                                                           \
  }
// A nest: by the library, and the plain way.
#define NEST(kind, expression, plain) \
  { #expression, STAVE_EXPRESSION(expression), STAVE_EXPRESSION(plain), Row::kind }

thread_local bool kinks_near = false;
void look_for_kinks(const Tensor& a, const Tensor& b) {
  const Tensor places = sort(concat({stop_gradient(a), stop_gradient(b), tensor({-0.25, 0., 0.25}, float64)}));
  kinks_near = kinks_near || any(places(slice(1, none)) - places(slice(0, -1)) < 1e-3).item<bool>();
}

const Row all[] = {
    OPERATION(sin(a)),
    OPERATION(cos(a) * b),
    OPERATION(tanh(a)),
    OPERATION(sigmoid(a) - b),
    OPERATION(tame(softplus(a))),
    OPERATION(erf(a)),
    OPERATION(atan(a)),
    OPERATION(asinh(a)),
    OPERATION(exp(-square(a))),
    OPERATION(tame(log1p(square(a)))),
    OPERATION(rsqrt(1 + square(a))),
    OPERATION(expm1(tanh(a)) * 0.5),
    OPERATION(tame(a + b)),
    OPERATION(tame(a - b)),
    OPERATION(tame(a * b)),
    OPERATION(tame(scale(a, b))),
    OPERATION(a / (2 + cos(b))),
    OPERATION(atan2(a, 2 + sin(b))),
    OPERATION(tame(pow(1.5 + sin(a), b))),
    OPERATION(tame(sum(a) * b)),
    OPERATION(tame(mean(a) - b)),
    OPERATION(tame(var(a) * b)),
    OPERATION(tame(logsumexp(a) * b)),
    OPERATION(sin(norm(2 + sin(a)) * b)),
    OPERATION(tame(prod(a) + b)),
    OPERATION(softmax(a)),
    OPERATION(tame(log_softmax(a))),
    OPERATION(tame(cumulative_sum(a))),
    OPERATION(tame(cumulative_prod(a, 0, {.reverse = true}))),
    OPERATION(tame(linear_recurrence(tanh(a), b, 0))),
    OPERATION(sin(matmul(matrix(), a))),
    OPERATION(tame(matmul(a, outer(b, a)))),
    OPERATION(tame(einsum("i,j,j->i", a, b, a))),
    OPERATION(tame(sum(outer(a, b), 0))),
    OPERATION(flip(a)),
    OPERATION(roll(a, 1)),
    OPERATION(concat({a(slice(1, none)), b(slice(0, 1))})),
    OPERATION(reshape(transpose(stack({a, b})), {-1})(slice(1, 4))),
    OPERATION(tame(pad(a(slice(0, 2)), {{0, 1}}) + b)),
    OPERATION(tame(diagonal(outer(a, b)))),
    OPERATION(take(a, indices({2, 0, 0}))),
    OPERATION(tame(scatter_add(b, indices({{1}, {1}, {2}}), a))),
    OPERATION(dynamic_slice(concat({a, b}), {2}, {3})),
    OPERATION(dynamic_update_slice(a, b(slice(0, 2)), {1})),
    OPERATION(repeat(a, 2)(slice(0, 6, 2))),
    OPERATION(sum(broadcast_to(a, {2, length}), 0) * 0.5),
    OPERATION(label(a, "labelled") * 0.5),
    {"caught(sin(a)) - b", STAVE_EXPRESSION(caught(sin(a)) - b), STAVE_EXPRESSION(caught(sin(a)) - b), Row::throws},
    OPERATION(squeeze(expand_dims(a, 0), 0)),
    PARTS(branched(a, b)),
    PARTS(chosen(a, b)),
    PARTS(branched(b, a)),
    CATCHES(caught_by_index),
    CATCHES(caught_by_matrix),
    CATCHES(caught_by_either),
    KINKED(where(a > b, a, sin(b))),
    KINKED(maximum(a, b)),
    KINKED(tame(relu(a) + b)),
    KINKED(abs(a)),
    KINKED(clip(a, -0.25, 0.25)),
    KINKED(sort(a)),
    KINKED(take(b, argsort(a))),
    KINKED(tame(max(a) * b)),
    KINKED(tame(a * b(0) + min(b))),
    KINKED(stop_gradient(a) * sin(b)),

    // Reverse mode.
    NEST(transform, tame(grad(OF_X { return sum(sin(b) * f(x, b)); })(a)), tame(plain_pull(OF_X { return f(x, b); }, a, sin(b)))),
    NEST(transform, tame(std::get<1>(grad<0, 1>([&](const Tensor& x, const Tensor& c) { return sum(f(x, c)); })(a, b))),
         tame(plain_grad([&](const Tensor& c) { return f(a, c); }, b))),
    NEST(transform, tame(value_and_grad(OF_X { return mean(f(x, b)); })(a).grad), tame(plain_grad(OF_X { return f(x, b); }, a) / length)),
    NEST(transform, tame(std::get<0>(vjp(f, a, b).second(b))), tame(plain_pull(OF_X { return f(x, b); }, a, b))),
    NEST(transform, tame(mean(vmap([pull = vjp(f, a, b).second](const Tensor& ct) { return std::get<0>(pull(ct)); })(lanes(b)), 0)),
         tame(mean(plain_map([&](const Tensor& ct) { return plain_pull(OF_X { return f(x, b); }, a, ct); }, lanes(b)), 0))),
    NEST(transform, tame(matmul(b, jacrev(f)(a, b))), tame(plain_pull(OF_X { return f(x, b); }, a, b))),
    // Forward mode.
    NEST(transform, tame(jvp(OF_X { return f(x, b); }, a, b).second), tame(jvp(OF_X { return f(x, b); }, a, b).second)),
    NEST(transform, both(jvp(f, std::tuple(a, b), std::tuple(b, a))),
         both({f(a, b), jvp(OF_X { return f(x, b); }, a, b).second + jvp([&](const Tensor& c) { return f(a, c); }, b, a).second})),
    NEST(transform, tame(linearize(f, a, b).second(b, a * 0)), tame(jvp(OF_X { return f(x, b); }, a, b).second)),
    NEST(transform, tame(matmul(jacfwd(f)(a, b), b)), tame(jvp(OF_X { return f(x, b); }, a, b).second)),
    // Second order.
    NEST(second_order, tame(hvp(OF_X { return sum(f(x, b)); }, a, b)), tame(matmul(plain_hessian(OF_X { return f(x, b); }, a), b))),
    NEST(second_order, tame(matmul(hessian(OF_X { return sum(f(x, b)); })(a), b)),
         tame(matmul(plain_hessian(OF_X { return f(x, b); }, a), b))),
    NEST(second_order, tame(grad(OF_X { return sum(b * grad(OF_Y { return sum(f(y, b)); })(x)); })(a)),
         tame(matmul(plain_hessian(OF_X { return f(x, b); }, a), b))),
    // Batches.
    NEST(transform, mean(vmap(OF_X { return f(x, b); })(lanes(a)), 0), mean(plain_map(OF_X { return f(x, b); }, lanes(a)), 0)),
    NEST(transform, mean(vmap(f, {.in_axes = {0, unmapped}, .out_axes = 1})(lanes(a), b), 1),
         mean(plain_map(OF_X { return f(x, b); }, lanes(a)), 0)),
    NEST(transform, mean(vmap(f, {.in_axes = {unmapped, 1}})(a, transpose(lanes(b))), 0),
         mean(plain_map([&](const Tensor& c) { return f(a, c); }, lanes(b)), 0)),
    NEST(transform, mean(vmap(vmap(f, {.in_axes = {0, unmapped}}), {.in_axes = {unmapped, 0}})(lanes(a), lanes(b)), {0, 1}),
         mean(plain_map([&](const Tensor& c) { return mean(plain_map(OF_X { return f(x, c); }, lanes(a)), 0); }, lanes(b)), 0)),
    NEST(transform, tame(mean(vmap(grad(OF_X { return sum(f(x, b)); }))(lanes(a)), 0)),
         tame(mean(plain_map(OF_X { return plain_grad(OF_Y { return f(y, b); }, x); }, lanes(a)), 0))),
    NEST(transform, tame(grad([&](const Tensor& c) { return sum(vmap(f, {.in_axes = {0, unmapped}})(lanes(a), c)); })(b)),
         tame(sum(plain_map(OF_X { return plain_grad([&](const Tensor& c) { return f(x, c); }, b); }, lanes(a)), 0))),
    // Higher-order operations.
    NEST(transform, tame(grad(OF_X { return sum(f(x, b) * square(x)); }, {.recompute = Recompute::always})(a)),
         tame(plain_grad(OF_X { return f(x, b) * square(x); }, a))),
    NEST(saves, checkpoint(f, products_saveable)(a, b), f(a, b)),
    NEST(carries, loop(3, [f, b](const Tensor& x) { return tame(f(x, b)); }, {.snapshots = 2})(a), tame(f(tame(f(tame(f(a, b)), b)), b))),
    NEST(carries, checkpoint(f)(a, b), f(a, b)),
    NEST(catches_around, caught_around(f, a, b, false), looking_for_steps(caught_around, f, a, b, true)),
    NEST(carries, checkpoint([f, b](const Tensor& x) { return f(x, b); })(a), f(a, b)),
    NEST(rule, custom_vjp(f, [f](const Tensor& x, const Tensor& c) { return std::pair(f(x, c), std::pair(x, c)); },
                          [f](const std::pair<Tensor, Tensor>& at, const Tensor& ct) { return vjp(f, at.first, at.second).second(ct); })(a, b),
         f(a, b)),
    NEST(rule, custom_jvp(f, [f](const Tensor& x, const Tensor& c, const Tensor& dx, const Tensor& dc) {
                 return jvp(f, std::tuple(x, c), std::tuple(dx, dc)); })(a, b),
         f(a, b)),
    NEST(rule, custom_vmap(f, [f](Index, const std::vector<bool>& batched, const Tensor& x, const Tensor& c) {
                 const auto axis = [&](int i) { return batched[i] ? MapAxis(0) : MapAxis(unmapped); };
                 return vmap(f, {.in_axes = {axis(0), axis(1)}})(x, c); })(a, b),
         f(a, b)),
    NEST(rule, tame(endless_exp(tame(f(a, b)))), tame(exp(tame(f(a, b))))),
    NEST(rule, endless_sin(f(a, b)), sin(f(a, b))),
    NEST(rule, endless_cos(f(b, a)) * a, cos(f(b, a)) * a),
    NEST(rule, cubic_root(f(a, b)), by_newton(f(a, b))),
    NEST(rule, solved(f(a, b), a), f(a, b) / (1.5 + sin(a))),
    NEST(reads, tame(settled(f(a, b))), tame(plainly_settled(f(a, b)))),
    NEST(reads, tame(decayed(tame(f(a, b)), tame(b))), tame(tame(f(a, b)) * exp(-0.25 * tame(b)))),
    // Programs.
    NEST(traced, trace(f)(a, b)(a, b), f(a, b)),
    NEST(traced, trace(f)(a * 0.5, b)(a, b), f(a, b)),
    NEST(traced, tame(grad([p = trace(f)(a, b), b](const Tensor& x) { return sum(p(x, b)); })(a)),
         tame(plain_grad(OF_X { return f(x, b); }, a))),
    NEST(traced, tame(trace(grad([f, b](const Tensor& x) { return sum(f(x, b)); }))(a)(a)), tame(plain_grad(OF_X { return f(x, b); }, a))),
    NEST(traced, mean(vmap([p = trace(f)(a, b), b](const Tensor& x) { return p(x, b); })(lanes(a)), 0),
         mean(plain_map(OF_X { return f(x, b); }, lanes(a)), 0)),
    NEST(reads, compile(f)(a, b), f(a, b)),
    NEST(reads, tame(grad([c = compile(f), b](const Tensor& x) { return sum(c(x, b)); })(a)),
         tame(plain_grad(OF_X { return f(x, b); }, a))),
    NEST(reads, tame(jvp(compile(f), std::tuple(a, b), std::tuple(b, a)).second),
         tame(jvp(f, std::tuple(a, b), std::tuple(b, a)).second)),
    NEST(reads, tame(mean(vmap(grad([c = compile(f), b](const Tensor& x) { return sum(c(x, b)); }))(lanes(a)), 0)),
         tame(mean(plain_map(OF_X { return plain_grad(OF_Y { return f(y, b); }, x); }, lanes(a)), 0))),
    // Handlers, controllers, observers. A lent handler ends before a backward pass; see Row::lent.
    NEST(handler, under(std::make_shared<Passes>(), [&] { return f(a, b); }), f(a, b)),
    NEST(handler, under(std::make_shared<Lends>(), [&] { return f(a, b); }), f(a, b)),
    NEST(handler, under(std::make_shared<Notices>(), [&] { return f(a, b); }), f(a, b)),
    NEST(handler, under(std::make_shared<GoesOn>(), [&] { return f(a, b); }), f(a, b)),
    NEST(handler, under(std::make_shared<Deepens>(), [&] { return f(a, b); }), f(a, b)),
    NEST(lent, with(Profile(), [&] { return f(a, b); }), f(a, b)),
    NEST(lent, with(Timeline(), [&] { return f(a, b); }), f(a, b)),
    NEST(lent, with(Graph(), [&] { return f(a, b); }), f(a, b)),
    NEST(lent, debug(f, {.out = &nowhere(), .values = true, .bytes = true, .time = true})(a, b), f(a, b)),
    NEST(lent, debug(f, {.trap_nan = true, .print = false})(a, b), f(a, b)),
    NEST(lent, stepped([&] { return f(a, b); }), f(a, b)),
    NEST(transform, by_turns(f, a, b), tame(f(a, b) + f(b, a))),
    NEST(transform, outrun(f, a, b), f(a, b)),
    NEST(stands, paused(f, a, b), tame(f(a, b) + sin(a) * b)),
    NEST(stands, dropped(f, a, b), f(b, a)),
    NEST(handler, [&] { const Scope scope("scope"); return f(a, b); }(), f(a, b)),
    NEST(handler, [&] { const TensorTracking tracking; return f(a, b); }(), f(a, b)),
    // Effects.
    NEST(ask, perform(Ask()) * sin(a), plain_ask() * sin(a)),
    NEST(answer, under(std::make_shared<Answers>(b), [&] { return f(a, b); }), plainly_answered(b, [&] { return f(a, b); })),
    NEST(answer, under(std::make_shared<AnswersLater>(b), [&] { return f(a, b); }), plainly_answered(b, [&] { return f(a, b); })),
    NEST(answer_by_asking, under(std::make_shared<Answers>(perform(Ask()) * 0.5), [&] { return f(a, b); }),
         plainly_answered(plain_ask() * 0.5, [&] { return f(a, b); })),
    NEST(ask, sin(perform(Hand{a * b})) + perform(Hand{a}), sin(plain_hand(a * b)) + plain_hand(a)),
    NEST(answer, under(std::make_shared<Exchanges>(b), [&] { return f(a, b); }), plainly_handed([=](const Tensor&) { return b; }, [&] { return f(a, b); })),
    NEST(answer, under(std::make_shared<Exchanges>(sin(b)), [&] { return f(a, b); }),
         plainly_handed([y = sin(b)](const Tensor&) { return y; }, [&] { return f(a, b); })),
    NEST(answer, under(std::make_shared<Halves>(), [&] { return f(a, b); }), plainly_handed(halved, [&] { return f(a, b); })),
    NEST(answer, under(std::make_shared<HalvesLater>(), [&] { return f(a, b); }), plainly_handed(halved, [&] { return f(a, b); })),
};

}  // namespace

std::span<const Row> rows() { return all; }

bool take_kinks_near() {
  const bool near = kinks_near || step_near;
  kinks_near = step_near = false;
  return near;
}

}  // namespace stave_fuzz
