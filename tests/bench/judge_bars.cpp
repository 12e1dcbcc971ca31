// The program that judges measurements by the bars (bars.h).
//
//   stave_bars FILTER FILE...
//     prints the median of each benchmark that the bars need, details of the judgement, and one
//     line for each bar:
//       bar NAME MEASURED LIMIT holds|short|unsure
//       bar NAME - LIMIT skipped    (a peer or a GPU is missing, or there is no limit)
//   stave_bars --needs FILTER
//     prints a regular expression that matches the names of these benchmarks
//
// FILTER is a regular expression that matches a part of a bar's name. The files are JSON in Google
// Benchmark's layout, with repetitions. Files whose names have the same end, from the last '-' on,
// belong to one round. A bar's value is computed from the medians of each round, and the median
// over the rounds is judged. So a machine that slows down during the run slows both sides of a
// ratio.
//
// A limit in nanoseconds is a multiple of the time of `reference` (reference.cpp), or of another
// benchmark, in the same rounds: it is longer on a slow or busy machine. If even `reference` varies
// (the middle half of its samples spans more than a third of their median), a bar is `unsure`.
//
// Exit status: 0 if no bar is short, 1 if one is, 2 for a benchmark that failed or is missing, or
// for bad arguments.
#include "bars.h"

#include <algorithm>
#include <cmath>
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

namespace stave_bench {
namespace {

std::vector<Bar> bars_matching(const std::string& filter) {
  const std::regex pattern(filter);
  std::vector<Bar> bars = all_bars();
  std::erase_if(bars, [&](const Bar& bar) { return !std::regex_search(bar.name, pattern); });
  if (bars.empty()) throw std::invalid_argument("no bar's name matches '" + filter + "'");
  return bars;
}

/// Returns the names of the bars' benchmarks, each once, in order, with the reference first.
std::vector<std::string> benchmarks_of(std::span<const Bar> bars) {
  std::vector<std::string> names{"reference"};
  const auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const Bar& bar : bars) {
    for (const std::string& name : bar.benchmarks) add(name);
    if (bar.unit) add(bar.unit);
  }
  return names;
}

// ---- samples ------------------------------------------------------------------------------------

/// Times in nanoseconds by benchmark: the time for an operation if there is a counter `per_op`,
/// else for an iteration. A counter `norm` of the result becomes the benchmark "NAME norm".
using Samples = std::map<std::string, std::vector<double>>;
using Rounds = std::map<std::string, Samples>;

/// Returns the end of the file's name, from the last '-' on.
std::string round_of(const std::string& path) {
  const std::size_t dash = path.find_last_of("-/");
  return dash == path.npos || path[dash] == '/' ? "" : path.substr(dash);
}

/// Returns the value after "key" in a line of JSON with one member per line, as Google Benchmark
/// writes it; without quotes.
std::optional<std::string> member(std::string_view line, const std::string& key) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string head = '"' + key + "\": ";
  if (!line.starts_with(head)) return std::nullopt;
  line.remove_prefix(head.size());
  if (line.ends_with(',')) line.remove_suffix(1);
  if (line.starts_with('"') && line.size() > 1) line = line.substr(1, line.size() - 2);
  return std::string(line);
}

/// Returns the name without the suffixes of Iterations(), UseRealTime() and UseManualTime().
std::string plain_name(const std::string& name) {
  return name.substr(0, std::min({name.find("/iterations:"), name.find("/real_time"), name.find("/manual_time")}));
}

