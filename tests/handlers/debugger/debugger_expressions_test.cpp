// What is typed into debugger(f): values in place of an operation, conditions of breakpoints, and
// expressions.
#include <sstream>

#include <stave/stave.h>

#include "debugger.h"
#include "files.h"
#include "matchers.h"

namespace {

using namespace debugger_test;
using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::Not;

/// The value of 2 sin(x) if sin is skipped with the value that `command` gives, and the debugger's
/// output.
struct Skipped {
  Tensor result;
  std::string said;
};
Skipped skipped(const std::string& command, const Tensor& x) {
  std::istringstream in(command + "\nc\n");
  std::ostringstream out;
  const Tensor y = debugger([](const Tensor& v) { return 2 * sin(v); }, {.in = &in, .out = &out, .source = false})(x);
  return {y, out.str()};
}

TEST(Debugger, OperationMayBeReplacedByAValue) {
  EXPECT_THAT(skipped("skip 0.25", x3).result, Equals(tensor({0.5, 0.5, 0.5})));
  EXPECT_THAT(skipped("skip -1e2", x3).result, Equals(tensor({-200., -200., -200.})));
  EXPECT_THAT(skipped("skip in0", x3).result, Equals(2 * x3));
  EXPECT_THAT(skipped("skip [1, 2, 3]", x3).result, Equals(tensor({2., 4., 6.})));
  EXPECT_THAT(skipped("skip [[1,2],[3,4]]", zeros({2, 2}, float64)).result,
              Equals(tensor({{2., 4.}, {6., 8.}}, float64)));
  EXPECT_THAT(skipped("skip nan", tensor(1.)).result, IsNumber(NAN));
  const Folder folder;
  save_npy(folder / "x.npy", tensor({7., 8., 9.}));
  EXPECT_THAT(skipped("skip " + (folder / "x.npy"), x3).result, Equals(tensor({14., 16., 18.})));
}

TEST(Debugger, ValuesOfAWrongShapeAreErrors) {
  for (const auto& [command, message] : {
           std::pair("skip [1, 2]",
                     "sin: debugger answered with float32 [2] on cpu for output 0, which is float32 [3] on cpu"),
           std::pair("skip [[1], [2, 3]]", "debugger: `[[1], [2, 3]]` is not a value: give a number, a list"),
           std::pair("skip [1, [2]]", "`[1, [2]]` is not a value"),
           std::pair("skip [1, 2", "`[1, 2` is not a value"),
           std::pair("skip 1x", "`1x` is not a value"),
           std::pair("skip", "debugger: `skip` takes one value, for all outputs"),
           std::pair("skip in1", "debugger: sin has 1 operands, in here, counted from 0"),
           std::pair("skip absent.npy", "absent.npy"),
           std::pair("replace 1", "debugger: there are no outputs yet: `perform` it first, or `skip` it with a value"),
           std::pair("print y", "debugger: `y` is not a value here; values are in0, in1, ..., out0, ..."),
       }) {
    const Skipped tried = skipped(command, x3);
    EXPECT_THAT(tried.said, HasSubstr(message));
    EXPECT_THAT(tried.result, Equals(2 * sin(x3))) << command;
  }
}

TEST(Debugger, OneOfSeveralOutputsMayBeReplaced) {
  std::istringstream in(
      "perform\nperform\nskip 1\nreplace out2 1\nreplace out1 [[2, 0], [0, 2]]\nreplace out0 [[1, 0], [0, "
      "1]]\nc\n");
  std::ostringstream out;
  const Tensor y = debugger(
      [](const Tensor& x) {
        const auto [q, r] = qr(x);
        return matmul(q, r);
      },
      {.in = &in, .out = &out, .source = false})(tensor({{1., 2.}, {3., 4.}}));
  EXPECT_THAT(y, Equals(2. * eye(2)));
  EXPECT_THAT(
      out.str(),
      HasSubstr("debugger: `replace` takes a value, or an output and a value, such as out1 0.5; there are 2 outputs"));
  EXPECT_THAT(out.str(), HasSubstr("debugger: the operation has its outputs already: `replace` one"));
}

// ---- conditions, and ignored breakpoints --------------------------------------------------------

/// Returns the stops for these commands followed by `continue`: the lines that begin with "before"
/// or "after", without the first.
template <class F, class... A>
std::vector<std::string> stops(const std::string& commands, F f, const A&... args) {
  std::istringstream lines(transcript(commands + "\nc\nc\nc\nc\nc\nc\nc\nc\n", f, args...));
  std::vector<std::string> found;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("before ") || line.starts_with("after ")) found.push_back(line);
  found.erase(found.begin());
  return found;
}

