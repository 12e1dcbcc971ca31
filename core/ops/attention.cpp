// Attention: an operation and its gradient. Both compute the scores block by block;
// their own derivatives compute the whole matrix of scores.
#include <stave/core/ops/attention.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <stave/core/op/define.h>
#include <stave/core/op/function.h>
#include <stave/core/op/op.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg_rules.h>
#include <stave/core/ops/network.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/softmax.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// ---- shapes ---------------------------------------------------------------------------------

// The shape with its last two lengths replaced.
Shape with_last(const Shape& shape, std::initializer_list<Index> lengths) { return stacked(stack_of(shape), lengths); }

// Throws unless the first inputs of the call have these shapes and dtypes.
void check_operands(const Call& call, std::initializer_list<Abstract> expected) {
  std::size_t i = 0;
  for (const Abstract& abstract : expected) {
    const Tensor& x = call.input(i);
    if (x.shape() != abstract.shape || x.dtype() != abstract.dtype)
      fail<ShapeError>("{}: operand {} is {} {}, and must be {} {} here", call.op().name, i, x.dtype(), x.shape(),
                       abstract.dtype, abstract.shape);
    ++i;
  }
}

// Checks q [..., n, d], k [..., m, d], v [..., m, e], and a mask [..., n, m] if there is an input
// at `place`.
void check_attention(const Call& call, std::size_t place) {
  const Tensor &q = call.input(0), &k = call.input(1), &v = call.input(2);
  if (!is_float(q.dtype())) fail<DtypeError>("{}: {} is not a floating dtype", call.op().name, q.dtype());
  if (q.rank() < 2 || k.rank() < 2 || v.rank() < 2)
    fail<ShapeError>("{}: operands {}, {} and {} must be matrices", call.op().name, q.shape(), k.shape(), v.shape());
  const Index n = q.shape(-2), d = q.shape(-1), m = k.shape(-2), e = v.shape(-1);
  check_operands(call,
                 {abstract(q), {with_last(q.shape(), {m, d}), q.dtype()}, {with_last(q.shape(), {m, e}), q.dtype()}});
  if (call.inputs().size() <= place) return;
  const Tensor& mask = call.input(place);
  if (mask.shape() != with_last(q.shape(), {n, m}) || (mask.dtype() != bool_ && mask.dtype() != q.dtype()))
    fail<ShapeError>("{}: the mask is {} {}, and must be {} {}, or bool, here", call.op().name, mask.dtype(),
                     mask.shape(), q.dtype(), with_last(q.shape(), {n, m}));
}

void infer_attention(const Call& call, SmallVector<Abstract, 1>& outputs) {
  check_attention(call, 3);
  const Tensor& q = call.input(0);
  outputs.push_back({with_last(q.shape(), {q.shape(-2), call.input(2).shape(-1)}), q.dtype()});
  outputs.push_back({with_last(q.shape(), {q.shape(-2)}), computed_in(q.dtype())});
}

void infer_attention_gradient(const Call& call, SmallVector<Abstract, 1>& outputs) {
  check_attention(call, 6);
  const Tensor &q = call.input(0), &k = call.input(1), &v = call.input(2);
  const Abstract total{with_last(q.shape(), {q.shape(-2)}), computed_in(q.dtype())};
  check_operands(call, {abstract(q),
                        abstract(k),
                        abstract(v),
                        total,
                        {with_last(q.shape(), {q.shape(-2), v.shape(-1)}), q.dtype()},
                        total});
  for (const Tensor* x : {&q, &k, &v}) outputs.push_back(abstract(*x));
}

// ---- scores as a whole ----------------------------------------------------------------------

Tensor wide(const Tensor& x) { return astype(x, computed_in(x.dtype())); }
Tensor narrow(const Tensor& x, const Tensor& like) { return astype(x, like.dtype()); }
Tensor column(const Tensor& x) { return expand_dims(x, -1); }
Tensor by_transposed(const Tensor& a, const Tensor& b) { return matmul(a, matrix_transpose(b)); }

// Returns the mask, which is the input at `place`; null if there is none.
const Tensor* mask_of(std::span<const Tensor> inputs, std::size_t place) {
  return inputs.size() > place ? &inputs[place] : nullptr;
}
bool adds(const Tensor* mask) { return mask && is_float(mask->dtype()); }

