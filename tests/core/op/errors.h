// Helpers of the tests of errors.
#pragma once

#include <string>

#include <stave/stave.h>

#include "matchers.h"

namespace errors_test {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using T = const Tensor&;

const Tensor x = ones({3}), m = ones({2, 3}), i = tensor({1, 2});
inline Tensor loss(T t) { return sum(t * t); }
inline Tensor identity(T t) { return t; }
inline Tensor b_of(T t) { return t > 0; }

/// Returns the message of the E that body throws; "" if the context or the live bytes have changed.
template <class E, class Body>
std::string error(Body body) {
  const std::size_t before = memory_stats().live_bytes;
  const std::string message = message_of<E>(body);
  EXPECT_EQ(memory_stats().live_bytes, before) << message;
  EXPECT_EQ(error_context(), "") << message;
  EXPECT_EQ(live_notes(x) + live_notes(m) + live_notes(i), 0) << message;
  return message;
}

}  // namespace errors_test
