// The drawings on the page of an HtmlReport in a browser: ticks, colours, curves, the graph,
// memory, and narrow windows. The tests are skipped if there is no Chromium.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <stave/stave.h>

#include "html_page.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::HasSubstr;

TEST_F(HtmlPage, TickLabelsDifferAtEachZoom) {
  HtmlReport report;
  with(report, [] { steps(400); });
  const Json seen = look(report, R"js(
    await drawn();
    const result = { repeated: '', cut: '', unequal: '', zooms: 0 }, wide = document.querySelector('#timeline canvas').clientWidth;
    const size = { ns: 1, 'µs': 1e3, ms: 1e6, s: 1e9 };
    for (let zoom = 0; Number(told.length) > 20 && zoom < 40; ++zoom, ++result.zooms) {
      const ticks = told.ticks.split('|');
      if (ticks.length < 2 || new Set(ticks).size < ticks.length) result.repeated += `${told.ticks};`;
      if (Number(told.tickEnd) > wide) result.cut += `${told.ticks};`;
      // What ticks say is as far apart as they stand: read back, all steps are the same.
      const times = ticks.map((text, i) => (parseFloat(text) * size[text.split(' ')[1]]) + (text[0] === '+' && i ? parseFloat(ticks[0]) * size[ticks[0].split(' ')[1]] : 0));
      const steps = times.slice(1).map((time, i) => time - times[i]);
      if (Math.max(...steps) > Math.min(...steps) * 1.001 + 1e-3) result.unequal += `${told.ticks};`;
      click('#timeline [data-do=in]');
      await drawn();
    }
    return result;)js");
  EXPECT_EQ(seen.at("errors"), "0");
  EXPECT_GT(seen.at("zooms").get<double>(), 12);
  EXPECT_EQ(seen.at("repeated"), "");
  EXPECT_EQ(seen.at("cut"), "");
  EXPECT_EQ(seen.at("unequal"), "");
}

TEST_F(HtmlPage, OperationsHaveDistinctColours) {
  HtmlReport report;
  with(report, [] {
    const Tensor x = linspace(0.1, 0.9, 100);
    return sin(x) + cos(x) * tan(x) - exp(x) / log(x) + sqrt(x) + tanh(x) + sinh(x) + cosh(x) + asin(x) + acos(x) +
           atan(x) + square(x) + abs(x) + floor(x) + ceil(x) + sign(x) + erf(x) + sum(x) + max(x) + min(x);
  });
  const Json seen = look(report, R"js(
    const paint = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
    const rgb = colour => { paint.fillStyle = colour; paint.fillRect(0, 0, 1, 1); return [...paint.getImageData(0, 0, 1, 1).data]; };
    const swatches = [...document.querySelectorAll('#operations .swatch')].map(x => rgb(x.style.background));
    let nearest = Infinity;
    for (const [i, a] of swatches.entries()) for (const b of swatches.slice(0, i)) nearest = Math.min(nearest, Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]));
    return { swatches: swatches.length, nearest };)js");
  EXPECT_GE(seen.at("swatches").get<double>(), 20);
  EXPECT_GE(seen.at("nearest").get<double>(), 15) << "of 255, in the worst pair";
}

TEST_F(HtmlPage, CurvesShowHugeAndMarkNonfiniteValues) {
  HtmlReport seen_by;
  with(seen_by, [] {
    for (int i = 0; i < 100; ++i) {
      report("grows", std::pow(10., 3 * i));
      report("swings", (i % 2 ? -1 : 1) * std::pow(10., 3 * i));
      report("breaks", i == 50   ? std::numeric_limits<double>::quiet_NaN()
                       : i == 60 ? std::numeric_limits<double>::infinity()
                                 : std::sin(0.1 * i));
    }
    report("half", 1e308);
    report("half", -1e308);
    report("half", 3.);
  });
  const Json seen = look(seen_by, R"js(
    await drawn();
    const bad = getComputedStyle(document.documentElement).getPropertyValue('--bad'), said = texts('#curves output'), result = {};
    const heights = (canvas, from, to) => {  // how many lines of pixels the curve stands in, of a part of the width
      let lines = 0;
      const colour = '11,95,196,255', width = canvas.clientWidth - 70;
      for (let y = 0; y < 170; ++y) lines += colour in colours(canvas, 60 + from * width, y, (to - from) * width, 1);
      return lines;
    };
    const canvases = [...document.querySelectorAll('#curves canvas')];
    result.first = heights(canvases[0], 0, 0.5);
    result.second = heights(canvases[0], 0.5, 1);
    result.swings = heights(canvases[1], 0.2, 0.6);
    result.half = heights(canvases[3], 0, 1);
    result.red = Object.entries(colours(canvases[2], 60, 0, canvases[2].clientWidth - 70, 190)).filter(([c]) => c === '198,40,40,255').reduce((n, [, m]) => n + m, 0);
    result.grows = said[0]; result.swingsSaid = said[1]; result.breaks = said[2];
    choose('scale', 'linear', 'change');
    await drawn();
    result.flat = heights(canvases[0], 0, 0.5);
    return result;)js");
  EXPECT_EQ(seen.at("errors"), "0");
  EXPECT_GE(seen.at("first").get<double>(), 60) << "it rises in the first half";
  EXPECT_GE(seen.at("second").get<double>(), 60) << "and as much in the second";
  EXPECT_GE(seen.at("swings").get<double>(), 80);
  EXPECT_GE(seen.at("half").get<double>(), 80) << "between the largest numbers of both signs";
  EXPECT_LE(seen.at("flat").get<double>(), 4) << "which a linear scale does not show";
  EXPECT_GE(seen.at("red").get<double>(), 20);
  EXPECT_EQ(seen.at("marks"), "2");
  EXPECT_EQ(seen.at("grows"), "100 points, last 1e+297; logarithmic scale");
  EXPECT_EQ(seen.at("swingsSaid"), "100 points, last -1e+297; symmetric logarithmic scale");
  EXPECT_EQ(seen.at("breaks"), "100 points, last -0.457536; 1 NaN, 1 infinite, marked, the first at 50");
}