// Returns bools [..., n, m]: whether query i attends to key j. Returns an undefined tensor if every
// query attends to all keys.
Tensor parts(const Tensor& q, const Tensor& k, const Tensor* mask, const AttentionAttributes& attention) {
  Tensor found;
  if (mask) found = require_defined(*mask, "attention", 3).dtype() == bool_ ? *mask : *mask != -infinity;
  if (!attention.causal) return found;
  const Device device = q.device();
  const Tensor query = column(arange(0, q.shape(-2), 1, int64, device));
  const Tensor before = arange(0, k.shape(-2), 1, int64, device) <= query;
  return found.defined() ? logical_and(found, before) : before;
}

// Returns x where `part` is true, else `otherwise`, even if x is NaN there.
Tensor where_part(const Tensor& part, const Tensor& x, double otherwise) {
  return part.defined() ? where(part, x, otherwise) : x;
}

// Returns exp(scale q k^T + mask - total), and 0 where `part` is false. `total` is the logarithm of
// the sum of exp(score) for each query, so these are the weights of the softmax.
Tensor weights(const Tensor& q, const Tensor& k, const Tensor* mask, const Tensor& part, const Tensor& total,
               const AttentionAttributes& attention) {
  Tensor s = by_transposed(q, k) * attention.scale;
  if (adds(mask)) s = s + wide(*mask);
  return where_part(part, exp(where_part(part, s - column(total), -infinity)), 0);
}

// Returns the matrix product w x without the terms where `part` is false. There w is 0, and an
// infinite or NaN element of x has no effect. In any other term such an element makes the sum NaN.
Tensor masked_product(const Tensor& w, const Tensor& x, const Tensor& part) {
  if (!part.defined()) return matmul(w, x);
  const Tensor finite = isfinite(x), spoilt = matmul(astype(part, w.dtype()), astype(logical_not(finite), w.dtype()));
  return where(spoilt > 0, std::numeric_limits<double>::quiet_NaN(), matmul(w, where(finite, x, 0)));
}
// Returns w^T x, where infinite and NaN elements of x are treated as in `masked_product`.
Tensor masked_product_transposed(const Tensor& w, const Tensor& x, const Tensor& part) {
  return masked_product(matrix_transpose(w), x, part.defined() ? matrix_transpose(part) : part);
}

// The derivative of the scores scale q k^T + mask in the directions dq, dk and dmask,
// each of which may be undefined.
Tensor tangent_of_scores(const Tensor& q, const Tensor& k, const Tensor& dq, const Tensor& dk, const Tensor& dmask,
                         double scale) {
  Tensor ds;
  if (dq.defined()) ds = by_transposed(wide(dq), k) * scale;
  if (dk.defined()) ds = add_tangents(std::move(ds), by_transposed(q, wide(dk)) * scale);
  return dmask.defined() ? add_tangents(std::move(ds), wide(dmask)) : ds;
}

// ---- attention ------------------------------------------------------------------------------

// With the scores s and p = exp(s - total): dtotal = sum(p ds), dout = (p (ds - dtotal)) v + p dv.
Outputs jvp_attention(const JvpContext& c) {
  const auto& attention = c.as<AttentionAttributes>();
  const Tensor q = wide(c.in(0)), k = wide(c.in(1)), v = wide(c.in(2));
  const Tensor* const mask = mask_of(c.call.inputs(), 3);
  const Tensor part = parts(q, k, mask, attention), p = weights(q, k, mask, part, c.out(1), attention);
  const Tensor dmask = adds(mask) ? c.tangents[3] : Tensor();
  const Tensor ds = tangent_of_scores(q, k, c.tangents[0], c.tangents[1], dmask, attention.scale);
  Tensor dout, dtotal;
  if (ds.defined()) {
    const Tensor weighted = scale(p, ds);
    dtotal = sum(weighted, -1);
    dout = masked_product(weighted - scale(p, column(dtotal)), v, part);
  }
  if (c.has(2)) dout = add_tangents(std::move(dout), masked_product(p, wide(c.tangents[2]), part));
  return Outputs{dout.defined() ? narrow(dout, c.out()) : dout, dtotal};
}

