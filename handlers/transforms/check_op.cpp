#include <stave/handlers/transforms/check_op.h>

#include <algorithm>

#include <stave/core/ops/create.h>
#include <stave/core/ops/element_sets.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/transforms/check.h>
#include <stave/handlers/transforms/check_grads.h>
#include <stave/handlers/transforms/jvp_flat.h>
#include <stave/handlers/transforms/linear_in.h>
#include <stave/handlers/transforms/vmap_flat.h>

namespace stave {

using namespace stave_detail;

namespace {

using Tensors = std::vector<Tensor>;
constexpr Index lanes = 3;

void compare(std::span<const Tensor> got, std::span<const Tensor> expected, double tolerance) {
  if (got.size() != expected.size()) fail<TransformError>("{} results in place of {}", got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Tensor &a = got[i], &b = expected[i];
    if (a.shape() != b.shape() || a.dtype() != b.dtype())
      fail<TransformError>("result {} is {} {} in place of {} {}", i, a.dtype(), a.shape(), b.dtype(), b.shape());
    const bool same = is_inexact(a.dtype()) ? allclose(a, b, tolerance, tolerance, true) : array_equal(a, b);
    if (!same) fail<TransformError>("result {} is\n{}\nin place of\n{}", i, a.str(), b.str());
  }
}

// Returns the same values in memory with other strides: backwards, with the axes in another
// order, or with gaps.
Tensor laid_out(const Tensor& x, int way) {
  if (way == 0) return flip(contiguous(flip(x)));
  if (way == 2) return stack({x, x}, -1)(ellipsis, 0);
  Shape axes;
  for (int axis = x.rank(); axis-- > 0;) axes.push_back(axis);
  return permute_dims(contiguous(permute_dims(x, axes)), axes);
}

class Checked {
 public:
  Checked(const Op& op, const OpCase& given, const CheckOpOptions& options)
      : op_(op), attributes_(given.attributes), inputs_(given.inputs), options_(options) {
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (is_inexact(inputs_[i].dtype()) && !lacks_derivative_by(op, i)) floats_.push_back(i);
    tolerance_ = options.tolerance ? options.tolerance : tolerance_for(pick(inputs_));
    const bool structured = op.derivative == Derivative::linear || op.derivative == Derivative::bilinear;
    const bool smooth = !floats_.empty() && op.derivative != Derivative::zero;
    forward_ = smooth && (op.jvp || structured);
    reverse_ = smooth && op.vjp;
  }

  void value() const {
    const Tensors before = copies();
    const Outputs first = compute(inputs_);
    compare(compute(inputs_), first, 0);
    compare(inputs_, before, 0);
    for (int way = 0; way < 3; ++way) {
      Tensors others;
      for (const Tensor& input : inputs_) others.push_back(laid_out(input, way));
      compare(compute(others), first, tolerance_ / 100);
    }
  }

  void derivatives() const {
    if (!forward_ && !reverse_) return;
    check_grads_flat([&](std::span<const Tensor> xs) { return of_floats(xs); }, pick(inputs_), how(options_.order));
  }

  // Holds the dependence rule against the Jacobian, column by column: for the elements of all
  // floating inputs and of each one alone, where the rule may look at the values of the others and
  // where not.
  void dependences() const {
    const auto is_real = [](const Tensor& x) { return !is_complex(x.dtype()); };
    if (!op_.depends || !forward_ || !std::all_of(inputs_.begin(), inputs_.end(), is_real)) return;
    std::vector<FoundSets> all;
    for (const bool reads : {true, false}) {
      for (const std::size_t i : floats_) all.push_back(found_sets({i}, reads));
      all.push_back(found_sets(floats_, reads));
    }
    for (std::size_t j = 0; j < floats_.size(); ++j) {
      const Tensor& x = inputs_[floats_[j]];
      for (Index column = 0; column < x.size(); ++column) {
        Tensors direction(floats_.size());
        direction[j] = reshape(astype(arange(0, x.size(), 1, int64) == column, x.dtype()), x.shape());
        const Outputs tangents =
            jvp_flat([&](std::span<const Tensor> xs) { return of_floats(xs); }, pick(inputs_), direction).tangents;
        for (const FoundSets& found : all) found.expect(floats_[j], column, tangents);
      }
    }
  }

