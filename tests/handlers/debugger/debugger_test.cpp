// debugger(f): commands from a stream and from a script, their output, recording and replay,
// several calls, transforms.
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

TEST(Debugger, GivesTheFunctionsResultWhenCommandsEnd) {
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

TEST(Debugger, PrintShowsOperandsAndOutputs) {
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

TEST(Debugger, WhereShowsHandlersAndScopes) {
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

TEST(Debugger, InsideVmapItShowsOneLane) {
  std::istringstream in("print\nstep\n");
  std::ostringstream out;
  vmap(grad(debugger(layered, {.in = &in, .out = &out, .source = false})))(stack({x3, 2. * x3}));
  EXPECT_THAT(out.str(), HasSubstr("before sin f32[3] -> f32[3]  [layer1]\n"
                                   "(stave) print\n"
                                   "in0  f32[3] min 0.5 max 4 mean 1.75 std 1.14564 nan 0 inf 0\n"
                                   "     ·░▒\n"
                                   "     ░▒█\n"));
}

TEST(Debugger, BreakpointsAreSetListedAndDeleted) {
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

TEST(Debugger, IgnoresBlanksCommentsAndLineEnds) {
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

TEST(Debugger, StopsAtBreakpointCalls) {
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
TEST(Debugger, StepsThroughCheckpointsInTheBackwardPass) {
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

// ---- earlier operations, and the operation of a derivative --------------------------------------

TEST(Debugger, DerivativeShowsTheOperationItDifferentiates) {
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

TEST(Debugger, ShowsEarlierOperations) {
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

TEST(Debugger, WrongArgumentsAreErrors) {
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

TEST(Debugger, ExceptionOfTheFunctionPropagates) {
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

TEST(Debugger, ContinueAndBreakpointsLastAcrossCalls) {
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

TEST(Debugger, UnusableFilesAreErrors) {
  EXPECT_THAT(message_of<FileError>([] { debugger(layered, {.script = "/absent/script"}); }),
              HasSubstr("debugger: the script /absent/script cannot be read"));
  EXPECT_THAT(message_of<FileError>([] { debugger(layered, {.script = "/dev/zero"}); }),
              HasSubstr("debugger: the script /dev/zero cannot be read"));
  EXPECT_THAT(message_of<FileError>([] { debugger(layered, {.record = "/absent/record"}); }),
              HasSubstr("debugger: the file /absent/record, in which commands are recorded, cannot be written"));
}

TEST(Debugger, AcceptsOperationNamesAndMayBeNested) {
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
