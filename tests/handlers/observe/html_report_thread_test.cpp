// An HtmlReport that observes several threads.
#include <algorithm>
#include <thread>

#include <stave/stave.h>

#include "html_report.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;

TEST(HtmlReport, ThreadsShareIt) {
  HtmlReport report;
  const Tensor x = ones({50});
  Tensor made;
  const auto work = [&] {
    Tensor y = x;
    for (int i = 0; i < 200; ++i) {
      const Scope scope("turn");
      y = label(sin(y), "y");
      stave::report("y", y);
    }
    return y;
  };
  std::thread first([&] { made = with(report, work); }), second([&] { with(report, work); });
  // Writes the page meanwhile.
  for (int i = 0; i < 20; ++i) page_of(report);
  first.join();
  second.join();
  with(report, [&] { return exp(made); });
  const ReportData data(report);
  EXPECT_EQ(report.operations(), 2u * 200 + 1);
  EXPECT_EQ(data.numbers("lanes", "thread").size(), 3u);
  EXPECT_EQ(data.numbers("points", "mean").size(), 400u);
  EXPECT_EQ(data.edges().at("sin -> exp"), 1) << "what another thread made";
  const auto lane = data.numbers("operations", "lane");
  EXPECT_EQ(std::count(lane.begin(), lane.end(), lane[0]), 200);
}

}  // namespace
