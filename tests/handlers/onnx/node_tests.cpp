// Runs ONNX's own tests of operators, which write_cases.py takes out of the Python package.
//
//   onnx_node_tests FOLDER                how many tests pass, and the others with reasons
//   onnx_node_tests FOLDER --markdown     writes docs/onnx_operators.md
//   onnx_node_tests FOLDER --check FILE   fails if --markdown does not write this file; or, for
//                                         another version of the package, if fewer tests pass
//   onnx_node_tests FOLDER --all          fails unless all pass
//   onnx_node_tests FOLDER --transforms   of those that pass, how many do when they are traced,
//                                         batched or differentiated
//   onnx_node_tests FOLDER NAME           runs one test
#include <algorithm>
#include <cmath>
#include <complex>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include <stave/handlers/model/keys.h>
#include <stave/handlers/onnx/messages.h>
#include <stave/handlers/onnx/onnx.h>
#include <stave/handlers/onnx/operators.h>
#include <stave/handlers/onnx/tensors.h>
#include <stave/stave.h>

namespace {

using namespace stave;
namespace detail = stave_detail;

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Case {
  std::string name{};
  std::set<std::string> operators{};
  enum Kind { passes, refused, differs } kind = passes;
  std::string reason{};
};

// The operators of a graph, of graphs in it, and of functions.
void collect(const std::vector<detail::OnnxNode>& nodes, std::set<std::string>& to) {
  for (const detail::OnnxNode& node : nodes) {
    to.insert((node.domain.empty() ? "" : node.domain + ".") + node.operation);
    for (const auto& attribute : node.attributes)
      for (const auto& graph : attribute.graphs) collect(graph.nodes, to);
  }
}

const std::string sixteen_bits = "sixteen-bit floats are rounded at other places",
                  nearly_zero = "rounding errors differ where the result is nearly 0";

// "" if x is as expected, within the tolerance of NumPy's assert_allclose.
std::string difference(const Tensor& x, const Tensor& expected, double rtol, double atol) {
  if (x.dtype() != expected.dtype() || x.shape() != expected.shape())
    return std::string(name_of(x.dtype())) + x.shape().str() + ", expected " + name_of(expected.dtype()) +
           expected.shape().str();
  const auto a = astype(x, complex128).to_vector<std::complex<double>>(),
             b = astype(expected, complex128).to_vector<std::complex<double>>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool both_nan = std::isnan(std::abs(a[i])) && std::isnan(std::abs(b[i]));
    if (a[i] == b[i] || both_nan || std::abs(a[i] - b[i]) <= atol + rtol * std::abs(b[i])) continue;
    std::ostringstream text;
    if (is_half_float(x.dtype())) text << sixteen_bits << ": ";
    else if (std::abs(b[i]) < 1e-5 && std::abs(a[i] - b[i]) < 1e-6) text << nearly_zero << ": ";
    text << "element " << i << " is " << a[i].real() << ", expected " << b[i].real();
    return text.str();
  }
  return "";
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// The values of a test.
struct Data {
  NamedTensors inputs, outputs;
  double rtol, atol;
};
Data data_of(const std::filesystem::path& folder, const std::string& name) {
  const std::string bytes = read_text(folder / (name + ".data"));
  const detail::OnnxFile file = detail::read_onnx_file(bytes, name);
  Data data{{}, {}, std::stod(file.metadata.at("rtol")), std::stod(file.metadata.at("atol"))};
  detail::OnnxFiles files(name);
  for (const detail::OnnxTensor& tensor : file.graph.initializers) {
    const bool is_input = tensor.name.starts_with("in/");
    (is_input ? data.inputs : data.outputs).emplace(tensor.name.substr(is_input ? 3 : 4), files.read(tensor));
  }
  return data;
}

Case run(const std::filesystem::path& folder, const std::string& name) {
  Case result;
  result.name = name;
  try {
    const std::string bytes = read_text(folder / (name + ".onnx"));
    const detail::OnnxFile file = detail::read_onnx_file(bytes, name);
    collect(file.graph.nodes, result.operators);
    result.kind = Case::refused;
    const OnnxModel model = read_onnx(bytes);
    const Data data = data_of(folder, name);
    result.kind = Case::differs;
    Keys keys(Key(0));
    const NamedTensors found = with(keys, [&] { return model(data.inputs); });
    for (const auto& [output, expected] : data.outputs) {
      const auto at = found.find(output);
      result.reason =
          at == found.end() ? "there is no such output" : difference(at->second, expected, data.rtol, data.atol);
      if (!result.reason.empty()) {
        result.reason = output + ": " + result.reason;
        return result;
      }
    }
    result.kind = Case::passes;
  } catch (const std::exception& error) {
    result.reason = first_line(error.what());
  }
  return result;
}

// ---- transforms ---------------------------------------------------------------------------------

// The inputs of a test that are floats; the others are constants.
NamedTensors floats_among(const NamedTensors& inputs) {
  NamedTensors floats;
  for (const auto& [name, x] : inputs)
    if (is_float(x.dtype())) floats.emplace(name, x);
  return floats;
}

// A model as a function of its inputs that are floats, with the same random keys in each call.
struct OfFloats {
  OnnxModel model;
  NamedTensors inputs;
  NamedTensors operator()(const NamedTensors& floats) const {
    NamedTensors all = inputs;
    for (const auto& [name, x] : floats) all.at(name) = x;
    Keys keys(Key(0));
    return with(keys, [&] { return model(all); });
  }
};

void expect_same(const NamedTensors& found, const NamedTensors& expected) {
  for (const auto& [name, x] : expected)
    if (const std::string text = difference(found.at(name), x, 1e-3, 1e-5); !text.empty())
      throw std::runtime_error(name + ": " + text);
}

// A replay of a recorded program computes the same.
void trace_it(const OfFloats& f, const NamedTensors& floats, const NamedTensors& expected) {
  const auto program = trace(f)(floats);
  expect_same(program(floats), expected);
}
// Each of two lanes computes what the model does alone.
void batch_it(const OfFloats& f, const NamedTensors& floats, const NamedTensors& expected) {
  NamedTensors twice, both;
  for (const auto& [name, x] : floats) twice.emplace(name, stack({x, x}));
  for (const auto& [name, x] : expected) both.emplace(name, stack({x, x}));
  expect_same(vmap(f)(twice), both);
}
// Reverse mode along a direction equals forward mode.
void differentiate_it(const OfFloats& f, const NamedTensors& floats, const NamedTensors&) {
  const auto total = [&](const NamedTensors& xs) {
    Tensor sum_of_all = tensor(0., float64);
    for (const auto& [name, y] : f(xs))
      if (is_float(y.dtype())) sum_of_all = sum_of_all + sum(sin(astype(y, float64)));
    return sum_of_all;
  };
  NamedTensors direction;
  for (const auto& [name, x] : floats)
    direction.emplace(name, reshape(astype(cos(arange(static_cast<double>(x.size()))), x.dtype()), x.shape()));
  const NamedTensors slope = grad(total)(floats);
  double reverse = 0, size = 1;
  for (const auto& [name, g] : slope) {
    const Tensor terms = astype(g, float64) * astype(direction.at(name), float64);
    reverse += sum(terms).item<double>();
    size += sum(abs(terms)).item<double>();
  }
  const double forward = std::get<1>(jvp(total, floats, direction)).item<double>();
  const bool is_half =
      std::any_of(floats.begin(), floats.end(), [](const auto& x) { return is_half_float(x.second.dtype()); });
  if (std::isfinite(forward) && std::abs(forward - reverse) > (is_half ? 5e-2 : 1e-3) * size)
    throw std::runtime_error("the derivative is " + std::to_string(reverse) + " in reverse mode and " +
                             std::to_string(forward) + " in forward mode");
}

int check_transforms(const std::filesystem::path& folder, const std::vector<Case>& cases) {
  const std::pair<const char*, void (*)(const OfFloats&, const NamedTensors&, const NamedTensors&)> transforms[] = {
      {"trace", trace_it}, {"vmap", batch_it}, {"grad and jvp", differentiate_it}};
  int faults = 0;
  for (const auto& [name, transform] : transforms) {
    int passed = 0, all = 0;
    for (const Case& c : cases) {
      if (c.kind != Case::passes) continue;
      const OfFloats f{read_onnx(read_text(folder / (c.name + ".onnx"))), data_of(folder, c.name).inputs};
      const NamedTensors floats = floats_among(f.inputs);
      if (floats.empty()) continue;
      ++all;
      try {
        transform(f, floats, f(floats));
        ++passed;
      } catch (const std::exception& error) {
        const std::string text = error.what();
        std::cout << name << " of " << c.name << ": " << first_line(text) << "\n";
        // A value that is read has no derivative, which is an error.
        faults += text.find("its derivative would be lost") == text.npos;
      }
    }
    std::cout << name << ": " << passed << " of " << all << " pass\n";
  }
  return faults > 0 ? 1 : 0;
}

std::vector<Case> run_all(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".onnx") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  std::vector<Case> cases;
  for (const std::string& name : names) cases.push_back(run(folder, name));
  return cases;
}

