// Compares vmap with a loop over lanes. The loop gets each lane's values as separate contiguous
// tensors. vmap gets all lanes in one array in the case's layout, with the lanes along the first,
// last or second last axis, and with every choice of operands left unmapped.

#include <algorithm>

#include <stave/handlers/transforms/jvp_flat.h>
#include <stave/handlers/transforms/vjp_flat.h>
#include <stave/handlers/transforms/vmap_flat.h>

#include "table/cell.h"

namespace table {

namespace {

using Function = std::function<Outputs(std::span<const Tensor>)>;

/// The axes along which the inputs have the lanes, and the axis along which the results get them.
struct Mapping {
  std::vector<MapAxis> in;
  Index out = 0;
};

/// The axis number -2 if the tensor with lanes has at least two axes, else -1.
Index second_last(int rank) { return rank >= 1 ? -2 : -1; }

/// All inputs mapped along one axis; then every proper subset of them (of many inputs:
/// each one alone), along the first and last axes in turn.
std::vector<Mapping> mappings(const Case& c) {
  const std::size_t n = c.arrays.size();
  const auto all_along = [&](auto axis_of) {
    std::vector<MapAxis> axes;
    for (const Array& x : c.arrays) axes.emplace_back(axis_of(x.shape.rank()));
    return axes;
  };
  std::vector<Mapping> result = {{all_along([](int) { return Index{0}; }), 0},
                                 {all_along([](int) { return Index{-1}; }), -1},
                                 {all_along(second_last), -2}};
  for (std::size_t subset = 1; n <= 3 && subset + 1 < (std::size_t{1} << n); ++subset) {
    Mapping mapping{std::vector<MapAxis>(n, MapAxis(unmapped)), subset % 2 ? -1 : 0};
    for (std::size_t i = 0; i < n; ++i)
      if (subset >> i & 1) mapping.in[i] = MapAxis((subset + i) % 2 ? -1 : 0);
    result.push_back(mapping);
  }
  for (std::size_t i = 0; n > 3 && i < n; ++i) {
    result.push_back({std::vector<MapAxis>(n, MapAxis(unmapped)), 0});
    result.back().in[i] = MapAxis(i % 2 ? -1 : 0);
  }
  return result;
}

std::string text(const std::vector<MapAxis>& axes) {
  std::string result;
  for (const MapAxis& axis : axes)
    result += (result.empty() ? "" : ", ") + (axis.mapped ? std::to_string(axis.axis) : "unmapped");
  return "{" + result + "}";
}
std::string text(const Mapping& mapping) {
  return "in_axes " + text(mapping.in) + ", out_axes " + std::to_string(mapping.out);
}

/// `out` for a result of this rank: -2 becomes -1 if the result with lanes has only one axis.
Index out_axis(Index out, int rank) { return out == -2 ? second_last(rank) : out; }

/// vmap(f) with the lanes of all results along `out`.
Function vmapped(Function f, std::vector<MapAxis> in, Index out, Index size) {
  return [=](std::span<const Tensor> xs) {
    const FlatVmap result = vmap_flat(f, xs, in, size);
    Outputs outputs;
    for (std::size_t k = 0; k < result.outputs.size(); ++k) {
      const int rank = result.outputs[k].rank() - (result.batched[k] ? 1 : 0);
      outputs.push_back(vmap_output(result, k, out_axis(out, rank)));
    }
    return outputs;
  };
}

Array lane_of(const Array& x, MapAxis axis, Index index) { return axis.mapped ? lane(x, axis.axis, index) : x; }

Arrays lanes_of(const Arrays& xs, const std::vector<MapAxis>& axes, Index index) {
  Arrays result;
  for (std::size_t i = 0; i < xs.size(); ++i) result.push_back(lane_of(xs[i], axes[i], index));
  return result;
}

/// Lane `index` of results that have the lanes along `out`.
Arrays out_lanes(const Arrays& results, Index out, Index index) {
  Arrays lanes;
  for (const Array& result : results) lanes.push_back(lane(result, out_axis(out, result.shape.rank() - 1), index));
  return lanes;
}

/// The inputs of a case for vmap, as values and as tensors; each mapped input has an axis of `size`
/// lanes.
struct Batch {
  Arrays arrays;
  std::vector<Tensor> tensors;
};

Shape batched(const Shape& shape, MapAxis axis, Index size) {
  return axis.mapped ? with_axis(shape, axis.axis, size) : shape;
}

// The number of axis `repeat` of a shape after `axis` has been inserted.
Index shifted(Index repeat, const Shape& shape, MapAxis axis) {
  if (!axis.mapped) return repeat;
  const Index at = axis.axis < 0 ? axis.axis + shape.rank() + 1 : axis.axis;
  return shape.rank() > 0 && at <= repeat ? repeat + 1 : repeat;
}

Batch draw_batch(const Case& c, const std::vector<MapAxis>& inner, Index inner_size,
                 const std::vector<MapAxis>& outer = {}, Index outer_size = 0) {
  Random random(c.seed + "/lanes");
  Batch batch;
  for (std::size_t i = 0; i < c.arrays.size(); ++i) {
    Shape shape = c.arrays[i].shape;
    Index repeat = c.variant.inputs[i].repeat;
    repeat = shifted(repeat, shape, inner[i]);
    shape = batched(shape, inner[i], inner_size);
    if (!outer.empty()) {
      repeat = shifted(repeat, shape, outer[i]);
      shape = batched(shape, outer[i], outer_size);
    }
    batch.arrays.push_back(c.draw(random, i, shape, repeat));
    batch.tensors.push_back(c.placed(batch.arrays[i], i, repeat));
  }
  return batch;
}

constexpr Index lane_count = 3;

Arrays looped(const Function& f, const Arrays& lane) { return to_arrays(f(to_tensors(lane))); }

void add_to(Arrays& sums, const Arrays& terms) {
  for (std::size_t k = 0; k < sums.size(); ++k)
    for (std::size_t i = 0; i < sums[k].values.size(); ++i) sums[k].values[i] += terms[k].values[i];
}

void compare_lanes(const Case& c, const std::string& what, const Arrays& got, const Arrays& expected) {
  compare(what, Kind::lanes, got, expected, c.row.bitwise ? 0 : 1);
}

// Results over no lanes have the shapes and dtypes of one lane's results, and an axis of length 0.
void check_no_lanes(const Case& c, const Mapping& mapping) {
  const Function f = [&](auto xs) { return c.call(xs); };
  const Arrays results = to_arrays(vmapped(f, mapping.in, mapping.out, 0)(draw_batch(c, mapping.in, 0).tensors));
  Arrays expected;
  for (const Array& output : to_arrays(c.call(c.tensors)))
    expected.push_back({output.dtype, with_axis(output.shape, out_axis(mapping.out, output.shape.rank()), 0)});
  compare("no lanes, " + text(mapping) + ": output", Kind::value, results, expected);
}

}  // namespace

void check_vmap(const Case& c) {
  const Function f = [&](auto xs) { return c.call(xs); };
  for (const Mapping& mapping : mappings(c)) {
    const Batch batch = draw_batch(c, mapping.in, lane_count);
    const Arrays results = to_arrays(vmapped(f, mapping.in, mapping.out, lane_count)(batch.tensors));
    for (Index b = 0; b < lane_count; ++b)
      compare_lanes(c, text(mapping) + ", lane " + std::to_string(b) + ": output", out_lanes(results, mapping.out, b),
                    looped(f, lanes_of(batch.arrays, mapping.in, b)));
    if (c.layout == Layout::contiguous || c.layout == Layout::zero_size) check_no_lanes(c, mapping);
  }
}

// ---- with derivatives --------------------------------------------------------------------------
// The expected derivatives of a lane were checked by the cells without vmap.

namespace {

/// f as a function of the active inputs; the other inputs have their values in `all`.
auto by_active(const Case& c, const std::vector<Tensor>& all, const Function& f) {
  return [&c, &all, &f](std::span<const Tensor> xs) {
    std::vector<Tensor> inputs = all;
    for (std::size_t k = 0; k < c.active.size(); ++k) inputs[c.active[k]] = xs[k];
    return f(inputs);
  };
}

/// (all inputs, tangents of the active ones) -> tangents of the outputs.
Function pushforward_of(const Case& c, const Function& f) {
  return [&c, &f](std::span<const Tensor> inputs) {
    const std::vector<Tensor> all(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(c.tensors.size()));
    return jvp_flat(by_active(c, all, f), c.active_of(all), inputs.subspan(c.tensors.size())).tangents;
  };
}

/// (all inputs, cotangents of the outputs) -> cotangents of the active inputs.
Function pullback_of(const Case& c, const Function& f) {
  return [&c, &f](std::span<const Tensor> inputs) {
    const std::vector<Tensor> all(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(c.tensors.size()));
    const FlatVjp vjp = vjp_flat(by_active(c, all, f), c.active_of(all), "vjp");
    const std::vector<Tensor> gradient = vjp.pullback(inputs.subspan(c.tensors.size()));
    return Outputs(gradient.begin(), gradient.end());
  };
}

/// The inputs of `pushforward_of` and `pullback_of` for all lanes, drawn for one mapping.
struct Derivation {
  Derivation(const Case& c, const Mapping& mapping)
      : batch(draw_batch(c, mapping.in, lane_count)), in(mapping.in), active(c.active_of(mapping.in)) {
    Random random(c.seed + "/derivative");
    tangents = random.weights_like(c.active_of(batch.arrays));
    for (const Array& output : to_arrays(c.call(c.tensors))) {
      if (!is_float(output.dtype))
        throw Mismatch("an output beside the differentiable ones is no float: extend batching.cpp");
      out.emplace_back(out_axis(mapping.out, output.shape.rank()));
      cotangents.push_back(random.weights(output.dtype, with_axis(output.shape, out.back().axis, lane_count)));
    }
  }
  Arrays lane(const Arrays& weights, const std::vector<MapAxis>& axes, Index b) const {
    return joined(lanes_of(batch.arrays, in, b), lanes_of(weights, axes, b));
  }

