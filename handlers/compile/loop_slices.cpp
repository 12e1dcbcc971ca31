#include <stave/handlers/compile/loop_slices.h>

#include <algorithm>
#include <utility>

#include <stave/core/op/attributes.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>

namespace stave_detail {

namespace {

// The most elements of a still value that is replaced by slices: each element is looked at.
constexpr Index most_sliced = Index{1} << 22;

const SliceAttributes& attributes_of_slice(const Program::Instruction& step) {
  return static_cast<const SliceAttributes&>(*step.attributes);
}

// Returns true for the instructions of StillSlice::views.
bool is_part(const Program::Instruction& step) {
  if (step.is_read() || step.barrier != 0) return false;
  if (step.op->id == OpId::reshape) return true;
  return step.op->id == OpId::slice &&
         std::ranges::all_of(attributes_of_slice(step).steps, [](Index distance) { return distance == 1; });
}

// Finds the slices in the body of a loop.
class SliceFinder {
 public:
  struct Found {
    int variable;
    // The slice that `variable` reshapes, or `variable`. A step may read a slice of a still value
    // itself several times, and then there are several.
    std::vector<int> slices;
  };

  SliceFinder(const LoopAttributes& loop, const Mask& of)
      : body_(*loop.body), producers_(producers(body_)), read_counts_(read_counts(body_)), still_(body_, -1),
        is_read_(body_), flows_(reach_derivatives(body_, select(of, body_.outputs), Direction::backward)) {
    for (std::size_t i = end_of_rows(loop); i < body_.inputs.size(); ++i)
      if (flows_[body_.inputs[i]]) still_[body_.inputs[i]] = static_cast<int>(i);
    find_parts();
  }

  std::vector<Found> run() const {
    std::vector<std::vector<Found>> slices(body_.inputs.size());
    for (const Program::Instruction& step : body_.instructions)
      if (!step.is_read() && is_slice(step.outputs[0]))
        add(step.outputs[0], slices[static_cast<std::size_t>(still_[step.outputs[0]])]);
    std::vector<Found> found;
    for (std::size_t i = 0; i < slices.size(); ++i)
      if (!is_slice(body_.inputs[i]) && are_apart(slices[i], body_.variable(body_.inputs[i]).shape))
        found.insert(found.end(), slices[i].begin(), slices[i].end());
    return found;
  }
  StillSlice slice(int variable) const {
    StillSlice slice{static_cast<std::size_t>(still_[variable]), {}, {}};
    for (int k = producers_[variable]; k >= 0; k = producers_[variable]) {
      slice.views.push_back(body_.instructions[static_cast<std::size_t>(k)]);
      slice.shapes.push_back(body_.variable(variable).shape);
      variable = slice.views.back().inputs[0];
    }
    std::ranges::reverse(slice.views);
    std::ranges::reverse(slice.shapes);
    return slice;
  }

 private:
  // Finds the parts of still values, and those parts and still values that other instructions read
  // and through which cotangents flow.
  void find_parts() {
    for (const Program::Instruction& step : body_.instructions) {
      if (step.is_read() || std::ranges::none_of(step.outputs, [&](int output) { return flows_[output]; })) continue;
      const bool is_a_part = is_part(step);
      if (is_a_part) still_[step.outputs[0]] = still_[step.inputs[0]];
      for (const int input : step.inputs) is_read_[input] = is_read_[input] || !is_a_part;
    }
    for (const int output : body_.outputs) is_read_[output] = true;
  }
  bool is_slice(int variable) const { return still_[variable] >= 0 && is_read_[variable]; }
  const Program::Instruction& producer(int variable) const {
    return body_.instructions[static_cast<std::size_t>(producers_[variable])];
  }

  // Returns the slice of which only reshapes make this variable, if nothing else reads it.
  int without_reshapes(int variable) const {
    for (;;) {
      const int from = producer(variable).inputs[0];
      if (producer(variable).op->id != OpId::reshape || producers_[from] < 0 || read_counts_[from] > 1) return variable;
      variable = from;
    }
  }
  // Adds a variable to the slices of a still value.
  void add(int variable, std::vector<Found>& found) const {
    const int slice = without_reshapes(variable);
    const Program::Instruction& step = producer(slice);
    const auto same = std::ranges::find_if(found, [&](const Found& other) {
      return producers_[step.inputs[0]] < 0 && compute_the_same(step, producer(other.slices[0]));
    });
    if (same == found.end()) found.push_back({variable, {slice}});
    else same->slices.push_back(slice);
  }