// With shift = ct_total - sum(ct out), the cotangent of the scores is t = p (ct v^T + shift).
// attention_gradient computes t and the cotangents of q, k and v.
Tensor vjp_attention(const VjpContext& c, int input) {
  const auto& attention = c.as<AttentionAttributes>();
  const Tensor ct = c.ct().defined() ? c.ct() : zeros_like(c.out());
  const auto shift = [&] {
    const Tensor of_out = -sum(scale(wide(ct), wide(c.out())), -1);
    return c.ct(1).defined() ? of_out + c.ct(1) : of_out;
  };
  const Tensor* const mask = mask_of(c.inputs, 3);
  if (input == 3) {
    const Tensor q = wide(c.in(0)), k = wide(c.in(1));
    const Tensor p = weights(q, k, mask, parts(q, k, mask, attention), c.out(1), attention);
    return narrow(scale(p, by_transposed(wide(ct), wide(c.in(2))) + column(shift())), *mask);
  }
  return c.once([&] {
    Inputs inputs{c.in(0), c.in(1), c.in(2), c.out(1), ct, shift()};
    if (mask) inputs.push_back(*mask);
    return perform(Call(op_attention_gradient, std::move(inputs), AttributesPtr(c.attributes)));
  })[static_cast<std::size_t>(input)];
}

// ---- attention_gradient ---------------------------------------------------------------------

// The inputs of attention_gradient, where g is the cotangent of the output, and
// p = exp(s - total), w = g v^T + shift, t = p w. 16-bit floats are converted to float32.
struct Gradient {
  const AttentionAttributes& attention;
  const Tensor* mask;
  Tensor q, k, v, g, part, p, w, t;

  Gradient(std::span<const Tensor> inputs, const AttentionAttributes& attributes)
      : attention(attributes), mask(mask_of(inputs, 6)), q(wide(inputs[0])), k(wide(inputs[1])), v(wide(inputs[2])),
        g(wide(inputs[4])), part(parts(q, k, mask, attention)), p(weights(q, k, mask, part, inputs[3], attention)),
        w(by_transposed(g, v) + column(inputs[5])), t(scale(p, w)) {}
};

// dp = p ds, where ds includes -dtotal; dt = dp w + p dw.
Outputs jvp_attention_gradient(const JvpContext& c) {
  const auto& attention = c.as<AttentionAttributes>();
  const Gradient x(c.call.inputs(), attention);
  const auto tangent = [&](std::size_t i) {
    return i < c.tangents.size() && c.has(i) ? wide(c.tangents[i]) : Tensor();
  };
  const Tensor dmask = adds(x.mask) ? tangent(6) : Tensor();
  const Tensor dq = tangent(0), dk = tangent(1), dv = tangent(2), dtotal = tangent(3), dg = tangent(4),
               dshift = tangent(5);
  Tensor ds = tangent_of_scores(x.q, x.k, dq, dk, dmask, attention.scale);
  if (dtotal.defined()) ds = add_tangents(std::move(ds), broadcast_to(column(-dtotal), x.p.shape()));
  const Tensor dp = ds.defined() ? scale(x.p, ds) : Tensor();
  Tensor dw, dt;
  if (dg.defined()) dw = by_transposed(dg, x.v);
  if (dv.defined()) dw = add_tangents(std::move(dw), by_transposed(x.g, dv));
  if (dshift.defined()) dw = add_tangents(std::move(dw), broadcast_to(column(dshift), x.p.shape()));
  if (dp.defined()) dt = scale(x.w, dp);
  if (dw.defined()) dt = add_tangents(std::move(dt), scale(x.p, dw));
  Outputs result(3, Tensor());
  const auto add = [&](std::size_t of, const Tensor& term) { result[of] = add_tangents(std::move(result[of]), term); };
  if (dt.defined()) {
    add(0, masked_product(dt, x.k, x.part) * attention.scale);
    add(1, masked_product_transposed(dt, x.q, x.part) * attention.scale);
  }
  if (dk.defined()) add(0, masked_product(x.t, dk, x.part) * attention.scale);
  if (dq.defined()) add(1, masked_product_transposed(x.t, dq, x.part) * attention.scale);
  if (dp.defined()) add(2, masked_product_transposed(dp, x.g, x.part));
  if (dg.defined()) add(2, masked_product_transposed(x.p, dg, x.part));
  for (std::size_t i = 0; i < result.size(); ++i)
    if (result[i].defined()) result[i] = narrow(result[i], c.out(i));
  return result;
}