Tensor roots(const Tensor& minus_x) {
  const Tensor x = -minus_x, a = sqrt(x), b = sqrt(label(4. * x, "four")), c = sqrt(ones({2}));
  return sum(a) + sum(b) + sum(c);
}

TEST(Debugger, BreakpointConditionsReadOperands) {
  using testing::ElementsAre;
  const Tensor x = -tensor({1., 2., 3.});
  const std::string three = "before sqrt f32[3] -> f32[3]", four = "before sqrt four:f32[3] -> f32[3]",
                    two = "before sqrt f32[2] -> f32[2]";
  EXPECT_THAT(stops("b sqrt if max > 3", roots, x), ElementsAre(four));
  EXPECT_THAT(stops("b sqrt if max >= 3", roots, x), ElementsAre(three, four));
  EXPECT_THAT(stops("b sqrt if size == 2", roots, x), ElementsAre(two));
  EXPECT_THAT(stops("b sqrt if mean(in0) != 1", roots, x), ElementsAre(three, four));
  EXPECT_THAT(stops("b sqrt if in0[-1] - in0[0] > 1", roots, x), ElementsAre(three, four));
  // The first sqrt runs before the label `four` exists.
  EXPECT_THAT(stops("b sqrt if four[0] < in0[0] + 1", roots, x), ElementsAre(four));
  EXPECT_THAT(stops("b multiply if max > 3", roots, x), ElementsAre("before multiply f32[3], f32[3] -> f32[3]"));
  EXPECT_THAT(stops("b sqrt if nan > 0", roots, -tensor({1., NAN, 3.})), ElementsAre(three, four));
  // Everything after `if` belongs to the condition.
  EXPECT_THAT(stops("b sqrt if std < 0.1 forward", roots, x), ElementsAre());
  EXPECT_THAT(transcript("b sqrt if max > 3\nbreakpoints\nc\nbreakpoints\n", roots, x),
              HasSubstr("breakpoint 1: sqrt if max > 3\n(stave) breakpoints\n1  sqrt if max > 3\n(stave) c\n"
                        "breakpoint 1: sqrt if max > 3\nbefore sqrt four:f32[3] -> f32[3]\n(stave) breakpoints\n"
                        "1  sqrt if max > 3, reached 1 time\n"));
}

TEST(Debugger, BreakpointConditionsReadOutputs) {
  using testing::ElementsAre;
  EXPECT_THAT(stops("b sqrt if max(out0) > 3", roots, -tensor({1., 2., 3.})),
              ElementsAre("after sqrt four:f32[3] -> f32[3]"));
  EXPECT_THAT(stops(
                  "b if inf(out0) > 0", [](const Tensor& x) { return sum(exp(log(abs(x)))); }, tensor({0., 1.})),
              ElementsAre("after log f32[2] -> f32[2]"));
}

