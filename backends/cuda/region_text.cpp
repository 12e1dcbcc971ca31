#include <stave/backends/cuda/region_text.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include <stave/backends/cuda/elementwise_plan.h>
#include <stave/core/op/op.h>

namespace stave_cuda {

using stave::Dtype, stave::OpId, stave::Region;

namespace {

constexpr const char* structs[] = {  // indexed by OpId
#define X(name, Struct) #Struct,
    STAVE_UNARY_OPS(X) STAVE_BINARY_OPS(X)
#undef X
};
constexpr const char* types[] = {  // indexed by dtype
#define X(name, type) #type,
    STAVE_REALS(X)
#undef X
};
const char* type_of(Dtype dtype) { return types[static_cast<int>(dtype)]; }
/// Returns the C++ type of a value. A bool is a byte.
const char* element_of(Dtype dtype) { return dtype == stave::bool_ ? "std::uint8_t" : type_of(dtype); }

std::string expression(const Region& region, const Region::Step& step) {
  const auto operand = [&](std::size_t i) { return fmt::format("v{}", step.operands[i]); };
  const Dtype from = region.dtype(step.operands.back());
  switch (step.op->id) {
    case OpId::stop_gradient: return operand(0);
    case OpId::astype:
      return from == step.dtype ? operand(0) : fmt::format("converted<{}>({})", type_of(step.dtype), operand(0));
    case OpId::where: return fmt::format("Choose::apply({}, {}, {})", operand(0), operand(1), operand(2));
    default: break;
  }
  const char* const name = structs[static_cast<std::size_t>(step.op->id)];
  if (step.operands.size() == 1) return fmt::format("step<{}, {}>({})", name, type_of(from), operand(0));
  return fmt::format("step<{}, {}>({}, {})", name, type_of(from), operand(0), operand(1));
}

std::string parameters(const Region& region, const std::vector<int>& written) {
  std::string text = "const std::uint64_t elements";
  for (std::size_t i = 0; i < region.inputs().size(); ++i) text += fmt::format(", STAVE_PARAMETER RegionInput in{}", i);
  for (std::size_t k = 0; k < written.size(); ++k)
    text += fmt::format(", {}* const out{}", element_of(region.dtype(written[k])), k);
  for (std::size_t s = 0; s < region.steps().size(); ++s)
    if (const Region::Step& step = region.steps()[s]; !step.op)
      text += fmt::format(", const {} v{}", element_of(step.dtype), region.inputs().size() + s);
  return text;
}

}  // namespace

std::vector<int> written_values(const Region& region) {
  std::vector<int> written;
  for (const int output : region.outputs())
    if (!region.reduction(output)) written.push_back(output);
  for (const int output : region.outputs())
    if (const int value = region.value_behind(output); value >= static_cast<int>(region.inputs().size()))
      if (std::find(written.begin(), written.end(), value) == written.end()) written.push_back(value);
  return written;
}

int region_lanes(const Region& region) {
  std::size_t widest = 1;
  for (const Dtype dtype : region.inputs()) widest = std::max(widest, stave::size_of(dtype));
  for (const int value : written_values(region)) widest = std::max(widest, stave::size_of(region.dtype(value)));
  // The source repeats all steps for each lane, which costs compile time and registers. With many
  // steps memory is not the bottleneck, so one lane is enough.
  constexpr std::size_t many_steps = 64;
  return region.steps().size() > many_steps ? 1 : lanes_of(widest);
}

std::string region_text(const Region& region, std::string_view name) {
  const auto inputs = region.inputs().size();
  const std::vector<int> written = written_values(region);
  std::string text = "#include <stave/backends/cuda/kernels/region.cuh>\n\n";
  text += "using namespace stave_cuda;\nusing namespace stave_detail;\n\n";
  text += fmt::format("STAVE_REGION_KERNEL {}({}) {{\n", name, parameters(region, written));
  text += fmt::format("  constexpr int lanes = {};\n", region_lanes(region));
  text += "  const Run run = run_of<lanes>(STAVE_REGION_THREAD, elements);\n  if (run.count == 0) return;\n";
  // The compiler would need seconds for many inlined loads.
  const char* const load = inputs <= 8 ? "load" : "load_by_call";
  for (std::size_t i = 0; i < inputs; ++i)
    text +=
        fmt::format("  const auto given{0} = {1}<{2}, lanes>(in{0}, run);\n", i, load, element_of(region.inputs()[i]));
  for (std::size_t k = 0; k < written.size(); ++k)
    text += fmt::format("  Pack<{}, lanes> made{};\n", element_of(region.dtype(written[k])), k);
  text += "  STAVE_UNROLLED\n  for (int j = 0; j < lanes; ++j) {\n";
  for (std::size_t i = 0; i < inputs; ++i)
    text += fmt::format("    const {0} v{1} = given{1}.lane[j];\n", element_of(region.inputs()[i]), i);
  for (std::size_t s = 0; s < region.steps().size(); ++s)
    if (const Region::Step& step = region.steps()[s]; step.op)
      text += fmt::format("    const {} v{} = {};\n", element_of(step.dtype), inputs + s, expression(region, step));
  for (std::size_t k = 0; k < written.size(); ++k) text += fmt::format("    made{}.lane[j] = v{};\n", k, written[k]);
  text += "  }\n";
  for (std::size_t k = 0; k < written.size(); ++k) text += fmt::format("  store(out{0}, run, made{0});\n", k);
  return text + "}\n";
}

std::string region_signature(const Region& region) {
  std::string bytes;
  const auto add = [&](auto number) {
    const auto word = static_cast<std::int32_t>(number);
    bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
  };
  const auto add_list = [&](const auto& numbers) {
    add(numbers.size());
    for (const auto number : numbers) add(number);
  };
  add_list(region.inputs());
  add_list(written_values(region));
  for (const Region::Step& step : region.steps()) {
    add(step.op ? static_cast<int>(step.op->id) : -1);
    add(step.dtype);
    add_list(step.operands);
  }
  return bytes;
}

}  // namespace stave_cuda
