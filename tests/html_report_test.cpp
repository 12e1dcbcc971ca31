// HtmlReport: the data in its page describe the run, and the report changes no result.
// html_page_test.cpp tests how the page shows the data.
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
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

using T = const Tensor&;

Tensor layers(T x, bool reports) {
  Tensor h;
  {
    const Scope layer("layer1");
    h = label(sin(x), "h");
    if (reports) report("h", h);
  }
  const Scope layer("layer2");
  const Scope part("head");
  return sum(exp(h));
}
Tensor two_layers(T x) { return layers(x, true); }
Tensor silent_layers(T x) { return layers(x, false); }

struct Refuse : Handler {
  Outputs handle(Call&) override { throw DeviceError("refused"); }
};

TEST(HtmlReport, HasWhatProfileCounts) {
  const Tensor x = ones({5});
  Profile profile;
  HtmlReport report;
  with(profile, [&] {
    with(report, [&] {
      for (int i = 0; i < 3; ++i) grad(silent_layers)(x);
    });
  });
  const ReportData data(report);
  EXPECT_EQ(report.operations(), profile.total().calls);
  std::map<std::string, std::uint64_t> calls, in_scopes;
  const std::vector<std::string> names = data.names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    ++calls[names[i]];
    ++in_scopes[data.path_of_operation(i)];
  }
  ASSERT_GT(calls.size(), 3u);
  for (const auto& [name, count] : calls) EXPECT_EQ(count, profile.operation(name).calls) << name;
  EXPECT_EQ(in_scopes.at("layer1"), profile.scope("layer1").calls);
  EXPECT_EQ(in_scopes.at("layer2/head"), profile.scope("layer2/head").calls);
  EXPECT_EQ(in_scopes.at("backward of grad/layer1"), profile.scope("backward of grad/layer1").calls);
  double bytes = 0;
  for (const double of_kind : data.numbers("kinds", "bytes")) bytes += of_kind;
  EXPECT_EQ(bytes, static_cast<double>(profile.total().bytes));
}

// Performs the operation twice more, outside the report, so that their time lies within the time of
// the operation that the report sees.
struct Twice : Handler {
  Outputs handle(Call& call) override {
    perform(call);
    return perform(call);
  }
};

TEST(HtmlReport, TimesNestAndFollow) {
  HtmlReport outer;
  const Tensor x = ones({5});
  with(outer, [&] { with(Twice(), [&] { with(outer, [&] { return sum(sin(x)); }); }); });
  const ReportData data(outer);
  EXPECT_THAT(data.names(), ElementsAre("sin", "sin", "sin", "sum", "sum", "sum"));
  const auto start = data.times("operations", "start"), time = data.numbers("operations", "time");
  const auto end = [&](std::size_t i) { return start[i] + time[i]; };
  for (const std::size_t first : {0u, 3u}) {
    EXPECT_LE(start[first], start[first + 1]);
    EXPECT_LE(end(first + 1), start[first + 2]);
    EXPECT_LE(end(first + 2), end(first));
  }
  EXPECT_LE(end(0), start[3]);
  EXPECT_LE(end(3), data.json.at("end").number);
}