void read_samples(const std::string& path, Samples& samples) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  std::string name;
  bool repetition = false;
  double time = 0;
  double norm = std::numeric_limits<double>::quiet_NaN();
  for (std::string line; std::getline(file, line);) {
    if (const auto value = member(line, "run_name")) name = plain_name(*value);
    if (const auto value = member(line, "run_type")) repetition = *value == "iteration";
    if (const auto value = member(line, "error_message")) throw std::runtime_error(name + " failed: " + *value);
    if (const auto value = member(line, "real_time")) time = std::stod(*value);
    if (const auto value = member(line, "time_unit"); value && *value != "ns")
      throw std::runtime_error(path + ": " + name + " is in " + *value + "; expected ns");
    if (const auto value = member(line, "per_op"))
      time = 1e9 * std::stod(*value);  // a rate by Google Benchmark, in seconds
    if (const auto value = member(line, "norm")) norm = std::stod(*value);
    const bool ends = line.find('}') != line.npos;
    if (ends && repetition) samples[name].push_back(time);
    if (ends && repetition && !std::isnan(norm)) samples[name + " norm"].push_back(norm);
    if (ends) norm = std::numeric_limits<double>::quiet_NaN();
    if (ends) repetition = false;
  }
}

/// Returns the value below which `part` of all values lie.
double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const double at = part * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at), above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}
double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

std::vector<double> all_of(const Rounds& rounds, const std::string& benchmark) {
  std::vector<double> all;
  for (const auto& [name, samples] : rounds)
    if (const auto found = samples.find(benchmark); found != samples.end())
      all.insert(all.end(), found->second.begin(), found->second.end());
  return all;
}

// ---- judging ------------------------------------------------------------------------------------

bool is_of_peer(const std::string& benchmark) {
  return benchmark.starts_with("torch_") || benchmark.starts_with("jax_") || benchmark.starts_with("scipy_") ||
         benchmark.starts_with("onnxruntime_");
}
/// Returns true for benchmarks that need a peer, a device, a model's file or MPI, which may be
/// missing.
bool may_be_missing(const std::string& benchmark) {
  return is_of_peer(benchmark) || benchmark.starts_with("gpu_") || benchmark.starts_with("minilm_") ||
         benchmark.starts_with("onnx_") || benchmark.starts_with("ranks_");
}

double time_of(const std::string& benchmark, const Bar& bar, const Samples& samples) {
  const auto found = samples.find(benchmark);
  if (found == samples.end())
    throw std::runtime_error("there is no sample of " + benchmark + ", which " + bar.name + " needs");
  return median(found->second);
}

bool is_there(const Bar& bar, const Samples& samples) {
  const bool complete = std::none_of(bar.benchmarks.begin(), bar.benchmarks.end(), [&](const std::string& name) {
    return may_be_missing(name) && !samples.contains(name);
  });
  for (const std::string& name : bar.benchmarks)
    if (!may_be_missing(name)) time_of(name, bar, samples);  // throws if it is missing
  return complete;
}

/// Throws if a peer's result has another norm.
void check_norms(const Bar& bar, const Samples& samples) {
  const auto norm_of = [&](const std::string& name) {
    const auto found = samples.find(name + " norm");
    return found == samples.end() ? std::nullopt : std::optional(median(found->second));
  };
  std::optional<double> own;
  for (const std::string& name : bar.benchmarks) {
    const std::optional<double> norm = norm_of(name);
    if (!is_of_peer(name)) own = norm;
    else if (own && norm && std::abs(*norm - *own) > 0.01 * *own)
      throw std::runtime_error(bar.name + (": the norm of the result is " + std::to_string(*own)) + ", and " +
                               std::to_string(*norm) + " of " + name);
  }
}

/// Returns the median over the rounds of `of` the benchmarks' times.
double over_rounds(const Bar& bar, const Rounds& rounds, double (*of)(Times)) {
  std::vector<double> values;
  for (const auto& [round, samples] : rounds) {
    std::vector<double> times;
    for (const std::string& name : bar.benchmarks) times.push_back(time_of(name, bar, samples));
    values.push_back(of(times) / (bar.unit ? time_of(bar.unit, bar, samples) : 1));
  }
  return median(values);
}