  // Returns true if these slices of a still value do not overlap, and none is all of it.
  bool are_apart(const std::vector<Found>& found, const Shape& shape) const {
    if (found.empty() || shape.elements() > most_sliced) return false;
    const UnderFrame past_all_handlers(nullptr);
    const Tensor numbers = reshape(arange(shape.elements()), shape);
    std::vector<char> taken(static_cast<std::size_t>(shape.elements()));
    return std::ranges::all_of(found, [&](const Found& one) {
      const Tensor part = contiguous(slice(one.variable).read(numbers));
      return part.size() < shape.elements() && std::ranges::none_of(part.data<std::int32_t>(), [&](std::int32_t k) {
               return std::exchange(taken[static_cast<std::size_t>(k)], 1) != 0;
             });
    });
  }

  const Program& body_;
  const PerVariable<int> producers_, read_counts_;
  PerVariable<int> still_;  // for a still value and its parts, its number among the inputs; else -1
  PerVariable<bool> is_read_;
  const PerVariable<bool> flows_;  // true for variables to which cotangents flow
};

}  // namespace

Tensor StillSlice::read(Tensor x) const {
  for (const Program::Instruction& step : views) x = apply(*step.op, {std::move(x)}, step.attributes);
  return x;
}

Tensor StillSlice::replaced(const Tensor& x, const Tensor& part) const {
  std::vector<Tensor> wholes{x};  // of which the views take parts
  for (std::size_t k = 0; k + 1 < views.size(); ++k)
    wholes.push_back(apply(*views[k].op, {wholes.back()}, views[k].attributes));
  Tensor result = part;
  for (std::size_t k = views.size(); k-- > 0;) {
    const Tensor& whole = wholes[k];
    if (views[k].op->id == OpId::reshape) {
      result = reshape(result, whole.shape());
    } else {
      const Shape& starts = attributes_of_slice(views[k]).starts;
      result = dynamic_update_slice(whole, result, from<Index>(starts, Shape(whole.rank()), whole.device()));
    }
  }
  return result;
}

BodyOfSlices with_slices_as_inputs(const LoopAttributes& loop, const Mask& of) {
  SliceFinder finder(loop, of);
  BodyOfSlices all{*loop.body, {}};
  Program& body = all.body;
  const PerVariable<int> producer = producers(body);
  for (const auto& [variable, slices] : finder.run()) {
    all.slices.push_back(finder.slice(variable));
    const Program::Variable type = body.variable(variable);
    body.inputs.push_back(body.add_variable(type.shape, type.dtype, type.device));
    // The body keeps views, so that a tape adds the uses of a view in a step before it adds them to
    // the sum.
    for (const int slice : slices) {
      Program::Instruction& view = body.instructions[static_cast<std::size_t>(producer[slice])];
      view.op = &op_reshape;
      view.attributes = make_intrusive<ShapeAttributes>(body.variable(slice).shape);
      view.inputs[0] = body.inputs.back();
    }
  }
  return all;
}

void take_slices_in(Program& body, const std::vector<StillSlice>& slices) {
  const std::size_t given = body.inputs.size() - slices.size();
  std::vector<Program::Instruction> steps;
  for (std::size_t s = 0; s < slices.size(); ++s) {
    int variable = body.inputs[slices[s].of];
    for (std::size_t k = 0; k < slices[s].views.size(); ++k) {
      const Program::Instruction& view = slices[s].views[k];
      Program::Instruction& step = steps.emplace_back();
      step.op = view.op;
      step.attributes = view.attributes;
      step.scopes = view.scopes;
      step.inputs.push_back(variable);
      if (k + 1 == slices[s].views.size()) variable = body.inputs[given + s];
      else
        variable =
            body.add_variable(slices[s].shapes[k], body.variable(variable).dtype, body.variable(variable).device);
      step.outputs.push_back(variable);
    }
  }
  body.instructions.insert(body.instructions.begin(), steps.begin(), steps.end());
  body.inputs.resize(given);
}

}  // namespace stave_detail
