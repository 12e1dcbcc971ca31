// The parts of the page of an HtmlReport in a browser, and the selection that they share: the
// overview, the flame graph, rates, the comparison with another report, and chains. The tests are
// skipped if there is no Chromium.
#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include <stave/stave.h>

#include "html_page.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::Not;

Tensor in_layers(const Tensor& x) {
  Tensor h;
  {
    const Scope layer("first");
    h = tanh(matmul(x, x));
  }
  const Scope layer("second");
  return sum(exp(h));
}

TEST_F(HtmlPage, OverviewShowsWhereTheTimeWent) {
  HtmlReport report({.title = "Night <run>"});
  with(report, [] {
    steps(30);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    steps(30);
  });
  const ReportData data(report);
  const auto start = data.times("operations", "start"), time = data.numbers("operations", "time");
  double busy = 0, end = 0;
  for (std::size_t i = 0; i < start.size(); ++i) {
    busy += std::max(0., start[i] + time[i] - std::max(end, start[i]));
    end = std::max(end, start[i] + time[i]);
  }
  const Json seen = look(report, R"js(
    const times = Object.fromEntries(told.overview.split(',').map(part => part.split('=')).map(([name, ns]) => [name, Number(ns)]));
    const nav = document.getElementById('top');
    scrollTo(0, 1000);
    const result = { ...times, sum: Object.values(times).reduce((a, b) => a + b), title: document.title, heading: document.querySelector('h1').textContent,
      head: document.getElementById('head').textContent, stuck: nav.getBoundingClientRect().top, gap: document.querySelector('#gaps button').textContent };
    click('#gaps button');
    await drawn();
    return { ...result, shown: Number(told.length), chosen: told.selectedOperation };)js");
  EXPECT_EQ(seen.at("errors"), "0");
  EXPECT_EQ(seen.at("title"), "Night <run>");
  EXPECT_EQ(seen.at("heading"), "Night <run>");
  EXPECT_THAT(seen.at("head").get<std::string>(),
              AllOf(HasSubstr("html_page_test"), HasSubstr("Threads1 with operations"), HasSubstr(" UTC")));
  EXPECT_NEAR(seen.at("operations").get<double>(), busy, 1);
  EXPECT_GE(seen.at("waited").get<double>(), 25e6);
  EXPECT_GT(seen.at("own").get<double>(), 0);
  EXPECT_GT(seen.at("host").get<double>(), 0);
  EXPECT_NEAR(seen.at("sum").get<double>(), std::stod(seen.at("allTime").get<std::string>()), 10)
      << "the parts are all of the time";
  EXPECT_EQ(seen.at("stuck"), 0) << "the links stay";
  EXPECT_THAT(seen.at("gap").get<std::string>(), testing::MatchesRegex("[3-9][0-9.]+ ms at .*"));
  EXPECT_GE(seen.at("shown").get<double>(), 30e6);
}