// A program with values that are read much later, a loop, and operations with many operands.
Tensor tangled(const Tensor& x) {
  const Tensor early = label(sin(x), "early");
  Tensor y = early;
  for (int i = 0; i < 3; ++i) {
    const Scope turn("turn");
    y = cos(y) + exp(y) * early;
    y = concat({y, tanh(y), sinh(early), x, square(y), early}, 0)[0];
  }
  return sum(y * early) + sum(x);
}

TEST_F(HtmlPage, GraphEdgesCrossNoBoxAndValuesAreNamed) {
  HtmlReport report;
  with(report, [] { grad(tangled)(label(reshape(linspace(0, 1, 8), {2, 4}), "x")); });
  const Json seen = look(report, R"js(
    for (let i = 0; i < 3; ++i) { for (const x of document.querySelectorAll('details')) x.open = true; await drawn(); }
    const result = { lines: 0, crossed: '', overlapping: 0, drawings: 0, outside: 0 };
    for (const svg of document.querySelectorAll('#graph svg')) {
      ++result.drawings;
      const boxes = [...svg.querySelectorAll('g')].map(g => ({ name: g.textContent, r: g.querySelector('rect').getBBox() }));
      for (const [i, a] of boxes.entries()) for (const b of boxes.slice(0, i))
        result.overlapping += a.r.x < b.r.x + b.r.width && b.r.x < a.r.x + a.r.width && a.r.y < b.r.y + b.r.height && b.r.y < a.r.y + a.r.height;
      for (const line of svg.querySelectorAll('path:not(.tip)')) {
        ++result.lines;
        for (let at = 0, end = line.getTotalLength(); at <= end; at += 2) {
          const p = line.getPointAtLength(at);
          const box = boxes.find(({ r }) => p.x > r.x + 0.5 && p.x < r.x + r.width - 0.5 && p.y > r.y + 0.5 && p.y < r.y + r.height - 0.5);
          if (box) { result.crossed += `${line.textContent} through ${box.name}; `; break; }
          if (p.x < 0 || p.y < 0 || p.x > svg.getBBox().width + 40 || p.y > Number(svg.getAttribute('height'))) { ++result.outside; break; }
        }
      }
    }
    result.values = texts('#graph text.value').join(' | ');
    const drawing = document.querySelector('#graph .drawing');
    drawing.style.width = '200px';
    drawing.scrollLeft = 100;
    result.scrolled = drawing.scrollLeft;
    result.wide = document.documentElement.scrollWidth;
    return result;)js");
  EXPECT_EQ(seen.at("errors"), "0");
  EXPECT_GE(seen.at("drawings").get<double>(), 3);
  EXPECT_GE(seen.at("lines").get<double>(), 20);
  EXPECT_EQ(seen.at("crossed"), "");
  EXPECT_EQ(seen.at("overlapping"), 0);
  EXPECT_EQ(seen.at("outside"), 0);
  EXPECT_THAT(seen.at("values").get<std::string>(), AllOf(HasSubstr("early:f32[2,4] ×"), HasSubstr("x:f32[2,4]")));
  EXPECT_EQ(seen.at("scrolled"), 100);
  EXPECT_LE(seen.at("wide").get<double>(), width);
}

