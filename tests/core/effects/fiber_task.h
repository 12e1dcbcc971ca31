// Definitions shared by the tests of fibers.
#pragma once

#include <stave/core/effects/fiber.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>

#include <stave/core/effects/error.h>
#include <stave/core/effects/fiber_stack.h>
#include <stave/core/effects/sanitize.h>

namespace fiber_test {

using namespace stave_detail;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr bool sanitized = STAVE_ASAN || STAVE_TSAN;

// A fiber that runs any callable.
class Task {
 public:
  explicit Task(std::function<void()> body)
      : body_(std::move(body)), fiber_([](void* self) { static_cast<Task*>(self)->body_(); }, this) {}
  Fiber* operator->() { return &fiber_; }

 private:
  std::function<void()> body_;
  Fiber fiber_;
};

template <class F>
std::string error_of(F&& body) {
  try {
    body();
  } catch (const stave::Error& error) {
    return error.what();
  }
  return "no error";
}

inline std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<std::size_t>(
      std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n'));
}

/// Recurses until the frames from `base` on take `bytes` of the stack; returns the depth.
[[gnu::noinline]] inline int descend(std::size_t bytes, const void* base = __builtin_frame_address(0)) {
  volatile char frame[100] = {1};
  const auto used =
      static_cast<std::size_t>(static_cast<const char*>(base) - static_cast<const char*>(__builtin_frame_address(0)));
  const int deeper = used < bytes ? descend(bytes, base) : 0;
  return deeper + frame[0];
}

struct RestoreLimits {
  ~RestoreLimits() {
    set_most_guarded_stacks(16000);
    set_fiber_stack_size((sanitized ? 1024 : 256) << 10);
  }
};

}  // namespace fiber_test