TEST_F(HtmlPage, SelectionIsSharedByAllViews) {
  HtmlReport report;
  with(report, [] {
    const Tensor x = label(linspace(0, 1, 64), "x");
    for (int i = 0; i < 5; ++i) {
      const Tensor g = grad(in_layers)(reshape(x, {8, 8}));
      stave::report("g", sum(g));
    }
  });
  const Json seen = look(report, R"js(
    for (const x of document.querySelectorAll('#graph details')) x.open = true;
    await drawn();
    const result = {};
    const state = () => ({ bar: document.getElementById('selected').textContent, rows: texts('#operations tr.selected td:first-child').join(),
      dimmed: document.querySelectorAll('#operations tr.dimmed').length, holders: texts('#memory tr.selected td:first-child').join(),
      boxes: [...document.querySelectorAll('#graph g.selected')].map(g => g.querySelector('text').textContent).join(), hidden: document.getElementById('selection').hidden });
    result.nothing = JSON.stringify(state());
    // A row of the table.
    [...document.querySelectorAll('#operations tbody button')].find(x => x.textContent === 'tanh').click();
    result.byTable = JSON.stringify(state());
    // A scope, by the graph.
    [...document.querySelectorAll('#graph g.scope')].find(g => g.querySelector('text').textContent === 'first').dispatchEvent(new MouseEvent('click', { bubbles: true }));
    result.byGraph = JSON.stringify(state());
    // A scope, by the flame graph: one below all. Operations stand beside it, in the order of what they took.
    const flame = document.querySelector('#flame canvas'), box = flame.getBoundingClientRect();
    const at = name => new MouseEvent(name, { clientX: box.left + x, clientY: box.top + 25 });
    let x = 5;
    for (; x < box.width; x += 5) {
      flame.dispatchEvent(at('click'));
      if (document.getElementById('selected').textContent.startsWith('Selected: scope')) break;
    }
    result.byFlame = document.getElementById('selected').textContent;
    result.frames = Number(told.frames);
    flame.dispatchEvent(at('dblclick'));
    await drawn();
    result.enlarged = !document.getElementById('flame-all').hidden;
    // A holder of memory at the peak.
    click('#peak');
    document.querySelector('#memory tbody button').click();
    result.byMemory = document.getElementById('selected').textContent;
    result.holder = document.querySelector('#memory tbody button').textContent;
    // An operation of the timeline.
    for (let i = 0; i < 3; ++i) key('#timeline canvas', 'n');
    result.byTimeline = document.getElementById('selected').textContent;
    dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
    result.afterwards = JSON.stringify(state());
    return result;)js");
  EXPECT_EQ(seen.at("errors"), "0");
  const auto part = [&](const char* name) { return parse_json(seen.at(name).get<std::string>()); };
  EXPECT_EQ(part("nothing").at("rows"), "");
  EXPECT_EQ(part("nothing").at("hidden"), true);
  EXPECT_EQ(part("nothing").at("dimmed"), 0);
  EXPECT_EQ(part("byTable").at("rows"), "tanh");
  EXPECT_THAT(part("byTable").at("bar").get<std::string>(), testing::StartsWith("Selected: all tanh: 5 operations, "));
  EXPECT_GE(part("byTable").at("dimmed").get<double>(), 3);
  EXPECT_EQ(part("byTable").at("boxes"), "first,tanh") << "and the scope in which they are";
  EXPECT_EQ(part("byTable").at("holders"), "first");
  EXPECT_THAT(part("byGraph").at("rows").get<std::string>(),
              AllOf(HasSubstr("tanh"), HasSubstr("matmul"), Not(HasSubstr("exp"))));
  EXPECT_THAT(part("byGraph").at("bar").get<std::string>(),
              testing::StartsWith("Selected: scope first: 10 operations"));
  EXPECT_THAT(seen.at("byFlame").get<std::string>(), testing::StartsWith("Selected: scope"));
  EXPECT_GE(seen.at("frames").get<double>(), 8);
  EXPECT_EQ(seen.at("enlarged"), true);
  EXPECT_THAT(seen.at("byMemory").get<std::string>(), HasSubstr(seen.at("holder").get<std::string>()));
  EXPECT_THAT(seen.at("byTimeline").get<std::string>(), HasSubstr("; with all of its kind"));
  EXPECT_EQ(seen.at("nothing"), seen.at("afterwards"));
}

