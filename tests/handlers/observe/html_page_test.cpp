// The page of an HtmlReport in a browser: it shows what ran, is used by keys and clicks, runs no
// text of the program, and stays usable for many operations and for none. The tests are skipped if
// there is no Chromium.
// html_report_test.cpp tests the data.
#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <stave/stave.h>

#include "html_page.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;

// Returns the numbers with commas between them, such as "3,2,1".
std::string joined(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

TEST_F(HtmlPage, ShowsTheRecordedOperations) {
  HtmlReport report;
  std::thread other([&] { with(report, [] { steps(3); }); });
  with(report, [] { steps(5); });
  other.join();
  const ReportData data(report);
  const Json seen = look(report, R"js(
    await drawn();
    const timeline = document.querySelector('#timeline canvas'), memory = document.querySelector('#memory canvas'), curve = document.querySelector('#curves canvas');
    const rows = [];
    for (let y = 18 + 9; y < timeline.clientHeight; y += 9) rows.push(Object.keys(colours(timeline, 130, y, timeline.clientWidth - 130, 1)).length > 1);
    return {
      sections: texts('section:not([hidden]) h2').join(),
      timelineRows: rows.filter(Boolean).length,
      scopeColour: getComputedStyle(document.documentElement).getPropertyValue('--scope'),
      memoryColours: Object.keys(colours(memory, 130, 20, memory.clientWidth - 130, 175)).length,
      curveColours: Object.keys(colours(curve, 60, 10, curve.clientWidth - 70, 160)).length,
      captions: texts('figcaption').join(),
      holders: texts('#memory tbody td:first-child').join(),
      drawnBoxes: document.querySelectorAll('#graph g').length,
      totals: document.getElementById('totals').textContent,
      wide: document.documentElement.scrollWidth,
    };)js");
  EXPECT_EQ(seen.at("ready"), "1");
  EXPECT_EQ(seen.at("errors"), "0");
  EXPECT_EQ(seen.at("operations"), std::to_string(report.operations()));
  EXPECT_EQ(seen.at("lanes"), "2");
  EXPECT_EQ(seen.at("curves"), "2");
  EXPECT_EQ(seen.at("peak"), std::to_string(static_cast<long>(data.live_and_peak(0).second)));
  EXPECT_EQ(seen.at("sections"), "Where the time went,Timeline,Flame graph,Memory,Graph,Operations,Curves,Comparison");
  EXPECT_EQ(seen.at("captions"), "step/norm,step/h");
  EXPECT_THAT(seen.at("totals").get<std::string>(), HasSubstr("2 threads, 1 device"));
  EXPECT_THAT(seen.at("holders").get<std::string>(), HasSubstr("step/layer"));
  EXPECT_GE(seen.at("timelineRows").get<double>(), 2 * 3 * 2 - 2)
      << "of two lanes two scopes and operations, each met twice";
  EXPECT_GE(seen.at("memoryColours").get<double>(), 3);
  EXPECT_GE(seen.at("curveColours").get<double>(), 2);
  EXPECT_GE(seen.at("drawnBoxes").get<double>(), 2);
  EXPECT_LE(seen.at("wide").get<double>(), width) << "nothing sticks out";
}

TEST_F(HtmlPage, RespondsToKeysAndClicks) {
  HtmlReport report;
  with(report, [] { steps(40); });
  const Json seen = look(report, R"js(
    await drawn();
    const all = Number(told.bars), length = Number(told.length), result = {};
    for (let i = 0; i < 5; ++i) click('#timeline [data-do=in]');
    await drawn();
    result.nearer = length / Number(told.length);
    key('#timeline canvas', '0');
    await drawn();
    result.allAgain = Number(told.bars) === all;
    key('#timeline canvas', 'n');
    result.first = document.querySelector('#timeline output').textContent;
    for (let i = 0; i < 3; ++i) key('#timeline canvas', 'n');
    key('#timeline canvas', 'p');
    await drawn();
    result.third = document.querySelector('#timeline output').textContent;
    choose('moment', 1000, 'input');
    result.atEnd = Number(told.held);
    click('#peak');
    result.atPeak = Number(told.held);
    choose('memory-by', 'label', 'change');
    result.labels = texts('#memory tbody td:first-child').join();
    click('#graph g.scope');
    await drawn();
    result.unfolded = texts('#graph details[open] > summary').map(x => x.replace(/\d.*/, '')).join();
    key('#graph details details g.scope', 'Enter');
    await drawn();
    result.inside = [...document.querySelectorAll('#graph details details details text:not(.faint)')].map(x => x.textContent).join();
    click('#operations th[data-key=calls] button');
    result.most = texts('#operations tbody tr td:nth-child(2)').map(Number).join();
    click('#operations th[data-key=calls] button');
    result.least = texts('#operations tbody tr td:nth-child(2)').map(Number).join();
    result.sort = document.querySelector('#operations th[data-key=calls]').getAttribute('aria-sort');
    choose('rows-are', 'kind', 'change');
    choose('search', 'LAYER matmul', 'input');
    result.found = texts('#operations tbody tr td:first-child').join();
    choose('rows-are', 'scope', 'change');
    choose('search', '', 'input');
    click('#operations th[data-key=scope] button');
    result.scopes = texts('#operations tbody tr td:first-child').join();
    key('#curves canvas', 'End');
    result.last = document.querySelector('#curves output').textContent;
    choose('scale', 'logarithmic', 'change');
    choose('over', 'time', 'change');
    await drawn();
    return result;)js");
  EXPECT_EQ(seen.at("errors"), "0");
  EXPECT_NEAR(seen.at("nearer").get<double>(), 32, 1e-6);
  EXPECT_EQ(seen.at("allAgain"), true);
  const ReportData data(report);
  EXPECT_THAT(seen.at("first").get<std::string>(), testing::StartsWith(data.names().at(0)));
  EXPECT_THAT(seen.at("third").get<std::string>(), testing::StartsWith(data.names().at(2)));
  EXPECT_LT(seen.at("atEnd").get<double>(), seen.at("atPeak").get<double>());
  EXPECT_EQ(seen.at("atPeak"), data.live_and_peak(0).second);
  EXPECT_THAT(seen.at("labels").get<std::string>(), HasSubstr("h"));
  EXPECT_EQ(seen.at("unfolded"), "all,step");
  EXPECT_THAT(seen.at("inside").get<std::string>(), AllOf(HasSubstr("matmul"), HasSubstr("tanh")));
  std::map<std::string, int> calls;
  for (const std::string& name : data.names()) ++calls[name];
  std::vector<int> sorted;
  for (const auto& [name, count] : calls) sorted.push_back(count);
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(seen.at("least"), joined(sorted));
  std::reverse(sorted.begin(), sorted.end());
  EXPECT_EQ(seen.at("most"), joined(sorted));
  EXPECT_EQ(seen.at("sort"), "ascending");
  EXPECT_EQ(seen.at("found"), "matmul,matmul") << "the first of x, those that follow of what has no label";
  EXPECT_EQ(seen.at("scopes"), "(no scope),step,step/layer");
  EXPECT_THAT(seen.at("last").get<std::string>(), testing::StartsWith("39, at "));
}

TEST_F(HtmlPage, TextsAreNotExecuted) {
  const std::string hostile[] = {"</script><script>document.documentElement.dataset.broken = 1</script>",
                                 "<img src=x onerror=\"document.documentElement.dataset.broken = 2\">",
                                 "<!--<script>",
                                 "'\"`${document.documentElement.dataset.broken = 3}",
                                 "\xe2\x80\xa8\xff",
                                 "__proto__",
                                 "constructor"};
  HtmlReport report;
  with(report, [&] {
    for (const std::string& text : hostile) {
      const Scope scope(text), inner(text);
      stave::report(text, label(sin(label(ones({2}), text)), text));
    }
  });
  const Json seen = look(report, R"js(
    choose('memory-by', 'label', 'change');
    choose('rows-are', 'kind', 'change');
    for (let i = 0; i < 3; ++i) { for (const x of document.querySelectorAll('details')) x.open = true; await drawn(); }
    for (let i = 0; i < 30; ++i) key('#timeline canvas', 'n');
    await drawn();
    const text = document.body.innerText;
    return { shown: ['\u003c/script>\u003cscript>', '<img src=x onerror', '\u003c!--\u003cscript>', '__proto__', '\\xff'].filter(x => text.includes(x)).length,
      images: document.images.length, broken: told.broken || 'no', captions: document.querySelectorAll('figcaption').length };)js");
  EXPECT_EQ(seen.at("errors"), "0");
  EXPECT_EQ(seen.at("broken"), "no");
  EXPECT_EQ(seen.at("images"), 0);
  EXPECT_EQ(seen.at("shown"), 5);
  EXPECT_EQ(seen.at("captions"), std::size(hostile));
}

// However many operations there are, the page draws, and keeps in the document, only as much as a
// reader can see.
TEST_F(HtmlPage, AHundredThousandOperationsStayUsable) {
  HtmlReport report;
  with(report, [] {
    Tensor x = ones({8});
    for (int i = 0; i < 25'000; ++i) {
      const Scope scope("step " + std::to_string(i % 5000)), inner("inner");
      x = label(sin(x), "x" + std::to_string(i));
      x = cos(x + 1.f * ones({8}));
      stave::report("x", x);
      stave::report("y" + std::to_string(i % 200), 1. * i);
    }
  });
  ASSERT_GE(report.operations(), 100'000u);
  const Json seen = look(report, R"js(
    await drawn();
    const result = { all: Number(told.bars), tall: document.querySelector('#timeline canvas').clientHeight };
    for (let i = 0; i < 6; ++i) click('#timeline [data-do=in]');
    key('#timeline canvas', 'n');  // to where something is
    await drawn();
    result.near = Number(told.bars);
    for (let i = 0; i < 5; ++i) key('#timeline canvas', 'n');
    click('#graph g.scope');
    choose('memory-by', 'label', 'change');
    choose('rows-are', 'kind', 'change');
    choose('search', 'sin', 'input');
    await drawn();
    result.found = document.getElementById('found').textContent;
    result.elements = document.querySelectorAll('*').length;
    return result;)js");
  EXPECT_EQ(seen.at("errors"), "0");
  EXPECT_EQ(seen.at("operations"), std::to_string(report.operations()));
  // When the operations ran depends on the machine. In each row at most one bar ends in each half
  // of a pixel.
  const double most = 2 * seen.at("tall").get<double>() / 18 * width;
  EXPECT_THAT(seen.at("all").get<double>(), AllOf(Ge(100), Le(most)));
  EXPECT_THAT(seen.at("near").get<double>(), AllOf(Ge(1), Le(most)));
  EXPECT_EQ(seen.at("curves"), "40");
  EXPECT_EQ(seen.at("rows"), "100");
  EXPECT_EQ(seen.at("found"), "5,000 rows");
  EXPECT_LE(seen.at("elements").get<double>(), 6000);
}

TEST_F(HtmlPage, EmptyReportGivesAPage) {
  const Json seen = look(HtmlReport(), "return {};");
  EXPECT_EQ(seen.at("ready"), "1");
  EXPECT_EQ(seen.at("errors"), "0");
  HtmlReport reports_alone;
  with(reports_alone, [] {
    report("never finite", std::numeric_limits<double>::quiet_NaN());
    report("nothing", zeros({0}));
    report("once", 1.);
  });
  const Json curves = look(reports_alone, "return { said: texts('#curves output').join() };");
  EXPECT_EQ(curves.at("errors"), "0");
  EXPECT_EQ(curves.at("said"),
            "1 point, last nan; 1 NaN, marked, the first at 0,1 point, last nan; 1 NaN, marked, the first at 0,1 "
            "point, last 1");
}

}  // namespace
