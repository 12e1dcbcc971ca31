// What HtmlReport measures and computes of a run: where the time went, of which peak of the
// machine, whether chains agree, and the curves of what was reported.
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <thread>

#include <stave/stave.h>

#include "files.h"
#include "html_report.h"
#include "matchers.h"
#include "separate_backend.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsNan;

using T = const Tensor&;

TEST(HtmlReport, NamesProgramAndMachine) {
  HtmlReport report({.title = "A <title>", .peaks = {{cpu, 3e9, 2e9, 1e9}, {cuda(2), 5e12, 0, 4e12}}});
  const ReportData data(report);
  const Json& head = data.json.at("head");
  EXPECT_EQ(head.at("title"), "A <title>");
  EXPECT_THAT(head.at("program").get<std::string>(), HasSubstr("html_report_test"));
  EXPECT_THAT(head.at("system").get<std::string>(), HasSubstr(" on "));
  EXPECT_GE(head.at("threads").get<double>(), 1);
  EXPECT_THAT(head.at("date").get<std::string>(), testing::MatchesRegex("20..-..-.. ..:..:.. UTC"));
  EXPECT_THAT(head.at("version").get<std::string>(), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_EQ(data.json.at("peaks").at("device").at(1), "cuda:2");
  EXPECT_EQ(data.numbers("peaks", "flops"), (std::vector<double>{3e9, 5e12}));
  EXPECT_EQ(data.numbers("peaks", "flops64"), (std::vector<double>{2e9, 0}));
  EXPECT_EQ(data.numbers("peaks", "bandwidth"), (std::vector<double>{1e9, 4e12}));
  EXPECT_EQ(data.json.at("peaks").at("how").at(0), "given by the program");
}

TEST(HtmlReport, MeasuresThePeaksOfTheCpu) {
  HtmlReport report;
  with(report, [] { return sin(ones({2})); });
  const MemoryStats before = memory_stats();
  const ReportData data(report);
  EXPECT_EQ(memory_stats().live_bytes, before.live_bytes) << "what is measured is no tensor";
  EXPECT_EQ(memory_stats().peak_bytes, before.peak_bytes);
  EXPECT_GE(data.numbers("peaks", "flops").at(0), 1e7);
  EXPECT_GE(data.numbers("peaks", "flops64").at(0), 1e7);
  EXPECT_GE(data.numbers("peaks", "bandwidth").at(0), 1e7);
  EXPECT_THAT(data.json.at("peaks").at("how").at(0).get<std::string>(), HasSubstr("measured"));
  EXPECT_EQ(ReportData(report).numbers("peaks", "flops"), data.numbers("peaks", "flops")) << "once in a process";
  EXPECT_TRUE(ReportData(HtmlReport()).numbers("peaks", "flops").empty()) << "of no device that is used";
}

TEST(HtmlReport, CountsArithmeticAndBytes) {
  HtmlReport report;
  const Tensor a = linspace(0, 1, 6 * 7), b = linspace(0, 1, 7 * 8), table = linspace(0, 1, 1000);
  with(report, [&] {
    const Tensor m = matmul(reshape(a, {6, 7}), reshape(b, {7, 8}));
    sum(sin(m) + m);
    permute_dims(m, {1, 0});
    take(table, tensor({1, 2, 3}), 0);
    cholesky(eye(4));
  });
  const ReportData data(report);
  std::map<std::string, std::pair<double, double>> found;
  for (std::size_t k = 0; k < data.numbers("kinds", "site").size(); ++k)
    if (data.numbers("kinds", "site")[k] >= 0)
      found[data.name_of_kind(static_cast<double>(k))] = {data.numbers("kinds", "flops")[k],
                                                          data.numbers("kinds", "moved")[k]};
  EXPECT_EQ(found.at("matmul"), std::pair(2. * 6 * 7 * 8, 4. * (6 * 7 + 7 * 8 + 6 * 8)));
  EXPECT_EQ(found.at("sin"), std::pair(48., 4. * (48 + 48)));
  EXPECT_EQ(found.at("add"), std::pair(48., 4. * (48 + 48 + 48)));
  EXPECT_EQ(found.at("sum"), std::pair(48., 4. * (48 + 1)));
  EXPECT_EQ(found.at("permute_dims"), std::pair(0., 0.)) << "a view moves nothing";
  EXPECT_EQ(found.at("cholesky").first, -1) << "unknown";
  EXPECT_LE(found.at("gather").second, 4 * 3 + 8 * 3 + 4 * 3) << "of the table it reads what it gives";
  EXPECT_GT(found.at("gather").second, 0);
}

// Returns entries such as "cos of sin": each operation of a backward pass, and the operation whose
// derivative it computes.
std::multiset<std::string> derived(const HtmlReport& report) {
  const ReportData data(report);
  const auto forward = data.numbers("operations", "forward");
  const std::vector<std::string> names = data.names();
  std::multiset<std::string> result;
  for (std::size_t i = 0; i < forward.size(); ++i)
    if (forward[i] >= 0) {
      result.insert(names[i] + " of " + names.at(static_cast<std::size_t>(forward[i])));
      EXPECT_LT(forward[i], i) << "which came before";
      EXPECT_THAT(data.path_of_operation(i), HasSubstr("backward of"));
    }
  return result;
}

TEST(HtmlReport, LinksBackwardOperationsToForwardOnes) {
  const Tensor x = tensor({0.5, 0.25}, float64);
  const auto f = [](T v) {
    const Tensor a = sin(v);
    const Scope scope("later");
    return sum(exp(a) * tanh(v));
  };
  HtmlReport once, inner;
  with(once, [&] { return with(inner, [&] { return grad(f)(x); }); });
  for (const HtmlReport* report : {&once, &inner}) {  // both observers number the operations alike
    EXPECT_EQ(derived(*report).count("cos of sin"), 1u);
    EXPECT_EQ(derived(*report).count("sech_squared of tanh"), 1u);
    EXPECT_EQ(derived(*report).count("cos of tanh"), 0u);
  }
  HtmlReport batched, twice, none;
  with(batched, [&] { return vmap(grad(f))(reshape(x, {2, 1})); });
  EXPECT_EQ(derived(batched).count("cos of sin"), 1u);
  with(twice, [&] { return grad([&](T v) { return sum(grad(f)(v)); })(x); });
  EXPECT_GE(derived(twice).count("sin of cos"), 1u) << "the derivative of the derivative";
  with(none, [&] { return f(x); });
  EXPECT_TRUE(ReportData(none).numbers("operations", "forward").empty());
}

TEST(HtmlReport, DistinguishesWaitingFromComputing) {
  HtmlReport report;
  const Tensor x = ones({2}) * 2;
  const auto spin = [](std::chrono::milliseconds time) {
    for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;) {
    }
  };
  with(report, [&] {
    sin(x);
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    cos(x);
  });
  const double waited = ReportData(report).numbers("threads", "waited").at(0);
  EXPECT_GE(waited, 50e6);
  const double own = ReportData(report).numbers("threads", "own").at(0);
  EXPECT_GT(own, 0);
  EXPECT_LT(own, 50e6);
  HtmlReport busy;
  with(busy, [&] {
    sin(x);
    spin(std::chrono::milliseconds(60));  // the program's own time on the processor
    cos(x);
  });
  const ReportData data(busy);
  const auto start = data.times("operations", "start"), time = data.numbers("operations", "time");
  const double still = data.numbers("threads", "waited").at(0),
               gap = start.back() - (start[start.size() - 2] + time[start.size() - 2]);
  EXPECT_LT(still, gap - 5e6) << "the processor worked for some of it, whatever else the machine does";
}

