// Stave from scratch, on the standard library alone. docs/guides/from_scratch.md explains it.
#include <algorithm>
#include <any>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

// ---- effects and handlers -----------------------------------------------------------------------
struct AnyHandler {
  virtual ~AnyHandler() = default;
};
template <class E>
struct Handles : AnyHandler {
  virtual typename E::Result handle(E& effect) = 0;
};
struct Frame {
  Frame* below;
  AnyHandler* handler;
};
thread_local Frame* current = nullptr;

// Makes a frame the top of the stack, and restores the old top, also after an exception.
struct UnderFrame {
  Frame* const saved;
  explicit UnderFrame(Frame* top) : saved(current) { current = top; }
  ~UnderFrame() { current = saved; }
};
template <class Body>
auto with(AnyHandler& handler, Body body) {
  Frame frame{current, &handler};
  const UnderFrame under(&frame);
  return body();
}

template <class E>
typename E::Result perform(E effect) {
  for (Frame* frame = current; frame; frame = frame->below) {
    if (auto* const answering = dynamic_cast<Handles<E>*>(frame->handler)) {
      const UnderFrame interception(frame->below);  // what it performs goes to the outer frames
      return answering->handle(effect);
    }
  }
  return effect.unhandled();
}

// ---- tensors, and notes on them -----------------------------------------------------------------
using Shape = std::vector<int>;
using Data = std::vector<double>;
struct Node {
  Shape shape;
  std::shared_ptr<const Data> data;             // null for a lane of vmap
  std::vector<std::pair<int, std::any>> notes;  // keys: the numbers of the handlers
};
struct Tensor {
  std::shared_ptr<const Node> node;
  explicit Tensor(Node made) : node(std::make_shared<Node>(std::move(made))) {}
  Tensor(Shape shape, Data data) : Tensor(Node{std::move(shape), std::make_shared<Data>(std::move(data)), {}}) {}
  Tensor(double x) : Tensor(Shape{}, Data{x}) {}
  const Shape& shape() const { return node->shape; }
  int rank() const { return static_cast<int>(node->shape.size()); }
  const Data& data() const { return node->data ? *node->data : throw std::logic_error("a lane has no elements"); }
};
using Tensors = std::vector<Tensor>;
int size_of(const Shape& shape) { return std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<>()); }
Tensor full(const Shape& shape, double x) { return Tensor(shape, Data(size_of(shape), x)); }

int next_id = 0;
template <class P>
struct Notes {  // a handler's notes on values
  const int id = next_id++;
  const P* find(const Tensor& x) const {
    for (const auto& [owner, payload] : x.node->notes)
      if (owner == id) return std::any_cast<P>(&payload);
    return nullptr;
  }
  bool any(const Tensors& xs) const {
    return std::any_of(xs.begin(), xs.end(), [&](const Tensor& x) { return find(x) != nullptr; });
  }
  Tensor put(const Tensor& x, P payload) const {  // on a copy of x, with its other notes
    Node clone = *x.node;
    clone.notes.emplace_back(id, std::move(payload));
    return Tensor(std::move(clone));
  }
};

