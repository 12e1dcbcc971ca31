// The page of an HtmlReport in a browser: headless Chromium runs it with an additional script,
// which inspects the drawing and uses the page as a reader would. The tests are skipped if there is
// no Chromium. html_report_test.cpp tests the data.
#include <sys/wait.h>
#include <zlib.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <stave/stave.h>

#include "files.h"
#include "html_report.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;
using testing::Not;

// Returns the numbers with commas between them, such as "3,2,1".
std::string joined(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

constexpr int width = 1200, height = 1600;

/// Returns the path of Chromium; "" if there is none.
std::string chromium() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    for (const char* name : {"/chromium", "/chromium-browser", "/google-chrome"})
      if (fs::exists(folder + name)) return folder + name;
  return "";
}

// Declarations for the tests' scripts. `told` is what the page reports about itself.
const char* const words = R"js(
const told = document.documentElement.dataset;
const drawn = () => new Promise(go => requestAnimationFrame(() => requestAnimationFrame(go)));
const texts = selector => [...document.querySelectorAll(selector)].map(x => x.textContent);
const click = selector => document.querySelector(selector).dispatchEvent(new MouseEvent('click', { bubbles: true }));
const key = (selector, key) => document.querySelector(selector).dispatchEvent(new KeyboardEvent('keydown', { key }));
const choose = (id, value, event) => { const x = document.getElementById(id); x.value = value; x.dispatchEvent(new Event(event)); };
// Of a part of a canvas, in its own pixels: how often each colour is there.
const colours = (canvas, x, y, w, h) => {
  const scale = devicePixelRatio, [width, height] = [Math.round(w * scale), Math.round(h * scale)];
  const copy = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true }), result = {};
  copy.drawImage(canvas, -Math.round(x * scale), -Math.round(y * scale));
  const pixels = copy.getImageData(0, 0, width, height).data;
  for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3] > 0) {
    const colour = [...pixels.slice(i, i + 4)].join();
    result[colour] = (result[colour] || 0) + 1;
  }
  return result;
};
)js";

/// An image of 8 bits per channel, read from the browser's PNG: PNG specification (third edition),
/// 9 and 11.
struct Picture {
  unsigned width = 0, height = 0, channels = 0;
  std::vector<std::uint8_t> bytes;

  explicit Picture(const std::string& png) {
    const auto number_at = [&](std::size_t i) {
      unsigned number = 0;
      for (std::size_t end = i + 4; i < end; ++i) number = number << 8 | static_cast<unsigned char>(png.at(i));
      return number;
    };
    std::string packed;
    for (std::size_t at = 8; at < png.size();) {
      const std::size_t size = number_at(at), data = at + 8;
      const std::string kind = png.substr(at + 4, 4);
      if (kind == "IHDR") {
        width = number_at(data);
        height = number_at(data + 4);
        channels = png.at(data + 9) == 6 ? 4 : 3;
        EXPECT_EQ(png.at(data + 8), 8) << "bits";
        EXPECT_EQ(png.at(data + 12), 0) << "not interlaced";
      }
      if (kind == "IDAT") packed += png.substr(data, size);
      at = data + size + 4;
    }
    const std::size_t line = std::size_t{width} * channels;
    std::vector<std::uint8_t> lines((line + 1) * height);
    uLongf unpacked = lines.size();
    EXPECT_EQ(uncompress(lines.data(), &unpacked, reinterpret_cast<const Bytef*>(packed.data()), packed.size()), Z_OK);
    EXPECT_EQ(unpacked, lines.size());
    bytes.resize(line * height);
    for (std::size_t y = 0; y < height; ++y)
      for (std::size_t x = 0; x < line; ++x) {
        const int left = x < channels ? 0 : bytes[y * line + x - channels], above = y ? bytes[(y - 1) * line + x] : 0;
        const int corner = x < channels || y == 0 ? 0 : bytes[(y - 1) * line + x - channels];
        const int to_left = std::abs(above - corner), to_above = std::abs(left - corner);
        const int to_corner = std::abs(left + above - 2 * corner);
        const int nearest = to_left <= to_above && to_left <= to_corner ? left : to_above <= to_corner ? above : corner;
        const int guesses[] = {0, left, above, (left + above) / 2, nearest};
        const std::uint8_t filter = lines[y * (line + 1)];
        bytes[y * line + x] =
            static_cast<std::uint8_t>(lines[y * (line + 1) + 1 + x] + guesses[std::min<int>(filter, 4)]);
      }
  }