TEST(Debugger, ConditionsUnderVmapReadAllLanes) {
  const auto f = [](const Tensor& x) { return sum(sqrt(abs(x)) - 1.); };
  std::istringstream in("b sqrt if max > 3\nc\np in0[0] - 1\np in0 - in0[0]\nc\n");
  std::ostringstream out;
  vmap(debugger(f, {.in = &in, .out = &out, .source = false}))(tensor({{0.5, 1.}, {2., 4.}}));
  EXPECT_THAT(out.str(), HasSubstr("breakpoint 1: sqrt if max > 3\nbefore sqrt f32[2] -> f32[2]\n"
                                   "(stave) p in0[0] - 1\n"
                                   "in0[0] - 1  f32[2] min -0.5 max 1 mean 0.25 std 0.75 nan 0 inf 0\n"
                                   "  ▁█\n"
                                   "[-0.5  1. ]\n"  // two lanes; the first element of each
                                   "(stave) p in0 - in0[0]\n"
                                   "in0 - in0[0]  f32[2,2] min 0 max 2 mean 0.625 std 0.81968 nan 0 inf 0\n"));
}

TEST(Debugger, InvalidConditionsAreReported) {
  const std::string text = transcript(
      "b sqrt if\nb sqrt if max >\nb sqrt if (max > 3\nb sqrt if max > 3 4\nb sqrt if in0[\nb if 3 $ 4\n"
      "b sqrt if in0 - [1] > 0\nbreakpoints\nb sqrt if in0[7] > 0\nc\n",
      roots, x3);
  for (const char* said :
       {"debugger: `if` needs a condition", "debugger: `max >` ends too early\n",
        "debugger: `(max > 3` ends too early\n", "debugger: `max > 3 4` cannot be parsed, from `4` on\n",
        "debugger: `in0[` ends too early\n", "debugger: `3 $ 4` cannot be parsed, from `$ 4` on\n",
        "from `[1] > 0` on\n", "there are no breakpoints\n",
        "a condition is false where it cannot be evaluated: in0[7] > 0: "})
    EXPECT_THAT(text, HasSubstr(said));
  EXPECT_THAT(text, HasSubstr("the function has returned"));
}

TEST(Debugger, TemporaryBreakpointStopsOnce) {
  const auto thrice = [](const Tensor& x) { return sin(sin(sin(x))); };
  EXPECT_EQ(transcript("tbreak sin\nb cos\nc\nbreakpoints\nc\n", thrice, x3),
            "before sin f32[3] -> f32[3]\n(stave) tbreak sin\ntemporary breakpoint 1: sin\n(stave) b cos\n"
            "breakpoint 2: cos\n(stave) c\ntemporary breakpoint 1: sin\nbefore sin f32[3] -> f32[3]\n"
            "(stave) breakpoints\n2  cos\n(stave) c\nthe function has returned\n");
}

TEST(Debugger, IgnoredBreakpointIsPassed) {
  const auto five = [](Tensor x) {
    for (int i = 0; i < 5; ++i) x = sin(x + i);
    return x;
  };
  const std::string text = transcript(
      "b sin\nignore 1 3\nbreakpoints\nc\nbreakpoints\np in0[0]\nignore 7 1\nignore 1\nc\n", five, zeros({1}));
  EXPECT_THAT(text, HasSubstr("breakpoint 1 is passed 3 times\n(stave) breakpoints\n1  sin, passed 3 more\n(stave) c\n"
                              "breakpoint 1: sin\nbefore sin f32[1] -> f32[1]\n(stave) breakpoints\n"
                              "1  sin, reached 4 times\n"));
  EXPECT_THAT(text, HasSubstr("debugger: there is no breakpoint 7\n"));
  EXPECT_THAT(text, HasSubstr("debugger: `ignore` takes the number of a breakpoint, and how many times to pass it\n"));
}

