#include <stave/handlers/observe/cost.h>

#include <ostream>

#include <fmt/format.h>

#include <stave/core/op/notation.h>
#include <stave/handlers/observe/call_figures.h>

namespace stave_detail {

namespace {

// A count with a decimal prefix: "12.58 M".
std::string count_text(std::uint64_t count) {
  if (count < 1000) return fmt::format("{}", count);
  auto value = static_cast<double>(count);
  for (const char* prefix : {"k", "M", "G", "T", "P"})
    if ((value /= 1000) < 999.995) return fmt::format("{:.2f} {}", value, prefix);
  return fmt::format("{:.2f} E", value / 1000);
}

std::string flops_text(const Cost::Totals& totals) {
  if (totals.without_flops == 0) return count_text(totals.flops);
  return totals.flops == 0 ? "?" : count_text(totals.flops) + " + ?";
}

}  // namespace

Outputs CostCounter::handle(Call& call) {
  const Op& op = call.op();
  if (op.is_higher_order) return perform(std::move(call));
  const Place place = place_of_performer();
  const std::optional<std::uint64_t> flops = flops_of(call);
  const std::uint64_t read = bytes_read(call);
  const void* const viewed = op.may_be_view() ? memory_of(call.input(0)) : nullptr;
  Outputs outputs = perform(std::move(call));
  const bool is_view = viewed && memory_of(outputs[0]) == viewed;
  Cost::Totals one;
  one.calls = 1;
  one.flops = flops.value_or(0);
  one.without_flops = !flops;
  if (!is_view) {
    one.bytes_read = read;
    one.bytes_written = bytes_of(outputs);
  }
  cost_.sums.add(op.name, place.scopes, one);
  return outputs;
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

Cost::Totals& Cost::Totals::operator+=(const Totals& other) {
  calls += other.calls;
  flops += other.flops;
  bytes_read += other.bytes_read;
  bytes_written += other.bytes_written;
  without_flops += other.without_flops;
  return *this;
}

std::string Cost::str() const {
  const auto less = [](const Totals& a, const Totals& b) {
    return std::pair(a.flops, a.bytes_read + a.bytes_written) < std::pair(b.flops, b.bytes_read + b.bytes_written);
  };
  const auto cells = [](const Totals& part, const Totals&) {
    return Row{fmt::format("{}", part.calls), flops_text(part), size_text(part.bytes_read),
               size_text(part.bytes_written)};
  };
  return sums.str({"calls", "flops", "read", "written"}, less, cells) +
         fmt::format("\narguments {}, result {}, peak {} beyond the arguments\n", size_text(argument_bytes),
                     size_text(result_bytes), size_text(peak_bytes));
}

std::ostream& operator<<(std::ostream& out, const Cost& cost) { return out << cost.str(); }

}  // namespace stave