  /// Returns the share of pixels in these lines that do not have the most frequent colour.
  double ink(unsigned top, unsigned bottom) const {
    std::map<std::uint32_t, unsigned> counts;
    for (std::size_t i = std::size_t{top} * width; i < std::size_t{bottom} * width; ++i)
      ++counts[bytes[i * channels] << 16u | bytes[i * channels + 1] << 8u | bytes[i * channels + 2]];
    unsigned ground = 0;
    for (const auto& [colour, count] : counts) ground = std::max(ground, count);
    return 1 - ground / (static_cast<double>(bottom - top) * width);
  }
};

class HtmlPage : public testing::Test {
 protected:
  void SetUp() override {
    if (chromium().empty()) GTEST_SKIP() << "there is no chromium in the PATH to show the page";
  }

  /// Returns the result of `script`, the body of an async function, in the page.
  Json look(const HtmlReport& report, const std::string& script) {
    std::string page = page_of(report);
    const std::string looking =
        std::string("<script>(async () => {") + words + "try { const seen = await (async () => {" + script +
        "})(); const out = document.createElement('script'); out.type = 'application/json'; "
        "out.id = 'seen'; out.textContent = JSON.stringify({ ...told, ...seen }); "
        "document.body.append(out); } catch (error) { console.error(String(error.stack)); } })();</script>";
    page.insert(page.rfind("</body>"), looking);
    // Replaces animation frames by timers, for which the browser's virtual time waits.
    page.insert(page.find("<title>"), "<script>requestAnimationFrame = f => setTimeout(f, 1);</script>");
    std::ofstream(folder_ / "page.html") << page;
    run("--dump-dom");
    const std::string dom = bytes_of(folder_ / "out"), opens = R"(<script type="application/json" id="seen">)";
    const std::size_t begin = dom.find(opens);
    EXPECT_NE(begin, dom.npos) << "the script did not end";
    if (begin == dom.npos) return {};
    return parse_json(dom.substr(begin + opens.size(), dom.find("</script>", begin) - begin - opens.size()));
  }

  void run(const std::string& what) {
    const std::string command = "timeout 300 '" + chromium() +
                                "' --headless --no-sandbox --disable-gpu --no-first-run --hide-scrollbars "
                                "--enable-logging=stderr --user-data-dir='" +
                                folder_ / "profile" + "' --window-size=" + std::to_string(window_width_) + "," +
                                std::to_string(height) + " --virtual-time-budget=20000 " + what + " 'file://" +
                                folder_ / "page.html" + "' > '" + folder_ / "out" + "' 2> '" + folder_ / "log" + "'";
    const int status = std::system(command.c_str());
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << command;
    EXPECT_EQ(console(), "") << "errors, warnings and refusals";
  }
  std::string console() const {
    std::string said;
    std::ifstream log(folder_ / "log");
    for (std::string line; std::getline(log, line);)
      if (line.find("CONSOLE") != line.npos) said += line + "\n";
    return said;
  }

  const Folder folder_;
  int window_width_ = width;
};

Tensor step(const Tensor& x) {
  const Scope scope("step");
  Tensor h;
  {
    const Scope layer("layer");
    h = label(tanh(matmul(x, x)), "h");
  }
  report("norm", sum(square(h)));
  report("h", h);
  return h - 0.1f * x;
}
void steps(int count) {
  Tensor x = label(eye(16), "x");
  for (int i = 0; i < count; ++i) x = step(x);
}

