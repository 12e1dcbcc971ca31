// debugger(f): commands from a stream and from a script, their output, recording and replay,
// several calls, transforms.
#include <sstream>

#include <stave/stave.h>

#include "files.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::Not;

const Tensor x3 = tensor({0.5, 1., 2.});

Tensor layered(const Tensor& x) {
  const Scope layer("layer1");
  return sum(label(sin(x), "hidden") * x);
}

/// Returns the debugger's output for these commands.
template <class F, class... A>
std::string transcript(const std::string& commands, F f, const A&... args) {
  std::istringstream in(commands);
  std::ostringstream out;
  debugger(f, {.in = &in, .out = &out, .source = false})(args...);
  return out.str();
}

TEST(Debugger, StepsThroughAFunction) {
  EXPECT_EQ(transcript("step\n\nnext\nfinish\n", layered, x3),
            "before sin f32[3] -> f32[3]  [layer1]\n"
            "(stave) step\n"
            "before multiply hidden:f32[3], f32[3] -> f32[3]  [layer1]\n"
            "(stave) \n"  // an empty line repeats
            "before sum axes=[0] f32[3] -> f32[]  [layer1]\n"
            "(stave) next\n"
            "the function has returned\n");
}

TEST(Debugger, IsTheFunctionAndEndsWithItsCommands) {
  std::istringstream none;
  std::ostringstream out;
  const auto debugged = debugger(layered, {.in = &none, .out = &out, .source = false});
  EXPECT_THAT(debugged(x3), Equals(layered(x3)));
  EXPECT_EQ(out.str(), "before sin f32[3] -> f32[3]  [layer1]\n(stave) \nno more commands: the program continues\n");
  out.str("");
  EXPECT_THAT(grad(debugged)(x3), Equals(grad(layered)(x3)));
  EXPECT_THAT(vmap(debugged)(stack({x3, x3})), Equals(vmap(layered)(stack({x3, x3}))));
  EXPECT_EQ(out.str(), "");

  int calls = 0;
  auto counting = debugger([&calls](int n) mutable { return calls += n; }, {.in = &none, .out = &out, .source = false});
  EXPECT_EQ(counting(3), 3);
  Tensor x = x3;
  const auto itself = debugger([](Tensor& v) -> Tensor& { return v; }, {.in = &none, .out = &out, .source = false});
  EXPECT_EQ(&itself(x), &x);
}

TEST(Debugger, Prints) {
  EXPECT_EQ(transcript("perform\np\nprint in0 out0\n", layered, x3),
            "before sin f32[3] -> f32[3]  [layer1]\n"
            "(stave) perform\n"
            "after sin f32[3] -> f32[3]  [layer1]\n"
            "out0  f32[3] min 0.479426 max 0.909297 mean 0.743398 std 0.188699 nan 0 inf 0\n"
            "      ▁▇█\n"
            "(stave) p\n"
            "in0  f32[3] min 0.5 max 2 mean 1.16667 std 0.62361 nan 0 inf 0\n"
            "     ▁▃█\n"
            "out0  f32[3] min 0.479426 max 0.909297 mean 0.743398 std 0.188699 nan 0 inf 0\n"
            "      ▁▇█\n"
            "(stave) print in0 out0\n"
            "in0  f32[3] min 0.5 max 2 mean 1.16667 std 0.62361 nan 0 inf 0\n"
            "     ▁▃█\n"
            "[0.5 1.  2. ]\n"
            "out0  f32[3] min 0.479426 max 0.909297 mean 0.743398 std 0.188699 nan 0 inf 0\n"
            "      ▁▇█\n"
            "[0.47942555 0.84147096 0.9092974 ]\n"
            "(stave) \n"
            "no more commands: the program continues\n");
}

TEST(Debugger, ShowsWhatStandsAround) {
  const std::string text = transcript("break cos backward\nc\nwhere\n", vmap(grad(layered)), stack({x3, x3}));
  EXPECT_THAT(text, HasSubstr("(stave) break cos backward\n"
                              "breakpoint 1: cos, backward\n"
                              "(stave) c\n"
                              "breakpoint 1: cos, backward\n"
                              "before cos f32[2,3] -> f32[2,3]  [layer1]  [backward of grad]\n"
                              "  derivative of sin f32[3]: #1\n"
                              "(stave) where\n"
                              "scope    layer1\n"
                              "scope    backward of grad\n"
                              "handler  vmap over 2 lanes, at work\n"
                              "handler  debugger, at work\n"));
}

