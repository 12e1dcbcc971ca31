// report and progress: which handlers receive them, and how handlers print them.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <sstream>

#include <stave/stave.h>

#include "files.h"
#include "matchers.h"

namespace report_test {

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;

using T = const Tensor&;

struct Heard : ReportListener {
  std::vector<std::string> names;
  std::vector<Tensor> values;
  void reported(const std::string& name, T value) override {
    names.push_back(name);
    values.push_back(value);
  }
  std::string describe() const override { return "heard"; }
};

Tensor f(T x) {
  const Scope scope("layer");
  report("x", x);
  return sum(square(x));
}
Tensor point() { return tensor({1., 2.}, float64); }

TEST(Report, WithoutHandlersDoesNothing) {
  CountOps count;
  with(count, [] {
    report("x", point());
    report("rate", 0.1);
    progress(1, 2);
  });
  EXPECT_EQ(count.n, 0);
  const auto compiled = compile(f);
  compiled(point());
  compiled(2. * point());
  EXPECT_EQ(compiled.recordings(), 1u);
}

TEST(Report, ReachesAllOuterHandlers) {
  Heard inner, outer;
  with(outer, [&] {
    const Scope scope("run");
    with(inner, [] { f(point()); });
    report("rate", 0.1);
  });
  EXPECT_THAT(inner.names, ElementsAre("layer/x"));
  EXPECT_THAT(outer.names, ElementsAre("run/layer/x", "run/rate"));
  EXPECT_THAT(outer.values[1], Equals(tensor(0.1, float64)));
}

TEST(Report, IsHeardOnceUnderTransforms) {
  const auto heard_of = [](auto g, T x) {
    Heard heard;
    with(heard, [&] { return g(x); });
    EXPECT_EQ(heard.values.size(), 1u);
    return heard.values.at(0);
  };
  const Tensor xs = stack({point(), 2. * point()});
  EXPECT_THAT(heard_of(vmap(f), xs), Equals(xs));
  EXPECT_THAT(heard_of(grad(f), point()), Equals(point()));
  EXPECT_THAT(heard_of(grad(checkpoint(f)), point()), Equals(point()));
  EXPECT_THAT(heard_of(vmap(grad(checkpoint(f))), xs), Equals(xs));
  EXPECT_THAT(heard_of(compile(f), point()), Equals(point()));
  // Inside grad, reported values are constants. The handler may have ended
  // when the checkpoint runs again.
  Heard inside;
  const auto g = [&](T x) { return with(inside, [&] { return checkpoint(f)(x); }); };
  EXPECT_THAT(grad(g)(point()), Equals(2. * point()));
  EXPECT_EQ(inside.values.size(), 1u);
  EXPECT_EQ(inside.values[0].to_vector<double>().size(), 2u);
}

TEST(Report, IsNotGatheredByHarvest) { EXPECT_TRUE(harvest(f)(point()).second.empty()); }

TEST(PrintReports, PrintsALinePerReport) {
  std::ostringstream out;
  with(PrintReports(out), [] {
    report("loss", tensor(0.25));
    report("x", point());
    report("m", tensor({{1, 2}, {3, 4}}));
  });
  EXPECT_EQ(
      out.str(),
      "loss 0.25\nx f64[2] min 1 max 2 mean 1.5 std 0.5 nan 0 inf 0\nm i32[2,2] min 1 max 4 mean 2.5 std 1.11803\n");
}

TEST(PrintReports, SummarizesLargeArraysInOneLine) {
  std::ostringstream out;
  with(PrintReports(out), [] { report("w", full({300, 500}, NAN).at(0).set(2.)); });
  EXPECT_EQ(out.str(), "w f32[300,500] min 2 max 2 mean 2 std 0 nan 149500 inf 0\n");
}

TEST(CsvReports, WritesALineForEachNumber) {
  std::ostringstream out;
  with(CsvReports(out), [] {
    report("loss", 0.1);
    report("a,\"b\"", tensor({{1, 2}, {3, 4}}));
    report("loss", tensor(0.1));
    report("odd", tensor({std::nan(""), -std::numeric_limits<double>::infinity()}));
    report("flags", tensor({true, false}));
  });
  EXPECT_EQ(out.str(),
            "name,count,index,value\n"
            "loss,0,,0.1\n"
            "\"a,\"\"b\"\"\",0,0 0,1\n\"a,\"\"b\"\"\",0,0 1,2\n\"a,\"\"b\"\"\",0,1 0,3\n\"a,\"\"b\"\"\",0,1 1,4\n"
            "loss,1,,0.1\n"
            "odd,0,0,nan\nodd,0,1,-inf\n"
            "flags,0,0,1\nflags,0,1,0\n");
}

TEST(CsvReports, WritesComplexNumbersAsNumPyDoes) {
  std::ostringstream out;
  const auto f = [] { report("z", tensor({std::complex<double>(1, -2.5), std::complex<double>(0.1, 3)}, complex128)); };
  with(CsvReports(out), f);
  EXPECT_THAT(out.str(), HasSubstr("1-2.5j"));
  EXPECT_THAT(out.str(), HasSubstr("0.1+3j"));
}

TEST(CsvReports, WritesAFile) {
  const Folder folder;
  with(CsvReports(folder / "reports.csv"), [] { report("loss", 2.); });
  EXPECT_EQ(bytes_of(folder / "reports.csv"), "name,count,index,value\nloss,0,,2\n");
  EXPECT_THAT(message_of<FileError>([] { CsvReports("/no/such/folder/x.csv"); }),
              HasSubstr("CsvReports: /no/such/folder/x.csv cannot be written"));
}

// ---- a terminal ---------------------------------------------------------------------------------

/// The lines that a terminal shows after this text. It knows only
/// the control sequences that bars use.
std::string shown(const std::string& text) {
  std::vector<std::string> lines(1);
  std::size_t row = 0, column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      column = 0;
      if (++row == lines.size()) lines.emplace_back();
    } else if (text[i] == '\r') {
      column = 0;
    } else if (text[i] == '\x1b') {
      const std::size_t end = text.find_first_of("AKJ", i);
      if (text[end] == 'A') row -= std::min<std::size_t>(std::stoul(text.substr(i + 2)), row);
      else lines[row].resize(std::min(column, lines[row].size()));
      if (text[end] == 'J') lines.resize(row + 1);
      i = end;
    } else {
      lines[row].resize(std::max(column + 1, lines[row].size()), ' ');
      lines[row][column++] = text[i];
    }
  }
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  all.pop_back();
  return all;
}