TEST_F(HtmlPage, DrawsWhatWasSeen) {
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
  EXPECT_EQ(seen.at("ready").text, "1");
  EXPECT_EQ(seen.at("errors").text, "0");
  EXPECT_EQ(seen.at("operations").text, std::to_string(report.operations()));
  EXPECT_EQ(seen.at("lanes").text, "2");
  EXPECT_EQ(seen.at("curves").text, "2");
  EXPECT_EQ(seen.at("peak").text, std::to_string(static_cast<long>(data.live_and_peak(0).second)));
  EXPECT_EQ(seen.at("sections").text,
            "Where the time went,Timeline,Flame graph,Memory,Graph,Operations,Curves,Comparison");
  EXPECT_EQ(seen.at("captions").text, "step/norm,step/h");
  EXPECT_THAT(seen.at("totals").text, HasSubstr("2 threads, 1 device"));
  EXPECT_THAT(seen.at("holders").text, HasSubstr("step/layer"));
  EXPECT_GE(seen.at("timelineRows").number, 2 * 3 * 2 - 2) << "of two lanes two scopes and operations, each met twice";
  EXPECT_GE(seen.at("memoryColours").number, 3);
  EXPECT_GE(seen.at("curveColours").number, 2);
  EXPECT_GE(seen.at("drawnBoxes").number, 2);
  EXPECT_LE(seen.at("wide").number, width) << "nothing sticks out";
}

TEST_F(HtmlPage, IsUsedByKeysAndClicks) {
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
  EXPECT_EQ(seen.at("errors").text, "0");
  EXPECT_NEAR(seen.at("nearer").number, 32, 1e-6);
  EXPECT_EQ(seen.at("allAgain").text, "true");
  const ReportData data(report);
  EXPECT_THAT(seen.at("first").text, testing::StartsWith(data.names().at(0)));
  EXPECT_THAT(seen.at("third").text, testing::StartsWith(data.names().at(2)));
  EXPECT_LT(seen.at("atEnd").number, seen.at("atPeak").number);
  EXPECT_EQ(seen.at("atPeak").number, data.live_and_peak(0).second);
  EXPECT_THAT(seen.at("labels").text, HasSubstr("h"));
  EXPECT_EQ(seen.at("unfolded").text, "all,step");
  EXPECT_THAT(seen.at("inside").text, AllOf(HasSubstr("matmul"), HasSubstr("tanh")));
  std::map<std::string, int> calls;
  for (const std::string& name : data.names()) ++calls[name];
  std::vector<int> sorted;
  for (const auto& [name, count] : calls) sorted.push_back(count);
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(seen.at("least").text, joined(sorted));
  std::reverse(sorted.begin(), sorted.end());
  EXPECT_EQ(seen.at("most").text, joined(sorted));
  EXPECT_EQ(seen.at("sort").text, "ascending");
  EXPECT_EQ(seen.at("found").text, "matmul,matmul") << "the first of x, those that follow of what has no label";
  EXPECT_EQ(seen.at("scopes").text, "(no scope),step,step/layer");
  EXPECT_THAT(seen.at("last").text, testing::StartsWith("39, at "));
}

TEST_F(HtmlPage, TextsRunNothing) {
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
  EXPECT_EQ(seen.at("errors").text, "0");
  EXPECT_EQ(seen.at("broken").text, "no");
  EXPECT_EQ(seen.at("images").number, 0);
  EXPECT_EQ(seen.at("shown").number, 5);
  EXPECT_EQ(seen.at("captions").number, static_cast<double>(std::size(hostile)));
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
  EXPECT_EQ(seen.at("errors").text, "0");
  EXPECT_EQ(seen.at("operations").text, std::to_string(report.operations()));
  // When the operations ran depends on the machine. In each row at most one bar ends in each half
  // of a pixel.
  const double most = 2 * seen.at("tall").number / 18 * width;
  EXPECT_THAT(seen.at("all").number, AllOf(Ge(100), Le(most)));
  EXPECT_THAT(seen.at("near").number, AllOf(Ge(1), Le(most)));
  EXPECT_EQ(seen.at("curves").text, "40");
  EXPECT_EQ(seen.at("rows").text, "100");
  EXPECT_EQ(seen.at("found").text, "5,000 rows");
  EXPECT_LE(seen.at("elements").number, 6000);
}