// ---- chains -------------------------------------------------------------------------------------

TEST(HtmlReport, IncludesDiagnosticsOfChains) {
  // Two chains that agree on x, but have different levels of y.
  const Index draws = 400;
  const Tensor noise = normal(Key(1), {2, draws, 2}, float64);
  Sampled<NamedTensors> run;
  run.draws = {{"x", noise}, {"y", mean(noise, 2) + reshape(tensor({0., 5.}, float64), {2, 1})}};
  run.accept_rate = full({2, draws}, 0.8, float64);
  run.steps = full({2, draws}, 7, int32);
  run.depth = full({2, draws}, 3, int32);
  std::vector<float> bad(2 * draws);
  bad[3] = bad[draws + 1] = 1;
  run.diverged = reshape(from(bad), {2, draws}) > 0;
  run.step_size = tensor({0.5, 0.25}, float64);
  HtmlReport report;
  report.add_chains("both", run);
  const ReportData data(report);
  const Json& chains = data.json.at("chains").at(0);
  EXPECT_EQ(chains.at("title"), "both");
  EXPECT_EQ(chains.at("chains"), 2);
  EXPECT_EQ(chains.at("draws"), draws);
  EXPECT_EQ(chains.at("diverged"), (std::vector<int>{0, 3, 1, 1}));
  EXPECT_EQ(chains.at("step_size").at(1), 0.25);
  EXPECT_NEAR(chains.at("accept").at(0).get<double>(), 0.8, 1e-12);
  ASSERT_EQ(chains.at("parameters").size(), 3u);
  const Json& worst = chains.at("parameters").at(0);
  EXPECT_EQ(worst.at("name"), "y");
  EXPECT_EQ(worst.at("rhat"), rhat(run.draws.at("y")).item<double>());
  EXPECT_EQ(worst.at("bulk"), ess_bulk(run.draws.at("y")).item<double>());
  EXPECT_EQ(worst.at("tail"), ess_tail(run.draws.at("y")).item<double>());
  EXPECT_NEAR(worst.at("mean").get<double>(), mean(run.draws.at("y")).item<double>(), 1e-12);
  const auto ranks = worst.at("ranks").get<std::vector<double>>();
  ASSERT_EQ(ranks.size(), 40u);
  EXPECT_EQ(std::accumulate(ranks.begin(), ranks.begin() + 20, 0.), draws);
  EXPECT_GE(std::accumulate(ranks.begin(), ranks.begin() + 10, 0.), draws - 10) << "the lower chain has the low ranks";
  EXPECT_EQ(chains.at("parameters").at(1).at("name").get<std::string>().substr(0, 2), "x[");
  EXPECT_EQ(worst.at("trace").at(0), run.draws.at("y").to_vector<double>().at(0));
  run.diverged = zeros({3}, bool_);
  EXPECT_EQ(message_of<ShapeError>([&] { report.add_chains("none", run); }),
            "HtmlReport: of the divergences of chains, shape [chains, draws] is expected, not [3]");
}