/// The output of a body under PrintProgress, with a clock that the body advances.
struct Drawn {
  std::ostringstream out;
  double now = 0;
  ProgressOptions options{.redraw = true, .columns = 60, .seconds = [this] { return now; }};

  template <class Body>
  std::string after(Body body) {
    with(PrintProgress(out, options), body);
    return shown(out.str());
  }
};

TEST(Progress, InACompiledFunctionReachesHandlersInstalledLater) {
  const auto f = compile([](T x) {
    Tensor y = x;
    for (long i = 0; i < 3; ++i) {
      y = y * 2.;
      progress(i + 1, 3);
    }
    return y;
  });
  f(point());
  std::ostringstream out;
  double now = 0;
  const ProgressOptions options{.redraw = true, .columns = 30, .seconds = [&] { return now += 0.5; }};
  EXPECT_THAT(with(PrintProgress(out, options), [&] { return f(point()); }), Equals(8. * point()));
  EXPECT_EQ(shown(out.str()), "100% [########] 3/3 in 1.0 s\n");
  EXPECT_EQ(f.recordings(), 1u);
}

TEST(Progress, ShowsRateAndRemainingTimeInOneLine) {
  Drawn drawn;
  std::string half;
  EXPECT_EQ(drawn.after([&] {
    for (long i = 0; i <= 40; ++i, drawn.now += 0.25) {
      progress(i, 40, "train");
      if (i == 20) half = shown(drawn.out.str());
    }
  }),
            "train 100% [#######################] 40/40 4/s    in 0:10\n");
  EXPECT_EQ(half, "train  50% [###########............] 20/40 4/s    0:05 left");
  EXPECT_EQ(half.size(), 59u);  // the last column stays free
}

TEST(Progress, ShowsSlowStepsAndLongTimes) {
  Drawn drawn;
  const std::string text = drawn.after([&] {
    progress(0, 1000);
    drawn.now = 250;
    progress(2, 1000);
  });
  EXPECT_THAT(text, HasSubstr("125 s/step 1d 10h left\n"));
}

TEST(Progress, FitsNarrowTerminals) {
  for (const int columns : {1, 2, 5, 10, 20, 30, 40, 80}) {
    Drawn drawn;
    drawn.options.columns = columns;
    const std::string text = drawn.after([&] {
      for (long i = 0; i < 900; ++i, drawn.now += 1) progress(i, 1000, "a name that is longer than many");
    });
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
    EXPECT_LT(text.size(), static_cast<std::size_t>(columns) + (columns == 1 ? 2 : 1)) << text;
    EXPECT_EQ(text.find("899/1000") != std::string::npos, columns >= 10) << text;
  }
}

TEST(Progress, NestedLoopsHaveLinesOfTheirOwn) {
  Drawn drawn;
  std::string inside;
  const std::string end = drawn.after([&] {
    for (long epoch = 0; epoch < 3; ++epoch) {
      progress(epoch, 3, "epoch");
      const Scope scope("epoch");
      for (long i = 1; i <= 10; ++i, drawn.now += 1) {
        progress(i, 10, "batch");
        if (epoch == 1 && i == 5) inside = shown(drawn.out.str());
      }
    }
    progress(3, 3, "epoch");
  });
  EXPECT_EQ(inside,
            "epoch        33% [####..........]   1/3 10 s/step 0:20 left\n"
            "epoch/batch  50% [#######.......]  5/10 1/s       0:05 left");
  EXPECT_THAT(end, HasSubstr("epoch       100% ["));
  EXPECT_THAT(end, HasSubstr("\nepoch/batch 100% ["));
  EXPECT_EQ(std::count(end.begin(), end.end(), '\n'), 2) << end;
}