// ---- operations ---------------------------------------------------------------------------------
struct Call;
struct Op {  // the record of an operation
  const char* name;
  Tensor (*kernel)(const Call& call);
  Tensor (*jvp)(const Call& call, const Tensors& tangents);
  Tensors (*vjp)(const Call& call, const Tensor& cotangent);
  Call (*batch)(const Call& call, const Tensors& lanes);
};
extern const Op op_add, op_multiply, op_exp, op_sum, op_expand;
struct Call {  // one use of an operation, an effect; unhandled, the kernel runs
  using Result = Tensor;
  const Op* op;
  Tensors inputs;
  int axis = 0, length = 0;
  Tensor unhandled() const { return op->kernel(*this); }
};
Tensor exp(const Tensor& x) { return perform(Call{&op_exp, {x}}); }
Tensor sum(const Tensor& x, int axis) { return perform(Call{&op_sum, {x}, axis}); }
Tensor expand(const Tensor& x, int axis, int length) { return perform(Call{&op_expand, {x}, axis, length}); }
// The operand of lower rank is repeated along leading axes.
Tensor binary(const Op& op, const Tensor& a, const Tensor& b) {
  if (a.rank() > b.rank()) return binary(op, a, expand(b, 0, a.shape()[a.rank() - b.rank() - 1]));
  if (a.rank() < b.rank()) return binary(op, expand(a, 0, b.shape()[b.rank() - a.rank() - 1]), b);
  if (a.shape() != b.shape()) throw std::logic_error(op.name + std::string(": the operands' shapes differ"));
  return perform(Call{&op, {a, b}});
}
Tensor operator+(const Tensor& a, const Tensor& b) { return binary(op_add, a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return binary(op_multiply, a, b); }

template <auto value>  // of two operands; with one operand, b is a
Tensor elementwise(const Call& call) {
  const Data &a = call.inputs.front().data(), &b = call.inputs.back().data();
  Data out;
  for (std::size_t i = 0; i < a.size(); ++i) out.push_back(value(a[i], b[i]));
  return Tensor(call.inputs[0].shape(), out);
}
// expand maps [before, after] to [before, length, after], and sum maps it back.
Tensor expand_kernel(const Call& call) {
  Shape shape = call.inputs[0].shape();
  const int after = size_of(Shape(shape.begin() + call.axis, shape.end())), block = call.length * after;
  shape.insert(shape.begin() + call.axis, call.length);
  Data out(size_of(shape));
  for (int i = 0; i < size_of(shape); ++i) out[i] = call.inputs[0].data()[i / block * after + i % after];
  return Tensor(shape, out);
}
Tensor sum_kernel(const Call& call) {
  Shape shape = call.inputs[0].shape();
  const int after = size_of(Shape(shape.begin() + call.axis + 1, shape.end())), block = shape[call.axis] * after;
  shape.erase(shape.begin() + call.axis);
  Data out(size_of(shape));
  for (int i = 0; i < size_of(call.inputs[0].shape()); ++i)
    out[i / block * after + i % after] += call.inputs[0].data()[i];
  return Tensor(shape, out);
}
// Derivative rules are made of operations. d is a tangent, c a cotangent.
Tensor linear(const Call& call, const Tensors& d) { return perform(Call{call.op, d, call.axis, call.length}); }
Tensor multiply_jvp(const Call& call, const Tensors& d) { return d[0] * call.inputs[1] + call.inputs[0] * d[1]; }
Tensor exp_jvp(const Call& call, const Tensors& d) { return exp(call.inputs[0]) * d[0]; }
Tensors add_vjp(const Call&, const Tensor& c) { return {c, c}; }
Tensors multiply_vjp(const Call& call, const Tensor& c) { return {c * call.inputs[1], call.inputs[0] * c}; }
Tensors exp_vjp(const Call& call, const Tensor& c) { return {exp(call.inputs[0]) * c}; }
Tensors sum_vjp(const Call& call, const Tensor& c) { return {expand(c, call.axis, call.inputs[0].shape()[call.axis])}; }
Tensors expand_vjp(const Call& call, const Tensor& c) { return {sum(c, call.axis)}; }
// Lanes are one more axis, in front.
Call batch_in_front(const Call& call, const Tensors& lanes) { return {call.op, lanes, call.axis + 1, call.length}; }
const Op op_add{"add", elementwise<std::plus<>{}>, linear, add_vjp, batch_in_front};
const Op op_multiply{"multiply", elementwise<std::multiplies<>{}>, multiply_jvp, multiply_vjp, batch_in_front};
const Op op_exp{"exp", elementwise<[](double x, double) { return std::exp(x); }>, exp_jvp, exp_vjp, batch_in_front};
const Op op_sum{"sum", sum_kernel, linear, sum_vjp, batch_in_front};
const Op op_expand{"expand", expand_kernel, linear, expand_vjp, batch_in_front};

// ---- jvp: a tangent beside each value -----------------------------------------------------------
struct Jvp : Handles<Call> {
  Notes<Tensor> tangents;
  Tensor tangent_of(const Tensor& x) const { return tangents.find(x) ? *tangents.find(x) : full(x.shape(), 0); }
  Tensor handle(Call& call) override {
    const Tensor y = perform(call);
    if (!tangents.any(call.inputs)) return y;
    Tensors dx;
    for (const Tensor& x : call.inputs) dx.push_back(tangent_of(x));
    return tangents.put(y, call.op->jvp(call, dx));
  }
};
template <class F>
std::pair<Tensor, Tensor> jvp(F f, const Tensor& x, const Tensor& dx) {
  Jvp handler;
  const Tensor y = with(handler, [&] { return f(handler.tangents.put(x, dx)); });
  return {y, handler.tangent_of(y)};
}

// ---- vmap: one value that stands for all lanes --------------------------------------------------
struct Vmap : Handles<Call> {
  const int lanes;
  Notes<Tensor> all;  // the lanes, along axis 0
  explicit Vmap(int count) : lanes(count) {}
  Tensor all_of(const Tensor& x) const { return all.find(x) ? *all.find(x) : expand(x, 0, lanes); }
  Tensor lane_of(const Tensor& x) const {
    return all.put(Tensor(Node{Shape(x.shape().begin() + 1, x.shape().end()), nullptr, {}}), x);
  }
  Tensor handle(Call& call) override {
    if (!all.any(call.inputs)) return perform(call);
    Tensors inputs;
    for (const Tensor& x : call.inputs) inputs.push_back(all_of(x));
    return lane_of(perform(call.op->batch(call, inputs)));
  }
};
template <class F>
auto vmap(F f) {
  return [f](const auto& x, const auto&... more) {
    Vmap handler(x.shape().at(0));
    return handler.all_of(with(handler, [&] { return f(handler.lane_of(x), handler.lane_of(more)...); }));
  };
}

// ---- grad: a tape -------------------------------------------------------------------------------
struct Entry {
  int order;
  Call call;  // its inputs carry their entries; without an operation: the function's input
};
struct Grad : Handles<Call> {
  Notes<std::shared_ptr<Entry>> entries;
  int recorded = 0;
  Tensor record(const Tensor& y, const Call& call) {
    return entries.put(y, std::make_shared<Entry>(Entry{recorded++, call}));
  }
  Tensor handle(Call& call) override {
    const Tensor y = perform(call);
    return entries.any(call.inputs) ? record(y, call) : y;
  }
};
template <class F>
auto grad(F f) {
  return [f](const Tensor& x) {
    Grad tape;
    const Tensor y = with(tape, [&] { return f(tape.record(x, {})); });
    std::map<int, std::pair<std::shared_ptr<Entry>, Tensor>, std::greater<>> pending;  // last first
    const auto add = [&](const Tensor& value, const Tensor& cotangent) {
      const auto* const entry = tape.entries.find(value);
      if (!entry) return;  // a constant
      const auto [place, is_new] = pending.try_emplace((*entry)->order, *entry, cotangent);
      if (!is_new) place->second.second = place->second.second + cotangent;
    };
    add(y, full(y.shape(), 1));
    while (!pending.empty()) {
      const auto [entry, cotangent] = pending.extract(pending.begin()).mapped();
      if (!entry->call.op) return cotangent;
      const Tensors found = entry->call.op->vjp(entry->call, cotangent);
      for (std::size_t i = 0; i < found.size(); ++i) add(entry->call.inputs[i], found[i]);
    }
    return full(x.shape(), 0);  // y does not depend on x
  };
}

// ---- what it does -------------------------------------------------------------------------------
struct Debug : Handles<Call> {  // prints the operations that reach it, and the ranks of the results
  std::string seen;
  Tensor handle(Call& call) override {
    const Tensor y = perform(call);
    seen += std::string(" ") + call.op->name + std::to_string(y.rank());
    return y;
  }
};
struct Temperature {  // an effect that is not an operation: requests a number
  using Result = double;
  double unhandled() const { return 1; }
};
struct Hot : Handles<Temperature> {
  double handle(Temperature&) override { return 2; }
};
bool all_hold = true;
void check(const char* what, const Tensor& x, const Data& expected) {
  bool holds = x.data().size() == expected.size();
  for (std::size_t i = 0; holds && i < expected.size(); ++i) holds = std::abs(x.data()[i] - expected[i]) < 1e-12;
  std::printf("%s: %s\n", what, holds ? "holds" : "WRONG");
  all_hold &= holds;
}

Tensor power(const Tensor& x, const Tensor& y) { return y.data()[0] > 100 ? y : power(x, y * x); }
int main() {
  const double e = std::exp(1);
  const auto f = [](const Tensor& x) { return x * exp(x); };  // f' = (1 + x) e^x, f'' = (2 + x) e^x
  const auto slope = [&](const Tensor& x) { return jvp(f, x, 1.).second; };
  check("jvp", slope(1.), {2 * e});
  check("jvp of jvp", jvp(slope, 1., 1.).second, {3 * e});
  const Tensor xs({3}, {0, 1, -2});
  check("vmap", vmap(f)(xs), {0, e, -2 / (e * e)});
  const auto times_all = [&](const Tensor& y) { return vmap([&](const Tensor& x) { return x * y; })(xs); };
  check("vmap of vmap", vmap(times_all)(xs), {0, 0, 0, 0, 1, -2, 0, -2, 4});
  const auto total = [&](const Tensor& x) { return sum(vmap(f)(x), 0); };
  check("grad", grad(f)(1.), {2 * e});
  check("grad of grad", grad(grad(f))(1.), {3 * e});
  check("vmap of grad of grad", vmap(grad(grad(f)))(xs), {2, 3 * e, 0});
  check("grad of vmap", grad(total)(xs), {1, 2 * e, -1 / (e * e)});
  check("jvp of grad of vmap", jvp(grad(total), xs, full({3}, 1)).second, {2, 3 * e, 0});
  const auto inner = [](const Tensor& x) { return x * grad([&](const Tensor& y) { return x + y; })(1.); };
  check("derivatives are not confused", grad(inner)(1.), {1});
  check("grad of a recursion", grad([](const Tensor& x) { return power(x, x); })(3.), {5 * 81});
  Debug inside, outside;
  vmap([&](const Tensor& x) { return with(inside, [&] { return f(x); }); })(xs);
  with(outside, [&] { return vmap(grad(f))(xs); });
  std::printf("inside of vmap:%s\noutside of both:%s\n", inside.seen.c_str(), outside.seen.c_str());
  const auto tempered = [](const Tensor& x) { return exp(x * perform(Temperature{})); };
  Hot hot;
  check("an effect", with(hot, [&] { return vmap(grad(tempered))(xs); }), {2, 2 * e * e, 2 * std::exp(-4)});
  return all_hold ? 0 : 1;
}
