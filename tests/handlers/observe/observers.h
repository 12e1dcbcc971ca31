// The program that the tests of Profile, Graph and Timeline observe, and a reader of the DOT files
// that Graph writes.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <stave/stave.h>

namespace stave_test {

using namespace stave;

inline Tensor two_layers(const Tensor& x) {
  Tensor h;
  {
    const Scope layer("layer1");
    h = sin(x);
  }
  const Scope layer("layer2");
  const Scope part("head");
  const Tensor e = exp(h);
  return sum(e);
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

struct Refuse : Handler {
  Outputs handle(Call&) override { throw DeviceError("refused"); }
};

// Sleeps 20 ms at each sine.
struct Slow : Handler {
  Outputs handle(Call& call) override {
    if (call.op().id == OpId::sin) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return perform(std::move(call));
  }
};

// Parses a DOT file in the form that Graph writes.
struct Dot {
  std::map<std::string, std::string> label;    // maps a node's name to its label
  std::map<std::string, std::string> cluster;  // maps a node's name to its scopes, outermost first
  std::multimap<std::string, std::string> edges;
  std::string text;

  explicit Dot(const Graph& graph) {
    std::ostringstream out;
    graph.write_dot(out);
    text = out.str();
    std::vector<std::string> open;
    std::smatch match;
    for (const std::string& line : lines_of(text)) {
      if (std::regex_match(line, match, std::regex(R"x( *(n\d+) \[shape=(?:box|oval), label="(.*)"\];)x"))) {
        label[match[1]] = match[2];
        for (const std::string& scope : open) cluster[match[1]] += "/" + scope;
      } else if (std::regex_match(line, match, std::regex(R"x( *(n\d+) -> (n\d+) \[.*\];)x"))) {
        edges.emplace(match[1], match[2]);
      } else if (std::regex_match(line, match, std::regex(R"x( *subgraph cluster_\d+ \{)x"))) {
        open.emplace_back();
      } else if (std::regex_match(line, match, std::regex(R"x( *label="(.*)";)x"))) {
        open.back() = match[1];
      } else if (std::regex_match(line, std::regex(R"x( *\})x")) && !open.empty()) {
        open.pop_back();
      }
    }
  }
  // The only node whose label starts with `begin`.
  std::string node(const std::string& begin) const {
    std::string found;
    for (const auto& [name, text_of_node] : label)
      if (text_of_node.starts_with(begin)) {
        EXPECT_EQ(found, "") << "several: " << begin << "\n" << text;
        found = name;
      }
    EXPECT_NE(found, "") << "none: " << begin << "\n" << text;
    return found;
  }
  bool has_edge(const std::string& from, const std::string& to) const {
    const auto [first, last] = edges.equal_range(node(from));
    return std::any_of(first, last, [&](const auto& edge) { return edge.second == node(to); });
  }
};

}  // namespace stave_test
