// Where the time goes, and which operations ran: Profile, Graph and Timeline observe a program from
// outside, as debug does. Scopes and labels give names to its parts. The backward pass is
// attributed to the scopes of the forward pass.
#include <iostream>
#include <sstream>

#include <stave/stave.h>

#include "check.h"

using namespace stave;

Tensor loss(const Tensor& w1, const Tensor& w2, const Tensor& x) {
  Tensor hidden;
  {
    const Scope layer("layer1");
    hidden = label(tanh(matmul(x, w1)), "hidden");
  }
  const Scope layer("layer2");
  return sum(matmul(hidden, w2));
}

int main() {
  const Key key(0);
  const Tensor w1 = label(normal(fold_in(key, 1), {64, 32}), "w1"), w2 = label(normal(fold_in(key, 2), {32, 8}), "w2");
  const Tensor x = label(normal(fold_in(key, 3), {16, 64}), "x");

  Profile profile;
  Graph graph;
  Timeline timeline;
  std::ostringstream dot, json;
  with(profile, [&] { return grad<0, 1>(loss)(w1, w2, x); });
  with(graph, [&] { return grad<0, 1>(loss)(w1, w2, x); });
  with(timeline, [&] { return grad<0, 1>(loss)(w1, w2, x); });
  std::cout << profile;       // calls, time and bytes by operation and by scope
  graph.write_dot(dot);       // for Graphviz: dot -Tsvg
  timeline.write_json(json);  // for https://ui.perfetto.dev
  std::cout << "\n" << dot.str() << "\n" << json.str();

  std::cout << "\n";
  debug(grad<0, 1>(loss), {.out = &std::cout})(w1, w2, x);

  const TensorTracking tracking;
  const Tensor doubled = label(2 * w1, "doubled");
  std::cout << "\n" << whos();

  check(whos().tensors.at(0).label == "doubled", "what lives is known by its label");
  check(profile.operation("matmul").calls == 5, "two products forward, three backward: none for x");
  check(profile.scope("backward of grad/layer2").calls > 0, "the backward pass of layer2 is known as such");
  check(dot.str().find("subgraph cluster") != std::string::npos, "scopes are clusters");
  check(timeline.operations() == profile.total().calls, "all of them see the same operations");
}
