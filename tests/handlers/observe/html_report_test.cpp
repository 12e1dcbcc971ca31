// HtmlReport: the data in its page describe the run, and the report changes no result.
// html_page_test.cpp tests how the page shows the data.
#include <set>

#include <stave/stave.h>

#include "files.h"
#include "html_report.h"
#include "matchers.h"
#include "separate_backend.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

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

TEST(HtmlReport, CountsLikeProfile) {
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

TEST(HtmlReport, TimesAreNestedAndOrdered) {
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
  EXPECT_LE(end(3), data.json.at("end").get<double>());
}

TEST(HtmlReport, RepeatedScopesAreSeparateInTimeAndOneInTheGraph) {
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

TEST(HtmlReport, CountsEdgesBetweenOperations) {
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

TEST(HtmlReport, MemoryEqualsThatOfTheAllocator) {
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

TEST(HtmlReport, NamesHoldersOfMemory) {
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

TEST(HtmlReport, WatchesMemoryUntilItIsDestroyed) {
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

TEST(HtmlReport, TextsAreEscaped) {
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
    const std::string shown = text == "\xff\xc0" ? "\\xff\\xc0" : text;
    const auto texts = data.at("texts").get<std::vector<std::string>>();
    EXPECT_THAT(texts, Contains(shown));
    EXPECT_THAT(texts, Contains(shown + ":f32[2]"));
    EXPECT_THAT(texts, Contains(shown + "/" + shown)) << "the name of the curve";
  }
}

TEST(HtmlReport, RecordsLanesTogetherAndCheckpointsOnce) {
  HtmlReport outside;
  const Tensor x = tensor({{1., 2.}, {3., 4.}}, float64);
  const Tensor expected = vmap(grad(two_layers))(x);
  EXPECT_THAT(with(outside, [&] { return vmap(grad(checkpoint(two_layers)))(x); }), Equals(expected));
  const ReportData data(outside);
  EXPECT_EQ(data.numbers("points", "elements"), (std::vector<double>{4}));
}

// ---- nests, devices, errors ---------------------------------------------------------------------

TEST(HtmlReport, ChangesNoResultOfAnyNest) {
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

TEST(HtmlReport, ShowsOperationsAndMemoryOfDevices) {
  SeparateBackend backend{3};
  HtmlReport report;
  {
    const Tensor x = to(ones({1000}) * 2, cuda(3)), y = with(report, [&] { return to(exp(x), cpu) * 2; });
    const ReportData data(report);
    EXPECT_EQ(data.json.at("devices").at("name").at(1), "cuda:3");
    EXPECT_EQ(data.live_and_peak(1).first, static_cast<double>(backend.memory_stats().live_bytes));
    std::map<std::string, std::string> devices;
    const auto kinds = data.numbers("operations", "kind"), lane = data.numbers("operations", "lane");
    for (std::size_t i = 0; i < kinds.size(); ++i)
      devices[data.name_of_kind(kinds[i])] = data.json.at("devices")
                                                 .at("name")
                                                 .at(static_cast<std::size_t>(data.number("lanes", "device", lane[i])))
                                                 .get<std::string>();
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
  EXPECT_TRUE(parse_json(data_text_of(written)).at("texts").empty());
}

}  // namespace