  void series() const {
    if (forward_) check_tower_growth([&](std::span<const Tensor> xs) { return of_floats(xs); }, pick(inputs_));
  }

  // Compares vmap over the inputs i with mapped[i] to a loop over the lanes, for the operation, its
  // jvp and its vjp. Compares the derivatives of the vmap with finite differences.
  void batching(const std::vector<bool>& mapped) const {
    std::vector<MapAxis> axes;
    Tensors all;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      axes.push_back(mapped[i] ? MapAxis(0) : MapAxis(unmapped));
      Tensors of_lanes;
      for (Index lane = 0; lane < lanes; ++lane) of_lanes.push_back(in_lane(i, lane));
      all.push_back(mapped[i] ? stack(of_lanes) : inputs_[i]);
    }
    const auto batched = [&](auto f, std::span<const Tensor> xs) {
      const FlatVmap result = vmap_flat(f, xs, axes, lanes);
      return vmap_outputs(result, std::vector<MapAxis>(result.outputs.size(), MapAxis(0)));
    };
    const auto compare_with_loop = [&](auto f) {
      std::vector<Tensors> results;
      for (Index lane = 0; lane < lanes; ++lane) {
        Tensors inputs;
        for (std::size_t i = 0; i < inputs_.size(); ++i) inputs.push_back(mapped[i] ? in_lane(i, lane) : inputs_[i]);
        const Outputs outputs = f(inputs);
        results.resize(outputs.size());
        for (std::size_t k = 0; k < outputs.size(); ++k) results[k].push_back(outputs[k]);
      }
      Tensors expected;
      for (const Tensors& result : results) expected.push_back(stack(result));
      compare(batched(f, all), expected, tolerance_);
    };
    const auto operation = [&](std::span<const Tensor> xs) { return compute(xs); };
    compare_with_loop(operation);
    const Tensors directions = random_like(pick(inputs_), 3), weights = random_like(compute(inputs_), 4);
    if (forward_)
      compare_with_loop([&](std::span<const Tensor> xs) {
        return jvp_flat([&](std::span<const Tensor> ys) { return of_floats(ys, xs); }, pick(xs), directions).tangents;
      });
    if (reverse_)
      compare_with_loop([&](std::span<const Tensor> xs) {
        return pulled_back([&](std::span<const Tensor> ys) { return of_floats(ys, xs); }, pick(xs), weights);
      });
    if (forward_ || reverse_)
      check_grads_flat([&](std::span<const Tensor> ys) { return batched(operation, with_floats(ys, all)); }, pick(all),
                       how(1));
  }

 private:
  Outputs compute(std::span<const Tensor> inputs) const {
    return perform(Call(op_, Inputs(inputs.begin(), inputs.end()), attributes_));
  }
  Tensors pick(std::span<const Tensor> inputs) const {
    Tensors picked;
    for (const std::size_t i : floats_) picked.push_back(inputs[i]);
    return picked;
  }
  Tensors with_floats(std::span<const Tensor> floats, std::span<const Tensor> inputs) const {
    Tensors all(inputs.begin(), inputs.end());
    for (std::size_t k = 0; k < floats_.size(); ++k) all[floats_[k]] = floats[k];
    return all;
  }
  // Computes the outputs of the operation as a function of the floating inputs by which it has a
  // derivative.
  Outputs of_floats(std::span<const Tensor> floats, std::span<const Tensor> inputs) const {
    return compute(with_floats(floats, inputs));
  }
  Outputs of_floats(std::span<const Tensor> floats) const { return of_floats(floats, inputs_); }
  // Returns input i of a lane. Floating inputs differ between lanes, so that a value in another
  // lane's place is detected. Other inputs are the same in all lanes.
  Tensor in_lane(std::size_t i, Index lane) const {
    return is_inexact(inputs_[i].dtype()) ? inputs_[i] * (1 - static_cast<double>(lane) / 32) : inputs_[i];
  }
  Tensors copies() const {
    Tensors result;
    for (const Tensor& input : inputs_) result.push_back(apply(op_copy, {input}));
    return result;
  }
  // The sets that the dependence rule finds if some inputs are followed.
  struct FoundSets {
    std::vector<std::size_t> followed;
    bool reads;
    ElementSets sets;
    // The numbers of each output's sets; empty: the rule says nothing.
    std::vector<std::vector<ElementSets::Number>> outputs;