TEST_F(HtmlPage, BackwardOperationLinksToItsForwardOperation) {
  HtmlReport report;
  with(report, [] {
    const Tensor x = linspace(0, 1, 64);
    for (int i = 0; i < 3; ++i) grad(in_layers)(reshape(x, {8, 8}));
  });
  const ReportData data(report);
  const auto forward = data.numbers("operations", "forward");
  const auto names = data.names();
  ASSERT_EQ(forward.size(), names.size());
  std::size_t backward = 0;
  while (backward < names.size() && !(names[backward] == "sech_squared" && forward[backward] >= 0)) ++backward;
  ASSERT_LT(backward, names.size());
  EXPECT_EQ(names.at(static_cast<std::size_t>(forward[backward])), "tanh");
  const Json seen = look(report, "const wanted = " + std::to_string(backward) + R"js(;
    const result = {}, canvas = document.querySelector('#timeline canvas'), style = getComputedStyle(document.documentElement);
    for (let i = 0; i <= wanted; ++i) key('#timeline canvas', 'n');
    for (let i = 0; i < 12; ++i) { click('#timeline [data-do=in]'); key('#timeline canvas', 'p'); key('#timeline canvas', 'n'); }  // so near that both cannot be seen
    await drawn();
    result.chosen = told.selectedOperation;
    result.said = document.querySelector('#timeline output').textContent;
    result.button = document.getElementById('to-forward').hidden;
    result.line = Object.keys(colours(canvas, 130, 0, canvas.clientWidth - 130, canvas.clientHeight)).includes('11,95,196,255');
    const paint = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
    const rgb = name => { paint.fillStyle = style.getPropertyValue(name); paint.fillRect(0, 0, 1, 1); return [...paint.getImageData(0, 0, 1, 1).data].join(); };
    dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
    key('#timeline canvas', '0');
    await drawn();
    const here = colours(canvas, 130, 18, canvas.clientWidth - 130, canvas.clientHeight - 18);
    result.forwardDrawn = here[rgb('--forward')] || 0;
    result.backwardDrawn = here[rgb('--backward')] || 0;
    for (let i = 0; i <= wanted; ++i) key('#timeline canvas', 'n');
    key('#timeline canvas', 'f');
    result.led = told.selectedOperation;
    click('#to-backward');
    result.back = told.selectedOperation;
    return result;)js");
  EXPECT_EQ(seen.at("errors"), "0");
  EXPECT_EQ(seen.at("chosen"), std::to_string(backward));
  EXPECT_THAT(seen.at("said").get<std::string>(), HasSubstr("derives tanh"));
  EXPECT_EQ(seen.at("button"), false);
  EXPECT_EQ(seen.at("line"), true) << "from the one to the other";
  EXPECT_GE(seen.at("forwardDrawn").get<double>(), 50);
  EXPECT_GE(seen.at("backwardDrawn").get<double>(), 50) << "in another colour";
  EXPECT_EQ(seen.at("led"), std::to_string(static_cast<long>(forward[backward])));
  EXPECT_THAT(std::stol(seen.at("back").get<std::string>()), Ge(static_cast<long>(forward[backward]) + 1))
      << "one that derives it";
}

TEST_F(HtmlPage, TheTableHasRatesAndTheRoofline) {
  // So low a peak that the share is above 1.
  HtmlReport report({.peaks = {{cpu, 1e6, 1e6, 1e6}}});
  with(report, [] {
    const Tensor x = reshape(linspace(0, 1, 4096), {64, 64});
    for (int i = 0; i < 4; ++i) matmul(x, x);
    cholesky(eye(8));
  });
  const ReportData data(report);
  double time = 0;
  for (std::size_t i = 0; i < data.names().size(); ++i)
    if (data.names()[i] == "matmul") time += data.numbers("operations", "time")[i];
  const Json seen = look(report, R"js(
    const cell = (name, key) => {
      const at = [...document.querySelectorAll('#operations th')].findIndex(th => th.dataset.key === key);
      const row = [...document.querySelectorAll('#operations tbody tr')].find(tr => tr.cells[0].textContent === name);
      return row.cells[at].textContent;
    };
    return { count: cell('matmul', 'arithmetic'), flops: cell('matmul', 'flops'), bytes: cell('matmul', 'bandwidth'), roofline: cell('matmul', 'roofline'), unknown: cell('cholesky', 'roofline') + cell('cholesky', 'flops') + cell('cholesky', 'arithmetic'),
      peaks: document.getElementById('peaks').textContent };)js");
  const double flops = 4. * 2 * 64 * 64 * 64;
  EXPECT_EQ(seen.at("count"), "2.1 M");
  const auto number = [&](const char* name) { return std::stod(seen.at(name).get<std::string>()); };
  const auto scale = [&](const char* name) {
    return seen.at(name).get<std::string>().find(" G") != std::string::npos ? 1e9 : 1e6;
  };
  EXPECT_NEAR(number("flops") * scale("flops"), flops / time * 1e9, 0.01 * flops / time * 1e9) << seen.at("flops");
  EXPECT_NEAR(number("bytes") * scale("bytes"), 4. * 3 * 4 * 4096 / time * 1e9, 0.01 * 4. * 3 * 4 * 4096 / time * 1e9);
  EXPECT_NEAR(number("roofline") / 100, flops / 1e6 / (time / 1e9), 0.01 * flops / 1e6 / (time / 1e9))
      << "of the time that 1 MFLOP/s would take";
  EXPECT_EQ(seen.at("unknown"), "") << "never a number that is not known";
  EXPECT_THAT(seen.at("peaks").get<std::string>(), HasSubstr("given by the program"));
}

