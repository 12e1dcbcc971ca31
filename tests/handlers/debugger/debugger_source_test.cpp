// Lines of the program's source in the debugger. This file is compiled with -g.
#include <algorithm>
#include <cstdlib>
#include <sstream>

#include <stave/handlers/observe/source_lines.h>
#include <stave/stave.h>

#include "matchers.h"

namespace program {

using namespace stave;

constexpr int line_of_sin = __LINE__ + 2;
[[gnu::noinline]] Tensor layer(const Tensor& x) {
  const Tensor h = label(sin(x), "hidden");
  return h * x;
}
constexpr int line_of_exp = __LINE__ + 3;
[[gnu::noinline]] Tensor loss(const Tensor& x) {
  const Tensor h = layer(x);
  const Tensor e = exp(h);
  return sum(e);
}

}  // namespace program

namespace {

using namespace stave;
using namespace stave_test;
using stave_detail::short_function;
using testing::HasSubstr;
using testing::Not;

const Tensor x3 = tensor({0.5, 1., 2.});
const std::string sin_at = "debugger_source_test.cpp:" + std::to_string(program::line_of_sin),
                  exp_at = "debugger_source_test.cpp:" + std::to_string(program::line_of_exp);

bool has_addr2line() { return std::system("addr2line --version >/dev/null 2>&1") == 0; }
#define NEEDS_ADDR2LINE \
  if (!has_addr2line()) GTEST_SKIP() << "addr2line is not installed"

template <class F, class... A>
std::string transcript(const std::string& commands, F f, const A&... args) {
  std::istringstream in(commands);
  std::ostringstream out;
  debugger(f, {.in = &in, .out = &out})(args...);
  return out.str();
}

TEST(DebuggerSource, StopShowsTheSourceLine) {
  NEEDS_ADDR2LINE;
  EXPECT_THAT(transcript("step\nb exp\nc\n", program::loss, x3),
              testing::StartsWith("before sin f32[3] -> f32[3]\n  " + sin_at +
                                  " in program::layer: const Tensor h = label(sin(x), \"hidden\");\n(stave) step\n"
                                  "before multiply hidden:f32[3], f32[3] -> f32[3]\n  debugger_source_test.cpp:"));
  EXPECT_THAT(transcript("b exp\nc\n", program::loss, x3),
              HasSubstr("before exp f32[3] -> f32[3]\n  " + exp_at + " in program::loss: const Tensor e = exp(h);\n"));
  std::istringstream in("step\n");
  std::ostringstream out;
  debugger(program::loss, {.in = &in, .out = &out, .source = false})(x3);
  EXPECT_THAT(out.str(), Not(HasSubstr("debugger_source_test.cpp")));
}

TEST(DebuggerSource, ShowsSourceLinesUnderTransforms) {
  NEEDS_ADDR2LINE;
  const Tensor xs = stack({x3, x3});
  EXPECT_THAT(transcript("b sin\nc\n", vmap(program::loss), xs), HasSubstr(sin_at + " in program::layer: "));
  std::istringstream in("step\n");
  std::ostringstream out;
  vmap(debugger(program::loss, {.in = &in, .out = &out}))(xs);
  EXPECT_THAT(out.str(), HasSubstr(sin_at + " in program::layer: "));
  // A derivative shows the source line of its operation.
  const std::string backward = transcript("b cos backward\nc\n", vmap(grad(program::loss)), xs);
  EXPECT_THAT(backward, HasSubstr("  derivative of sin f32[3]: #1, " + sin_at + " in program::layer\n"));
}

TEST(DebuggerSource, BacktraceAndListShowTheSource) {
  NEEDS_ADDR2LINE;
  const std::string text = transcript("bt\nup\nlist 1\ndown\ndown\nup 99\nlist 0\nback\n", program::loss, x3);
  EXPECT_THAT(text, HasSubstr("(stave) bt\n-> #0 " + sin_at + " in program::layer\n   #1 "));
  EXPECT_THAT(text, HasSubstr(" in program::loss\n"));
  EXPECT_THAT(text, Not(HasSubstr("stave_detail")));  // functions of the library are left out
  EXPECT_THAT(text, HasSubstr("(stave) up\n-> #1 debugger_source_test.cpp:"));
  EXPECT_THAT(text, HasSubstr("     const Tensor h = layer(x);\n(stave) list 1\n"));
  EXPECT_THAT(text, HasSubstr("  [[gnu::noinline]] Tensor loss(const Tensor& x) {\n->"));
  EXPECT_THAT(text, HasSubstr("    const Tensor h = layer(x);\n     "));
  EXPECT_THAT(text, HasSubstr("(stave) down\n-> #0 " + sin_at));
  EXPECT_THAT(text, HasSubstr("(stave) down\ndebugger: this is the innermost function\n"));
  EXPECT_THAT(text, HasSubstr("(stave) up 99\ndebugger: this is the outermost function\n"));
  EXPECT_THAT(text, HasSubstr("(stave) list 0\n" + sin_at + " in program::layer\n->"));
  EXPECT_THAT(text, HasSubstr("-> #1 sin f32[3] -> f32[3]  " + sin_at + "\n"));
}

// The function runs on a stack of its own.
TEST(DebuggerSource, StepperGivesSourceLines) {
  NEEDS_ADDR2LINE;
  Stepper stepper(grad(program::loss), x3);
  stepper.break_at({.operation = "exp"});
  ASSERT_TRUE(stepper.go_on());
  EXPECT_EQ(stepper.at().source(), exp_at + " in program::loss");
  EXPECT_EQ(stepper.at().differentiated(), "");
  Stepper backward(grad(program::loss), x3);
  backward.break_at({.operation = "cos"});
  ASSERT_TRUE(backward.go_on());
  EXPECT_EQ(backward.at().differentiated(), "sin f32[3]");
}

TEST(DebuggerSource, WithoutAddr2lineNoSourceIsShown) {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/absent", 1);
  const std::string text = transcript("bt\nlist\nup\nstep\n", program::loss, x3);
  setenv("PATH", path.c_str(), 1);
  EXPECT_THAT(text, testing::StartsWith("before sin f32[3] -> f32[3]\n(stave) bt\n"
                                        "debugger: no function of the program is known here: this needs addr2line"));
  EXPECT_THAT(text, HasSubstr("(stave) step\nbefore multiply hidden:f32[3], f32[3] -> f32[3]\n"));
}

TEST(DebuggerSource, DemangledNamesAreShortened) {
  for (const auto& [demangled, name] : {
           std::pair("main", "main"),
           std::pair("program::layer(stave::Tensor const&)", "program::layer"),
           std::pair("(anonymous namespace)::f(int)", "f"),
           std::pair("main::{lambda(stave::Tensor const&)#1}::operator()(stave::Tensor const&) const",
                     "lambda in main"),
           std::pair("stave::Tensor apply<stave::Tensor, int>(std::vector<int, std::allocator<int> >)", "apply"),
           std::pair("Model::operator()(stave::Tensor const&) const", "Model::operator()"),
           std::pair("bool operator< <int>(A<int> const&, A<int> const&)", "operator<"),
           std::pair("Layer<3>::forward(stave::Tensor const&) const &", "Layer::forward"),
           std::pair("operator()", "lambda"),
           std::pair("", ""),
       })
    EXPECT_EQ(short_function(demangled), name);
}

}  // namespace
