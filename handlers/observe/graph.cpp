#include <stave/handlers/observe/graph.h>

#include <algorithm>
#include <ostream>

#include <stave/core/op/notation.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/label.h>
#include <stave/core/tensor/print.h>
#include <stave/core/tensor/utf8.h>

namespace stave {

using namespace stave_detail;

namespace {

std::string in_dot_quotes_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return in_dot_quotes(text);
}

std::string number(const Tensor& observed) {
  const Shape one;
  return view_of(observed, one, Strides(), observed.node().offset).str();
}

}  // namespace

// `running = false` (note.h) permits values with these notes on other threads, as only this Graph
// reads the notes.
Graph::Graph() { sources_.owner().running = false; }

Outputs Graph::handle(Call& call) {
  if (sources_.owner().thread != id_of_this_thread())
    fail<TransformError>("graph: this Graph was made on another thread: make one for each thread");
  GraphNode node{false, scope_node(place_of_performer().scopes), {call.op().name}, {}, ""};
  for (const Tensor& input : call.inputs()) node.operands.push_back(edge_of(input));
  if (std::string attributes = attributes_of(call); !attributes.empty()) node.lines.push_back(std::move(attributes));
  Outputs outputs = perform(std::move(call));
  node.lines.push_back(notation(outputs));
  const std::size_t index = add_node(std::move(node));
  ++operations_;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].defined())
      outputs[i] = sources_.put(std::move(outputs[i]), Source{this, index, static_cast<int>(i)});
  return outputs;
}

Graph::Edge Graph::edge_of(const Tensor& x) {
  const Source* source = sources_.find(x);
  if (!source) return {input_node(x), 0, ""};
  return {source->node, source->output, label_of(x)};
}

std::size_t Graph::input_node(const Tensor& x) {
  const Tensor value = observed(x);
  // Under vmap, x may be the value of one lane and `value` the batch of all lanes, so dtype and
  // rank of x are part of the key.
  ViewKey key{value.node().offset, static_cast<Index>(x.dtype()), x.rank()};
  key.insert(key.end(), value.shape().begin(), value.shape().end());
  key.insert(key.end(), value.strides().begin(), value.strides().end());
  const auto [found, is_new] = input_index_.try_emplace({value.node().storage.get(), key}, nodes_.size());
  if (is_new) {
    kept_.push_back(value.node().storage);
    std::vector<std::string> lines{notation({&x, 1})};
    // A tensor that repeats one number shows this number.
    if (value.size() > 0 && repeats_one_element(value)) lines.push_back(number(value));
    add_node({true, 0, std::move(lines), {}, ""});
  }
  return found->second;
}

std::size_t Graph::add_node(GraphNode node) {
  scopes_[node.scope].nodes.push_back(nodes_.size());
  nodes_.push_back(std::move(node));
  return nodes_.size() - 1;
}

std::size_t Graph::scope_node(const std::vector<NamePtr>& scopes) {
  std::size_t scope = 0;
  for (auto name = scopes.rbegin(); name != scopes.rend(); ++name) {
    const auto [found, is_new] = scope_index_.try_emplace({scope, (*name)->text}, scopes_.size());
    if (is_new) {
      scopes_[scope].inner.push_back(scopes_.size());
      scopes_.push_back({(*name)->text, {}, {}});
    }
    scope = found->second;
  }
  return scope;
}

void Graph::set_label(const Source& source, const SharedName& name) {
  if (source.output == 0) nodes_[source.node].label = name.text;
}

void Graph::write_dot(std::ostream& out) const {
  out << "digraph stave {\n  rankdir=TB;\n  node [fontname=\"Helvetica\", fontsize=10];\n"
      << "  edge [fontname=\"Helvetica\", fontsize=9];\n";
  write_scope(out, 0, 1);
  for (std::size_t to = 0; to < nodes_.size(); ++to)
    for (std::size_t i = 0; i < nodes_[to].operands.size(); ++i) {
      const Edge& edge = nodes_[to].operands[i];
      out << "  n" << edge.from << " -> n" << to << " [";
      if (!edge.label.empty() && edge.label != nodes_[edge.from].label)
        out << "label=" << in_dot_quotes(edge.label) << ", ";
      if (edge.output != 0) out << "taillabel=\"" << edge.output << "\", ";
      if (nodes_[to].operands.size() > 1) out << "headlabel=\"" << i << "\"";
      out << "];\n";
    }
  out << "}\n";
}

void Graph::write_scope(std::ostream& out, std::size_t scope, std::size_t depth) const {
  for (const std::size_t node : scopes_[scope].nodes) write_node(out, node, depth);
  const std::string indent(2 * depth, ' ');
  for (const std::size_t inner : scopes_[scope].inner) {
    out << indent << "subgraph cluster_" << inner << " {\n"
        << indent << "  label=" << in_dot_quotes(scopes_[inner].name) << ";\n";
    write_scope(out, inner, depth + 1);
    out << indent << "}\n";
  }
}

void Graph::write_node(std::ostream& out, std::size_t node, std::size_t depth) const {
  const GraphNode& it = nodes_[node];
  std::vector<std::string> lines = it.lines;
  if (!it.label.empty()) lines.insert(lines.begin(), it.label + " =");
  out << std::string(2 * depth, ' ') << "n" << node << " [shape=" << (it.is_input ? "oval" : "box")
      << ", label=" << in_dot_quotes_of(lines) << "];\n";
}

}  // namespace stave
