// Profile counts the calls, the bytes and the time of operations and scopes.
#include <set>
#include <thread>

#include <stave/stave.h>

#include "matchers.h"
#include "observers.h"

namespace {

using namespace stave;
using namespace stave_test;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(Profile, CountsCallsAndBytes) {
  const Tensor x = ones({4, 3}), wide = ones({3}, float64);
  Profile profile;
  with(profile, [&] {
    sin(x);
    sin(x);
    sum(x, 0);
    broadcast_to(wide, {1000000, 3});
  });
  sin(x);
  EXPECT_EQ(profile.operation("sin").calls, 2u);
  EXPECT_EQ(profile.operation("sin").bytes, 96u);
  EXPECT_EQ(profile.operation("sum").bytes, 12u);
  EXPECT_EQ(profile.operation("broadcast_to").bytes, 24u);
  EXPECT_EQ(profile.operation("cos").calls, 0u);
  EXPECT_EQ(profile.total().calls, 4u);
  EXPECT_EQ(profile.total().bytes, 132u);
}

TEST(Profile, MeasuresTimeAndShowsTheSlowestFirst) {
  const Tensor x = ones({3});
  Profile profile;
  with(Slow(), [&] {
    with(profile, [&] {
      cos(x);
      sin(x);
      cos(x);
    });
  });
  EXPECT_GE(profile.operation("sin").time, std::chrono::milliseconds(20));
  EXPECT_EQ(profile.total().time, profile.operation("sin").time + profile.operation("cos").time);
  const std::vector<std::string> lines = lines_of(profile.str());
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[0], MatchesRegex("operation +calls +time +share +bytes"));
  EXPECT_THAT(lines[1], MatchesRegex("sin +1 +[0-9.]+ ms +[0-9.]+%   12 B"));
  EXPECT_THAT(lines[2], MatchesRegex("cos +2 .*   24 B"));
  EXPECT_THAT(lines[3], MatchesRegex("total +3 .* 100.0%   36 B"));
  std::set<std::size_t> widths;
  for (const std::string& line : lines) widths.insert(line.size());
  EXPECT_EQ(widths.size(), 1u) << profile;
}

TEST(Profile, ScopesIncludeNestedScopes) {
  const Tensor x = ones({2});
  Profile profile;
  const Scope around("around");
  with(profile, [&] { return grad(two_layers)(x); });
  EXPECT_EQ(profile.scope("layer1").calls, 1u);
  EXPECT_EQ(profile.scope("layer2").calls, 2u);
  EXPECT_EQ(profile.scope("layer2/head").calls, 2u);
  EXPECT_EQ(profile.scope("layer2/head").bytes, 12u);
  EXPECT_EQ(profile.scope("backward of grad/layer1").calls, 2u);  // cos and scale
  EXPECT_EQ(profile.scope("backward of grad").calls,
            profile.scope("backward of grad/layer1").calls + profile.scope("backward of grad/layer2").calls);
  EXPECT_EQ(profile.scope("around").calls, 0u);
  const std::string text = profile.str();
  EXPECT_THAT(text, HasSubstr("\n  head "));
  EXPECT_THAT(text, HasSubstr("\nlayer1 "));
  EXPECT_THAT(text, HasSubstr("\n  layer1 "));
  EXPECT_THAT(text, HasSubstr("\n(no scope) "));
}

TEST(Profile, CountsAllLanesOutsideVmapAndInside) {
  Profile inside, outside;
  const Tensor x = ones({5, 3});
  with(outside, [&] { return vmap([&](const Tensor& v) { return with(inside, [&] { return sin(v); }); })(x); });
  EXPECT_EQ(inside.operation("sin").bytes, 60u);
  EXPECT_EQ(outside.operation("sin").bytes, 60u);
}

TEST(Profile, OmitsOperationsThatThrowAndCanBeReset) {
  const Tensor x = ones({2});
  Profile profile;
  with(Refuse(), [&] { EXPECT_THROW(with(profile, [&] { return sin(x); }), DeviceError); });
  EXPECT_EQ(profile.total().calls, 0u);
  with(profile, [&] { return two_layers(x); });
  profile.reset();
  EXPECT_EQ(profile.total().calls, 0u);
  EXPECT_EQ(profile.scope("layer1").calls, 0u);
  EXPECT_THAT(lines_of(profile.str()), testing::SizeIs(2));
  with(profile, [&] { return two_layers(x); });
  EXPECT_EQ(profile.scope("layer2/head").calls, 2u);
}

TEST(Profile, IsSharedBetweenThreads) {
  Profile profile;
  const auto work = [&] {
    const Tensor x = ones({2});
    with(profile, [&] {
      for (int i = 0; i < 200; ++i) {
        const Scope scope("work");
        sin(x);
      }
    });
  };
  std::thread first(work), second(work);
  profile.str();
  first.join();
  second.join();
  EXPECT_EQ(profile.operation("sin").calls, 400u);
  EXPECT_EQ(profile.scope("work").bytes, 3200u);
}

}  // namespace