TEST_F(HtmlPage, IsAPageOfNothingToo) {
  const Json seen = look(HtmlReport(), "return {};");
  EXPECT_EQ(seen.at("ready").text, "1");
  EXPECT_EQ(seen.at("errors").text, "0");
  HtmlReport reports_alone;
  with(reports_alone, [] {
    report("never finite", std::numeric_limits<double>::quiet_NaN());
    report("nothing", zeros({0}));
    report("once", 1.);
  });
  const Json curves = look(reports_alone, "return { said: texts('#curves output').join() };");
  EXPECT_EQ(curves.at("errors").text, "0");
  EXPECT_EQ(curves.at("said").text,
            "1 point, last nan; 1 NaN, marked, the first at 0,1 point, last nan; 1 NaN, marked, the first at 0,1 "
            "point, last 1");
}

// ---- the drawing --------------------------------------------------------------------------------

TEST_F(HtmlPage, TicksTellTimesApartAtEachZoom) {
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
  EXPECT_EQ(seen.at("errors").text, "0");
  EXPECT_GT(seen.at("zooms").number, 12);
  EXPECT_EQ(seen.at("repeated").text, "");
  EXPECT_EQ(seen.at("cut").text, "");
  EXPECT_EQ(seen.at("unequal").text, "");
}

TEST_F(HtmlPage, OperationsHaveColoursThatDiffer) {
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
  EXPECT_GE(seen.at("swatches").number, 20);
  EXPECT_GE(seen.at("nearest").number, 15) << "of 255, in the worst pair";
}

