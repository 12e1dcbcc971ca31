// Graph draws what flows from operation to operation.
#include <thread>

#include <stave/stave.h>

#include "matchers.h"
#include "observers.h"

namespace {

using namespace stave;
using namespace stave_test;
using ::testing::HasSubstr;

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

TEST(Graph, ShowsEachInputOnceAndNumbers) {
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

TEST(Graph, ViewsOfOneStorageAreDifferentInputs) {
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

TEST(Graph, FollowsValuesThroughNestedTransforms) {
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

TEST(Graph, ContinuesOverSeveralUses) {
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

TEST(Graph, OmitsOperationsThatThrow) {
  Graph graph;
  const Tensor x = ones({2});
  with(Refuse(), [&] { EXPECT_THROW(with(graph, [&] { return sin(x); }), DeviceError); });
  EXPECT_EQ(graph.operations(), 0u);
}

TEST(Graph, IsBoundToItsThreadButItsValuesAreNot) {
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

TEST(Graph, MayEndBeforeItsValues) {
  Tensor s;
  {
    Graph graph;
    s = with(graph, [] { return sin(ones({2})); });
    EXPECT_EQ(live_notes(s), 1);
  }
  EXPECT_EQ(live_notes(s), 0);
  EXPECT_EQ(label_of(label(s, "s")), "s");
}

TEST(Graph, DoesNotKeepResultsAlive) {
  Graph graph;
  const std::size_t before = memory_stats().live_bytes;
  with(graph, [] {
    Tensor x = zeros({1000});
    for (int i = 0; i < 10; ++i) x = sin(x);
  });
  EXPECT_LT(memory_stats().live_bytes, before + 4000);
}

}  // namespace
