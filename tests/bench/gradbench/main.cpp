// Evaluates a function of a module of GradBench (github.com/gradbench/gradbench), as its tools of
// C++ do:
//
//   stave_gradbench MODULE FILE FUNCTION [TOOL] [--processor-time]
//   stave_gradbench MODULE [TOOL]   fails if there is no such module
//
// FILE holds the input as JSON, with min_runs (default 1) and min_seconds (default 0). The first
// line of the output is the result as JSON, the next ones are times:
//   {"name":"prepare","nanoseconds":...}     once: from JSON to tensors, and recording
//   {"name":"evaluate","nanoseconds":...}    for each run
// TOOL: --plain, the function in plain C++; in stave_gradbench_peers also --adolc, --cppad,
// --sacado or --ceres, if it was found here. --processor-time: times are those of the process,
// without those of other programs of the machine.
#include <time.h>

#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "modules.h"

namespace {

using namespace gradbench;

long long nanoseconds(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return 1'000'000'000LL * time.tv_sec + time.tv_nsec;
}

void print_time(const char* name, long long time) { std::cout << Json{{"name", name}, {"nanoseconds", time}} << "\n"; }

Modules modules_by(const std::set<std::string>& options) {
  const std::map<std::string, Modules (*)()> tools{{"--plain", by_plain_cpp},
#ifdef WITH_ADOLC
                                                   {"--adolc", by_adolc},
#endif
#ifdef WITH_CPPAD
                                                   {"--cppad", by_cppad},
#endif
#ifdef WITH_SACADO
                                                   {"--sacado", by_sacado},
#endif
#ifdef WITH_CERES
                                                   {"--ceres", by_ceres},
#endif
                                                   {"--processor-time", nullptr}};
  Modules modules = by_stave();
  for (const std::string& option : options) {
    const auto tool = tools.find(option);
    if (tool == tools.end()) throw std::invalid_argument("there is no option " + option);
    if (tool->second) modules = tool->second();
  }
  return modules;
}

using Functions = Modules::mapped_type;

const Functions& module_of(const Modules& modules, const std::string& module) {
  const auto found = modules.find(module);
  if (found == modules.end()) throw std::invalid_argument("there is no module " + module);
  return found->second;
}

const Prepare& function_of(const Functions& functions, const std::string& function) {
  const auto found = functions.find(function);
  if (found == functions.end()) throw std::invalid_argument("the module has no function " + function);
  return found->second;
}

// An input that is a number (module hello) has no options.
template <class T>
T option(const Json& input, const char* name, T otherwise) {
  return input.is_object() ? input.value(name, otherwise) : otherwise;
}

Json read(const char* path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(std::string("cannot read ") + path);
  return Json::parse(file);
}

void run(const Prepare& prepare, const Json& input, clockid_t clock) {
  const int min_runs = option(input, "min_runs", 1);
  const double min_nanoseconds = 1e9 * option(input, "min_seconds", 0.);
  const long long begin = nanoseconds(clock);
  const Evaluation evaluation = prepare(input);
  const long long prepared = nanoseconds(clock) - begin;
  std::vector<long long> times;
  for (double total = 0; static_cast<int>(times.size()) < min_runs || total < min_nanoseconds;) {
    const long long before = nanoseconds(clock);
    evaluation.compute();
    times.push_back(nanoseconds(clock) - before);
    total += static_cast<double>(times.back());
  }
  std::cout << evaluation.output() << "\n";
  print_time("prepare", prepared);
  for (const long long time : times) print_time("evaluate", time);
}

}  // namespace

int main(int count, char** arguments) {
  std::set<std::string> options;
  std::vector<std::string> operands;
  for (const std::string argument : std::span(arguments + 1, arguments + count)) {
    if (argument.starts_with("--")) options.insert(argument);
    else operands.push_back(argument);
  }
  if (operands.size() != 1 && operands.size() != 3) {
    std::cerr << "usage: " << arguments[0] << " MODULE FILE FUNCTION [TOOL] [--processor-time]\n";
    return 2;
  }
  try {
    const Modules modules = modules_by(options);
    const Functions& functions = module_of(modules, operands[0]);
    const clockid_t clock = options.count("--processor-time") ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    if (operands.size() > 1) run(function_of(functions, operands[2]), read(operands[1].c_str()), clock);
  } catch (const std::exception& e) {
    std::cerr << arguments[0] << ": " << e.what() << "\n";
    return 1;
  }
}