  Batch batch;
  // The axes along which inputs, active inputs and outputs have the lanes.
  std::vector<MapAxis> in, active, out;
  Arrays tangents, cotangents;
};

std::string in_lane(const Mapping& mapping, Index b, const char* what) {
  return text(mapping) + ", lane " + std::to_string(b) + ": " + what;
}

/// vmap of a derivative: each lane's result equals the derivative of that lane alone.
void check_vmap_of(const Case& c, Function (*derivative_of)(const Case&, const Function&), bool forward) {
  const Function f = [&](auto xs) { return c.call(xs); };
  const Function derivative = derivative_of(c, f);
  for (const Mapping& mapping : mappings(c)) {
    const Derivation d(c, mapping);
    const Arrays& weights = forward ? d.tangents : d.cotangents;
    const std::vector<MapAxis>& axes = forward ? d.active : d.out;
    const Function mapped = vmapped(derivative, joined(d.in, axes), mapping.out, lane_count);
    const Arrays results = to_arrays(mapped(joined(d.batch.tensors, to_tensors(weights))));
    for (Index b = 0; b < lane_count; ++b)
      compare(in_lane(mapping, b, "derivative"), Kind::lanes, out_lanes(results, mapping.out, b),
              looped(derivative, d.lane(weights, axes, b)));
  }
}

}  // namespace

void check_vmap_of_jvp(const Case& c) { check_vmap_of(c, pushforward_of, true); }
void check_vmap_of_vjp(const Case& c) { check_vmap_of(c, pullback_of, false); }

void check_jvp_of_vmap(const Case& c) {
  const Function f = [&](auto xs) { return c.call(xs); };
  for (const Mapping& mapping : mappings(c)) {
    const Derivation d(c, mapping);
    const Function mapped = vmapped(f, mapping.in, mapping.out, lane_count);
    const Arrays got = to_arrays(pushforward_of(c, mapped)(joined(d.batch.tensors, to_tensors(d.tangents))));
    for (Index b = 0; b < lane_count; ++b)
      compare(in_lane(mapping, b, "tangent"), Kind::lanes, lanes_of(got, d.out, b),
              looped(pushforward_of(c, f), d.lane(d.tangents, d.active, b)));
  }
}

// The cotangent of a mapped input contains each lane's cotangent;
// that of an unmapped input is the sum over the lanes.
void check_vjp_of_vmap(const Case& c) {
  const Function f = [&](auto xs) { return c.call(xs); };
  for (const Mapping& mapping : mappings(c)) {
    const Derivation d(c, mapping);
    const Function mapped = vmapped(f, mapping.in, mapping.out, lane_count);
    const Arrays got = to_arrays(pullback_of(c, mapped)(joined(d.batch.tensors, to_tensors(d.cotangents))));
    Arrays sums;
    for (Index b = 0; b < lane_count; ++b) {
      const Arrays lane = looped(pullback_of(c, f), d.lane(d.cotangents, d.out, b));
      if (b == 0) sums = lane;
      else add_to(sums, lane);
      for (std::size_t k = 0; k < lane.size(); ++k)
        if (d.active[k].mapped)
          compare(in_lane(mapping, b, "cotangent"), Kind::lanes, lane_of(got[k], d.active[k], b), lane[k]);
    }
    for (std::size_t k = 0; k < sums.size(); ++k)
      if (!d.active[k].mapped)
        compare(text(mapping) + ": cotangent of an unmapped input", Kind::lanes, got[k], sums[k]);
  }
}

// ---- nested vmaps ------------------------------------------------------------------------------

namespace {

struct Nest {
  Mapping outer, inner;
};

/// Both levels map all inputs, along equal and along different axes;
/// then some inputs are mapped by one level only.
std::vector<Nest> nests(const Case& c) {
  const std::size_t n = c.arrays.size();
  const auto all = [&](Index axis) { return std::vector<MapAxis>(n, MapAxis(axis)); };
  const auto every_second = [&](std::size_t first, Index axis) {
    std::vector<MapAxis> axes(n, MapAxis(unmapped));
    for (std::size_t i = first; i < n; i += 2) axes[i] = MapAxis(axis);
    return axes;
  };
  const auto first_only = [&] {
    std::vector<MapAxis> axes(n, MapAxis(unmapped));
    if (n > 0) axes[0] = MapAxis(0);
    return axes;
  };
  return {{{all(0), 0}, {all(0), 0}},
          {{all(-1), 0}, {all(0), -1}},
          {{all(0), -1}, {all(-1), 0}},
          {{all(-2), -2}, {all(-1), -2}},
          {{every_second(0, 0), -1}, {every_second(1, -1), 0}},
          {{every_second(1, -1), 0}, {every_second(0, 0), -1}},
          {{first_only(), 0}, {all(0), 0}}};
}

// Replaces -2 by -1 where a tensor with lanes has only one axis.
std::vector<MapAxis> within_rank(std::vector<MapAxis> axes, const std::vector<Shape>& shapes) {
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i].mapped && axes[i].axis == -2) axes[i].axis = second_last(shapes[i].rank());
  return axes;
}

}  // namespace

