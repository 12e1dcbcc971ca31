// Graph: records the operations that ran as a graph for Graphviz. Operations are nodes,
// values are edges, and scopes are clusters.
//
//   Graph graph;
//   with(graph, [&] { return grad(loss)(w, x, y); });
//   graph.write_dot(file);                              // then: dot -Tsvg graph.dot -o graph.svg
//
// - A box is an operation: its name, its attributes, and its outputs in the notation of debug.
//   An oval is a value that no recorded operation computed: its label (label.h), dtype and shape,
//   and the number itself if it is a single number.
// - An edge leads from the operation that yields a value to an operation that reads it.
//   It has the number of the operand if there are several, the number of the output if it is not
//   the first, and the label of the value.
// - A cluster is a scope (scope.h), inside the cluster of the enclosing scope. Scopes with the same
//   name in the same place share a cluster.
// - Graph sees the operations that reach it: inside grad the primal operations,
//   outside of grad also the backward pass; inside vmap one lane, outside of vmap all lanes.
//   A value keeps its place in the graph through transforms, copies and later uses of the same
//   Graph.
// - Operations that throw are left out.
//
// A Graph stores text, and no tensors. It only keeps the storage of values that no recorded
// operation computed, so that an address identifies one value while the Graph lives. On any
// thread but the one that made the Graph, operations throw TransformError. A Graph must not be
// installed twice at the same time.
#pragma once

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include <stave/core/op/op.h>
#include <stave/core/tensor/note.h>

namespace stave {

class Graph : public Handler {
 public:
  Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Outputs handle(Call& call) override;
  std::string describe() const override { return "graph"; }
  HandlerProperties properties() const noexcept override { return {.only_observes = true}; }

  /// Writes the graph in the DOT language of Graphviz.
  void write_dot(std::ostream& out) const;
  std::size_t operations() const noexcept { return operations_; }
  /// Returns the number of values that no recorded operation computed.
  std::size_t inputs() const noexcept { return nodes_.size() - operations_; }

 private:
  struct Edge {
    std::size_t from;
    int output;
    std::string label;
  };
  struct GraphNode {
    bool is_input;
    std::size_t scope;
    std::vector<std::string> lines;
    std::vector<Edge> operands;
    // The label of the first output.
    std::string label;
  };
  struct ScopeNode {
    std::string name;
    std::vector<std::size_t> inner, nodes;
  };
  // The note on a value: the operation that yielded it.
  struct Source {
    Graph* graph = nullptr;
    std::size_t node = 0;
    int output = 0;
    void labelled(const NamePtr& name) const { graph->set_label(*this, *name); }
  };
  // Identifies a value that no recorded operation computed, together with its storage: the offset,
  // dtype, rank, shape and strides of the view.
  using ViewKey = std::vector<Index>;

  Edge edge_of(const Tensor& x);
  std::size_t input_node(const Tensor& x);
  std::size_t add_node(GraphNode node);
  std::size_t scope_node(const std::vector<NamePtr>& scopes);
  void set_label(const Source& source, const SharedName& name);
  void write_scope(std::ostream& out, std::size_t scope, std::size_t depth) const;
  void write_node(std::ostream& out, std::size_t node, std::size_t depth) const;

  Notes<Source> sources_{"graph"};
  std::vector<GraphNode> nodes_;
  // scopes_[0] is the root: operations outside of all scopes belong to it.
  std::vector<ScopeNode> scopes_{{}};
  std::map<std::pair<std::size_t, std::string>, std::size_t> scope_index_;
  std::map<std::pair<const Storage*, ViewKey>, std::size_t> input_index_;
  std::vector<StoragePtr> kept_;
  std::size_t operations_ = 0;
};

}  // namespace stave
