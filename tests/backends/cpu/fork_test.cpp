// The child of a fork() has one thread, and may compute.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <sstream>
#include <thread>

#include <stave/core/effects/sanitize.h>
#include <stave/stave.h>

#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;

/// Returns how a child that ran `body` ended, within this many seconds.
std::string child(const std::function<bool()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(60);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGALRM ? "it hangs" : "it is ended by a signal";
  return WEXITSTATUS(status) == 0 ? "it computes" : "it computes something wrong";
}

// Computations that take the library's locks.
bool computes() {
  const Tensor x = ones({300});
  std::vector<Tensor> values;
  for (int i = 0; i < 3000; ++i) values.push_back(label(x * 3., "b"));
  values.clear();
  const Tensor large = ones({1 << 18}) * 2.;
  std::ostringstream out;
  debug([&] { return large + 1.; }, {.out = &out})();
  const TensorTracking tracking;
  const Tensor y = grad([](const Tensor& v) { return sum(square(v)); })(x);
  release_cached_memory();
  return array_equal(y, x * 2.) && sum(large).item<float>() == 1 << 19 && !whos().tensors.empty() &&
         memory_stats().live_bytes > 0 && matmul(ones({200, 200}), ones({200, 200}))(0, 0).item<float>() == 200;
}

TEST(Fork, AChildComputesWhileItsParentsThreadsDo) {
  if (STAVE_TSAN) GTEST_SKIP() << "the thread sanitizer does not follow a child that starts threads";
  if (STAVE_ASAN) GTEST_SKIP() << "the address sanitizer's malloc may be locked in the child: 1 of 200 forks hangs";
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      while (!stop) computes();
    });
  for (int i = 0; i < 10; ++i) EXPECT_EQ(child(computes), "it computes");
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(Fork, ChildMayUseValuesWatchedByAReport) {
  if (STAVE_TSAN || STAVE_ASAN) GTEST_SKIP() << "as above";
  const auto few = [] {
    const Tensor x = ones({300});
    for (int i = 0; i < 100; ++i) label(x * 3., "b");
    return sum(x).item<float>() == 300;
  };
  HtmlReport report;
  std::atomic<bool> stop{false};
  std::thread thread([&] {
    while (!stop) with(report, few);
  });
  std::string became = "it computes";
  for (int i = 0; i < 50 && became == "it computes"; ++i) became = child(few);
  stop = true;
  thread.join();
  EXPECT_EQ(became, "it computes");
}

TEST(Fork, AChildMayHaveThreadsAndChildrenOfItsOwn) {
  if (STAVE_TSAN) GTEST_SKIP() << "the thread sanitizer does not follow a child that starts threads";
  std::thread([] { computes(); }).join();
  EXPECT_EQ(child([] {
              bool right = false;
              std::thread([&] { right = computes(); }).join();
              return right && computes() && child(computes) == "it computes";
            }),
            "it computes");
  EXPECT_TRUE(computes());
}

}  // namespace
