// A fixture for tests of the page of an HtmlReport in a browser: headless Chromium runs the page
// with an additional script, which inspects the drawing and uses the page as a reader would.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <stave/stave.h>

#include "files.h"
#include "html_report.h"

namespace stave_test {

using namespace stave;

constexpr int width = 1200, height = 1600;

/// Returns the path of Chromium; "" if there is none.
inline std::string chromium() {
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
// How often each colour occurs in a part of a canvas, given in its own pixels.
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

inline Tensor step(const Tensor& x) {
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
inline void steps(int count) {
  Tensor x = label(eye(16), "x");
  for (int i = 0; i < count; ++i) x = step(x);
}

}  // namespace stave_test