TEST_F(HtmlPage, ParametersOfALayerAreOneBox) {
  HtmlReport report;
  const auto values = [](const char* name) { return label(linspace(0, 1, 4), name); };
  const Tensor a = values("a"), b = values("b"), c = values("c"), d = values("d"), x = values("x");
  with(report, [&] {
    Tensor y = sin(x);
    {
      const Scope layer("layer");
      y = y * a;
      y = y + b;
      y = y * c;
      y = y + d;
    }
    return y * x;
  });
  const Json seen = look(report, R"js(
    await drawn();
    return { outside: [...document.querySelectorAll('#graph g.outside')].map(g => g.querySelector('text').textContent).sort().join(' | '),
      values: texts('#graph text.value').join(' | '), title: [...document.querySelectorAll('#graph g.outside title')].map(x => x.textContent).join() };)js");
  EXPECT_EQ(seen.at("errors"), "0");
  EXPECT_EQ(seen.at("outside"), "a, b, c and 1 more | x:f32[4]");
  EXPECT_THAT(seen.at("values").get<std::string>(), HasSubstr("4 values"));
  EXPECT_THAT(seen.at("title").get<std::string>(), HasSubstr("d:f32[4]")) << "all of them";
}

// A holder that holds much memory only for a moment is visible, however narrow that moment is.
TEST_F(HtmlPage, MemoryShowsTheMaximumWithinAPixel) {
  HtmlReport report;
  with(report, [] {
    const auto once = [](const char* name, Index length) {
      const Scope scope(name);
      sin(ones({length}));
    };
    for (int i = 0; i < 30'000; ++i) {
      once("large", 2000);
      if (i == 15'000) once("small", 1000);
    }
  });
  const ReportData data(report);
  std::map<std::string, std::map<double, double>> changes;  // holder, time
  const auto made = data.times("storages", "made"), lived = data.numbers("storages", "lived"),
             bytes = data.numbers("storages", "bytes"), site = data.numbers("storages", "site"),
             earlier = data.numbers("storages", "earlier");
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (earlier[i] || site[i] < 0) continue;
    auto& of = changes[data.path_of_site(site[i])];
    of[made[i]] += bytes[i];
    if (lived[i] >= 0) of[made[i] + lived[i]] -= bytes[i];
  }
  const Json seen = look(report, "await drawn(); return {};");
  EXPECT_EQ(seen.at("drawnPeak"), seen.at("peak"));
  for (const char* name : {"small", "large"}) {
    double now = 0, most = 0;
    for (const auto& [time, change] : changes.at(name)) most = std::max(most, now += change);
    EXPECT_GE(most, 4000);
    EXPECT_THAT("," + seen.at("drawnHolders").get<std::string>() + ",",
                HasSubstr("," + std::to_string(static_cast<long>(most)) + ","))
        << name;
  }
}

// The page on a screen as narrow as a phone's.
TEST_F(HtmlPage, FitsANarrowWindow) {
  window_width_ = 500;  // headless browsers have no narrower window
  HtmlReport report;
  with(report, [] { steps(20); });
  const Json seen = look(report, R"js(
    for (const x of document.querySelectorAll('details')) x.open = true;
    await drawn();
    for (let i = 0; i < 5; ++i) key('#timeline canvas', 'n');
    await drawn();
    const outside = [...document.querySelectorAll('main *')].filter(x => !x.closest('.scroll, .drawing') && x.getBoundingClientRect().right > innerWidth + 1);
    return { inner: innerWidth, wide: document.documentElement.scrollWidth, outside: outside.map(x => x.outerHTML.slice(0, 60)).join(';'),
      left: document.querySelector('#timeline canvas').clientWidth };)js");
  EXPECT_EQ(seen.at("errors"), "0");
  EXPECT_LE(seen.at("inner").get<double>(), 500);
  EXPECT_LE(seen.at("wide").get<double>(), seen.at("inner").get<double>());
  EXPECT_EQ(seen.at("outside"), "");
}

// An operation that performs others includes their time, which is counted once.
TEST_F(HtmlPage, NestedOperationTimeCountsOnce) {
  struct Twice : Handler {
    Outputs handle(Call& call) override {
      perform(call);
      return perform(call);
    }
  };
  HtmlReport report;
  const Tensor x = linspace(0, 1, 100'000);
  with(report, [&] { with(Twice(), [&] { with(report, [&] { return exp(sin(x)); }); }); });
  const ReportData data(report);
  const auto time = data.numbers("operations", "time");
  ASSERT_EQ(data.names(), (std::vector<std::string>{"sin", "sin", "sin", "exp", "exp", "exp"}));
  const Json seen = look(report, "await drawn(); return {};");
  EXPECT_NEAR(std::stod(seen.at("selfTime").get<std::string>()), time[0] + time[3], 1);
  EXPECT_THAT(seen.at("overview").get<std::string>(),
              HasSubstr("operations=" + std::to_string(static_cast<long>(time[0] + time[3]))));
}

}  // namespace