    // Throws TransformError if an output has a tangent other than zero along an element that its
    // set lacks.
    void expect(std::size_t input, Index element, std::span<const Tensor> tangents) const {
      if (std::find(followed.begin(), followed.end(), input) == followed.end()) return;
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        if (!is_inexact(tangents[k].dtype())) continue;
        const std::vector<bool> depends = (tangents[k] != 0).to_vector<bool>();
        for (std::size_t row = 0; row < depends.size(); ++row)
          if (depends[row] && !sets.contains(outputs[k][row], element))
            fail<TransformError>(
                "element {} of output {} has a derivative by element {} of input {}, which its set lacks{}", row, k,
                element, input, reads ? "" : " if no values are read");
      }
    }
  };

  FoundSets found_sets(const std::vector<std::size_t>& followed, bool reads) const {
    FoundSets found{followed, reads, {}, {}};
    Tensors numbers(inputs_.size());
    for (const std::size_t i : followed) numbers[i] = found.sets.singletons(inputs_[i].shape(), 0);
    const Call call(op_, Inputs(inputs_.begin(), inputs_.end()), attributes_);
    const auto read = [&](std::size_t i) { return reads ? to(inputs_[i], cpu) : Tensor(); };
    const Outputs outputs = op_.depends(DependsContext{call, numbers, found.sets, read});
    const auto expected = call.abstract_outputs();
    if (!outputs.empty() && outputs.size() != expected.size())
      fail<TransformError>("the rule gave {} results for {} outputs", outputs.size(), expected.size());
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const Tensor all = outputs[k].defined() ? outputs[k] : zeros({}, dtype_of<ElementSets::Number>());
      found.outputs.push_back(broadcast_to(all, expected[k].shape).to_vector<ElementSets::Number>());
    }
    return found;
  }
  CheckGradsOptions how(int order) const {
    return {.order = order, .tolerance = options_.tolerance, .forward = forward_, .reverse = reverse_};
  }

  const Op& op_;
  const AttributesPtr attributes_;
  const Tensors inputs_;
  const CheckOpOptions& options_;
  std::vector<std::size_t> floats_;
  double tolerance_;
  bool forward_, reverse_;
};

using Set = std::vector<bool>;  // a set of inputs

// Returns all sets of inputs but the empty one; for more than 4 inputs, each input
// alone and all of them.
std::vector<Set> sets_of(std::size_t inputs) {
  std::vector<Set> sets;
  if (inputs <= 4) {
    for (unsigned mask = 1; mask < 1u << inputs; ++mask) {
      sets.emplace_back(inputs);
      for (std::size_t i = 0; i < inputs; ++i) sets.back()[i] = mask >> i & 1;
    }
    return sets;
  }
  for (std::size_t i = 0; i < inputs; ++i) sets.emplace_back(inputs)[i] = true;
  sets.emplace_back(inputs, true);
  return sets;
}

std::string name_of(const Set& set) {
  std::string name;
  for (std::size_t i = 0; i < set.size(); ++i)
    if (set[i]) name += (name.empty() ? "" : ", ") + std::to_string(i);
  return name;
}

}  // namespace

void check_op(const Op& op, const std::vector<OpCase>& cases, const CheckOpOptions& options) {
  for (std::size_t k = 0; k < cases.size(); ++k) {
    const auto part = [&](const std::string& what, auto body) {
      try {
        body();
      } catch (const Error& error) {
        fail<TransformError>("check_op: {}: case {}: {}: {}", op.name, k, what, error.what());
      }
    };
    const std::vector<Tensor>& inputs = cases[k].inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) require_defined(inputs[i], "check_op", i);
    const Checked checked(op, cases[k], options);
    part("value", [&] { checked.value(); });
    part("derivatives", [&] { checked.derivatives(); });
    part("depends", [&] { checked.dependences(); });
    part("Taylor series", [&] { checked.series(); });
    if (!op.batch) continue;
    for (const Set& mapped : sets_of(inputs.size()))
      part("vmap over inputs " + name_of(mapped), [&] { checked.batching(mapped); });
  }
}

}  // namespace stave