std::ptrdiff_t count(const std::vector<Case>& cases, Case::Kind kind) {
  return std::count_if(cases.begin(), cases.end(), [&](const Case& c) { return c.kind == kind; });
}

// Why a test does not pass, in general: all tests with one such reason make a row.
std::string category(const Case& c) {
  const auto has = [&](const char* text) { return c.reason.find(text) != c.reason.npos; };
  if (has("STRING") || has("strings")) return "there are no tensors of strings";
  if (has("which Stave does not have"))
    return "the element types of four, six and eight bits (FLOAT8, INT4 ...) do not exist in Stave";
  if (has("there is no such operator")) return "the operator is not supported";
  if (has("it is supported from opset")) return "the operator is supported from a later opset on";
  if (c.kind == Case::refused) return "the model is refused: " + c.reason;
  if (c.operators.contains("Bernoulli") || c.operators.contains("RandomUniformLike") || c.operators.contains("Dropout"))
    return "random numbers are those of another generator";
  for (const std::string& rounding : {sixteen_bits, nearly_zero})
    if (has(rounding.c_str())) return rounding;
  return "other: " + c.reason;
}

std::string short_name(const Case& c) { return c.name.substr(c.name.starts_with("test_") ? 5 : 0); }

std::string markdown(const std::vector<Case>& cases, const std::string& version) {
  std::ostringstream out;
  out << "# Operators of ONNX\n\n"
      << "The operators that `load_onnx` supports, and how many of ONNX's own node tests, those of the Python package "
         "`onnx` "
      << version << ", pass:\n"
      << count(cases, Case::passes) << " of " << cases.size() << ". This page is generated:\n\n"
      << "```sh\nbuild/python/bin/python tests/handlers/onnx/write_cases.py build/cases\n"
      << "build/ci/tests/onnx_node_tests build/cases --markdown > docs/onnx_operators.md\n```\n\n"
      << "## Supported\n\n"
      << "*From opset* is the first version of an operator's domain whose definition is followed; all later ones are, "
         "too. A test counts\n"
      << "for each operator in its model.\n\n| operator | from opset | tests that pass |\n|---|---|---|\n";
  std::map<std::string, std::pair<int, int>> tests;  // passed and all
  for (const Case& c : cases)
    for (const std::string& op : c.operators) {
      tests[op].first += c.kind == Case::passes;
      ++tests[op].second;
    }
  for (const detail::OnnxDomain& domain : detail::onnx_domains()) {
    std::map<std::string, Index> rows;
    for (const auto family : domain.families)
      for (const detail::OnnxOperator& op : family)
        rows.emplace((domain.name.empty() ? "" : std::string(domain.name) + ".") + op.name, op.since);
    for (const auto& [name, since] : rows)
      out << "| " << name << " | " << since << " | " << tests[name].first << " of " << tests[name].second << " |\n";
  }
  std::map<std::string, std::vector<std::string>> others;
  for (const Case& c : cases)
    if (c.kind != Case::passes) others[category(c)].push_back(short_name(c));
  out << "\n## Tests that do not pass\n\n| reason | tests |\n|---|---|\n";
  for (const auto& [reason, names] : others) {
    out << "| " << reason << " | " << names.size() << ": ";
    for (const std::string& name : names) out << (&name == names.data() ? "" : ", ") << name;
    out << " |\n";
  }
  return out.str();
}