TEST_F(HtmlPage, ComparesWithAnotherReport) {
  const auto run = [](HtmlReport& report, int count, bool more) {
    with(report, [&] {
      steps(count);
      if (more) erf(ones({3}));
    });
  };
  HtmlReport here, there;
  run(here, 20, false);
  run(there, 10, true);
  // The other file's text is passed to the page in parts, so that no script ends early.
  std::string other;
  for (const char c : page_of(there)) {
    if (c == '<') other += "\\u003c";
    else if (c == '\\' || c == '`' || c == '$') (other += '\\') += c;
    else other += c;
  }
  const Json seen = look(here, "const text = `" + other + R"js(`, input = document.getElementById('other'), result = {};
    const load = async (text, name) => {
      const files = new DataTransfer();
      files.items.add(new File([text], name));
      input.files = files.files;
      await input.onchange();
    };
    await load(text, 'there.html');
    result.said = document.getElementById('compared').textContent;
    const row = name => [...[...document.querySelectorAll('#compare tbody tr')].find(tr => tr.cells[0].textContent === name).cells].map(x => x.textContent);
    result.calls = row('matmul').slice(5).join();
    result.gone = row('erf')[4];
    result.all = row('All operations').slice(5).join();
    result.rows = document.querySelectorAll('#compare tbody tr').length;
    result.overlaid = told.compared;
    choose('compare-by', 'scope', 'change');
    result.scopes = texts('#compare tbody td:first-child').join();
    await load('<html>no</html>', 'no.html');
    result.refused = document.getElementById('compared').textContent;
    result.hidden = document.querySelector('#compare table').hidden;
    return result;)js");
  EXPECT_EQ(seen.at("errors"), "0");
  EXPECT_THAT(seen.at("said").get<std::string>(), testing::StartsWith("there.html: Stave report, 20"));
  EXPECT_EQ(seen.at("calls"), "20,10");
  EXPECT_EQ(seen.at("gone"), "gone");
  EXPECT_EQ(seen.at("all"), std::to_string(here.operations()) + "," + std::to_string(there.operations()));
  EXPECT_EQ(seen.at("overlaid"), "2") << "curves of the same names";
  EXPECT_THAT(seen.at("scopes").get<std::string>(), HasSubstr("step/layer"));
  EXPECT_EQ(seen.at("refused"), "no.html cannot be compared: no report of Stave");
  EXPECT_EQ(seen.at("hidden"), true);
}

TEST_F(HtmlPage, ShowsWhetherChainsAgree) {
  const Index draws = 400;
  const Tensor noise = normal(Key(1), {4, draws}, float64);
  Sampled<NamedTensors> run;
  run.draws = {{"agree", noise}, {"apart", noise + reshape(tensor({0., 0., 0., 3.}, float64), {4, 1})}};
  run.accept_rate = full({4, draws}, 0.8, float64);
  run.steps = full({4, draws}, 7, int32);
  run.depth = full({4, draws}, 3, int32);
  run.diverged = noise > 3;
  run.step_size = full({4}, 0.5, float64);
  HtmlReport report;
  report.add_chains("posterior", run);
  const Json seen = look(report, R"js(
    await drawn();
    const ticks = colours(document.querySelectorAll('#chains canvas')[1], 0, 86, 600, 12);
    return { title: texts('#chains h3').join(), verdict: texts('#chains .verdict').join(), names: texts('#chains figcaption').join(),
      worse: [...document.querySelectorAll('#chains td.worse')].map(x => x.closest('tr').cells[0].textContent).join(), red: ticks['198,40,40,255'] || 0,
      sections: texts('section:not([hidden]) h2').join() };)js");
  EXPECT_EQ(seen.at("errors"), "0");
  EXPECT_EQ(seen.at("sections"), "Memory,Chains,Comparison");
  EXPECT_EQ(seen.at("title"), "posterior");
  const std::string divergences = std::to_string(run.divergences());
  ASSERT_GE(run.divergences(), 1);
  EXPECT_THAT(seen.at("verdict").get<std::string>(),
              AllOf(HasSubstr("4 chains of 400 draws; " + divergences + " divergence"),
                    HasSubstr("chains do not agree on 1 of 2 numbers")));
  EXPECT_EQ(seen.at("names"), "apart,agree") << "the worst first";
  EXPECT_THAT(seen.at("worse").get<std::string>(), HasSubstr("apart"));
  EXPECT_GE(seen.at("red").get<double>(), 1) << "where trajectories diverged";
  EXPECT_EQ(seen.at("rankPlots"), "2");
  EXPECT_GE(std::stol(seen.at("outside").get<std::string>()), 20) << "bins in which a chain has too few or too many";
}

}  // namespace