// ---- curves -------------------------------------------------------------------------------------

TEST(HtmlReport, IncludesReportedValues) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  HtmlReport seen;
  with(seen, [&] {
    report("a", 0.1);
    report("b", tensor({1., 5., 3.}, float64));
    report("c", tensor({true, false}));
    report("d", astype(tensor({-2.5}), bfloat16));
    report("e", tensor({7}, uint64));
    report("f", inf);
    report("f", nan);
    report("f", -inf);
    report("g", zeros({0}));
    report("h", tensor({nan, 2.}, float64));
  });
  const ReportData data(seen);
  std::string names;
  for (const double name : data.numbers("points", "name")) names += data.text(name);
  EXPECT_EQ(names, "abcdefffgh");
  EXPECT_EQ(data.numbers("points", "elements"), (std::vector<double>{1, 3, 2, 1, 1, 1, 1, 1, 0, 2}));
  const auto mean = data.numbers("points", "mean");
  EXPECT_EQ(std::vector<double>(mean.begin(), mean.begin() + 6), (std::vector<double>{0.1, 3, 0.5, -2.5, 7, inf}));
  EXPECT_TRUE(std::isnan(mean[6]));
  EXPECT_EQ(mean[7], -inf);
  // For b, c, g and h.
  EXPECT_THAT(data.numbers("points", "least"), ElementsAre(1, 0, IsNan(), 2));
  EXPECT_THAT(data.numbers("points", "greatest"), ElementsAre(5, 1, IsNan(), 2));
}

}  // namespace
