// Writes operations, durations, sizes and tables as text.
#include <stave/core/op/notation.h>

#include <algorithm>

#include <fmt/format.h>

#include <stave/core/effects/scope.h>
#include <stave/core/tensor/label.h>
#include <stave/core/tensor/print.h>

namespace stave_detail {

Place place_of_performer() {
  Place place;
  const auto& interception = static_cast<const Interception&>(*current);
  visit_frames(interception.performer, interception.answering, [&](const Frame& frame) {
    const NamePtr* const scope = scope_of(frame);
    place.depth += scope || frame.kind == Frame::Kind::interception;
    if (scope) place.scopes.push_back(*scope);
  });
  return place;
}

namespace {

// The short name of a dtype: "f32", "u8", "bf16", "bool".
std::string short_name(Dtype dtype) {
  if (dtype == bool_) return "bool";
  const char* const kind = dtype == bfloat16    ? "bf"
                           : is_complex(dtype)  ? "c"
                           : is_float(dtype)    ? "f"
                           : is_unsigned(dtype) ? "u"
                                                : "i";
  return kind + std::to_string(8 * size_of(dtype));
}

std::string notation_of_one(const Tensor& x) {
  if (!x.defined()) return "undefined";
  return notation(label_of(x.node()), x.dtype(), x.shape(), x.device());
}

}  // namespace

std::string notation(const NamePtr& label, Dtype dtype, const Shape& shape, Device device) {
  return (label ? label->text + ":" : "") + short_name(dtype) + shape.str() + (device == cpu ? "" : "@" + device.str());
}

std::string notation(std::span<const Tensor> xs) {
  std::string list;
  for (const Tensor& x : xs) list += (list.empty() ? "" : ", ") + notation_of_one(x);
  return list;
}

std::string attributes_of(const Call& call) { return call.attributes() ? call.attributes()->str() : ""; }

std::string notation(const Call& call) {
  std::string text = call.op().name;
  if (const std::string attributes = attributes_of(call); !attributes.empty()) text += ' ' + attributes;
  if (!call.inputs().empty()) text += ' ' + notation(call.inputs());
  return text;
}

Device device_of(const Call& call) {
  if (call.op().id == OpId::to)
    if (const Device device = call.as<TransferAttributes>().device; device != cpu) return device;
  for (const Tensor& input : call.inputs())
    if (input.device() != cpu) return input.device();
  return call.inputs().empty() && !call.op().is_higher_order ? call.as<PlacedAttributes>().device : cpu;
}

std::unique_ptr<BackendStopwatch> stopwatch_of(const Call& call) { return backend_of(device_of(call)).stopwatch(); }

std::string duration_text(Clock::duration duration) {
  const double ns = std::chrono::duration<double, std::nano>(duration).count();
  struct Unit {
    double ns;
    const char* name;
  };
  for (Unit unit : {Unit{1e9, "s"}, Unit{1e6, "ms"}, Unit{1e3, "us"}})
    if (ns >= 0.9995 * unit.ns)  // rounded to three digits, the duration is at least one unit
      return ns < 999.5 * unit.ns ? fmt::format("{:.3g} {}", ns / unit.ns, unit.name)
                                  : fmt::format("{:.0f} {}", ns / unit.ns, unit.name);
  return fmt::format("{:.0f} ns", ns);
}

std::string size_text(std::uint64_t bytes) {
  constexpr const char* names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double amount = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; amount >= 1023.95 && unit + 1 < std::size(names); ++unit)
    amount /= 1024;  // from 1023.95 on, one decimal would show "1024.0"
  return fmt::format("{:.1f} {}", amount, names[unit]);
}

namespace {

std::uint64_t bytes_of_one(const Tensor& x) {
  if (!x.defined()) return 0;
  const Tensor* value = &x;
  while (const Tensor* lanes = find_lanes(*value)) value = lanes;
  std::uint64_t bytes = size_of(value->dtype());
  for (std::size_t axis = 0; axis < value->shape().size(); ++axis)
    if (const Index length = value->shape()[axis]; length == 0 || value->strides()[axis] != 0)
      bytes *= static_cast<std::uint64_t>(length);
  return bytes;
}

}  // namespace

std::uint64_t bytes_of(std::span<const Tensor> xs) {
  std::uint64_t bytes = 0;
  for (const Tensor& x : xs) bytes += bytes_of_one(x);
  return bytes;
}

std::string table(std::span<const Row> rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    if (!row.empty()) text += fmt::format("{:<{}}", row[0], widths[0]);
    for (std::size_t i = 1; i < row.size(); ++i) text += fmt::format("  {:>{}}", row[i], widths[i]);
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

}  // namespace stave_detail
