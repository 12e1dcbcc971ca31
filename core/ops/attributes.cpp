#include <stave/core/ops/attributes.h>

#include <algorithm>

#include <stave/core/fail.h>

namespace stave {

using fmt::format;

namespace {

std::string place(Device device) { return device == cpu ? "" : " device=" + device.str(); }

}  // namespace

std::string FullAttributes::str() const {
  const std::string number = is_float(dtype) ? format("{}", value) : format("{}", integer);
  return format("shape={} dtype={} value={}{}", shape, dtype, number, place(device));
}
std::string IotaAttributes::str() const {
  return format("length={} dtype={} start={} step={}{}", length, dtype, start, step, place(device));
}
std::string TransferAttributes::str() const { return device.str(); }
std::string DtypeAttributes::str() const { return format("dtype={}", dtype); }
std::string ReduceAttributes::str() const { return format("axes={}{}", axes, keepdims ? " keepdims" : ""); }
std::string ScanAttributes::str() const { return format("axis={}{}", axis, reverse ? " reverse" : ""); }
std::string SortAttributes::str() const { return format("axis={}{}", axis, descending ? " descending" : ""); }
std::string ShapeAttributes::str() const { return shape.str(); }
std::string SliceAttributes::str() const {
  const bool unit = std::all_of(steps.begin(), steps.end(), [](Index step) { return step == 1; });
  return format("starts={} lengths={}{}", starts, lengths, unit ? "" : format(" steps={}", steps));
}
std::string PadAttributes::str() const {
  const bool unit = std::all_of(steps.begin(), steps.end(), [](Index step) { return step == 1; });
  return format("shape={} starts={}{} value={}", shape, starts, unit ? "" : format(" steps={}", steps), value);
}
std::string AxisAttributes::str() const { return format("axis={}", axis); }
std::string GatherAttributes::str() const {
  return format("batch_dims={}{}", batch_dims, from_end ? "" : " not_from_end");
}
std::string DynamicSliceAttributes::str() const { return format("batch_dims={} sizes={}", batch_dims, sizes); }
std::string RandomAttributes::str() const { return format("shape={}", shape); }
std::string UniformAttributes::str() const {
  return format("shape={} dtype={} low={} high={}", shape, dtype, low, high);
}

}  // namespace stave