TEST(Debugger, InsideVmapItSeesALane) {
  std::istringstream in("print\nstep\n");
  std::ostringstream out;
  vmap(grad(debugger(layered, {.in = &in, .out = &out, .source = false})))(stack({x3, 2. * x3}));
  EXPECT_THAT(out.str(), HasSubstr("before sin f32[3] -> f32[3]  [layer1]\n"
                                   "(stave) print\n"
                                   "in0  f32[3] min 0.5 max 4 mean 1.75 std 1.14564 nan 0 inf 0\n"
                                   "     ·░▒\n"
                                   "     ░▒█\n"));
}

TEST(Debugger, Breakpoints) {
  const std::string text = transcript(
      "break multiply in layer1 label hidden shape [3] forward\n"
      "b nan\nbreakpoints\ndelete 2\nbreakpoints\nc\ndelete\nbreakpoints\nc\n",
      layered, x3);
  EXPECT_EQ(text,
            "before sin f32[3] -> f32[3]  [layer1]\n"
            "(stave) break multiply in layer1 label hidden shape [3] forward\n"
            "breakpoint 1: multiply in layer1 of hidden of shape [3], forward\n"
            "(stave) b nan\n"
            "breakpoint 2: any operation that yields a NaN\n"
            "(stave) breakpoints\n"
            "1  multiply in layer1 of hidden of shape [3], forward\n"
            "2  any operation that yields a NaN\n"
            "(stave) delete 2\n"
            "(stave) breakpoints\n"
            "1  multiply in layer1 of hidden of shape [3], forward\n"
            "(stave) c\n"
            "breakpoint 1: multiply in layer1 of hidden of shape [3], forward\n"
            "before multiply hidden:f32[3], f32[3] -> f32[3]  [layer1]\n"
            "(stave) delete\n"
            "(stave) breakpoints\n"
            "there are no breakpoints\n"
            "(stave) c\n"
            "the function has returned\n");
}

TEST(Debugger, BlanksCommentsAndLineEndsOfFiles) {
  const std::string text = transcript(
      "\tbreak  sin\t in \"layer #1\"  # in the first\r\nbreakpoints\r\ndelete 4294967297\nc\n", layered, x3);
  EXPECT_THAT(text, HasSubstr("breakpoint 1: sin in layer #1\n"));
  EXPECT_THAT(text, HasSubstr("1  sin in layer #1\n"));
  EXPECT_THAT(text, HasSubstr("debugger: there is no breakpoint 4294967297\n"));
  EXPECT_THAT(text, HasSubstr("the function has returned"));
}

TEST(Debugger, ScopesWithBlanksAreQuoted) {
  EXPECT_THAT(transcript("break in \"backward of grad\"\nc\n", grad(layered), x3),
              HasSubstr("breakpoint 1: any operation in backward of grad\n"
                        "before "));
}

TEST(Debugger, StopsAfterANan) {
  EXPECT_THAT(transcript(
                  "break nan\nc\nreplace 0\nc\n", [](const Tensor& x) { return exp(log(x)); }, tensor({-1., 1.})),
              HasSubstr("breakpoint 1: any operation that yields a NaN\n"
                        "after log f32[2] -> f32[2]\n"
                        "out0  f32[2] min 0 max 0 mean 0 std 0 nan 1 inf 0\n"
                        "      ×▅\n"
                        "(stave) replace 0\n"
                        "out0  f32[2] min 0 max 0 mean 0 std 0 nan 0 inf 0\n"
                        "      ▅▅\n"
                        "(stave) c\n"
                        "the function has returned\n"));
}

TEST(Debugger, StopsInTheCode) {
  const auto program = [](const Tensor& x) {
    breakpoint("here");
    return cos(x);
  };
  EXPECT_EQ(transcript("where\nprint\nc\n", program, x3),
            "at breakpoint here\n"
            "(stave) where\n"
            "handler  debugger, at work\n"
            "(stave) print\n"
            "debugger: the program is stopped at a breakpoint() in its code, not at an operation\n"
            "(stave) c\n"
            "the function has returned\n");
}