void check_vmap_of_vmap(const Case& c) {
  constexpr Index outer_size = 2;
  const Function f = [&](auto xs) { return c.call(xs); };
  for (Nest nest : nests(c)) {
    std::vector<Shape> shapes;
    for (const Array& x : c.arrays) shapes.push_back(x.shape);
    nest.inner.in = within_rank(nest.inner.in, shapes);
    for (std::size_t i = 0; i < shapes.size(); ++i) shapes[i] = batched(shapes[i], nest.inner.in[i], lane_count);
    nest.outer.in = within_rank(nest.outer.in, shapes);

    const Batch batch = draw_batch(c, nest.inner.in, lane_count, nest.outer.in, outer_size);
    const Function inner = vmapped(f, nest.inner.in, nest.inner.out, lane_count);
    const Arrays results = to_arrays(vmapped(inner, nest.outer.in, nest.outer.out, outer_size)(batch.tensors));
    for (Index a = 0; a < outer_size; ++a)
      for (Index b = 0; b < lane_count; ++b) {
        const Arrays lanes = lanes_of(lanes_of(batch.arrays, nest.outer.in, a), nest.inner.in, b);
        compare_lanes(c,
                      "outer " + text(nest.outer) + ", inner " + text(nest.inner) + ", lanes " + std::to_string(a) +
                          ", " + std::to_string(b) + ": output",
                      out_lanes(out_lanes(results, nest.outer.out, a), nest.inner.out, b), looped(f, lanes));
      }
  }
}

}  // namespace table