TEST_F(HtmlPage, CurvesShowWhatIsHugeAndMarkWhatIsNotFinite) {
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
  EXPECT_EQ(seen.at("errors").text, "0");
  EXPECT_GE(seen.at("first").number, 60) << "it rises in the first half";
  EXPECT_GE(seen.at("second").number, 60) << "and as much in the second";
  EXPECT_GE(seen.at("swings").number, 80);
  EXPECT_GE(seen.at("half").number, 80) << "between the largest numbers of both signs";
  EXPECT_LE(seen.at("flat").number, 4) << "which a linear scale does not show";
  EXPECT_GE(seen.at("red").number, 20);
  EXPECT_EQ(seen.at("marks").text, "2");
  EXPECT_EQ(seen.at("grows").text, "100 points, last 1e+297; logarithmic scale");
  EXPECT_EQ(seen.at("swingsSaid").text, "100 points, last -1e+297; symmetric logarithmic scale");
  EXPECT_EQ(seen.at("breaks").text, "100 points, last -0.457536; 1 NaN, 1 infinite, marked, the first at 50");
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

TEST_F(HtmlPage, LinesOfTheGraphCrossNoBoxAndValuesHaveNames) {
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
  EXPECT_EQ(seen.at("errors").text, "0");
  EXPECT_GE(seen.at("drawings").number, 3);
  EXPECT_GE(seen.at("lines").number, 20);
  EXPECT_EQ(seen.at("crossed").text, "");
  EXPECT_EQ(seen.at("overlapping").number, 0);
  EXPECT_EQ(seen.at("outside").number, 0);
  EXPECT_THAT(seen.at("values").text, AllOf(HasSubstr("early:f32[2,4] ×"), HasSubstr("x:f32[2,4]")));
  EXPECT_EQ(seen.at("scrolled").number, 100);
  EXPECT_LE(seen.at("wide").number, width);
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
  EXPECT_EQ(seen.at("errors").text, "0");
  EXPECT_EQ(seen.at("outside").text, "a, b, c and 1 more | x:f32[4]");
  EXPECT_THAT(seen.at("values").text, HasSubstr("4 values"));
  EXPECT_THAT(seen.at("title").text, HasSubstr("d:f32[4]")) << "all of them";
}

// A holder that holds much memory only for a moment is visible, however narrow that moment is.
TEST_F(HtmlPage, MemoryIsTheMostOfEachHolderWithinAPixel) {
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
  EXPECT_EQ(seen.at("drawnPeak").text, seen.at("peak").text);
  for (const char* name : {"small", "large"}) {
    double now = 0, most = 0;
    for (const auto& [time, change] : changes.at(name)) most = std::max(most, now += change);
    EXPECT_GE(most, 4000);
    EXPECT_THAT("," + seen.at("drawnHolders").text + ",",
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
  EXPECT_EQ(seen.at("errors").text, "0");
  EXPECT_LE(seen.at("inner").number, 500);
  EXPECT_LE(seen.at("wide").number, seen.at("inner").number);
  EXPECT_EQ(seen.at("outside").text, "");
}

// An operation that performs others includes their time, which is counted once.
TEST_F(HtmlPage, TimeWithinOperationsCountsOnce) {
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
  EXPECT_NEAR(std::stod(seen.at("selfTime").text), time[0] + time[3], 1);
  EXPECT_THAT(seen.at("overview").text,
              HasSubstr("operations=" + std::to_string(static_cast<long>(time[0] + time[3]))));
}

// ---- the selection, and other parts of the page -------------------------------------------------

Tensor in_layers(const Tensor& x) {
  Tensor h;
  {
    const Scope layer("first");
    h = tanh(matmul(x, x));
  }
  const Scope layer("second");
  return sum(exp(h));
}

TEST_F(HtmlPage, SaysWhereTheTimeWent) {
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
  EXPECT_EQ(seen.at("errors").text, "0");
  EXPECT_EQ(seen.at("title").text, "Night <run>");
  EXPECT_EQ(seen.at("heading").text, "Night <run>");
  EXPECT_THAT(seen.at("head").text,
              AllOf(HasSubstr("html_page_test"), HasSubstr("Threads1 with operations"), HasSubstr(" UTC")));
  EXPECT_NEAR(seen.at("operations").number, busy, 1);
  EXPECT_GE(seen.at("waited").number, 25e6);
  EXPECT_GT(seen.at("own").number, 0);
  EXPECT_GT(seen.at("host").number, 0);
  EXPECT_NEAR(seen.at("sum").number, std::stod(seen.at("allTime").text), 10) << "the parts are all of the time";
  EXPECT_EQ(seen.at("stuck").number, 0) << "the links stay";
  EXPECT_THAT(seen.at("gap").text, testing::MatchesRegex("[3-9][0-9.]+ ms at .*"));
  EXPECT_GE(seen.at("shown").number, 30e6);
}

TEST_F(HtmlPage, OneSelectionShowsInAllViews) {
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
  EXPECT_EQ(seen.at("errors").text, "0");
  const auto part = [&](const char* name) { return parse_json(seen.at(name).text); };
  EXPECT_EQ(part("nothing").at("rows").text, "");
  EXPECT_EQ(part("nothing").at("hidden").text, "true");
  EXPECT_EQ(part("nothing").at("dimmed").number, 0);
  EXPECT_EQ(part("byTable").at("rows").text, "tanh");
  EXPECT_THAT(part("byTable").at("bar").text, testing::StartsWith("Selected: all tanh: 5 operations, "));
  EXPECT_GE(part("byTable").at("dimmed").number, 3);
  EXPECT_EQ(part("byTable").at("boxes").text, "first,tanh") << "and the scope in which they are";
  EXPECT_EQ(part("byTable").at("holders").text, "first");
  EXPECT_THAT(part("byGraph").at("rows").text, AllOf(HasSubstr("tanh"), HasSubstr("matmul"), Not(HasSubstr("exp"))));
  EXPECT_THAT(part("byGraph").at("bar").text, testing::StartsWith("Selected: scope first: 10 operations"));
  EXPECT_THAT(seen.at("byFlame").text, testing::StartsWith("Selected: scope"));
  EXPECT_GE(seen.at("frames").number, 8);
  EXPECT_EQ(seen.at("enlarged").text, "true");
  EXPECT_THAT(seen.at("byMemory").text, HasSubstr(seen.at("holder").text));
  EXPECT_THAT(seen.at("byTimeline").text, HasSubstr("; with all of its kind"));
  EXPECT_EQ(seen.at("nothing").text, seen.at("afterwards").text);
}

TEST_F(HtmlPage, ABackwardOperationLeadsToTheOneThatItDerives) {
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
  EXPECT_EQ(seen.at("errors").text, "0");
  EXPECT_EQ(seen.at("chosen").text, std::to_string(backward));
  EXPECT_THAT(seen.at("said").text, HasSubstr("derives tanh"));
  EXPECT_EQ(seen.at("button").text, "false");
  EXPECT_EQ(seen.at("line").text, "true") << "from the one to the other";
  EXPECT_GE(seen.at("forwardDrawn").number, 50);
  EXPECT_GE(seen.at("backwardDrawn").number, 50) << "in another colour";
  EXPECT_EQ(seen.at("led").text, std::to_string(static_cast<long>(forward[backward])));
  EXPECT_THAT(std::stol(seen.at("back").text), Ge(static_cast<long>(forward[backward]) + 1)) << "one that derives it";
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
  EXPECT_EQ(seen.at("count").text, "2.1 M");
  const auto number = [&](const char* name) { return std::stod(seen.at(name).text); };
  const auto scale = [&](const char* name) { return seen.at(name).text.find(" G") != std::string::npos ? 1e9 : 1e6; };
  EXPECT_NEAR(number("flops") * scale("flops"), flops / time * 1e9, 0.01 * flops / time * 1e9) << seen.at("flops").text;
  EXPECT_NEAR(number("bytes") * scale("bytes"), 4. * 3 * 4 * 4096 / time * 1e9, 0.01 * 4. * 3 * 4 * 4096 / time * 1e9);
  EXPECT_NEAR(number("roofline") / 100, flops / 1e6 / (time / 1e9), 0.01 * flops / 1e6 / (time / 1e9))
      << "of the time that 1 MFLOP/s would take";
  EXPECT_EQ(seen.at("unknown").text, "") << "never a number that is not known";
  EXPECT_THAT(seen.at("peaks").text, HasSubstr("given by the program"));
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
  EXPECT_EQ(seen.at("errors").text, "0");
  EXPECT_THAT(seen.at("said").text, testing::StartsWith("there.html: Stave report, 20"));
  EXPECT_EQ(seen.at("calls").text, "20,10");
  EXPECT_EQ(seen.at("gone").text, "gone");
  EXPECT_EQ(seen.at("all").text, std::to_string(here.operations()) + "," + std::to_string(there.operations()));
  EXPECT_EQ(seen.at("overlaid").text, "2") << "curves of the same names";
  EXPECT_THAT(seen.at("scopes").text, HasSubstr("step/layer"));
  EXPECT_EQ(seen.at("refused").text, "no.html cannot be compared: no report of Stave");
  EXPECT_EQ(seen.at("hidden").text, "true");
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
  EXPECT_EQ(seen.at("errors").text, "0");
  EXPECT_EQ(seen.at("sections").text, "Memory,Chains,Comparison");
  EXPECT_EQ(seen.at("title").text, "posterior");
  const std::string divergences = std::to_string(run.divergences());
  ASSERT_GE(run.divergences(), 1);
  EXPECT_THAT(seen.at("verdict").text, AllOf(HasSubstr("4 chains of 400 draws; " + divergences + " divergence"),
                                             HasSubstr("chains do not agree on 1 of 2 numbers")));
  EXPECT_EQ(seen.at("names").text, "apart,agree") << "the worst first";
  EXPECT_THAT(seen.at("worse").text, HasSubstr("apart"));
  EXPECT_GE(seen.at("red").number, 1) << "where trajectories diverged";
  EXPECT_EQ(seen.at("rankPlots").text, "2");
  EXPECT_GE(std::stol(seen.at("outside").text), 20) << "bins in which a chain has too few or too many";
}

// The time that a reader waits: from the start of the browser to the drawn page, less the same time
// for an empty page.
TEST_F(HtmlPage, AMillionOperationsOpenInThreeSeconds) {
  HtmlReport report, nothing;
  with(report, [] {
    Tensor x = ones({8});
    for (int i = 0; i < 10'000; ++i) {
      const Scope scope("step");
      for (int j = 0; j < 25; ++j) x = cos(sin(x) + tanh(x) * 0.5f);
    }
  });
  ASSERT_GE(report.operations(), 1'000'000u);
  const auto seconds = [&](const HtmlReport& shown) {
    shown.write_html(folder_ / "page.html");
    const auto begin = std::chrono::steady_clock::now();
    run("--screenshot='" + folder_ / "page.png" + "'");
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  double best = 1e300;  // the least time, as other work of the machine comes and goes
  for (int attempt = 0; attempt < 4 && best > 3; ++attempt) best = std::min(best, seconds(report) - seconds(nothing));
  const Picture picture(bytes_of(folder_ / "page.png"));
  EXPECT_GE(picture.ink(100, height), 0.05) << "and is drawn";
  EXPECT_LE(best, 3);
}

// ---- appearance ---------------------------------------------------------------------------------

// Each part of the page is drawn, and has the same height for every run of a program. A part that
// shows no times has as much ink in each run.
TEST_F(HtmlPage, PicturesOfTwoRunsAreAlike) {
  struct Part {
    std::string name;
    unsigned height;
    double ink;
  };
  const auto partition = [&] {
    HtmlReport report;
    with(report, [] { steps(20); });
    const Json seen = look(report, R"js(
      await drawn();
      const parts = [...document.querySelectorAll('section')].filter(x => !x.hidden);
      return { parts: parts.map(x => { const r = x.getBoundingClientRect(); return [x.id, Math.ceil(r.top), Math.floor(r.bottom)].join(); }) };)js");
    // The page as users have it, without the tests' script.
    report.write_html(folder_ / "page.html");
    run("--screenshot='" + folder_ / "page.png" + "'");
    const Picture picture(bytes_of(folder_ / "page.png"));
    EXPECT_EQ(picture.width, static_cast<unsigned>(width));
    EXPECT_EQ(picture.height, static_cast<unsigned>(height));
    std::vector<Part> parts;
    for (const Json& item : seen.at("parts").items) {
      std::istringstream words(item.text);
      std::string name, top, bottom;
      std::getline(std::getline(std::getline(words, name, ','), top, ','), bottom);
      if (std::stoul(bottom) > height) break;  // below the window
      parts.push_back({name, static_cast<unsigned>(std::stoul(bottom) - std::stoul(top)),
                       picture.ink(static_cast<unsigned>(std::stoul(top)), static_cast<unsigned>(std::stoul(bottom)))});
    }
    return parts;
  };
  const std::vector<Part> some = partition(), others = partition();
  ASSERT_GE(some.size(), 3u);
  ASSERT_EQ(some.size(), others.size());
  for (std::size_t i = 0; i < some.size(); ++i) {
    SCOPED_TRACE(some[i].name);
    EXPECT_EQ(some[i].name, others[i].name);
    EXPECT_EQ(some[i].height, others[i].height);
    EXPECT_THAT(some[i].ink, AllOf(Ge(0.01), Le(0.9)));
    const bool shows_times = some[i].name == "timeline" || some[i].name == "memory";
    if (!shows_times) {
      EXPECT_NEAR(some[i].ink, others[i].ink, 0.25 * some[i].ink);
    }
  }
}

}  // namespace