TEST(Debugger, WatchStopsWhereTheValueChanges) {
  const auto training = [](Tensor w) {
    for (int i = 0; i < 6; ++i) {
      w = label(i == 3 ? w + 1. : w * 1., "w");
      w = exp(w) * 0. + w;  // w is read twice
    }
    return w;
  };
  EXPECT_EQ(transcript("watch w\nc\nc\nc\n", training, zeros({2})),
            "before multiply f32[2], f32[2] -> f32[2]\n"
            "(stave) watch w\n"
            "breakpoint 1: any operation of w if it is another value\n"
            "(stave) c\n"
            "breakpoint 1: any operation of w if it is another value\n"
            "before exp w:f32[2] -> f32[2]\n"
            "  is  w:f32[2] min 0 max 0 mean 0 std 0 nan 0 inf 0\n"
            "(stave) c\n"
            "breakpoint 1: any operation of w if it is another value\n"
            "before exp w:f32[2] -> f32[2]\n"
            "  was w:f32[2] min 0 max 0 mean 0 std 0 nan 0 inf 0\n"
            "  is  w:f32[2] min 1 max 1 mean 1 std 0 nan 0 inf 0\n"
            "(stave) c\n"
            "the function has returned\n");
  EXPECT_THAT(transcript("watch\n", training, zeros({2})), HasSubstr("debugger: `watch` takes the label of a value"));
}

TEST(Debugger, NewNanStopsOnce) {
  using testing::ElementsAre;
  const auto f = [](const Tensor& x) {
    const Tensor brought = exp(x), arises = log(x - 2.), again = sqrt(x - 3.);
    return sum(brought + arises + again);
  };
  const Tensor x = tensor({NAN, 1.});  // the input already has a NaN
  // Stops at the first operation; later NaNs are not new.
  EXPECT_THAT(stops("b nan", f, x), ElementsAre("after exp f32[2] -> f32[2]"));
  EXPECT_THAT(stops("b nan arises", f, x), ElementsAre());
  EXPECT_THAT(stops("b nan arises", f, tensor({1., 5.})), ElementsAre("after log f32[2] -> f32[2]"));
  EXPECT_THAT(stops("b nan", f, tensor({1., 5.})),
              ElementsAre("after log f32[2] -> f32[2]", "after sqrt f32[2] -> f32[2]"));
  EXPECT_THAT(transcript("b sqrt nan arises\n", f, x), HasSubstr("breakpoint 1: sqrt where a NaN arises\n"));
}

// The checkpoint's result contains the same NaN, at which the debugger does not stop again.
TEST(Debugger, NanInACheckpointStopsOnce) {
  using testing::ElementsAre;
  const auto f = [](const Tensor& x) { return checkpoint([](const Tensor& v) { return log(v); })(x); };
  for (const char* command : {"b nan", "b nan arises"})
    EXPECT_THAT(stops(command, f, tensor({-1., 1.})), ElementsAre("after log f32[2] -> f32[2]  [checkpoint]"))
        << command;
}

// ---- expressions --------------------------------------------------------------------------------

