// A pseudo-terminal for tests of interactive output.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

namespace stave_test {

/// Runs a program in a child process at a pseudo-terminal, collects its output, and sends it keys.
class Terminal {
 public:
  explicit Terminal(const std::function<void()>& program, unsigned short columns = 100, const char* kind = "xterm") {
    const winsize size = size_of(columns);
    child_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (child_ == 0) {
      setenv("TERM", kind, 1);
      program();
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

  /// Sends keys to the program. Call it once the program reads a line (`ready` was shown). Before
  /// that, the terminal itself handles keys such as ^C and Backspace.
  void press(std::string_view keys) {
    ASSERT_EQ(write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  /// Returns the output since the last wait, up to and including this text.
  /// Fails if the text does not come.
  std::string until(const std::string& text) {
    constexpr int patience = 20'000;  // milliseconds, for a busy machine
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
  void resize(unsigned short columns) {
    const winsize size = size_of(columns);
    ASSERT_EQ(ioctl(terminal_, TIOCSWINSZ, &size), 0);
  }
  int exit_status() {
    int status = -1;
    waitpid(child_, &status, 0);
    child_ = 0;
    return status;
  }

 private:
  static winsize size_of(unsigned short columns) {
    winsize size{};
    size.ws_row = 24;
    size.ws_col = columns;
    return size;
  }
  static bool echoes() {
    termios mode{};
    tcgetattr(STDIN_FILENO, &mode);
    return mode.c_lflag & ECHO;
  }

  int terminal_ = -1;
  pid_t child_ = 0;
  std::string shown_;
};

}  // namespace stave_test
