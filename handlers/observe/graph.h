// Graph: what ran, as a graph: operations are its nodes, values its edges, scopes its clusters.
//
//   Graph graph;
//   with(graph, [&] { return grad(loss)(w, x, y); });
//   graph.write_dot(file);                              // then: dot -Tsvg graph.dot -o graph.svg
//
// - A box is an operation: its name, its attributes, and its outputs as debug writes them. An oval is a value that came in from
//   outside: its label (label.h), dtype and shape, and the number itself if it is one.
// - An edge leads from what yields a value to what reads it, with the number of the operand where there are several, the number
//   of the output if it is not the first, and the value's label.
// - A cluster is a scope (effect.h), within the one around it; those of one name in one place are one.
// - Like every handler it sees what reaches it: inside grad the primal operations, outside also the backward pass; inside vmap
//   one lane, outside all. A value keeps its place in the graph through transforms, copies and later uses of the same Graph.
// - An operation that throws is left out.
//
// What is written down are texts; of tensors, only the storage of those that came in from outside is kept, while the Graph
// lives: so an address means one value. A Graph belongs to the thread that made it: elsewhere it throws TransformError. It is
// not for installing twice at once.
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
  bool only_observes() const noexcept override { return true; }

  /// In the language of Graphviz.
  void write_dot(std::ostream& out) const;
  std::size_t operations() const noexcept { return operations_; }
  /// Values that came in from outside.
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
    std::string label;  // of its first output
  };
  struct ScopeNode {
    std::string name;
    std::vector<std::size_t> inner, nodes;
  };
  // Noted on a value: what yielded it.
  struct Source {
    Graph* graph = nullptr;
    std::size_t node = 0;
    int output = 0;
    void labelled(const NamePtr& name) const { graph->set_label(*this, *name); }
  };
  // Which value came in from outside: its storage, and how it is viewed.
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
  std::vector<ScopeNode> scopes_{{}};  // the first stands around all
  std::map<std::pair<std::size_t, std::string>, std::size_t> scope_index_;
  std::map<std::pair<const Storage*, ViewKey>, std::size_t> input_index_;
  std::vector<StoragePtr> kept_;
  std::size_t operations_ = 0;
};

}  // namespace stave