// With the cotangents cq, ck, cv of the outputs: ct_t = scale (cq k^T + q ck^T), ct_w = p ct_t,
// ct_s = p (w ct_t + g cv^T).
Tensor vjp_attention_gradient(const VjpContext& c, int input) {
  const auto& attention = c.as<AttentionAttributes>();
  const Gradient x(c.inputs, attention);
  const auto cotangent = [&](std::size_t i) { return c.ct(i).defined() ? wide(c.ct(i)) : Tensor(); };
  const Tensor cq = cotangent(0), ck = cotangent(1), cv = cotangent(2);
  const double factor = attention.scale;
  Tensor ct_t, ct_w, result;
  if (cq.defined()) ct_t = by_transposed(cq, x.k) * factor;
  if (ck.defined()) ct_t = add_tangents(std::move(ct_t), by_transposed(x.q, ck) * factor);
  if (ct_t.defined()) ct_w = scale(x.p, ct_t);
  const auto ct_s = [&] {
    Tensor ct_p;
    if (ct_t.defined()) ct_p = scale(x.w, ct_t);
    if (cv.defined()) ct_p = add_tangents(std::move(ct_p), by_transposed(x.g, cv));
    return scale(x.p, ct_p);
  };
  const auto add = [&](const Tensor& term) { result = add_tangents(std::move(result), term); };
  switch (input) {
    case 0:
      add(masked_product(ct_s(), x.k, x.part) * factor);
      if (ck.defined()) add(masked_product(x.t, ck, x.part) * factor);
      break;
    case 1:
      add(masked_product_transposed(ct_s(), x.q, x.part) * factor);
      if (cq.defined()) add(masked_product_transposed(x.t, cq, x.part) * factor);
      break;
    case 2:
      if (ct_w.defined()) add(masked_product_transposed(ct_w, x.g, x.part));
      break;
    case 3: add(-sum(ct_s(), -1)); break;
    case 4:
      if (ct_w.defined()) add(masked_product(ct_w, x.v, x.part));
      if (cv.defined()) add(masked_product(x.p, cv, x.part));
      break;
    case 5:
      if (ct_w.defined()) add(sum(ct_w, -1));
      break;
    default: add(ct_s());
  }
  const auto at = static_cast<std::size_t>(input);
  return result.defined() ? astype(result, c.dtype(at)) : c.zeros(at);
}

}  // namespace

constinit const Op op_attention{
    .id = OpId::attention,
    .name = "attention",
    .infer = infer_attention,
    .jvp = jvp_attention,
    .vjp = vjp_attention,
    .batch = batch_in_front,
};

constinit const Op op_attention_gradient{
    .id = OpId::attention_gradient,
    .name = "attention_gradient",
    .infer = infer_attention_gradient,
    .reads = {0b1111111, 0b1111111},
    .jvp = jvp_attention_gradient,
    .vjp = vjp_attention_gradient,
    .batch = batch_in_front,
};

// ---- the function ---------------------------------------------------------------------------