/// Prints whether arithmetic or memory limits an operation.
void print_bound(const Bar& bar, const Rounds& rounds) {
  const double memory = over_rounds(bar, rounds, bar.memory), arithmetic_alone = over_rounds(bar, rounds, arithmetic);
  const double cycle = over_rounds(bar, rounds, [](Times t) { return t[2]; });
  std::printf("bound %s %s: %.2f ms for the bytes, %.2f ms for the arithmetic, %.2f cycles an element at %.2f GHz\n",
              bar.name, memory > arithmetic_alone ? "memory" : "arithmetic", memory / 1e6, arithmetic_alone / 1e6,
              arithmetic_alone / large_count / cycle, 1 / cycle);
}

/// Prints the bar's line. Returns true if the bar is short.
bool judge(const Bar& bar, const Rounds& rounds, bool sure) {
  const auto there = [&](const auto& round) { return is_there(bar, round.second); };
  const double unit = bar.unit ? median(all_of(rounds, bar.unit)) : 1;
  if (!std::all_of(rounds.begin(), rounds.end(), there) || bar.limit == no_limit) {
    std::printf("bar %s - %.4g skipped\n", bar.name, bar.limit * unit);
    return false;
  }
  for (const auto& [round, samples] : rounds) check_norms(bar, samples);
  const double measured = over_rounds(bar, rounds, bar.measured);
  if (bar.memory) print_bound(bar, rounds);
  if (bar.unit) std::printf("ratio %s %.3g of %s, at most %.3g\n", bar.name, measured, bar.unit, bar.limit);
  const bool holds = bar.side == Bar::at_most ? measured <= bar.limit : measured >= bar.limit;
  const double shown = measured * unit;
  std::printf("bar %s %.*f %.4g %s\n", bar.name, shown < 10 ? 3 : 1, shown, bar.limit * unit,
              !sure   ? "unsure"
              : holds ? "holds"
                      : "short");
  return sure && !holds;
}

int judge_all(std::span<const Bar> bars, std::span<char* const> files) {
  Rounds rounds;
  for (const char* file : files) read_samples(file, rounds[round_of(file)]);
  for (const std::string& name : benchmarks_of(bars))
    if (const std::vector<double> all = all_of(rounds, name); !all.empty())
      std::printf("median %s %.1f ns of %zu\n", name.c_str(), median(all), all.size());
  const std::vector<double> reference = all_of(rounds, "reference");
  if (reference.empty()) throw std::runtime_error("there is no sample of reference, which all bars need");
  const double spread = (quantile(reference, 0.75) - quantile(reference, 0.25)) / median(reference);
  const bool sure = spread <= 1. / 3;
  std::printf("spread reference %.0f %%%s\n", 100 * spread, sure ? "" : ": this machine is too busy to judge");
  bool any_short = false;
  for (const Bar& bar : bars) any_short |= judge(bar, rounds, sure);
  return any_short ? 1 : 0;
}

int print_needs(std::span<const Bar> bars) {
  std::string pattern;
  for (const std::string& name : benchmarks_of(bars)) pattern += (pattern.empty() ? "" : "|") + name;
  std::printf("^(%s)(/iterations:[0-9]+)?(/real_time|/manual_time)?$\n", pattern.c_str());
  return 0;
}

}  // namespace
}  // namespace stave_bench

int main(int argc, char** argv) {
  const std::span<char* const> arguments(argv + 1, static_cast<std::size_t>(argc - 1));
  try {
    if (arguments.size() < 2)
      throw std::invalid_argument("usage: stave_bars FILTER FILE... | stave_bars --needs FILTER");
    if (std::string_view(arguments[0]) == "--needs")
      return stave_bench::print_needs(stave_bench::bars_matching(arguments[1]));
    return stave_bench::judge_all(stave_bench::bars_matching(arguments[0]), arguments.subspan(1));
  } catch (const std::exception& error) {
    std::cerr << "stave_bars: " << error.what() << "\n";
    return 2;
  }
}
