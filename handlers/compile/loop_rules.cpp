// Rules of `loop` for forward mode and for lanes, and the parts that all its rules use: loops over
// programs derived from its body (derive.h). A loop's inputs are states, stacks (each step reads
// one row of a stack), and still values, which are the same in every step (core/program/loop.h).
//
//   jvp    a loop over the states and their tangents
//   vjp    see loop_reverse.cpp
//   vmap   a loop over all lanes
#include <stave/handlers/compile/loop_parts.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <stave/core/ops/create.h>
#include <stave/core/ops/layout.h>
#include <stave/handlers/compile/derive.h>

namespace stave_detail {

// ---- the parts of a loop ------------------------------------------------------------------------

IntrusivePtr<LoopAttributes> loop_over(const LoopAttributes& like, Program body, std::size_t states, std::size_t rows) {
  const auto loop = make_intrusive<LoopAttributes>();
  loop->steps = like.steps;
  loop->reverse = like.reverse;
  loop->states = states;
  loop->rows = rows;
  loop->snapshots = like.snapshots;
  loop->body = std::make_shared<const Program>(std::move(body));
  return loop;
}

std::string derived_key(const char* kind, const Mask& mask) {
  std::string key = kind;
  for (const bool bit : mask) key += bit ? '1' : '0';
  return key;
}

std::vector<Tensor> examples_of(const LoopAttributes& loop, std::span<const Tensor> inputs) {
  std::vector<Tensor> examples;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor example = example_of(inputs[i]);
    const UnderFrame past_all_handlers(nullptr);
    if (!is_row(loop, i)) examples.push_back(example);
    else if (loop.steps > 0) examples.push_back(example(0));
    else
      examples.push_back(
          zeros(Shape(std::span<const Index>(example.shape()).subspan(1)), example.dtype(), example.device()));
  }
  return examples;
}

// ---- forward mode -------------------------------------------------------------------------------

namespace {

template <class List>
auto pick(const List& list, const std::vector<std::size_t>& which) {
  std::vector<std::decay_t<decltype(list[0])>> picked;
  for (const std::size_t i : which) picked.push_back(list[i]);
  return picked;
}

// Numbers inputs and their coefficients, in groups: for each group, the numbers up to its end, then
// for each order k, k * mask.size() plus each of these numbers that is in the mask.
//   mask = {1, 0, 1}, ends = {2, 3}, orders = 1  ->  0 1 3 2 5
std::vector<std::size_t> with_coefficients(const Mask& mask, std::initializer_list<std::size_t> ends,
                                           std::size_t orders) {
  std::vector<std::size_t> order;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    for (std::size_t i = begin; i < end; ++i) order.push_back(i);
    for (std::size_t k = 1; k <= orders; ++k)
      for (std::size_t i = begin; i < end; ++i)
        if (mask[i]) order.push_back(k * mask.size() + i);
    begin = end;
  }
  return order;
}

std::size_t count_before(const std::vector<std::size_t>& order, std::size_t end, std::size_t all) {
  return static_cast<std::size_t>(
      std::count_if(order.begin(), order.end(), [&](std::size_t i) { return i % all < end; }));
}

}  // namespace

LoopOfSeries loop_of_series(const LoopAttributes& loop, Mask by, std::span<const Tensor> inputs, std::size_t orders,
                            FunctionRef<Program(const Program&, const Mask&, std::span<const Tensor>)> derive) {
  const Program& body = *loop.body;
  Mask of = reached_in_all_steps(loop, by, [&](const Mask& marked) {
    return reach_derivatives(body, select(marked, body.inputs), Direction::forward).at(body.outputs);
  });
  std::copy_n(by.begin(), loop.states, of.begin());
  Program all = derive(body, by, examples_of(loop, inputs));
  std::vector<int> variables(all.inputs.begin(), all.inputs.begin() + static_cast<std::ptrdiff_t>(by.size()));
  for (std::size_t k = 0, next = by.size(); k < orders; ++k)
    for (std::size_t i = 0; i < by.size(); ++i) variables.push_back(by[i] ? all.inputs[next++] : -1);
  LoopOfSeries found{with_coefficients(by, {loop.states, end_of_rows(loop), by.size()}, orders),
                     with_coefficients(of, {loop.states, of.size()}, orders), nullptr};
  all.inputs = pick(variables, found.inputs);
  all.outputs = pick(all.outputs, found.outputs);
  const std::size_t states = count_before(found.inputs, loop.states, by.size());
  const auto made =
      loop_over(loop, std::move(all), states, count_before(found.inputs, end_of_rows(loop), by.size()) - states);
  made->performs(loop, found.inputs, found.outputs);
  found.loop = made;
  return found;
}

Outputs loop_jvp(const JvpContext& c) {
  const auto& loop = c.as<LoopAttributes>();
  Mask by;
  for (const Tensor& tangent : c.tangents) by.push_back(tangent.defined());
  const auto derive = [](const Program& body, const Mask& wanted, std::span<const Tensor> examples) {
    return jvp_of(body, wanted, examples);
  };
  const auto tangents =
      loop.derived(derived_key("jvp", by), [&] { return loop_of_series(loop, by, c.call.inputs(), 1, derive); });
  Inputs inputs;
  for (const std::size_t i : tangents->inputs) inputs.push_back(i < by.size() ? c.in(i) : c.tangent(i - by.size()));
  const Outputs given = perform_loop(tangents->loop, std::move(inputs));
  Outputs found(c.outputs.size(), Tensor());
  for (std::size_t k = 0; k < given.size(); ++k)
    if (const std::size_t i = tangents->outputs[k]; i >= found.size()) found[i - found.size()] = given[k];
  return found;
}

// ---- lanes --------------------------------------------------------------------------------------

// The rule for vmap. All states are batched. The steps remain axis 0 of stacks, and the lanes are
// axis 1.
Outputs loop_batch(const BatchContext& c) {
  const auto& loop = c.as<LoopAttributes>();
  Mask batched(c.batched.begin(), c.batched.end());
  Inputs inputs;
  for (std::size_t i = 0; i < batched.size(); ++i) {
    batched[i] = batched[i] || i < loop.states;
    inputs.push_back(!batched[i] ? c.inputs[i] : is_row(loop, i) ? moveaxis(c.in(i), 0, 1) : c.batched_in(i));
  }
  const auto lanes = loop.derived(derived_key(fmt::format("vmap{}:", c.size).c_str(), batched), [&] {
    return LoopPtr(
        loop_over(loop, batched_of(*loop.body, c.size, batched, examples_of(loop, inputs)), loop.states, loop.rows));
  });
  Outputs outputs = perform_loop(*lanes, std::move(inputs));
  for (std::size_t i = loop.states; i < outputs.size(); ++i) outputs[i] = moveaxis(outputs[i], 1, 0);
  return outputs;
}

}  // namespace stave_detail
