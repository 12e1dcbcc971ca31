// report and progress: who hears what, and how it is written down.
#include <algorithm>
#include <cmath>
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

TEST(Report, WithoutListenersIsNothing) {
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

TEST(Report, IsHeardByAllAround) {
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

TEST(Report, UnderTransforms) {
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
  // Inside of grad its values are constants, and it may have ended when the checkpoint runs again.
  Heard inside;
  const auto g = [&](T x) { return with(inside, [&] { return checkpoint(f)(x); }); };
  EXPECT_THAT(grad(g)(point()), Equals(2. * point()));
  EXPECT_EQ(inside.values.size(), 1u);
  EXPECT_EQ(inside.values[0].to_vector<double>().size(), 2u);
}

TEST(Report, IsNotGatheredByHarvest) { EXPECT_TRUE(harvest(f)(point()).second.empty()); }

TEST(PrintReports, PrintsALineForEach) {
  std::ostringstream out;
  with(PrintReports(out), [] {
    report("loss", tensor(0.25));
    report("x", point());
    report("m", tensor({{1, 2}, {3, 4}}));
  });
  EXPECT_EQ(out.str(), "loss 0.25\nx [1. 2.]\nm\n[[1 2]\n [3 4]]\n");
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

TEST(CsvReports, WritesAFile) {
  const Folder folder;
  with(CsvReports(folder / "reports.csv"), [] { report("loss", 2.); });
  EXPECT_EQ(bytes_of(folder / "reports.csv"), "name,count,index,value\nloss,0,,2\n");
  EXPECT_THAT(message_of<FileError>([] { CsvReports("/no/such/folder/x.csv"); }),
              HasSubstr("CsvReports: /no/such/folder/x.csv cannot be written"));
}

TEST(Progress, OfACompiledFunctionIsHeardByWhoComesLater) {
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
  EXPECT_THAT(with(PrintProgress(out, 3), [&] { return f(point()); }), Equals(8. * point()));
  EXPECT_EQ(out.str(), "\r[#..]  33% 1/3\r[##.]  66% 2/3\r[###] 100% 3/3\n");
  EXPECT_EQ(f.recordings(), 1u);
}

TEST(Progress, DrawsABar) {
  std::ostringstream out;
  with(PrintProgress(out, 4), [] {
    for (long i = 0; i <= 2; ++i) progress(i, 2);
  });
  EXPECT_EQ(out.str(), "\r[....]   0% 0/2\r[##..]  50% 1/2\r[####] 100% 2/2\n");
  out.str("");
  with(PrintProgress(out, 4), [] {
    for (long i = 1; i <= 3000; ++i) progress(i, 3000);
  });
  const std::string bars = out.str();
  EXPECT_EQ(std::count(bars.begin(), bars.end(), '\r'), 101);
  EXPECT_THAT(message_of<Error>([] { progress(3, 2); }), HasSubstr("progress: 3 of 2 is no progress"));
}

}  // namespace report_test
