// debugger(f) at a terminal: a child process runs it in a pseudo-terminal, and the test presses a
// user's keys.
#include <algorithm>
#include <sstream>

#include <stave/stave.h>

#include "matchers.h"
#include "terminal.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::Not;

/// Prints the sum of sin(x) x at 0.5, 1, 2, or the result after the commands changed values.
void debugged_program() {
  const auto f = [](const Tensor& x) {
    const Scope layer("layer1");
    return sum(sin(x) * x);
  };
  const Tensor y = debugger(f)(tensor({0.5, 1., 2.}));
  std::cout << "y = " << y << std::endl;
}

constexpr const char *up = "\x1b[A", *down = "\x1b[B", *right = "\x1b[C", *left = "\x1b[D";
const std::string ready = "(stave) \x1b[K";  // the prompt with an empty line

std::string control(char key) { return std::string(1, static_cast<char>(key & 0x1f)); }

TEST(DebuggerTerminal, CommandsCanBeTyped) {
  Terminal terminal(debugged_program);
  EXPECT_THAT(terminal.until(ready), HasSubstr("before sin f32[3] -> f32[3]  [layer1]"));
  terminal.press("step\r");
  EXPECT_THAT(terminal.until(ready), HasSubstr("before multiply f32[3], f32[3] -> f32[3]  [layer1]"));
  terminal.press("skip 2\r");
  terminal.until("out0  f32[3] min 2 max 2 mean 2 std 0 nan 0 inf 0");
  terminal.until(ready);
  terminal.press("c\r");
  terminal.until("the function has returned");
  terminal.until("y = 6.0");
  // The terminal's mode is restored.
  terminal.until("echo 1");
  EXPECT_EQ(terminal.exit_status(), 0);
}

TEST(DebuggerTerminal, TabCompletes) {
  Terminal terminal(debugged_program);
  terminal.until(ready);
  terminal.press("br\t");
  // Both matches begin with "break".
  EXPECT_THAT(terminal.until("(stave) break\x1b[K"), Not(HasSubstr("breakpoints")));
  terminal.press("\t");
  terminal.until("break  breakpoints\r\n");
  terminal.press(" multi\t");
  terminal.until("(stave) break multiply \x1b[K");
  terminal.press("in layer1\r");
  terminal.until("breakpoint 1: multiply in layer1");
  terminal.until(ready);
  terminal.press("con\t\r");
  terminal.until("(stave) continue \x1b[K");
  terminal.until("before multiply f32[3], f32[3] -> f32[3]  [layer1]");
  terminal.until(ready);
  terminal.press("print \t");
  terminal.until("(stave) print in\x1b[K");
  terminal.press("\t");
  terminal.until("in0  in1\r\n");
  terminal.press("1\r");
  terminal.until("[0.5 1.  2. ]");
  terminal.until(ready);
  terminal.press("zzz\t");
  terminal.until("\a");  // no command begins like this
}

TEST(DebuggerTerminal, ArrowKeysRecallEarlierLines) {
  Terminal terminal(debugged_program);
  terminal.until(ready);
  terminal.press("print in0\r");
  terminal.until("[0.5 1.  2. ]");
  terminal.until(ready);
  terminal.press("where\r");
  terminal.until("handler  debugger, at work");
  terminal.until(ready);
  terminal.press("st");
  terminal.press(up);
  terminal.until("(stave) where\x1b[K");
  terminal.press(up);
  terminal.until("(stave) print in0\x1b[K");
  terminal.press(up);  // there is no earlier command
  terminal.press(down);
  terminal.press(down);
  terminal.until("(stave) st\x1b[K");  // the line that was being typed
  terminal.press("ep\r");
  terminal.until("before multiply");
  terminal.until(ready);
  terminal.press(std::string(up) + up + up + "\r");
  terminal.until("in0  f32[3]");
}