// Fails if a test does not pass and is not in the page, or if an operator is not there as it is.
int check(const std::vector<Case>& cases, const std::string& version, const std::string& path) {
  const std::string documented = read_text(path);
  if (documented.find("`onnx` " + version + ",") == documented.npos) {
    const std::ptrdiff_t passed = std::stol(documented.substr(documented.find("pass:\n") + 6));
    std::cout << "The page is that of another version of the package than " << version << ", in which " << passed
              << " pass.\n";
    return count(cases, Case::passes) >= passed ? 0 : 1;
  }
  int faults = 0;
  for (const Case& c : cases)
    if (c.kind != Case::passes && documented.find(" " + short_name(c)) == documented.npos) {
      std::cout << c.name << " should pass: " << c.reason << "\n";
      ++faults;
    }
  std::istringstream now(markdown(cases, version));
  for (std::string line; std::getline(now, line);)
    if (line.starts_with("| ") && line.find(" tests |") == line.npos && line.ends_with(" |")) {
      const std::string row = line.substr(0, line.find('|', line.find('|', 2) + 1) + 1);
      if (line.find(" of ") != line.npos && documented.find(row) == documented.npos) {
        std::cout << path << " lacks " << row << ": write it anew, by the command at its top.\n";
        ++faults;
      }
    }
  return faults > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: onnx_node_tests FOLDER [--markdown | --check FILE | NAME]\n";
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  const std::string what = argc > 2 ? argv[2] : "", version = read_text(folder / "version");
  if (version.empty()) {
    std::cout << "There are no tests in " << folder << ": see write_cases.py\n";
    return 77;
  }
  const bool is_option = what.starts_with("--");
  const std::vector<Case> cases = what.empty() || is_option ? run_all(folder) : std::vector{run(folder, what)};
  if (what == "--markdown") {
    std::cout << markdown(cases, version);
    return 0;
  }
  for (const Case& c : cases)
    if (c.kind != Case::passes && what != "--check")
      std::cout << (c.kind == Case::refused ? "REFUSED " : "FAIL ") << c.name << ": " << c.reason << "\n";
  std::cout << count(cases, Case::passes) << " of " << cases.size() << " tests of onnx " << version << " pass, "
            << count(cases, Case::refused) << " models are refused, " << count(cases, Case::differs)
            << " give other results\n";
  if (what == "--transforms") return check_transforms(folder, cases);
  if (what == "--all") return count(cases, Case::passes) == std::ssize(cases) ? 0 : 1;
  return what == "--check" && argc > 3 ? check(cases, version, argv[3]) : 0;
}