// grad outside debugger: operations that a checkpoint performs in the backward pass are stepped
// through as well.
TEST(Debugger, FollowsCheckpointsThatRunAgain) {
  std::istringstream in("break cos\nbreak sin\nc\nc\nc\nc\n");
  std::ostringstream out;
  const auto f = checkpoint([](const Tensor& x) { return sum(sin(x)); });
  EXPECT_THAT(grad(debugger(f, {.in = &in, .out = &out, .source = false}))(x3), Equals(cos(x3)));
  EXPECT_EQ(out.str(),
            "before call checkpoint f32[3] -> ?\n"
            "(stave) break cos\n"
            "breakpoint 1: cos\n"
            "(stave) break sin\n"
            "breakpoint 2: sin\n"
            "(stave) c\n"
            "breakpoint 2: sin\n"
            "before sin f32[3] -> f32[3]  [checkpoint]\n"
            "(stave) c\n"
            "the function has returned\n"
            "breakpoint 2: sin\n"
            "before sin f32[3] -> f32[3]\n"
            "(stave) c\n");
}

// ---- values -------------------------------------------------------------------------------------

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

TEST(Debugger, ValuesInPlaceOfAnOperation) {
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

TEST(Debugger, ValuesThatDoNotFit) {
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

TEST(Debugger, OneOfSeveralOutputs) {
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

// ---- conditions, and breakpoints that pass ------------------------------------------------------

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

TEST(Debugger, ConditionsOfOperands) {
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

TEST(Debugger, ConditionsOfOutputs) {
  using testing::ElementsAre;
  EXPECT_THAT(stops("b sqrt if max(out0) > 3", roots, -tensor({1., 2., 3.})),
              ElementsAre("after sqrt four:f32[3] -> f32[3]"));
  EXPECT_THAT(stops(
                  "b if inf(out0) > 0", [](const Tensor& x) { return sum(exp(log(abs(x)))); }, tensor({0., 1.})),
              ElementsAre("after log f32[2] -> f32[2]"));
}

TEST(Debugger, ConditionsUnderVmapAreOfAllLanes) {
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

TEST(Debugger, ConditionsThatCannotBeReadOrComputed) {
  const std::string text = transcript(
      "b sqrt if\nb sqrt if max >\nb sqrt if (max > 3\nb sqrt if max > 3 4\nb sqrt if in0[\nb if 3 $ 4\n"
      "b sqrt if in0 - [1] > 0\nbreakpoints\nb sqrt if in0[7] > 0\nc\n",
      roots, x3);
  for (const char* said :
       {"debugger: `if` needs an argument", "debugger: `max >` ends too early\n",
        "debugger: `(max > 3` ends too early\n", "debugger: `max > 3 4` cannot be parsed, from `4` on\n",
        "debugger: `in0[` ends too early\n", "debugger: `3 $ 4` cannot be parsed, from `$ 4` on\n",
        "from `[1] > 0` on\n", "there are no breakpoints\n",
        "a condition is false where it cannot be evaluated: in0[7] > 0: "})
    EXPECT_THAT(text, HasSubstr(said));
  EXPECT_THAT(text, HasSubstr("the function has returned"));
}

TEST(Debugger, ABreakpointForOneStop) {
  const auto thrice = [](const Tensor& x) { return sin(sin(sin(x))); };
  EXPECT_EQ(transcript("tbreak sin\nb cos\nc\nbreakpoints\nc\n", thrice, x3),
            "before sin f32[3] -> f32[3]\n(stave) tbreak sin\ntemporary breakpoint 1: sin\n(stave) b cos\n"
            "breakpoint 2: cos\n(stave) c\ntemporary breakpoint 1: sin\nbefore sin f32[3] -> f32[3]\n"
            "(stave) breakpoints\n2  cos\n(stave) c\nthe function has returned\n");
}

TEST(Debugger, ABreakpointIsPassed) {
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

TEST(Debugger, WatchStopsWhereTheValueIsAnother) {
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

TEST(Debugger, ANanThatArisesStopsOnce) {
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
TEST(Debugger, ANanInACarriedFunctionStopsOnce) {
  using testing::ElementsAre;
  const auto f = [](const Tensor& x) { return checkpoint([](const Tensor& v) { return log(v); })(x); };
  for (const char* command : {"b nan", "b nan arises"})
    EXPECT_THAT(stops(command, f, tensor({-1., 1.})), ElementsAre("after log f32[2] -> f32[2]  [checkpoint]"))
        << command;
}

// ---- earlier operations, and the operation of a derivative --------------------------------------

TEST(Debugger, DerivativesBelongToOperationsBefore) {
  const auto f = [](const Tensor& x) {
    const Tensor a = sin(x), b = stop_gradient(x);
    return sum(sin(a * b));
  };
  const std::string text = transcript("b cos backward\nc\nback 3\nc\n", grad(f), x3);
  EXPECT_THAT(text, HasSubstr("before cos f32[3] -> f32[3]  [backward of grad]\n"
                              "  derivative of sin f32[3]: #4\n(stave) back 3\n"));
  EXPECT_THAT(text, HasSubstr("(stave) c\nbreakpoint 1: cos, backward\n"
                              "before cos f32[3] -> f32[3]  [backward of grad]\n"
                              "  derivative of sin f32[3]: #1\n"));
  // In a checkpoint's backward pass, the derivative refers to the operation that ran again.
  const auto again = checkpoint([](const Tensor& x) { return sum(sin(x)); });
  EXPECT_THAT(
      transcript("b cos\nc\nback\n", grad(again), x3),
      testing::ContainsRegex("derivative of sin f32\\[3\\]: #5\n.stave. back\n"
                             "   #1 call [^\n]*\n   #2 sin [^\n]*\n   #3 sum [^\n]*\n   #4 [^\n]*\n   #5 sin "));
  // A second derivative refers to the operation of the first backward pass.
  EXPECT_THAT(
      transcript("b cos backward\nc\nb sin backward\ndelete 1\nc\n",
                 grad([](const Tensor& x) { return sum(grad([](const Tensor& v) { return sum(sin(v)); })(x)); }), x3),
      HasSubstr("  derivative of cos f32[3]: #"));
}

TEST(Debugger, ShowsWhatRanBefore) {
  EXPECT_THAT(transcript("break sum\nc\nback\nback 1\nback x\ninfo\n", layered, x3),
              HasSubstr("(stave) back\n"
                        "   #1 sin f32[3] -> f32[3]  [layer1]\n"
                        "   #2 multiply hidden:f32[3], f32[3] -> f32[3]  [layer1]\n"
                        "-> #3 sum axes=[0] f32[3] -> f32[]  [layer1]\n"
                        "(stave) back 1\n"
                        "   #2 multiply hidden:f32[3], f32[3] -> f32[3]  [layer1]\n"
                        "-> #3 sum axes=[0] f32[3] -> f32[]  [layer1]\n"
                        "(stave) back x\n"
                        "debugger: `back` takes a number\n"
                        "(stave) info\n"
                        "before sum axes=[0] f32[3] -> f32[]  [layer1]\n"
                        "  because of   breakpoint 1: sum\n"
                        "  pass         forward\n"
                        "  operations   3\n"
                        "  breakpoints  1\n"
                        "  labels       hidden:f32[3]\n"));
  std::istringstream in("b cos\nc\n");
  std::ostringstream out;
  const auto many = [](Tensor x) {
    for (int i = 0; i < 5000; ++i) x = x * 1.;
    return cos(x);
  };
  in.str("b cos\nc\nback 99999\n");
  debugger(many, {.in = &in, .out = &out, .source = false})(x3);
  EXPECT_THAT(out.str(), HasSubstr("-> #5001 cos f32[3] -> f32[3]\n"));
  // Only the last operations are remembered.
  EXPECT_THAT(out.str(), Not(HasSubstr(" #1 multiply")));
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
TEST(Debugger, LabelsAreForgottenWithTheCall) {
  std::istringstream in("b multiply\nc\nc\np hidden\nc\n");
  std::ostringstream out;
  const auto debugged = debugger(layered, {.in = &in, .out = &out, .source = false});
  debugged(x3);
  const std::size_t live = memory_stats().live_bytes;
  debugged(x3);
  EXPECT_EQ(memory_stats().live_bytes, live);
}

// ---- commands -----------------------------------------------------------------------------------

TEST(Debugger, UnknownCommandsNameTheNearest) {
  const std::string text = transcript("stpe\nqqqqqq\nbraek matmul\nre 1\ncont\n", layered, x3);
  EXPECT_THAT(text, HasSubstr("there is no command `stpe`; did you mean `step`? `help` shows all\n"));
  EXPECT_THAT(text, HasSubstr("there is no command `qqqqqq`; `help` shows all\n"));
  EXPECT_THAT(text, HasSubstr("there is no command `braek`; did you mean `break`? `help` shows all\n"));
  // `cont` abbreviates only one command.
  EXPECT_THAT(text, HasSubstr("the function has returned"));
  EXPECT_THAT(transcript("ba\n", layered, x3), HasSubstr("`ba` begins several commands: back, backtrace\n"));
}

TEST(Debugger, WrongArgumentsAreSaid) {
  const std::string text = transcript(
      "break\nbreak in\nbreak shape 3\nbreak shape [2.5]\nbreak sin cos\nbreak matmull\ndelete 7\ndelete x\nhelp "
      "stpe\n# nothing\n",
      layered, x3);
  for (const char* said :
       {"debugger: a breakpoint must say where: an operation, scope, label, shape, predicate, NaN or pass.",
        "debugger: `in` needs an argument", "debugger: `3` is not a shape; write it as [2,3]",
        "debugger: `[2.5]` is not a shape",
        "debugger: `cos` after the operation is not one of in, label, shape, nan, forward, backward, if",
        "no operation of the library is called `matmull`; the nearest is `matmul`. The breakpoint waits for an "
        "operation of the program with this name",
        "debugger: there is no breakpoint 7", "debugger: there is no breakpoint x",
        "there is no command `stpe`; did you mean `step`?", "(stave) # nothing\n(stave) \n"})
    EXPECT_THAT(text, HasSubstr(said));
}

TEST(Debugger, HelpShowsAllCommands) {
  const std::string text = transcript("help\nhelp next\n", layered, x3);
  for (const char* name : {"step",        "next",   "finish",  "continue", "break",     "tbreak", "watch", "ignore",
                           "breakpoints", "delete", "back",    "list",     "backtrace", "up",     "down",  "info",
                           "where",       "print",  "perform", "skip",     "replace",   "drop",   "help"})
    EXPECT_THAT(text, HasSubstr("\n" + std::string(name) + " ")) << name;
  EXPECT_THAT(
      text,
      HasSubstr(
          "(stave) help next\n"
          "next         n                           goes to the next operation that is not in a scope inside this one\n"
          "(stave) \n"));
}

TEST(Debugger, DropThrowsThroughTheFunction) {
  int unwound = 0, reached = 0;
  struct Unwinds {
    int& n;
    ~Unwinds() { ++n; }
  };
  const auto stubborn = [&](const Tensor& x) {
    const Unwinds unwinds{unwound};
    try {
      return sin(x);
    } catch (const TransformError&) {  // ignored on purpose
    }
    const Tensor y = cos(x);
    ++reached;
    return y;
  };
  for (const char* command : {"drop\nstep\n", "quit\nstep\n", "q\nstep\n"}) {
    std::istringstream in(command);
    std::ostringstream out;
    const auto debugged = debugger(stubborn, {.in = &in, .out = &out, .source = false});
    EXPECT_THAT(message_of<TransformError>([&] { debugged(x3); }),
                HasSubstr("debugger: the rest of the function was dropped"));
    EXPECT_THAT(out.str(), HasSubstr("an exception has left the function"));
    // There is no further prompt.
    EXPECT_THAT(out.str(), Not(HasSubstr("before cos")));
    // The next call starts from the beginning.
    EXPECT_THAT(debugged(x3), Equals(sin(x3)));
    EXPECT_THAT(out.str(), HasSubstr("(stave) step\nthe function has returned\n"));
  }
  EXPECT_EQ(unwound, 6);
  EXPECT_EQ(reached, 0);
}

TEST(Debugger, WhatTheFunctionThrowsGoesThrough) {
  std::istringstream in("step\nstep\n");
  std::ostringstream out;
  const auto throwing = debugger(
      [](const Tensor& x) -> Tensor {
        sin(x);
        throw std::out_of_range("of f");
      },
      {.in = &in, .out = &out, .source = false});
  EXPECT_EQ(message_of<std::out_of_range>([&] { throwing(x3); }), "of f");
  EXPECT_THAT(out.str(), HasSubstr("an exception has left the function"));
  EXPECT_EQ(stave_detail::current, nullptr);
}

// ---- calls, scripts, records --------------------------------------------------------------------

TEST(Debugger, HowFarAndBreakpointsStayFromCallToCall) {
  std::istringstream in("break cos\ncontinue\ndelete\nfinish\nstep\n");
  std::ostringstream out;
  const auto debugged = debugger([](const Tensor& x, bool second) { return second ? cos(x) : sin(x); },
                                 {.in = &in, .out = &out, .source = false});
  debugged(x3, false);
  out.str("");
  // The `continue` of the last call still holds.
  debugged(x3, false);
  EXPECT_EQ(out.str(), "");
  const auto copy = debugged;
  copy(x3, true);
  EXPECT_THAT(out.str(), testing::StartsWith("breakpoint 1: cos\nbefore cos f32[3] -> f32[3]\n(stave) delete\n"));
  out.str("");
  debugged(x3, false);  // `finish` ended with its call
  EXPECT_THAT(out.str(), testing::StartsWith("before sin f32[3] -> f32[3]\n(stave) step\nthe function has returned\n"));
}

TEST(Debugger, ARecordReplaysAsAScript) {
  const Folder folder;
  const std::string record = folder / "record";
  const auto session = [&](const DebuggerOptions& options) {
    std::ostringstream out;
    DebuggerOptions with_streams = options;
    with_streams.out = &out;
    with_streams.source = false;
    const Tensor y = debugger(layered, with_streams)(x3);
    return std::pair(y, out.str());
  };
  std::istringstream typed("s\n\np in0\nwrong\nskip 5\nc\n"), nothing;
  const auto [y, printed] = session({.in = &typed, .record = record});
  EXPECT_THAT(y, IsNumber(5));
  EXPECT_EQ(bytes_of(record), "s\nstep\np in0\nskip 5\nc\n");

  const auto [again, replayed] = session({.in = &nothing, .script = record});
  EXPECT_THAT(again, Equals(y));
  EXPECT_THAT(replayed, HasSubstr("(stave) skip 5\nout0  f32[] value 5\n(stave) c\nthe function has returned\n"));
  EXPECT_THAT(replayed, Not(HasSubstr("no more commands")));

  // The record overwrites the script that is being replayed, and there are more commands after the
  // script.
  std::istringstream more("step\n");
  with_bytes(record, "step\n# a comment\n");
  const auto both = session({.in = &more, .script = record, .record = record});
  EXPECT_THAT(both.first, Equals(layered(x3)));
  EXPECT_EQ(bytes_of(record), "step\nstep\n");
}

TEST(Debugger, FilesThatCannotBeUsedAreErrors) {
  EXPECT_THAT(message_of<FileError>([] { debugger(layered, {.script = "/absent/script"}); }),
              HasSubstr("debugger: the script /absent/script cannot be read"));
  EXPECT_THAT(message_of<FileError>([] { debugger(layered, {.script = "/dev/zero"}); }),
              HasSubstr("debugger: the script /dev/zero cannot be read"));
  EXPECT_THAT(message_of<FileError>([] { debugger(layered, {.record = "/absent/record"}); }),
              HasSubstr("debugger: /absent/record cannot be written"));
}

TEST(Debugger, OfNamesAndInsideEachOther) {
  std::istringstream in("step\n"), inner_in("step\n");
  std::ostringstream out, inner_out;
  EXPECT_THAT(debugger(sin, {.in = &in, .out = &out, .source = false})(x3), Equals(sin(x3)));
  in.clear();
  in.str("step\nstep\nstep\n");
  const auto inner = debugger(layered, {.in = &inner_in, .out = &inner_out, .source = false});
  debugger(grad(inner), {.in = &in, .out = &out, .source = false})(x3);
  EXPECT_THAT(inner_out.str(), HasSubstr("before sin f32[3] -> f32[3]  [layer1]\n(stave) step\n"));
}

}  // namespace
