// Timeline writes operations and scopes as events of a JSON file.
#include <map>
#include <sstream>
#include <thread>

#include <stave/stave.h>

#include "json.h"
#include "matchers.h"
#include "observers.h"

namespace {

using namespace stave;
using namespace stave_test;

std::vector<Json> events_of(const Timeline& timeline) {
  std::ostringstream out;
  timeline.write_json(out);
  std::vector<Json> events;
  const Json file = parse_json(out.str());
  for (const Json& event : file.at("traceEvents"))
    if (event.at("ph") == "X") events.push_back(event);
  return events;
}

const Json& named(const std::vector<Json>& events, const std::string& name) {
  for (const Json& event : events)
    if (event.at("name") == name) return event;
  throw std::out_of_range(name);
}

// Times are written with three digits.
bool holds(const Json& outer, const Json& inner) {
  const double end = outer.at("ts").get<double>() + outer.at("dur").get<double>();
  return outer.at("ts").get<double>() <= inner.at("ts").get<double>() &&
         inner.at("ts").get<double>() + inner.at("dur").get<double>() <= end + 0.0015;
}

TEST(Timeline, WritesCompleteEvents) {
  const Tensor x = label(ones({3, 2}), "x");
  Timeline timeline;
  with(Slow(), [&] {
    with(timeline, [&] {
      sum(x, 0);
      sin(x);
    });
  });
  const std::vector<Json> events = events_of(timeline);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].at("name"), "sum");
  EXPECT_EQ(events[0].at("args").at("operands"), "x:f32[3,2]");
  EXPECT_EQ(events[0].at("args").at("outputs"), "f32[2]");
  EXPECT_EQ(events[0].at("args").at("attributes"), "axes=[0]");
  EXPECT_GE(events[1].at("dur").get<double>(), 20000);
  EXPECT_GE(events[1].at("ts").get<double>(),
            events[0].at("ts").get<double>() + events[0].at("dur").get<double>() - 0.0015);
}

TEST(Timeline, ScopesHoldTheirOperations) {
  Timeline timeline;
  const Tensor x = ones({2});
  with(timeline, [&] { return grad(two_layers)(x); });
  const std::vector<Json> events = events_of(timeline);
  EXPECT_TRUE(holds(named(events, "layer1"), named(events, "sin")));
  EXPECT_FALSE(holds(named(events, "layer1"), named(events, "sum")));
  EXPECT_TRUE(holds(named(events, "layer2"), named(events, "head")));
  EXPECT_TRUE(holds(named(events, "head"), named(events, "exp")));
  EXPECT_TRUE(holds(named(events, "head"), named(events, "sum")));
  EXPECT_TRUE(holds(named(events, "backward of grad"), named(events, "cos")));
  std::map<std::string, int> scopes;
  for (const Json& event : events)
    if (event.at("cat") == "scope") ++scopes[event.at("name").get<std::string>()];
  EXPECT_EQ(scopes, (std::map<std::string, int>{{"layer1", 2}, {"layer2", 2}, {"head", 2}, {"backward of grad", 1}}));
}

TEST(Timeline, EscapesTextsAndShowsErrors) {
  Timeline timeline;
  const Tensor x = label(ones({2}), "a \"b\"\\\n\x01");
  with(Refuse(), [&] {
    EXPECT_THROW(with(timeline,
                      [&] {
                        const Scope scope("\"s\"");
                        return sin(x);
                      }),
                 DeviceError);
  });
  const std::vector<Json> events = events_of(timeline);
  EXPECT_EQ(named(events, "sin").at("args").at("operands"), "a \"b\"\\\n\x01:f32[2]");
  EXPECT_EQ(named(events, "sin").at("args").at("outputs"), "throws");
  EXPECT_EQ(named(events, "\"s\"").at("cat"), "scope");
}

TEST(Timeline, IsUtf8ForAnyLabels) {
  const std::string broken[] = {"\xff", "a\xc3", "\xe2\x82", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80z"};
  const std::string shown[] = {"\\xff", "a\\xc3", "\\xe2\\x82", "\\xc0\\xaf", "\\xed\\xa0\\x80", "\\xf4\\x90\\x80\\x80",
                               "\\x80z"};
  for (std::size_t i = 0; i < std::size(broken); ++i) {
    Timeline timeline;
    const Tensor x = label(ones({2}), broken[i]);
    with(timeline, [&] { return sin(x); });
    EXPECT_EQ(named(events_of(timeline), "sin").at("args").at("operands"), shown[i] + ":f32[2]");
  }
  Timeline timeline;
  const Tensor x = label(ones({2}), "\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\xb1");
  with(timeline, [&] { return sin(x); });
  EXPECT_EQ(named(events_of(timeline), "sin").at("args").at("operands"), "\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\xb1:f32[2]");
}

TEST(Timeline, IsSharedBetweenThreads) {
  Timeline timeline;
  const auto work = [&] {
    const Tensor x = ones({2});
    with(timeline, [&] {
      const Scope scope("work");
      for (int i = 0; i < 100; ++i) sin(x);
    });
  };
  std::thread first(work), second(work);
  first.join();
  second.join();
  std::map<double, int> by_thread;
  for (const Json& event : events_of(timeline)) ++by_thread[event.at("tid")];
  EXPECT_EQ(timeline.operations(), 200u);
  int sum = 0;
  for (const auto& [thread, count] : by_thread) sum += count;
  EXPECT_GE(sum, 202);  // Each thread has a scope of its own.
}

TEST(Timeline, EmptyTimelineIsAValidFile) {
  std::ostringstream out;
  Timeline().write_json(out);
  EXPECT_EQ(parse_json(out.str()).at("traceEvents").size(), 1u);
}

}  // namespace
