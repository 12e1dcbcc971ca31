// The functions of GradBench's modules, by Stave and in plain C++.
#pragma once

#include <functional>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

namespace gradbench {

using Json = nlohmann::json;

/// A function at one input.
struct Evaluation {
  std::function<void()> compute;  ///< this is measured
  std::function<Json()> output;   ///< the result that was computed last
};

/// Makes of an input what `compute` reads. GradBench measures this once, apart from the runs.
using Prepare = std::function<Evaluation(const Json& input)>;

/// The functions of all modules: module -> function.
using Modules = std::map<std::string, std::map<std::string, Prepare>>;

/// Written with tensors (problems.h, lstm.h, hand.h, descent.h), differentiated by transforms, and
/// compiled. Recording is part of the preparation.
Modules by_stave();

/// In plain C++ (plain.h, cpp_tools/programs.h). Derivatives are by dual numbers, one for each
/// variable: they are for tests.
Modules by_plain_cpp();

/// Derivatives of the functions in plain C++ by other tools (CMakeLists.txt says which are here).
Modules by_adolc();
Modules by_cppad();
Modules by_sacado();
Modules by_ceres();

}  // namespace gradbench