TEST(Debugger, PrintsExpressions) {
  const auto f = [](const Tensor& m, const Tensor& n) {
    const Tensor hidden = label(m + n, "hidden"), other = label(2. * hidden, "a.b/c d"),
                 third = label(-hidden, "layer/w");
    const Tensor total = sum(other) + sum(third);
    return total + sum(atan2(m, n));
  };
  const Tensor m = tensor({{1., 2.}, {3., 4.}}), n = tensor({{0., 1.}, {1., 0.}});
  const auto printed = [&](const std::string& expressions) {
    const std::string text = transcript("b atan2\nc\np " + expressions + "\nc\n", f, m, n);
    const std::size_t begin = text.find("(stave) p "), end = text.find("(stave) c\n", begin);
    const std::string all = text.substr(begin, end - begin);
    return all.substr(all.find('\n') + 1);
  };
  EXPECT_EQ(printed("in0[1, 0]"), "in0[1, 0]  f32[] value 3\n");
  EXPECT_EQ(printed("in0[-1][0]"), "in0[-1][0]  f32[] value 3\n");
  EXPECT_THAT(printed("in0[:, 1]"), HasSubstr("\n[2. 4.]\n"));
  EXPECT_THAT(printed("in0[0:1]"), HasSubstr("\n[[1. 2.]]\n"));
  EXPECT_THAT(printed("in0 - in1"), HasSubstr("\n[[1. 1.]\n [2. 4.]]\n"));
  EXPECT_THAT(printed("in0 -in1"), HasSubstr("\n[[1. 1.]\n [2. 4.]]\n"));
  EXPECT_THAT(printed("in0 in1"), HasSubstr("in1  f32[2,2] min 0 max 1"));
  EXPECT_THAT(printed("-in0 * 2 + 1 / 2"), HasSubstr("\n[[-1.5 -3.5]\n [-5.5 -7.5]]\n"));
  EXPECT_THAT(printed("2 * (in0 + 1)"), HasSubstr("\n[[ 4.  6.]\n [ 8. 10.]]\n"));
  EXPECT_THAT(printed("in0 > 2"), HasSubstr("bool[2,2]"));
  EXPECT_EQ(printed("max(in0) - min(in1)"), "max(in0) - min(in1)  f64[] value 4\n");
  EXPECT_EQ(printed("sum(abs(in0 - 5))"), "sum(abs(in0 - 5))  f64[] value 10\n");
  EXPECT_EQ(printed("sqrt(exp(log(in0[1,1])))"), "sqrt(exp(log(in0[1,1])))  f32[] value 2\n");
  EXPECT_THAT(printed("hidden"), HasSubstr("hidden  hidden:f32[2,2] min 1 max 4 mean 3 std 1.22474 nan 0 inf 0\n"));
  EXPECT_THAT(printed("hidden[0] - in0[0]"), HasSubstr("\n[0. 1.]\n"));
  EXPECT_THAT(printed("\"a.b/c d\" / 2 - hidden"), HasSubstr(" max 0 "));
  EXPECT_THAT(printed("\"layer/w\""), HasSubstr("\"layer/w\"  layer/w:f32[2,2] min -4 max -1 "));
  EXPECT_THAT(printed("max(abs(\"layer/w\")) in0[0, 0]"), HasSubstr("f64[] value 4\nin0[0, 0]  f32[] value 1\n"));
  for (const auto& [wrong, said] : {
           std::pair("in0[5]", "out of"),
           std::pair("in0[0, 0, 0]", "3 indices are too many"),
           std::pair("in9", "debugger: atan2 has 2 operands, in here, counted from 0"),
           std::pair("in0 +", "debugger: `in0 +` ends too early"),
           std::pair("sin(in0)", "debugger: `sin` is not a function of the debugger; there are max, min, mean,"),
           std::pair("max", "debugger: `max` of what? Write max(in0)"),
           std::pair("unknown", "debugger: `unknown` is not a value here; values are in0, in1, ..., out0, ..."),
       })
    EXPECT_THAT(printed(wrong), HasSubstr(said)) << wrong;
  EXPECT_THAT(printed(std::string(1000, '(') + "in0"),
              HasSubstr("debugger: an expression can be nested 200 levels deep"));
}

TEST(Debugger, ExpressionsTakeTheDtypeOfOperands) {
  const auto f = [](const Tensor& x) { return cos(x); };
  EXPECT_THAT(transcript("p in0 + 0.1\n", f, tensor({1., 2.}, float64)), HasSubstr("\n[1.1 2.1]\n"));
  EXPECT_THAT(transcript("p in0 + 0.5\n", f, tensor({1., 2.}, float16)), HasSubstr("in0 + 0.5  f16[2] min 1.5"));
  EXPECT_THAT(transcript("b cos if in0 > 0.1\nstep\n", f, tensor({0.1f})),
              Not(HasSubstr("breakpoint 1: cos if in0 > 0.1\nbefore")));
}

// Labels refer to values of the current call only.
TEST(Debugger, LabelsAreForgottenAfterTheCall) {
  std::istringstream in("b multiply\nc\nc\np hidden\nc\n");
  std::ostringstream out;
  const auto debugged = debugger(layered, {.in = &in, .out = &out, .source = false});
  debugged(x3);
  const std::size_t live = memory_stats().live_bytes;
  debugged(x3);
  EXPECT_EQ(memory_stats().live_bytes, live);
}

}  // namespace
