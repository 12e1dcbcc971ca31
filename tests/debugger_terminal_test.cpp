// debugger(f) at a terminal: a child that runs it in a pseudo-terminal, driven by the keys that a user presses.
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include <poll.h>
#include <pty.h>
#include <termios.h>
#include <unistd.h>

#include <stave/stave.h>

#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::Not;

/// sum of sin(x) x at 0.5, 1, 2, or what the commands make of it, is printed.
void debugged_program() {
  const auto f = [](const Tensor& x) {
    const Scope layer("layer1");
    return sum(sin(x) * x);
  };
  const Tensor y = debugger(f)(tensor({0.5, 1., 2.}));
  std::cout << "y = " << y << std::endl;
}

/// What a terminal shows, and keys for it.
class Terminal {
 public:
  explicit Terminal(unsigned short columns = 100, const char* kind = "xterm") {
    winsize size{};
    size.ws_row = 24;
    size.ws_col = columns;
    child_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (child_ == 0) {
      setenv("TERM", kind, 1);
      debugged_program();
      std::cout << "echo " << echoes() << std::endl;
      _exit(0);
    }
    EXPECT_GT(child_, 0);
  }
  ~Terminal() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    close(terminal_);
  }

  /// Once a line is read (`ready` was shown): before, the terminal itself takes keys such as ^C and Backspace.
  void press(std::string_view keys) {
    ASSERT_EQ(write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  /// All that it showed since the last wait, up to this text; fails if that does not come.
  std::string until(const std::string& text) {
    constexpr int patience = 20'000;  // milliseconds: of a busy machine
    for (;;) {
      if (const std::size_t found = shown_.find(text); found != std::string::npos) {
        const std::string before = shown_.substr(0, found + text.size());
        shown_.erase(0, before.size());
        return before;
      }
      pollfd readable{terminal_, POLLIN, 0};
      char bytes[4096];
      const ssize_t got = poll(&readable, 1, patience) == 1 ? read(terminal_, bytes, sizeof bytes) : 0;
      if (got <= 0) {
        ADD_FAILURE() << "there came no \"" << text << "\" but:\n" << shown_;
        return "";
      }
      shown_.append(bytes, static_cast<std::size_t>(got));
    }
  }
  int exit_status() {
    int status = -1;
    waitpid(child_, &status, 0);
    child_ = 0;
    return status;
  }

 private:
  static bool echoes() {
    termios mode{};
    tcgetattr(STDIN_FILENO, &mode);
    return mode.c_lflag & ECHO;
  }

  int terminal_ = -1;
  pid_t child_ = 0;
  std::string shown_;
};

constexpr const char *up = "\x1b[A", *down = "\x1b[B", *right = "\x1b[C", *left = "\x1b[D";
const std::string ready = "(stave) \x1b[K";  // an empty line is shown

std::string control(char key) { return std::string(1, static_cast<char>(key & 0x1f)); }

TEST(DebuggerTerminal, ASessionIsTyped) {
  Terminal terminal;
  EXPECT_THAT(terminal.until(ready), HasSubstr("before sin f32[3] -> f32[3]  [layer1]"));
  terminal.press("step\r");
  EXPECT_THAT(terminal.until(ready), HasSubstr("before multiply f32[3], f32[3] -> f32[3]  [layer1]"));
  terminal.press("skip 2\r");
  terminal.until("out0  f32[3] min 2 max 2 mean 2 std 0 nan 0 inf 0");
  terminal.until(ready);
  terminal.press("c\r");
  terminal.until("the function has returned");
  terminal.until("y = 6.0");
  terminal.until("echo 1");  // the terminal is as it was
  EXPECT_EQ(terminal.exit_status(), 0);
}

TEST(DebuggerTerminal, TabCompletes) {
  Terminal terminal;
  terminal.until(ready);
  terminal.press("br\t");
  EXPECT_THAT(terminal.until("(stave) break\x1b[K"), Not(HasSubstr("breakpoints")));  // both begin so
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
  terminal.until("\a");  // nothing begins so
}

TEST(DebuggerTerminal, ArrowsFindLinesAgain) {
  Terminal terminal;
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
  terminal.press(up);  // there is none before
  terminal.press(down);
  terminal.press(down);
  terminal.until("(stave) st\x1b[K");  // what was begun
  terminal.press("ep\r");
  terminal.until("before multiply");
  terminal.until(ready);
  terminal.press(std::string(up) + up + up + "\r");
  terminal.until("in0  f32[3]");
}

TEST(DebuggerTerminal, LinesAreEdited) {
  Terminal terminal;
  terminal.until(ready);
  terminal.press(std::string("xprnt in0") + control('A') + "\x1b[3~" + right + right + "i" + "\r");  // Delete
  terminal.until("(stave) print in0");
  terminal.until("[0.5 1.  2. ]");
  terminal.until(ready);
  terminal.press(std::string("swhere") + "\x1b[H" + control('F') + "\x7f" + "\r");  // Home, Backspace
  terminal.until("handler  debugger, at work");
  terminal.until(ready);
  terminal.press("wrong words" + control('W') + control('W') + "break junk" + std::string(left) + left + left + left +
                 control('K') + "sin" + "\r");
  terminal.until("breakpoint 1: sin");
  terminal.until(ready);
  terminal.press("br\xc3\xa4\x7f" + std::string("eak cos\r"));  // a letter of two bytes is one
  terminal.until("breakpoint 2: cos");
  terminal.until(ready);
  terminal.press("nonsense" + control('C'));
  terminal.until("^C");
  terminal.until(ready);
  terminal.press("nonsense" + control('U') + "breakpoints\r");
  terminal.until("1  sin");
  terminal.until(ready);
  terminal.press("step" + control('D') + "\r");  // not at the end of input: the line is not empty
  terminal.until("before multiply");
  terminal.until(ready);
  terminal.press(control('D'));
  terminal.until("no more commands: the program runs on");
  terminal.until("echo 1");
  EXPECT_EQ(terminal.exit_status(), 0);
}

TEST(DebuggerTerminal, LongLinesScroll) {
  Terminal terminal(20);  // of which the prompt takes 8, the cursor one
  terminal.until(ready);
  terminal.press("print in0 in0 in0 in0");
  terminal.until("(stave) in0 in0 in0\x1b[K\r\x1b[19C");
  terminal.press(control('A'));
  terminal.until("(stave) print in0 i\x1b[K\r\x1b[8C");
  terminal.press("\r");
  terminal.until("[0.5 1.  2. ]");
}

TEST(DebuggerTerminal, WithoutACursorLinesAreReadAsTheyCome) {
  Terminal terminal(100, "dumb");
  terminal.until("(stave) ");
  terminal.press("print in0\n");
  EXPECT_EQ(terminal.until("in0  "), "print in0\r\nin0  ");  // shown once, by the terminal
  terminal.until("[0.5 1.  2. ]");
  terminal.press("\x04");
  terminal.until("y = 2.89");
  EXPECT_EQ(terminal.exit_status(), 0);
}

}  // namespace
