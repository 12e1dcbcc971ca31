// Progress bars of a child process at a pseudo-terminal.
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include <stave/stave.h>

#include "matchers.h"
#include "terminal.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;
using testing::Not;

std::size_t columns_of_last_bar(const std::string& shown) {
  std::string bar = shown.substr(0, shown.rfind("\x1b[K"));
  bar.erase(0, bar.rfind('\r') + 1);
  // The text before the bar moves the cursor up.
  if (bar.starts_with("\x1b[")) bar.erase(0, bar.find('A') + 1);
  return bar.size();
}

// Performs a step for each line of input.
void steps() {
  with(PrintProgress(), [] {
    std::string line;
    for (long i = 1; i <= 4 && std::getline(std::cin, line); ++i) {
      // Bars are drawn at most ten times a second.
      std::this_thread::sleep_for(std::chrono::milliseconds(120));
      progress(i, 4, line);
    }
  });
}

TEST(ProgressTerminal, BarFollowsTheTerminalWidth) {
  Terminal terminal(steps, 60);
  for (const unsigned short columns : {60, 100, 40, 79}) {
    terminal.resize(columns);
    terminal.press("step\n");
    terminal.until("step\r\n");  // the terminal echoes the input
    std::string bar = terminal.until("/4");
    bar += terminal.until("\x1b[K");
    EXPECT_LT(columns_of_last_bar(bar), columns);
    if (columns != 60) {
      // The first bar, at 60 columns, does not show the remaining time yet.
      EXPECT_GT(columns_of_last_bar(bar), columns - 12u);
    }
  }
  terminal.until("echo 1");
  EXPECT_EQ(terminal.exit_status(), 0);
}

TEST(ProgressTerminal, TextOfAnyStreamAppearsAboveTheBar) {
  Terminal terminal([] {
    with(PrintProgress(), [] {
      progress(1, 3);
      std::cout << "by cout " << 1 << std::endl;
      std::clog << "by clog\n";
      std::cerr << "by cerr\n";
      progress(3, 3);
    });
    std::cout << "afterwards" << std::endl;
  });
  const std::string shown = terminal.until("afterwards\r\n");
  const std::size_t first = shown.find("1/3");
  for (const char* text : {"by cout ", "by clog", "by cerr"}) {
    const std::size_t place = shown.find(text);
    ASSERT_NE(place, std::string::npos) << text;
    EXPECT_LT(first, place);
    // The text replaces the bar.
    EXPECT_TRUE(shown.substr(0, place).ends_with("\r\x1b[K\r")) << shown;
  }
  EXPECT_THAT(shown, HasSubstr("3/3"));
  EXPECT_THAT(shown, HasSubstr("\x1b[K\r\nafterwards\r\n"));
}

TEST(ProgressTerminal, FatalExceptionStartsANewLine) {
  Terminal terminal([] {
    with(PrintProgress(), [] {
      progress(1, 3);
      const auto loop = [] { throw std::runtime_error("of the loop"); };
      [&]() noexcept { loop(); }();
    });
  });
  const std::string shown = terminal.until("of the loop");
  EXPECT_THAT(shown, HasSubstr("1/3"));
  EXPECT_THAT(shown, HasSubstr("\x1b[K\r\nterminate called"));
}

TEST(ProgressTerminal, DumbTerminalGetsPlainLines) {
  Terminal terminal(
      [] {
        with(PrintProgress(), [] {
          for (long i = 1; i <= 3; ++i) progress(i, 3);
        });
        std::cout << "end" << std::endl;
      },
      80, "dumb");
  const std::string shown = terminal.until("end\r\n");
  EXPECT_THAT(shown, HasSubstr("100% 3/3"));
  EXPECT_THAT(shown, Not(HasSubstr("\x1b")));
}

}  // namespace
