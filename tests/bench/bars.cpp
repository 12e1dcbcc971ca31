// The bars that benchmarks are held to, and who judges them.
//
//   stave_bars FILTER FILE...          prints the median of each benchmark that the bars need, then one line for each bar:
//                                        bar NAME MEASURED LIMIT holds|short
//                                        bar NAME - LIMIT skipped           (a peer or a GPU was not there, or there is no limit)
//   stave_bars --needs FILTER          prints a regular expression that matches these benchmarks' names
//
// FILTER is a regular expression, of which a bar's name contains a match. The files are JSON of Google Benchmark's layout,
// with repetitions; a benchmark's samples from all files count alike, so that runs that took turns are one measurement.
// Exit status: 0 if no bar is short, 1 if one is, 2 for a benchmark that failed or is missing, or for bad arguments.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <regex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

// ---- the bars --------------------------------------------------------------------------------------------------

/// Nanoseconds: the medians of a bar's benchmarks, in their order.
using Times = std::span<const double>;

struct Bar {
  enum Side { at_most, at_least };
  const char* name;
  Side side;
  double limit;
  std::vector<std::string>
      benchmarks;  // those of peers begin with "torch_", those on a GPU with "gpu_"; both may be missing
  double (*measured)(Times t);
};

double first(Times t) { return t[0]; }
double ratio(Times t) { return t[0] / t[1]; }
double fastest(Times t) { return *std::min_element(t.begin(), t.end()); }

constexpr double no_limit = std::numeric_limits<double>::infinity();

/// By the kernels that Stave chooses here: exp is bound by memory where registers are wide, and nearly so where they are
/// half as wide. Of others nothing is asked.
double exp_limit() {
  std::string_view isa = "baseline";
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) isa = "avx2";
  if (__builtin_cpu_supports("avx512f")) isa = "avx512";
#endif
  if (const char* wanted = std::getenv("STAVE_CPU_ISA"); wanted && *wanted) isa = wanted;
  return isa == "avx512" ? 1.3 : isa == "avx2" ? 1.6 : no_limit;
}

