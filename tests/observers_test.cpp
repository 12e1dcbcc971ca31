// Profile, Graph and Timeline report the operations that ran, and they change nothing.
#include <stave/stave.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "json.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

Tensor two_layers(const Tensor& x) {
  Tensor h;
  {
    const Scope layer("layer1");
    h = sin(x);
  }
  const Scope layer("layer2");
  const Scope part("head");
  const Tensor e = exp(h);
  return sum(e);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

struct Refuse : Handler {
  Outputs handle(Call&) override { throw DeviceError("refused"); }
};

// ---- Profile ------------------------------------------------------------------------------------

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

// Sleeps 20 ms at each sine.
struct Slow : Handler {
  Outputs handle(Call& call) override {
    if (call.op().id == OpId::sin) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return perform(std::move(call));
  }
};

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

TEST(Profile, AddsUpScopesAndThoseWithinThem) {
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

TEST(Profile, LeavesOutWhatThrowsAndStartsAnew) {
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

// ---- Graph --------------------------------------------------------------------------------------

// Parses a DOT file in the form that Graph writes.
struct Dot {
  std::map<std::string, std::string> label;    // maps a node's name to its label
  std::map<std::string, std::string> cluster;  // maps a node's name to its scopes, outermost first
  std::multimap<std::string, std::string> edges;
  std::string text;

  explicit Dot(const Graph& graph) {
    std::ostringstream out;
    graph.write_dot(out);
    text = out.str();
    std::vector<std::string> open;
    std::smatch match;
    for (const std::string& line : lines_of(text)) {
      if (std::regex_match(line, match, std::regex(R"x( *(n\d+) \[shape=(?:box|oval), label="(.*)"\];)x"))) {
        label[match[1]] = match[2];
        for (const std::string& scope : open) cluster[match[1]] += "/" + scope;
      } else if (std::regex_match(line, match, std::regex(R"x( *(n\d+) -> (n\d+) \[.*\];)x"))) {
        edges.emplace(match[1], match[2]);
      } else if (std::regex_match(line, match, std::regex(R"x( *subgraph cluster_\d+ \{)x"))) {
        open.emplace_back();
      } else if (std::regex_match(line, match, std::regex(R"x( *label="(.*)";)x"))) {
        open.back() = match[1];
      } else if (std::regex_match(line, std::regex(R"x( *\})x")) && !open.empty()) {
        open.pop_back();
      }
    }
  }
  // The only node whose label starts with `begin`.
  std::string node(const std::string& begin) const {
    std::string found;
    for (const auto& [name, text_of_node] : label)
      if (text_of_node.starts_with(begin)) {
        EXPECT_EQ(found, "") << "several: " << begin << "\n" << text;
        found = name;
      }
    EXPECT_NE(found, "") << "none: " << begin << "\n" << text;
    return found;
  }
  bool has_edge(const std::string& from, const std::string& to) const {
    const auto [first, last] = edges.equal_range(node(from));
    return std::any_of(first, last, [&](const auto& edge) { return edge.second == node(to); });
  }
};

TEST(Graph, ConnectsValues) {
  const Tensor x = label(tensor({1., 2.}), "x");
  Graph graph;
  with(graph, [&] {
    const Tensor s = label(sin(x), "s");
    const Tensor c = cos(s);
    return s * c;
  });
  const Dot dot(graph);
  EXPECT_EQ(dot.label.at(dot.node("x:")), "x:f32[2]");
  EXPECT_EQ(dot.label.at(dot.node("s =")), "s =\\nsin\\nf32[2]");
  EXPECT_EQ(dot.edges.size(), 4u);
  EXPECT_TRUE(dot.has_edge("x:", "s ="));
  EXPECT_TRUE(dot.has_edge("s =", "cos"));
  EXPECT_TRUE(dot.has_edge("s =", "multiply"));
  EXPECT_TRUE(dot.has_edge("cos", "multiply"));
  EXPECT_THAT(dot.text, HasSubstr("headlabel=\"1\""));
  EXPECT_EQ(graph.operations(), 3u);
  EXPECT_EQ(graph.inputs(), 1u);
}

TEST(Graph, KnowsAnInputAgainAndShowsNumbers) {
  const Tensor x = ones({2, 2});
  Graph graph;
  with(graph, [&] {
    const Tensor a = x + 2.5;
    return a * x;
  });
  const Dot dot(graph);
  EXPECT_EQ(graph.inputs(), 2u);
  EXPECT_TRUE(std::any_of(dot.label.begin(), dot.label.end(), [](const auto& node) {
    return node.second.ends_with("\\n2.5");
  })) << dot.text;
}

TEST(Graph, TellsViewsOfOneStorageApart) {
  const Tensor x = tensor({{1., 2.}, {3., 4.}}), t = permute_dims(x, {1, 0}), row = x[1], reversed = flip(row);
  Graph graph;
  with(graph, [&] {
    x + t;
    row + reversed;
  });
  EXPECT_EQ(graph.inputs(), 4u);
}

TEST(Graph, AnAddressUsedAgainIsAnotherInput) {
  Graph graph;
  with(graph, [] {
    for (int i = 0; i < 10; ++i) sin(from(std::vector<float>{float(i), 0}, {2}));
  });
  EXPECT_EQ(graph.inputs(), 10u);
}

TEST(Graph, ScopesAreClusters) {
  Graph graph;
  const Tensor x = ones({2});
  with(graph, [&] { return grad(two_layers)(x); });
  const Dot dot(graph);
  EXPECT_EQ(dot.cluster.at(dot.node("sin")), "/layer1");
  EXPECT_EQ(dot.cluster.at(dot.node("sum")), "/layer2/head");
  EXPECT_EQ(dot.cluster.at(dot.node("cos")), "/backward of grad/layer1");
  // The edge starts at x, though grad makes its own copy of x.
  EXPECT_TRUE(dot.has_edge("f32[2]", "sin"));
  EXPECT_TRUE(dot.has_edge("f32[2]", "cos"));
  EXPECT_EQ(graph.inputs(), 1u);
}

TEST(Graph, FollowsValuesThroughNests) {
  const auto f = [](const Tensor& x) {
    const Tensor y = label(exp(x), "y");
    return sum(sin(y));
  };
  const Tensor x = ones({3, 2});
  Graph inside, outside;
  const Tensor g =
      with(outside, [&] { return vmap(grad([&](const Tensor& v) { return with(inside, [&] { return f(v); }); }))(x); });
  EXPECT_THAT(g, IsNear(vmap(grad(f))(x)));
  const Dot in(inside), out(outside);
  EXPECT_EQ(in.label.at(in.node("y =")), "y =\\nexp\\nf32[2]");
  EXPECT_TRUE(in.has_edge("f32[2]", "y ="));
  EXPECT_TRUE(in.has_edge("y =", "sin"));
  EXPECT_EQ(out.label.at(out.node("y =")), "y =\\nexp\\nf32[3,2]");
  EXPECT_TRUE(out.has_edge("y =", "sin"));
  EXPECT_TRUE(out.has_edge("y =", "cos"));  // the operation of the backward pass
  EXPECT_EQ(outside.inputs(), 1u);
}

TEST(Graph, GoesOnOverSeveralUses) {
  Graph graph;
  const Tensor x = ones({2});
  const Tensor s = with(graph, [&] { return sin(x); });
  with(graph, [&] { return cos(s); });
  EXPECT_TRUE(Dot(graph).has_edge("sin", "cos"));
}

TEST(Graph, QuotesNames) {
  Graph graph;
  const Tensor x = label(ones({2}), "a \"b\" \\N");
  with(graph, [&] {
    const Scope scope("\"quoted\"");
    return sin(x);
  });
  const Dot dot(graph);
  EXPECT_THAT(dot.text, HasSubstr(R"(label="a \"b\" \\N:f32[2])"));
  EXPECT_THAT(dot.text, HasSubstr(R"(label="\"quoted\"";)"));
}

TEST(Graph, LeavesOutWhatThrows) {
  Graph graph;
  const Tensor x = ones({2});
  with(Refuse(), [&] { EXPECT_THROW(with(graph, [&] { return sin(x); }), DeviceError); });
  EXPECT_EQ(graph.operations(), 0u);
}

TEST(Graph, BelongsToItsThreadButItsValuesDoNot) {
  Graph graph;
  const Tensor x = ones({2});
  with(graph, [&] {
    Tensor s = sin(x);
    std::thread([&] {
      EXPECT_THAT(grad([](const Tensor& v) { return sum(v * v); })(s), IsNear(2 * s));
      EXPECT_EQ(message_of<TransformError>([&] { with(graph, [&] { return cos(x); }); }),
                "graph: this Graph was made on another thread: make one for each thread\n  inside graph");
      s = Tensor();
    }).join();
  });
  EXPECT_EQ(graph.operations(), 1u);
}

TEST(Graph, EndsBeforeItsValues) {
  Tensor s;
  {
    Graph graph;
    s = with(graph, [] { return sin(ones({2})); });
    EXPECT_EQ(live_notes(s), 1);
  }
  EXPECT_EQ(live_notes(s), 0);
  EXPECT_EQ(label_of(label(s, "s")), "s");
}

TEST(Graph, HoldsNoResults) {
  Graph graph;
  const std::size_t before = memory_stats().live_bytes;
  with(graph, [] {
    Tensor x = zeros({1000});
    for (int i = 0; i < 10; ++i) x = sin(x);
  });
  EXPECT_LT(memory_stats().live_bytes, before + 4000);
}

// ---- Timeline -----------------------------------------------------------------------------------

std::vector<Json> events_of(const Timeline& timeline) {
  std::ostringstream out;
  timeline.write_json(out);
  std::vector<Json> events;
  const Json file = parse_json(out.str());
  for (const Json& event : file.at("traceEvents").items)
    if (event.at("ph").text == "X") events.push_back(event);
  return events;
}

const Json& named(const std::vector<Json>& events, const std::string& name) {
  for (const Json& event : events)
    if (event.at("name").text == name) return event;
  throw std::out_of_range(name);
}

// Times are written with three digits.
bool holds(const Json& outer, const Json& inner) {
  const double end = outer.at("ts").number + outer.at("dur").number;
  return outer.at("ts").number <= inner.at("ts").number &&
         inner.at("ts").number + inner.at("dur").number <= end + 0.0015;
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
  EXPECT_EQ(events[0].at("name").text, "sum");
  EXPECT_EQ(events[0].at("args").at("operands").text, "x:f32[3,2]");
  EXPECT_EQ(events[0].at("args").at("outputs").text, "f32[2]");
  EXPECT_EQ(events[0].at("args").at("attributes").text, "axes=[0]");
  EXPECT_GE(events[1].at("dur").number, 20000);
  EXPECT_GE(events[1].at("ts").number, events[0].at("ts").number + events[0].at("dur").number - 0.0015);
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
    if (event.at("cat").text == "scope") ++scopes[event.at("name").text];
  EXPECT_EQ(scopes, (std::map<std::string, int>{{"layer1", 2}, {"layer2", 2}, {"head", 2}, {"backward of grad", 1}}));
}

TEST(Timeline, QuotesTextsAndShowsWhatThrows) {
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
  EXPECT_EQ(named(events, "sin").at("args").at("operands").text, "a \"b\"\\\n\x01:f32[2]");
  EXPECT_EQ(named(events, "sin").at("args").at("outputs").text, "throws");
  EXPECT_EQ(named(events, "\"s\"").at("cat").text, "scope");
}

TEST(Timeline, IsUtf8WhateverLabelsAre) {
  const std::string broken[] = {"\xff", "a\xc3", "\xe2\x82", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80z"};
  const std::string shown[] = {"\\xff", "a\\xc3", "\\xe2\\x82", "\\xc0\\xaf", "\\xed\\xa0\\x80", "\\xf4\\x90\\x80\\x80",
                               "\\x80z"};
  for (std::size_t i = 0; i < std::size(broken); ++i) {
    Timeline timeline;
    const Tensor x = label(ones({2}), broken[i]);
    with(timeline, [&] { return sin(x); });
    EXPECT_EQ(named(events_of(timeline), "sin").at("args").at("operands").text, shown[i] + ":f32[2]");
  }
  Timeline timeline;
  const Tensor x = label(ones({2}), "\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\xb1");
  with(timeline, [&] { return sin(x); });
  EXPECT_EQ(named(events_of(timeline), "sin").at("args").at("operands").text,
            "\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\xb1:f32[2]");
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
  for (const Json& event : events_of(timeline)) ++by_thread[event.at("tid").number];
  EXPECT_EQ(timeline.operations(), 200u);
  int sum = 0;
  for (const auto& [thread, count] : by_thread) sum += count;
  EXPECT_GE(sum, 202);  // Each thread has a scope of its own.
}

TEST(Timeline, WithoutOperationsIsAFileToo) {
  std::ostringstream out;
  Timeline().write_json(out);
  EXPECT_EQ(parse_json(out.str()).at("traceEvents").items.size(), 1u);
}

// ---- all together -------------------------------------------------------------------------------

TEST(Observers, AreSeenByNobodyAndChangeNothing) {
  const auto f = [](const Tensor& x) {
    const Tensor columns = permute_dims(stack({x, x}), {1, 0});
    return sum(exp(sin(columns)));
  };
  const auto second = [](auto g) { return vmap(grad([g](const Tensor& x) { return sum(grad(g)(x)); })); };
  const Tensor x = tensor({{0.5, 1.}, {2., 3.}, {0., -1.}});
  CountOps plain, observed;
  const Tensor expected = with(plain, [&] { return second(f)(x); });
  Profile profile;
  Graph graph;
  Timeline timeline;
  const auto watched = [&](const Tensor& v) {
    return with(graph, [&] { return with(timeline, [&] { return f(v); }); });
  };
  const Tensor got = with(observed, [&] { return with(profile, [&] { return second(watched)(x); }); });
  EXPECT_THAT(got, Equals(expected));
  EXPECT_EQ(observed.n, plain.n);
  EXPECT_EQ(profile.total().calls, static_cast<std::uint64_t>(plain.n));
  EXPECT_EQ(graph.operations(), timeline.operations());
}

TEST(Observers, WorkInsideControllers) {
  struct AnswerLater : Controller {
    void handle(Call& call, Resumption<Call> rest) override { rest.resume_last(perform(call)); }
  };
  const Tensor x = ones({2});
  Profile inside, outside;
  Graph graph;
  Timeline timeline;
  AnswerLater controller;
  with(outside, [&] {
    return with(controller, [&] {
      return with(inside,
                  [&] { return with(graph, [&] { return with(timeline, [&] { return grad(two_layers)(x); }); }); });
    });
  });
  EXPECT_GT(inside.total().calls, 4u);
  EXPECT_EQ(inside.total().calls, outside.total().calls);
  EXPECT_EQ(outside.scope("backward of grad/layer1").calls, 2u);
  EXPECT_TRUE(Dot(graph).has_edge("sin", "exp"));
  EXPECT_EQ(timeline.operations(), graph.operations());
}

}  // namespace