namespace {

constexpr const char* function_name = "scaled_dot_product_attention";

void check_lengths(const Tensor& q, const Tensor& k, const Tensor& v) {
  if (q.rank() < 2 || k.rank() < 2 || v.rank() < 2)
    fail<ShapeError>("{}: queries {}, keys {} and values {} must be matrices, or stacks of them", function_name,
                     q.shape(), k.shape(), v.shape());
  if (q.shape(-1) != k.shape(-1))
    fail<ShapeError>("{}: queries {} and keys {} differ in their last length", function_name, q.shape(), k.shape());
  if (k.shape(-2) != v.shape(-2))
    fail<ShapeError>("{}: keys {} and values {} differ in number, their second last length", function_name, k.shape(),
                     v.shape());
}

// ---- dropout and grouped queries ------------------------------------------------------------

void check_dropout(const AttentionOptions& options) {
  if (!(options.dropout > 0 && options.dropout < 1))
    fail<Error>("{}: dropout is {}, and must be in [0, 1)", function_name, options.dropout);
  if (!options.key)
    fail<Error>("{}: dropout needs a key: {{.dropout = {}, .key = key}}", function_name, options.dropout);
}

// The weights as a whole, of which some are dropped. A query that attends to no key has weights 0.
Tensor attention_with_dropout(const Inputs& inputs, const AttentionAttributes& attention, const Key& key, double rate) {
  const Tensor q = wide(inputs[0]), k = wide(inputs[1]), v = wide(inputs[2]);
  const Tensor* const mask = mask_of(inputs, 3);
  const Tensor part = parts(q, k, mask, attention);
  Tensor s = by_transposed(q, k) * attention.scale;
  if (adds(mask)) s = s + wide(*mask);
  const Tensor scores = where_part(part, s, -infinity), none = logical_not(any(scores > -infinity, -1, keepdims));
  const Tensor weights = where(none, 0, softmax(where(none, 0, scores)));
  return narrow(masked_product(dropout(key, weights, rate), v, part), inputs[0]);
}

// Heads of queries that share keys become a separate axis, along which keys and values broadcast.
Tensor grouped_attention(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options) {
  const Index heads = q.rank() > 2 ? q.shape(-3) : 0, shared = k.rank() > 2 ? k.shape(-3) : 0;
  if (shared < 1 || heads % shared != 0 || v.rank() < 3 || v.shape(-3) != shared)
    fail<ShapeError>("{}: q {} must have a multiple of the heads of k {} and v {}", function_name, q.shape(), k.shape(),
                     v.shape());
  const auto grouped = [&](const Tensor& x) {
    Shape shape = x.shape();
    const auto axis = shape.end() - 3 - shape.begin();
    shape[static_cast<std::size_t>(axis)] = heads / shared;
    shape.insert(shape.begin() + axis, shared);
    return reshape(x, shape);
  };
  if (options.mask.defined() && options.mask.rank() > 2)
    options.mask = options.mask.shape(-3) == heads ? grouped(options.mask) : expand_dims(options.mask, Shape{-3});
  options.grouped_queries = false;
  const Tensor out =
      scaled_dot_product_attention(grouped(q), expand_dims(k, Shape{-3}), expand_dims(v, Shape{-3}), options);
  Shape shape = out.shape();
  shape.erase(shape.end() - 3);
  shape[shape.size() - 3] = heads;
  return reshape(out, shape);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options) {
  if (options.dropout != 0) check_dropout(options);
  return named(
      function_name,
      [&] {
        if (options.grouped_queries) return grouped_attention(q, k, v, options);
        check_lengths(q, k, v);
        Tensor mask = options.mask;
        const Index n = q.shape(-2), m = k.shape(-2), d = q.shape(-1);
        Shape shape = broadcast_shapes(broadcast_shapes(stack_of(q.shape()), stack_of(k.shape()), function_name),
                                       stack_of(v.shape()), function_name);
        if (mask.defined()) {
          if (mask.dtype() != bool_ && !is_float(mask.dtype()))
            fail<DtypeError>("{}: the mask is {}: bool says which keys take part, floats are added to the scores",
                             function_name, mask.dtype());
          if (mask.rank() > 2) shape = broadcast_shapes(shape, stack_of(mask.shape()), function_name);
        }
        const auto repeated = [&](const Tensor& x, Index rows, Index columns) {
          return broadcast_to(x, stacked(shape, {rows, columns}));
        };
        const bool is_added_to_scores = mask.defined() && mask.dtype() != bool_;
        const Dtype dtype = common_float(q, k, v, is_added_to_scores ? mask : Tensor());
        Inputs inputs{repeated(astype(q, dtype), n, d), repeated(astype(k, dtype), m, d),
                      repeated(astype(v, dtype), m, v.shape(-1))};
        if (mask.defined()) inputs.push_back(repeated(is_added_to_scores ? astype(mask, dtype) : mask, n, m));
        const auto attention = make_intrusive<AttentionAttributes>(
            options.scale.value_or(1 / std::sqrt(static_cast<double>(std::max<Index>(d, 1)))), options.causal);
        if (options.dropout > 0) return attention_with_dropout(inputs, *attention, *options.key, options.dropout);
        return perform(Call(op_attention, std::move(inputs), attention))[0];
      },
      q, k, v);
}

}  // namespace stave