std::vector<Bar> all_bars() {
  using enum Bar::Side;
  const auto bandwidth_of_add = [](Times t) {  // add moves three arrays while a copy moves two
    return (3 / t[0]) / (2 / fastest(t.subspan(1)));
  };
  // A median that no bar judges is printed with the bar that names it.
  const auto inverse_ratio = [](Times t) { return t[1] / t[0]; };
  const auto half_a_copy = [](Times t) { return t[1] / t[0] / 2; };  // a copy reads, and writes as much
  const auto least_product_speed = [](Times t) { return std::min(t[1] / t[0], fastest(t.subspan(3)) / t[2]); };
  const auto worse_of_two = [](Times t) { return std::max(t[0] / t[1], t[2] / t[3]); };
  return {
      // overhead.cpp, controllers.cpp
      {"scalar_add_ns", at_most, 60, {"scalar_add"}, first},
      {"scalar_add_literal_ns", at_most, 90, {"scalar_add_literal"}, first},
      {"broadcast_add_ns", at_most, 250, {"broadcast_add"}, first},
      {"forwarder_ns", at_most, 5, {"forwarders/10", "plain"}, [](Times t) { return (t[0] - t[1]) / 10; }},
      {"grad_chain_ns", at_most, 250, {"grad_chain"}, first},
      {"jvp_chain_ns", at_most, 200, {"jvp_chain"}, first},
      {"vmap_chain_ns", at_most, 250, {"vmap_chain"}, first},
      {"vmap_grad_chain_ns", at_most, 900, {"vmap_grad_chain"}, first},
      {"grad_grad_chain_ns", at_most, 1500, {"grad_grad_chain", "grad_grad_power"}, first},
      {"suspend_resume_ns", at_most, 40, {"suspend_resume"}, first},
      {"idle_handlers_ns", at_most, 15, {"idle_handlers/9", "plain"}, [](Times t) { return t[0] - t[1]; }},
      {"install_ns", at_most, 10, {"install"}, first},
      {"drop_ns", at_most, 2500, {"drop"}, first},
      // bandwidth.cpp
      {"add_vs_copy",
       at_least,
       0.85,
       {"add_large", "copy_by_memcpy", "copy_by_loop", "copy_by_stream"},
       bandwidth_of_add},
      {"exp_vs_copy",
       at_most,
       exp_limit(),
       {"exp_large", "copy_by_memcpy", "copy_by_loop", "copy_by_stream"},
       [](Times t) { return t[0] / fastest(t.subspan(1)); }},
      {"sum_vs_read",
       at_least,
       0.85,
       {"sum_large", "read_by_loop", "read_by_prefetch"},
       [](Times t) { return fastest(t.subspan(1)) / t[0]; }},
      // matmul.cpp
      {"matmul_vs_openblas",
       at_least,
       0.95,
       {"matmul_1024", "sgemm_1024", "matmul_batched", "sgemm_in_turn", "sgemm_at_a_time"},
       least_product_speed},
      // programs.cpp
      {"mlp_step_vs_torch", at_most, 1.0, {"mlp_step", "torch_mlp_step"}, ratio},
      {"per_example_vs_hand", at_most, 1.3, {"per_example_vmap", "per_example_hand"}, ratio},
      {"elementwise_chain_vs_torch",
       at_most,
       0.8,
       {"elementwise_eager", "torch_elementwise_eager", "elementwise_grad", "torch_elementwise_grad"},
       worse_of_two},
      {"softmax_vs_torch", at_most, 1.0, {"softmax_rows", "torch_softmax"}, ratio},
      {"scalar_chain_vs_torch",
       at_most,
       0.1,
       {"plain", "torch_scalar_eager", "grad_chain", "torch_scalar_grad"},
       worse_of_two},
      // gpu.cpp: skipped without a device. The first one's further medians are printed, and nothing is asked of them.
      {"gpu_host_op_ns", at_most, 3000, {"gpu_host_op", "gpu_host_grad", "gpu_host_vmap", "gpu_host_vmap_grad"}, first},
      {"gpu_add_vs_copy", at_least, 0.9, {"gpu_add_large", "gpu_copy"}, [](Times t) { return 1.5 * t[1] / t[0]; }},
      {"gpu_broadcast_vs_copy", at_least, 0.9, {"gpu_broadcast_large", "gpu_copy"}, inverse_ratio},
      {"gpu_sum_full_vs_copy", at_least, 0.9, {"gpu_sum_full", "gpu_copy"}, half_a_copy},
      {"gpu_sum_inner_vs_copy", at_least, 0.9, {"gpu_sum_inner", "gpu_copy"}, half_a_copy},
      {"gpu_sum_outer_vs_copy", at_least, 0.9, {"gpu_sum_outer", "gpu_copy"}, half_a_copy},
      {"gpu_softmax_vs_copy", at_least, 0.8, {"gpu_softmax", "gpu_copy"}, inverse_ratio},
      {"gpu_matmul_vs_cublaslt", at_least, 0.97, {"gpu_matmul", "gpu_cublaslt"}, inverse_ratio},
      {"gpu_matmul_tf32_vs_cublaslt", at_least, 0.97, {"gpu_matmul_tf32", "gpu_cublaslt_tf32"}, inverse_ratio},
      {"gpu_mlp_step_vs_torch", at_most, 1.0, {"gpu_mlp_step", "torch_gpu_mlp_step"}, ratio},
      {"gpu_per_example_vs_torch", at_most, 1.0, {"gpu_per_example", "torch_gpu_per_example"}, ratio},
      {"gpu_scalar_chain_vs_torch",
       at_most,
       1.0,
       {"gpu_scalar_chain", "torch_gpu_scalar_eager", "gpu_scalar_chain_grad", "torch_gpu_scalar_grad"},
       worse_of_two},
  };
}

std::vector<Bar> bars_matching(const std::string& filter) {
  const std::regex pattern(filter);
  std::vector<Bar> bars = all_bars();
  std::erase_if(bars, [&](const Bar& bar) { return !std::regex_search(bar.name, pattern); });
  if (bars.empty()) throw std::invalid_argument("no bar's name matches '" + filter + "'");
  return bars;
}

