// The text form of attributes, and attributes adapted to a batch.
#include <stave/core/op/attributes.h>

#include <algorithm>

#include <stave/core/tensor/fail.h>

namespace stave {

namespace {

std::string place(Device device) { return device == cpu ? "" : " device=" + device.str(); }

Shape prepended(Index first, Shape shape) {
  shape.insert(shape.begin(), first);
  return shape;
}
Shape shifted(Shape axes) {
  for (Index& axis : axes) ++axis;
  return axes;
}

}  // namespace

std::string FullAttributes::str() const {
  return fmt::format("shape={} dtype={} value={}{}", shape, dtype, value.str(), place(device));
}
std::string IotaAttributes::str() const {
  return fmt::format("length={} dtype={} start={} step={}{}", length, dtype, start.str(), step.str(), place(device));
}
std::string TransferAttributes::str() const { return device.str(); }
std::string DtypeAttributes::str() const { return fmt::format("dtype={}", dtype); }
std::string ReduceAttributes::str() const { return fmt::format("axes={}{}", axes, keepdims ? " keepdims" : ""); }
std::string ScanAttributes::str() const { return fmt::format("axis={}{}", axis, reverse ? " reverse" : ""); }
std::string FftAttributes::str() const {
  return fmt::format("axis={} length={}{} scale={}", axis, length, inverse ? " inverse" : "", scale);
}
std::string SortAttributes::str() const { return fmt::format("axis={}{}", axis, descending ? " descending" : ""); }
std::string TopkAttributes::str() const { return fmt::format("axis={} k={}", axis, k); }
std::string SearchAttributes::str() const {
  return fmt::format("{}{}", right ? "right" : "left", batch_dims ? fmt::format(" batch_dims={}", batch_dims) : "");
}
std::string NormAttributes::str() const { return fmt::format("epsilon={}", epsilon); }
std::string ShapeAttributes::str() const { return shape.str(); }
std::string PermuteAttributes::str() const { return axes.str(); }
std::string SliceAttributes::str() const {
  const bool unit = std::all_of(steps.begin(), steps.end(), [](Index step) { return step == 1; });
  return fmt::format("starts={} lengths={}{}", starts, lengths, unit ? "" : fmt::format(" steps={}", steps));
}
std::string PadAttributes::str() const {
  const bool unit = std::all_of(steps.begin(), steps.end(), [](Index step) { return step == 1; });
  return fmt::format("shape={} starts={}{} value={}", shape, starts, unit ? "" : fmt::format(" steps={}", steps),
                     value.str());
}
std::string AxisAttributes::str() const { return fmt::format("axis={}", axis); }
std::string GatherAttributes::str() const {
  return fmt::format("batch_dims={}{}", batch_dims, from_end ? "" : " not_from_end");
}
std::string DynamicSliceAttributes::str() const { return fmt::format("batch_dims={} sizes={}", batch_dims, sizes); }
std::string CholeskyAttributes::str() const { return nan_if_indefinite ? "nan_if_indefinite" : ""; }
std::string TriangularAttributes::str() const {
  return fmt::format("{}{}{}", lower ? "lower" : "upper", transpose ? " transpose" : "", unit ? " unit_diagonal" : "");
}
std::string SolveAttributes::str() const { return transpose ? "transpose" : ""; }
std::string FactorAttributes::str() const { return full ? "full" : ""; }
std::string BandedAttributes::str() const {
  return fmt::format("lower={} upper={}{}", lower, upper, transpose ? " transpose" : "");
}
std::string ConvolutionAttributes::str() const {
  return fmt::format("strides={} low={} high={} dilations={} input_dilations={}", strides, low, high, dilations,
                     input_dilations);
}
std::string PoolAttributes::str() const {
  return fmt::format("windows={} strides={} low={} high={} dilations={}", windows, strides, low, high, dilations);
}
std::string AttentionAttributes::str() const { return fmt::format("scale={}{}", scale, causal ? " causal" : ""); }
std::string QuantizedAttributes::str() const { return fmt::format("bits={}{}", bits, transpose ? " transpose" : ""); }
std::string RandomAttributes::str() const { return fmt::format("shape={}", shape); }
std::string UniformAttributes::str() const {
  return fmt::format("shape={} dtype={} low={} high={}", shape, dtype, low, high);
}

AttributesPtr Attributes::batched(Index) const { return AttributesPtr(this); }
AttributesPtr ReduceAttributes::batched(Index) const {
  return make_intrusive<ReduceAttributes>(shifted(axes), keepdims);
}
AttributesPtr ScanAttributes::batched(Index) const { return make_intrusive<ScanAttributes>(axis + 1, reverse); }
AttributesPtr FftAttributes::batched(Index) const {
  return make_intrusive<FftAttributes>(axis + 1, length, inverse, scale);
}
AttributesPtr SortAttributes::batched(Index) const { return make_intrusive<SortAttributes>(axis + 1, descending); }
AttributesPtr TopkAttributes::batched(Index) const { return make_intrusive<TopkAttributes>(axis + 1, k); }
AttributesPtr SearchAttributes::batched(Index) const { return make_intrusive<SearchAttributes>(right, batch_dims + 1); }
AttributesPtr ShapeAttributes::batched(Index lanes) const {
  return make_intrusive<ShapeAttributes>(prepended(lanes, shape));
}
AttributesPtr PermuteAttributes::batched(Index) const {
  return make_intrusive<PermuteAttributes>(prepended(0, shifted(axes)));
}
AttributesPtr SliceAttributes::batched(Index lanes) const {
  return make_intrusive<SliceAttributes>(prepended(0, starts), prepended(lanes, lengths), prepended(1, steps));
}
AttributesPtr PadAttributes::batched(Index lanes) const {
  return make_intrusive<PadAttributes>(prepended(lanes, shape), prepended(0, starts), prepended(1, steps), value);
}
AttributesPtr AxisAttributes::batched(Index) const { return make_intrusive<AxisAttributes>(axis + 1); }
AttributesPtr GatherAttributes::batched(Index) const {
  return make_intrusive<GatherAttributes>(batch_dims + 1, from_end);
}
AttributesPtr DynamicSliceAttributes::batched(Index) const {
  return make_intrusive<DynamicSliceAttributes>(batch_dims + 1, sizes);
}

}  // namespace stave