TEST(Progress, NestedLoopsNeedNoNames) {
  Drawn drawn;
  const std::string end = drawn.after([&] {
    for (long epoch = 0; epoch < 4; ++epoch) {
      progress(epoch, 4);
      // The total differs each time.
      for (long i = 0; i < 10 + epoch; ++i, drawn.now += 1) progress(i + 1, 10 + epoch);
    }
    progress(4, 4);
  });
  EXPECT_EQ(std::count(end.begin(), end.end(), '\n'), 2) << end;
  EXPECT_THAT(end, HasSubstr("4/4"));
  EXPECT_THAT(end, HasSubstr("13/13"));
}

TEST(Progress, OtherTextAppearsAboveTheBar) {
  Drawn drawn;
  std::string open;
  const std::string end = drawn.after([&] {
    for (long i = 1; i <= 4; ++i, drawn.now += 1) {
      progress(i, 4);
      if (i == 2) drawn.out << "loss " << 0.5 << "\n" << std::flush;
      if (i == 3) {
        drawn.out << "half a ";
        open = shown(drawn.out.str());
        drawn.out << "line" << std::endl;
      }
    }
  });
  EXPECT_EQ(open, "loss 0.5\nhalf a ");
  EXPECT_THAT(end, testing::MatchesRegex("loss 0.5\nhalf a line\n100% \\[#*\\] 4/4 1/s    in 3.0 s\n"));
  Drawn unfinished;
  EXPECT_THAT(unfinished.after([&] {
    progress(1, 2);
    unfinished.out << "no end";
    unfinished.now = 1;
    progress(2, 2);
  }),
              testing::MatchesRegex("no end\n100% \\[#*\\] 2/2 1/s    in 1.0 s\n"));
}

TEST(Progress, ReportsAppearAboveTheBar) {
  Drawn drawn;
  const std::string end = drawn.after([&] {
    with(PrintReports(drawn.out), [&] {
      for (long i = 1; i <= 3; ++i, drawn.now += 1) {
        report("loss", 0.5);
        progress(i, 3);
      }
    });
  });
  EXPECT_THAT(end, testing::MatchesRegex("loss 0.5\nloss 0.5\nloss 0.5\n100% .*\n"));
}

TEST(Progress, AnExceptionBeginsANewLine) {
  Drawn drawn;
  try {
    drawn.after([&] {
      progress(1, 4);
      throw std::runtime_error("of the loop");
    });
  } catch (const std::exception& error) {
    drawn.out << error.what() << "\n";
  }
  EXPECT_THAT(shown(drawn.out.str()), testing::MatchesRegex(" 25% \\[#*\\.*\\] 1/4\nof the loop\n"));
}

TEST(Progress, RestoresTheBufferOfTheStream) {
  std::ostringstream out;
  const auto* const before = std::as_const(out).rdbuf();
  {
    PrintProgress bars(out, {.redraw = true});
    EXPECT_NE(static_cast<std::ostream&>(out).rdbuf(), before);
  }
  EXPECT_EQ(static_cast<std::ostream&>(out).rdbuf(), before);
}

TEST(Progress, OutOfRangeStepsAreNoErrors) {
  progress(5, 3);  // no handler is installed
  progress(-1, -2);
  Drawn drawn;
  const std::string end = drawn.after([&] {
    for (long i = 1; i <= 6; ++i, drawn.now += 1) progress(i, 4);
  });
  EXPECT_THAT(end, testing::MatchesRegex("100% \\[#*\\] 4/4 1/s    in 3.0 s\n100% \\[#*\\] 6/4 1/s\n"));
  Drawn unknown;
  EXPECT_EQ(unknown.after([&] {
    for (long i = 1; i <= 6; ++i, unknown.now += 1) progress(i, 0, "lines");
  }),
            "lines 6 1/s\n");
  Drawn strange;
  EXPECT_THAT(strange.after([] { progress(-3, 8); }), testing::MatchesRegex("  0% \\[\\.*\\] -3/8\n"));
}

TEST(Progress, WithoutATerminalPrintsLinesPeriodically) {
  std::ostringstream out;
  double now = 0;
  with(PrintProgress(out, {.every = 5, .seconds = [&] { return now; }}), [&] {
    for (long epoch = 1; epoch <= 2; ++epoch) {
      for (long i = 1; i <= 8; ++i) {
        now += 1;
        progress(i, 8, "batch");
        progress(8 * epoch - 8 + i, 16, "all");
      }
    }
  });
  EXPECT_EQ(out.str(),
            "batch 75% 6/8 1/s 0:02 left; all 31% 5/16 1/s 0:11 left\n"
            "batch 37% 3/8 1/s 0:05 left; all 62% 10/16 1/s 0:06 left\n"
            "batch 100% 8/8 1/s in 7.0 s; all 93% 15/16 1/s 0:01 left\n"
            "batch 100% 8/8 1/s in 7.0 s; all 100% 16/16 1/s in 0:15\n");
}

}  // namespace report_test