/// Each once, in order.
std::vector<std::string> benchmarks_of(std::span<const Bar> bars) {
  std::vector<std::string> names;
  for (const Bar& bar : bars)
    for (const std::string& name : bar.benchmarks)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

// ---- samples ---------------------------------------------------------------------------------------------------

/// Nanoseconds, by benchmark: the time for an operation where it has a counter `per_op`, else for an iteration.
using Samples = std::map<std::string, std::vector<double>>;

/// What follows "key": in a line of JSON that has one member a line, as Google Benchmark writes it; without quotes.
std::optional<std::string> member(std::string_view line, const std::string& key) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string head = '"' + key + "\": ";
  if (!line.starts_with(head)) return std::nullopt;
  line.remove_prefix(head.size());
  if (line.ends_with(',')) line.remove_suffix(1);
  if (line.starts_with('"') && line.size() > 1) line = line.substr(1, line.size() - 2);
  return std::string(line);
}

/// Without what UseRealTime() and UseManualTime() append.
std::string plain_name(const std::string& name) {
  return name.substr(0, std::min(name.find("/real_time"), name.find("/manual_time")));
}

void read_samples(const std::string& path, Samples& samples) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  std::string name;
  bool repetition = false;
  double time = 0;
  for (std::string line; std::getline(file, line);) {
    if (const auto value = member(line, "run_name")) name = plain_name(*value);
    if (const auto value = member(line, "run_type")) repetition = *value == "iteration";
    if (const auto value = member(line, "error_message")) throw std::runtime_error(name + " failed: " + *value);
    if (const auto value = member(line, "real_time")) time = std::stod(*value);
    if (const auto value = member(line, "time_unit"); value && *value != "ns")
      throw std::runtime_error(path + ": " + name + " is in " + *value + "; expected ns");
    if (const auto value = member(line, "per_op"))
      time = 1e9 * std::stod(*value);  // a rate of Google Benchmark's: seconds
    const bool ends = line.find('}') != line.npos;
    if (ends && repetition) samples[name].push_back(time);
    if (ends) repetition = false;
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

// ---- judging ---------------------------------------------------------------------------------------------------

/// Those of a peer, or of a device, that may not be there.
bool may_be_missing(const std::string& benchmark) {
  return benchmark.starts_with("torch_") || benchmark.starts_with("gpu_");
}

/// The medians of a bar's benchmarks; nothing if one that may be is missing.
std::optional<std::vector<double>> times_of(const Bar& bar, const Samples& samples) {
  std::vector<double> times;
  bool complete = true;
  for (const std::string& name : bar.benchmarks) {
    const auto found = samples.find(name);
    if (found != samples.end()) times.push_back(median(found->second));
    else if (may_be_missing(name)) complete = false;
    else throw std::runtime_error("there is no sample of " + name + ", which " + bar.name + " needs");
  }
  if (!complete) return std::nullopt;
  return times;
}

/// Whether it is short.
bool judge(const Bar& bar, const Samples& samples) {
  const auto times = times_of(bar, samples);
  if (!times || bar.limit == no_limit) {
    std::printf("bar %s - %g skipped\n", bar.name, bar.limit);
    return false;
  }
  const double measured = bar.measured(*times);
  const bool holds = bar.side == Bar::at_most ? measured <= bar.limit : measured >= bar.limit;
  std::printf("bar %s %.*f %g %s\n", bar.name, measured < 10 ? 3 : 1, measured, bar.limit, holds ? "holds" : "short");
  return !holds;
}

int judge_all(std::span<const Bar> bars, std::span<char* const> files) {
  Samples samples;
  for (const char* file : files) read_samples(file, samples);
  for (const std::string& name : benchmarks_of(bars))
    if (const auto found = samples.find(name); found != samples.end())
      std::printf("median %s %.1f ns of %zu\n", name.c_str(), median(found->second), found->second.size());
  bool any_short = false;
  for (const Bar& bar : bars) any_short |= judge(bar, samples);
  return any_short ? 1 : 0;
}

int print_needs(std::span<const Bar> bars) {
  std::string pattern;
  for (const std::string& name : benchmarks_of(bars)) pattern += (pattern.empty() ? "" : "|") + name;
  std::printf("^(%s)(/real_time|/manual_time)?$\n", pattern.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char* const> arguments(argv + 1, static_cast<std::size_t>(argc - 1));
  try {
    if (arguments.size() < 2)
      throw std::invalid_argument("usage: stave_bars FILTER FILE... | stave_bars --needs FILTER");
    if (std::string_view(arguments[0]) == "--needs") return print_needs(bars_matching(arguments[1]));
    return judge_all(bars_matching(arguments[0]), arguments.subspan(1));
  } catch (const std::exception& error) {
    std::cerr << "stave_bars: " << error.what() << "\n";
    return 2;
  }
}
