// Each function of GradBench's modules equals the one in plain C++, whose derivatives are by dual
// numbers or by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "bench/cpp_tools/programs.h"
#include "bench/gradbench/modules.h"

namespace {

using cpp_tools::scattered;
using gradbench::Json;

// Returns rows of numbers from -size / 2 to size / 2.
Json rows(std::size_t count, std::size_t columns, double size = 1, std::size_t first = 0) {
  Json all = Json::array();
  for (std::size_t i = 0; i < count; ++i) all.push_back(scattered(columns, size, first + i * columns));
  return all;
}

Json det(std::size_t size) { return {{"A", scattered(size * size, 2, 5)}, {"ell", size}}; }

Json gmm(std::size_t d, std::size_t k, std::size_t n) {
  return {{"d", d},
          {"k", k},
          {"n", n},
          {"alpha", scattered(k, 2)},
          {"mu", rows(k, d, 2, 10)},
          {"q", rows(k, d, 1, 20)},
          {"l", rows(k, d * (d - 1) / 2, 2, 30)},
          {"x", rows(n, d, 4, 40)},
          {"gamma", 1.5},
          {"m", 2}};
}

Json lstm(std::size_t layers, std::size_t bits, std::size_t length) {
  Json text = rows(length, bits);
  for (Json& row : text)
    for (Json& bit : row) bit = bit.get<double>() > 0 ? 1 : 0;
  return {{"main_params", rows(2 * layers, 4 * bits, 2)},
          {"extra_params", rows(3, bits, 2, 100)},
          {"state", rows(2 * layers, bits, 1, 200)},
          {"sequence", text}};
}

Json ba(const std::vector<double>& rotation) {
  std::vector<double> camera = rotation;
  for (const double it : {34.6, 39.7, 53.9, 419.2, 5.9, -8.5, 0.088, 0.0027}) camera.push_back(it);
  return {{"n", 3},
          {"m", 5},
          {"p", 40},
          {"cam", camera},
          {"x", {7.2, 0.001, 3.02}},
          {"w", 0.417},
          {"feat", {271.8, 834.2}}};
}

Json transforms(std::size_t count, std::size_t first) {
  Json all = Json::array();
  for (std::size_t bone = 0; bone < count; ++bone) {
    Json matrix = rows(3, 4, 0.4, first + 12 * bone);
    for (std::size_t i = 0; i < 3; ++i) matrix[i][i] = matrix[i][i].get<double>() + 1;
    matrix.push_back({0., 0., 0., 1.});
    all.push_back(matrix);
  }
  return all;
}

// A hand with 9 vertices, of which 4 or triangles of which were seen.
Json hand(bool in_triangles, const std::vector<double>& rotation) {
  std::vector<int> parents;
  for (int bone = 0; bone < 22; ++bone) parents.push_back(bone == 0 ? -1 : bone == 21 || bone % 4 == 1 ? 0 : bone - 1);
  std::vector<double> parameters = scattered(26, 0.5);
  std::copy(rotation.begin(), rotation.end(), parameters.begin());
  Json corners = rows(9, 4, 2, 50);
  for (Json& it : corners) it[3] = 1.;
  const Json model = {{"parents", parents},
                      {"base_relatives", transforms(22, 0)},
                      {"inverse_base_absolutes", transforms(22, 300)},
                      {"base_positions", corners},
                      {"weights", rows(9, 22, 0.3, 70)},
                      {"triangles", {{0, 1, 2}, {3, 5, 8}, {6, 4, 7}}},
                      {"is_mirrored", false}};
  Json numbers = {3, 8, 0, 5};
  if (in_triangles) numbers = {2, 0, 1, 2};
  return {{"theta", parameters},
          {"data", {{"model", model}, {"correspondences", numbers}, {"points", rows(4, 3)}}},
          {"us", in_triangles ? rows(4, 2, 0.6, 90) : Json::array()}};
}

Json kmeans() {
  const Json points = rows(40, 3);
  Json centroids = Json::array();
  for (std::size_t i = 35; i < 40; ++i) centroids.push_back(points[i]);
  return {{"points", points}, {"centroids", centroids}};
}

struct Case {
  std::string name, module;
  Json input;
};

std::vector<Case> cases() {
  return {{"hello", "hello", 3.},
          {"lse", "lse", {{"x", scattered(50, 8)}}},
          {"lse_large", "lse", {{"x", scattered(50, 5000)}}},
          {"llsq", "llsq", {{"x", scattered(12, 2)}, {"n", 33}}},
          {"ode", "ode", {{"x", scattered(9, 3)}, {"s", 4}}},
          {"ode_one_step", "ode", {{"x", scattered(4, 3)}, {"s", 1}}},
          {"det_1", "det", det(1)},
          {"det_5", "det", det(5)},
          {"det_9", "det", det(9)},
          {"gmm", "gmm", gmm(3, 4, 20)},
          {"gmm_one_component", "gmm", gmm(2, 1, 7)},
          {"kmeans", "kmeans", kmeans()},
          {"lstm", "lstm", lstm(2, 5, 12)},
          {"lstm_three_layers", "lstm", lstm(3, 4, 9)},
          {"ba", "ba", ba({-0.76, -1.11, -0.85})},
          {"ba_no_rotation", "ba", ba({0, 0, 0})},
          {"ht", "ht", hand(false, {0.3, -0.2, 0.4})},
          {"ht_no_rotation", "ht", hand(false, {0, 0, 0})},
          {"ht_triangles", "ht", hand(true, {0.3, -0.2, 0.4})},
          {"saddle", "saddle", {{"start", {1., 1.}}}},
          {"particle", "particle", {{"w", 0.}}}};
}

void expect_near(const Json& found, const Json& expected, const std::string& where) {
  if (expected.is_number()) {
    ASSERT_TRUE(found.is_number()) << where;
    const double a = found.get<double>(), b = expected.get<double>();
    EXPECT_LE(std::abs(a - b), 1e-8 * std::max(std::abs(b), 1e-3)) << where << ": " << a << " and " << b;
    return;
  }
  ASSERT_EQ(found.is_array(), expected.is_array()) << where;
  ASSERT_EQ(found.size(), expected.size()) << where;
  for (const auto& [key, value] : expected.items()) {
    const bool has = found.is_array() || found.contains(key);
    ASSERT_TRUE(has) << where << "." << key;
    expect_near(found.is_array() ? found[std::stoul(key)] : found[key], value, where + "." + key);
  }
}

class GradBench : public testing::TestWithParam<Case> {};

TEST_P(GradBench, EqualsPlainCpp) {
  const Case& it = GetParam();
  const auto by_stave = gradbench::by_stave().at(it.module), plain = gradbench::by_plain_cpp().at(it.module);
  ASSERT_EQ(by_stave.size(), plain.size());
  for (const auto& [function, prepare] : by_stave) {
    const gradbench::Evaluation found = prepare(it.input), expected = plain.at(function)(it.input);
    expected.compute();
    for (int run = 0; run < 3; ++run) found.compute();
    expect_near(found.output(), expected.output(), it.module + " " + function);
  }
}

INSTANTIATE_TEST_SUITE_P(Modules, GradBench, testing::ValuesIn(cases()), [](const auto& of) { return of.param.name; });

// The answers are those that GradBench expects.
TEST(GradBenchAnswers, Descent) {
  const gradbench::Modules plain = gradbench::by_plain_cpp();
  const auto answer = [&](const char* module, const Json& input) {
    const gradbench::Evaluation it = plain.at(module).at("ff")(input);
    it.compute();
    return it.output();
  };
  expect_near(answer("particle", Json::parse(R"({"w": 0})")), 0.2071918746486116, "particle");
  expect_near(answer("saddle", Json::parse(R"({"start": [1, 1]})")), std::vector<double>(4, 8.246324826140356e-06),
              "saddle");
}

}  // namespace