TEST(DebuggerTerminal, KeysEditTheLine) {
  Terminal terminal(debugged_program);
  terminal.until(ready);
  // Presses the Delete key.
  terminal.press(std::string("xprnt in0") + control('A') + "\x1b[3~" + right + right + "i" + "\r");
  terminal.until("(stave) print in0");
  terminal.until("[0.5 1.  2. ]");
  terminal.until(ready);
  // Presses Home and Backspace.
  terminal.press(std::string("swhere") + "\x1b[H" + control('F') + "\x7f" + "\r");
  terminal.until("handler  debugger, at work");
  terminal.until(ready);
  terminal.press("wrong words" + control('W') + control('W') + "break junk" + std::string(left) + left + left + left +
                 control('K') + "sin" + "\r");
  terminal.until("breakpoint 1: sin");
  terminal.until(ready);
  // One Backspace deletes a letter of two bytes.
  terminal.press("br\xc3\xa4\x7f" + std::string("eak cos\r"));
  terminal.until("breakpoint 2: cos");
  terminal.until(ready);
  terminal.press("nonsense" + control('C'));
  terminal.until("^C");
  terminal.until(ready);
  terminal.press("nonsense" + control('U') + "breakpoints\r");
  terminal.until("1  sin");
  terminal.until(ready);
  // The end of input needs an empty line; this line is not empty.
  terminal.press("step" + control('D') + "\r");
  terminal.until("before multiply");
  terminal.until(ready);
  terminal.press(control('D'));
  terminal.until("no more commands: the program continues");
  terminal.until("echo 1");
  EXPECT_EQ(terminal.exit_status(), 0);
}

TEST(DebuggerTerminal, LongLinesScroll) {
  Terminal terminal(debugged_program, 20);  // 20 columns: the prompt takes 8, the cursor one
  terminal.until(ready);
  terminal.press("print in0 in0 in0 in0");
  terminal.until("(stave) in0 in0 in0\x1b[K\r\x1b[19C");
  terminal.press(control('A'));
  terminal.until("(stave) print in0 i\x1b[K\r\x1b[8C");
  terminal.press("\r");
  terminal.until("[0.5 1.  2. ]");
}

TEST(DebuggerTerminal, DumbTerminalReadsPlainLines) {
  Terminal terminal(debugged_program, 100, "dumb");
  terminal.until("(stave) ");
  terminal.press("print in0\n");
  // The terminal itself echoes the line, once.
  EXPECT_EQ(terminal.until("in0  "), "print in0\r\nin0  ");
  terminal.until("[0.5 1.  2. ]");
  terminal.press("\x04");
  terminal.until("y = 2.89");
  EXPECT_EQ(terminal.exit_status(), 0);
}

TEST(DebuggerTerminal, ControlRSearchesTheHistory) {
  Terminal terminal(debugged_program);
  terminal.until(ready);
  for (const char* line : {"print in0\r", "break sin\r", "where\r"}) {
    terminal.press(line);
    terminal.until(ready);
  }
  terminal.press(control('R') + "in");
  terminal.until("(search `in') break sin\x1b[K");
  terminal.press(control('R'));
  terminal.until("(search `in') print in0\x1b[K");
  terminal.press(control('R'));
  terminal.until("\a");  // no earlier match
  terminal.press("x");
  terminal.until("\a");        // no command has "inx"
  terminal.press("\x7f\x7f");  // backspaces: the search for "i" starts again from the last command
  terminal.until("(search `i') break sin\x1b[K");
  terminal.press(control('E') + "h\r");  // another key edits the command that was found
  terminal.until("breakpoint 2: sinh");
  terminal.until(ready);
  terminal.press("half a li" + control('R') + "where");
  terminal.until("(search `where') where\x1b[K");
  terminal.press(control('G'));
  // The line is restored.
  terminal.until("(stave) half a li\x1b[K");
  terminal.press(control('U') + control('R') + "print\r");  // Enter runs the command that was found
  terminal.until("(search `print') print in0\x1b[K");
  terminal.until("(stave) print in0\x1b[K");
  terminal.until("[0.5 1.  2. ]");
}

/// Returns the length of the longest line in the text, in columns.
std::size_t widest(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto ends_character = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
    line = line.substr(0, line.find('\r'));
    widest = std::max(widest, static_cast<std::size_t>(std::count_if(line.begin(), line.end(), ends_character)));
  }
  return widest;
}

TEST(DebuggerTerminal, TextFitsNarrowTerminals) {
  const auto wide = [] {
    const Scope scope("a scope with quite a long name");
    debugger([](const Tensor& x) { return sum(tanh(x) * x); })(reshape(arange(120), {2, 60}) * 0.5);
  };
  for (const unsigned short columns : {40, 80}) {
    Terminal terminal(wide, columns);
    terminal.until(ready);
    for (const char* command : {"help", "print", "print in0 - 1", "back", "info", "where", "break matmull in nowhere",
                                "wrong", "break tanh if max > 3 backward in somewhere", "breakpoints"}) {
      terminal.press(std::string(command) + "\r");
      terminal.until("\r\n");  // the echo of the typed line
      EXPECT_LE(widest(terminal.until(ready)), columns) << command;
    }
    terminal.press("b lo\t\t");
    EXPECT_LE(widest(terminal.until("log_softmax_gradient")), columns);
  }
}

}  // namespace