TEST(HtmlReport, ScopesOfOneNameAreTwoInTimeAndOneInTheGraph) {
  HtmlReport report;
  with(report, [] {
    for (int i = 0; i < 3; ++i) {
      const Scope step("step");
      sin(ones({2}));
      cos(ones({2}));
    }
  });
  const ReportData data(report);
  EXPECT_EQ(data.numbers("instances", "scope"), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(data.numbers("scopes", "name").size(), 1u);
  const auto kinds = data.numbers("operations", "kind");
  EXPECT_EQ(std::set<double>(kinds.begin(), kinds.end()).size(), 3u) << "full, sin and cos, of all steps";
}

TEST(HtmlReport, KnowsWhatFlowsWhere) {
  HtmlReport report;
  const Tensor x = label(ones({5}), "x");
  with(report, [&] {
    for (int i = 0; i < 4; ++i) grad(two_layers)(x);
  });
  with(report, [&] { return 2 * x; });
  const auto edges = ReportData(report).edges();
  EXPECT_EQ(edges.at("x:f32[5] -> sin"), 4);
  EXPECT_EQ(edges.at("sin -> exp"), 4);
  EXPECT_EQ(edges.at("exp -> sum"), 4);
  EXPECT_EQ(edges.at("x:f32[5] -> cos"), 4) << "saved for the backward pass";
  EXPECT_EQ(edges.at("number f32[5] -> multiply"), 1);
}

// ---- memory -------------------------------------------------------------------------------------

TEST(HtmlReport, MemoryIsWhatTheAllocatorSays) {
  Tensor early = ones({1000}) * 2, later = ones({2000}) * 2;
  Tensor kept;
  reset_peak_memory();
  HtmlReport report;
  with(report, [&] {
    kept = early * 3;
    early = Tensor();
    const Tensor much = zeros({10'000}) + kept(0);
    kept = kept + sum(much * much);
    later = Tensor();
  });
  const MemoryStats stats = memory_stats();
  const auto [live, peak] = ReportData(report).live_and_peak(0);
  EXPECT_EQ(live, static_cast<double>(stats.live_bytes));
  EXPECT_EQ(peak, static_cast<double>(stats.peak_bytes));
}

TEST(HtmlReport, NamesWhoHolds) {
  const Tensor x = label(2 * linspace(0, 1, 1000), "x");
  Tensor h, unseen;
  HtmlReport report;
  with(report, [&] {
    const Scope layer("layer");
    h = label(sin(x), "h");
    unseen = from(std::vector<float>(77));  // performs no operation
  });
  const ReportData data(report);
  const auto bytes = data.numbers("storages", "bytes"), site = data.numbers("storages", "site"),
             label = data.numbers("storages", "label"), earlier = data.numbers("storages", "earlier"),
             lived = data.numbers("storages", "lived");
  std::map<std::string, int> seen;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (data.text(label[i]) == "x") {
      ++seen["x"];
      EXPECT_EQ(earlier[i], 1);
    }
    if (data.text(label[i]) == "h") {
      ++seen["h"];
      EXPECT_EQ(data.path_of_site(site[i]) + ":" + data.operation_of_site(site[i]), "layer:sin");
      EXPECT_EQ(bytes[i], 4000);
      EXPECT_EQ(lived[i], -1);
    }
    if (bytes[i] == 77 * 4) {
      ++seen["unseen"];
      EXPECT_EQ(site[i], -1);
    }
  }
  EXPECT_EQ(seen, (std::map<std::string, int>{{"h", 1}, {"unseen", 1}, {"x", 1}}));
}

TEST(HtmlReport, WatchesUntilItsEndAndNoLonger) {
  Tensor x;
  {
    HtmlReport report;
    x = ones({100}) * 2;
    EXPECT_EQ(ReportData(report).live_and_peak(0).first, static_cast<double>(memory_stats().live_bytes));
  }
  x = Tensor();
  x = ones({100}) * 2;
}

// ---- texts --------------------------------------------------------------------------------------

TEST(HtmlReport, TextsStayTexts) {
  const std::string hostile[] = {"</script><script>alert(1)</script>",
                                 "<!--<script>",
                                 "]]>'\"\\\n\t\r",
                                 "&lt;&amp;",
                                 "\xe2\x80\xa8\xe2\x80\xa9",
                                 std::string("a\0b", 3),
                                 "{{data}}",
                                 "\xff\xc0",
                                 "é\xf0\x9f\x8c\x8a"};
  for (const std::string& text : hostile) {
    HtmlReport report;
    with(report, [&] {
      const Scope scope(text);
      stave::report(text, label(sin(label(ones({2}), text)), text));
    });
    const std::string page = page_of(report), empty = page_of(HtmlReport()), inside = data_text_of(page);
    EXPECT_THAT(inside, Not(HasSubstr("<")));
    EXPECT_THAT(inside, Not(HasSubstr("\xe2\x80\xa8")));
    EXPECT_EQ(page.size() - inside.size(), empty.size() - data_text_of(empty).size()) << "the page around is the same";
    const Json data = parse_json(inside);
    // The tests' JSON parser knows escapes of ASCII only.
    if (text[0] == '\xe2') continue;
    const std::string shown = text == "\xff\xc0" ? "\\xff\\xc0" : text;
    std::vector<std::string> texts;
    for (const Json& item : data.at("texts").items) texts.push_back(item.text);
    EXPECT_THAT(texts, Contains(shown));
    EXPECT_THAT(texts, Contains(shown + ":f32[2]"));
    EXPECT_THAT(texts, Contains(shown + "/" + shown)) << "the name of the curve";
  }
}

// ---- where the time went ------------------------------------------------------------------------

TEST(HtmlReport, SaysOfWhichProgramAndMachine) {
  HtmlReport report({.title = "A <title>", .peaks = {{cpu, 3e9, 2e9, 1e9}, {cuda(2), 5e12, 0, 4e12}}});
  const ReportData data(report);
  const Json& head = data.json.at("head");
  EXPECT_EQ(head.at("title").text, "A <title>");
  EXPECT_THAT(head.at("program").text, HasSubstr("html_report_test"));
  EXPECT_THAT(head.at("system").text, HasSubstr(" on "));
  EXPECT_GE(head.at("threads").number, 1);
  EXPECT_THAT(head.at("date").text, testing::MatchesRegex("20..-..-.. ..:..:.. UTC"));
  EXPECT_THAT(head.at("version").text, testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_EQ(data.json.at("peaks").at("device").items.at(1).text, "cuda:2");
  EXPECT_EQ(data.numbers("peaks", "flops"), (std::vector<double>{3e9, 5e12}));
  EXPECT_EQ(data.numbers("peaks", "flops64"), (std::vector<double>{2e9, 0}));
  EXPECT_EQ(data.numbers("peaks", "bandwidth"), (std::vector<double>{1e9, 4e12}));
  EXPECT_EQ(data.json.at("peaks").at("how").items.at(0).text, "given by the program");
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
  EXPECT_THAT(data.json.at("peaks").at("how").items.at(0).text, HasSubstr("measured"));
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

TEST(HtmlReport, KnowsWhichOperationABackwardOneDerives) {
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

TEST(HtmlReport, TellsWaitingFromWork) {
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

TEST(HtmlReport, HasWhatTellsWhetherChainsAgree) {
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
  const Json& chains = data.json.at("chains").items.at(0);
  EXPECT_EQ(chains.at("title").text, "both");
  EXPECT_EQ(chains.at("chains").number, 2);
  EXPECT_EQ(chains.at("draws").number, draws);
  std::vector<double> diverged;
  for (const Json& item : chains.at("diverged").items) diverged.push_back(item.number);
  EXPECT_EQ(diverged, (std::vector<double>{0, 3, 1, 1}));
  EXPECT_EQ(chains.at("step_size").items.at(1).number, 0.25);
  EXPECT_NEAR(chains.at("accept").items.at(0).number, 0.8, 1e-12);
  ASSERT_EQ(chains.at("parameters").items.size(), 3u);
  const Json& worst = chains.at("parameters").items.at(0);
  EXPECT_EQ(worst.at("name").text, "y");
  EXPECT_EQ(worst.at("rhat").number, rhat(run.draws.at("y")).item<double>());
  EXPECT_EQ(worst.at("bulk").number, ess_bulk(run.draws.at("y")).item<double>());
  EXPECT_EQ(worst.at("tail").number, ess_tail(run.draws.at("y")).item<double>());
  EXPECT_NEAR(worst.at("mean").number, mean(run.draws.at("y")).item<double>(), 1e-12);
  std::vector<double> ranks;
  for (const Json& item : worst.at("ranks").items) ranks.push_back(item.number);
  ASSERT_EQ(ranks.size(), 40u);
  EXPECT_EQ(std::accumulate(ranks.begin(), ranks.begin() + 20, 0.), draws);
  EXPECT_GE(std::accumulate(ranks.begin(), ranks.begin() + 10, 0.), draws - 10) << "the lower chain has the low ranks";
  EXPECT_EQ(chains.at("parameters").items.at(1).at("name").text.substr(0, 2), "x[");
  EXPECT_EQ(worst.at("trace").items.at(0).number, run.draws.at("y").to_vector<double>().at(0));
  run.diverged = zeros({3}, bool_);
  EXPECT_EQ(message_of<ShapeError>([&] { report.add_chains("none", run); }),
            "HtmlReport: of the divergences of chains, shape [chains, draws] is expected, not [3]");
}

// ---- curves -------------------------------------------------------------------------------------

TEST(HtmlReport, HasWhatWasReported) {
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
  EXPECT_EQ(data.json.at("points").at("mean").items[6].text, "null");
  EXPECT_EQ(mean[7], -inf);
  // For b, c, g (null) and h.
  EXPECT_EQ(data.numbers("points", "least"), (std::vector<double>{1, 0, 0, 2}));
  EXPECT_EQ(data.numbers("points", "greatest"), (std::vector<double>{5, 1, 0, 2}));
  EXPECT_EQ(data.json.at("points").at("least").items[2].text, "null");
}

TEST(HtmlReport, HearsLanesTogetherAndCheckpointsOnce) {
  HtmlReport outside;
  const Tensor x = tensor({{1., 2.}, {3., 4.}}, float64);
  const Tensor expected = vmap(grad(two_layers))(x);
  EXPECT_THAT(with(outside, [&] { return vmap(grad(checkpoint(two_layers)))(x); }), Equals(expected));
  const ReportData data(outside);
  EXPECT_EQ(data.numbers("points", "elements"), (std::vector<double>{4}));
}

// ---- nests, devices, errors ---------------------------------------------------------------------

TEST(HtmlReport, ChangesNothingWhereverItStands) {
  const Tensor x = tensor({{1., 2.}, {3., -4.}}, float64);
  const auto f = [](T v) { return sum(v) > 0 ? two_layers(v) : sum(square(v)); };
  const Tensor expected = vmap(grad(f))(x);
  const auto in = [](HtmlReport& report, auto g) {
    return [&report, g](T v) { return with(report, [&] { return g(v); }); };
  };
  HtmlReport outside, between, inside;
  EXPECT_THAT(in(outside, vmap(in(between, grad(in(inside, f)))))(x), Equals(expected));
  for (const HtmlReport* report : {&outside, &between, &inside}) {
    const ReportData data(*report);
    EXPECT_THAT(data.names(), Contains("sin"));
    EXPECT_EQ(data.numbers("points", "mean").size(), 1u);
  }
  EXPECT_THAT(ReportData(inside).names(), Not(Contains("cos"))) << "the backward pass goes below";
  EXPECT_THAT(ReportData(between).names(), Contains("cos"));
  HtmlReport around;
  EXPECT_THAT(with(around, [&] { return compile(f)(x[0]) + compile(f)(x[1]); }), Equals(f(x[0]) + f(x[1])));
  EXPECT_THAT(ReportData(around).names(), Contains("exp"));
}

TEST(HtmlReport, DevicesHaveLanesAndMemory) {
  SeparateBackend backend{3};
  HtmlReport report;
  {
    const Tensor x = to(ones({1000}) * 2, cuda(3)), y = with(report, [&] { return to(exp(x), cpu) * 2; });
    const ReportData data(report);
    EXPECT_EQ(data.json.at("devices").at("name").items.at(1).text, "cuda:3");
    EXPECT_EQ(data.live_and_peak(1).first, static_cast<double>(backend.memory_stats().live_bytes));
    std::map<std::string, std::string> devices;
    const auto kinds = data.numbers("operations", "kind"), lane = data.numbers("operations", "lane");
    for (std::size_t i = 0; i < kinds.size(); ++i)
      devices[data.name_of_kind(kinds[i])] =
          data.json.at("devices")
              .at("name")
              .items.at(static_cast<std::size_t>(data.number("lanes", "device", lane[i])))
              .text;
    EXPECT_EQ(devices.at("exp"), "cuda:3");
    EXPECT_EQ(devices.at("multiply"), "cpu");
    EXPECT_EQ(data.numbers("operations", "time").at(0), 1e9) << "by the device's clock";
  }
  EXPECT_EQ(ReportData(report).live_and_peak(1).first, 0);
}

TEST(HtmlReport, IsWrittenForAProgramThatThrows) {
  HtmlReport report;
  with(Refuse(), [&] { EXPECT_THROW(with(report, [&] { return sin(ones({2})); }), DeviceError); });
  EXPECT_THROW(with(report,
                    [] {
                      const Tensor x = exp(ones({3}));
                      return sum(x, 7);
                    }),
               IndexError);
  const ReportData data(report);
  const auto kinds = data.numbers("operations", "kind");
  ASSERT_GE(kinds.size(), 2u);
  EXPECT_EQ(data.text(data.number("kinds", "outputs", kinds[0])), "throws");
  EXPECT_EQ(data.name_of_kind(kinds.back()), "exp");
}

TEST(HtmlReport, ControllersMayDropTheProgram) {
  struct StopAtCos : Controller {
    void handle(Call& call, Resumption<Call> rest) override {
      if (call.op().name == std::string("cos")) return rest.drop();
      rest.resume_last(perform(call));
    }
  };
  HtmlReport report;
  StopAtCos stop;
  EXPECT_FALSE(with(stop, [&] { return with(report, [] { return exp(cos(sin(ones({2})))); }); }));
  with(report, [] { return from(std::vector<float>(33)) * 2; });
  const ReportData data(report);
  const auto bytes = data.numbers("storages", "bytes"), site = data.numbers("storages", "site");
  EXPECT_THAT(data.names(), Contains("sin"));
  const auto made_outside = std::find(bytes.begin(), bytes.end(), 33 * 4) - bytes.begin();
  EXPECT_EQ(site.at(static_cast<std::size_t>(made_outside)), -1) << "no operation is under way any more";
}

TEST(HtmlReport, RefusesAFileThatCannotBeWritten) {
  const HtmlReport report;
  EXPECT_EQ(message_of<FileError>([&] { report.write_html("/no/such/folder/report.html"); }),
            "HtmlReport: /no/such/folder/report.html cannot be written");
  const Folder folder;
  report.write_html(folder / "report.html");
  // The data contain how long the report has listened, which differs between the file and another
  // page.
  const std::string written = bytes_of(folder / "report.html"), shown = page_of(report);
  EXPECT_EQ(written.size() - data_text_of(written).size(), shown.size() - data_text_of(shown).size());
  EXPECT_TRUE(parse_json(data_text_of(written)).at("texts").items.empty());
}

}  // namespace
