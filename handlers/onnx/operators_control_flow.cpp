// If, Loop and Scan: graphs that run once, several times or not at all.
#include <algorithm>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/handlers/onnx/operators.h>
#include <stave/handlers/transforms/loop.h>

namespace stave_detail {

namespace {

OnnxValues branch(const NodeCall& n) { return n.run(n.integer(0) != 0 ? "then_branch" : "else_branch", {}); }

// Returns true if the first result of a loop's body, the condition, is the one that the body got,
// or true.
bool runs_all_steps(const OnnxGraphPlan& body) {
  if (body.outputs.empty() || body.inputs.size() < 2 || body.outputs[0].depth > 0) return false;
  int place = body.outputs[0].place;
  for (auto node = body.nodes.rbegin(); node != body.nodes.rend(); ++node) {
    if (node->outputs.empty() || node->outputs[0] != place || !node->op) continue;
    const std::string_view name = node->op->name;
    if (name == "Constant" && node->tensors.contains("value")) {
      const Tensor& value = node->tensors.find("value")->second;
      return value.dtype() == bool_ && value.size() == 1 && value.item<bool>();
    }
    if (name != "Identity" || node->inputs.size() != 1 || node->inputs[0].depth > 0) return false;
    place = node->inputs[0].place;
  }
  for (const auto& [constant, value] : body.constants)
    if (constant == place)
      return value.tensor.dtype() == bool_ && value.tensor.size() == 1 && value.tensor.item<bool>();
  return place == body.inputs[1];
}

Tensor known_bool(bool value) { return tensor(value, bool_); }

class LoopNode {
 public:
  explicit LoopNode(const NodeCall& n) : n_(n), body_(n.graph("body")) {
    carried_ = n.size() > 2 ? n.size() - 2 : 0;
    if (body_.inputs.size() != carried_ + 2 || body_.outputs.size() < carried_ + 1)
      fail<FileError>("the body of a loop with {} values takes {} and returns {}", carried_, body_.inputs.size(),
                      body_.outputs.size());
  }

  OnnxValues run() const {
    const bool begins = !n_.has(1) || n_.integer(1) != 0;
    OnnxValues values = initial();
    const bool are_tensors =
        std::all_of(values.begin(), values.end(), [](const OnnxValue& x) { return x.tensor.defined(); });
    if (n_.has(0) && begins && are_tensors && runs_all_steps(body_) && is_loop_recorded())
      return as_scan(std::max<Index>(n_.integer(0), 0), values);
    return as_loop(begins, std::move(values));
  }

 private:
  OnnxValues initial() const {
    const auto first = static_cast<std::ptrdiff_t>(std::min<std::size_t>(2, n_.size()));
    return OnnxValues(n_.values().begin() + first, n_.values().end());
  }
  OnnxValues step(const OnnxValue& i, const OnnxValue& condition, const OnnxValues& values) const {
    OnnxValues inputs{i, condition};
    inputs.insert(inputs.end(), values.begin(), values.end());
    return n_.run("body", std::move(inputs));
  }

  // The steps one by one, with a counter that is known in each.
  OnnxValues as_loop(bool goes_on, OnnxValues values) const {
    std::vector<std::vector<Tensor>> rows(body_.outputs.size() - 1 - carried_);
    const bool limited = n_.has(0);
    const Index most = limited ? n_.integer(0) : 0;
    OnnxValue condition(known_bool(goes_on), true);
    const auto counter = [](Index i) { return OnnxValue(tensor(i, int64), true); };
    for (Index i = 0; goes_on && (!limited || i < most); ++i) {
      OnnxValues found = step(counter(i), condition, values);
      condition = found[0];
      std::move(found.begin() + 1, found.begin() + 1 + static_cast<std::ptrdiff_t>(carried_), values.begin());
      for (std::size_t r = 0; r < rows.size(); ++r) rows[r].push_back(found[1 + carried_ + r].tensor);
      goes_on = is_true(condition);
    }
    for (std::vector<Tensor>& row : rows) {
      if (!row.empty()) {
        values.emplace_back(stack(row));
        continue;
      }
      // Without a step, a step shows the shape of the rows that there are none of.
      const OnnxValues found = step(counter(0), condition, initial());
      const Tensor& one = found[1 + carried_ + static_cast<std::size_t>(&row - rows.data())].tensor;
      Shape shape{0};
      for (const Index length : one.shape()) shape.push_back(length);
      values.emplace_back(zeros(shape, one.dtype()));
    }
    return values;
  }

  static bool is_true(const OnnxValue& condition) {
    if (!condition.known) return bool(condition.tensor);
    const UnderFrame below_all_handlers(nullptr);
    return bool(condition.tensor);
  }

  // The steps as an operation that a recorder takes as a whole.
  OnnxValues as_scan(Index steps, const OnnxValues& values) const {
    std::vector<Tensor> carry;
    for (const OnnxValue& x : values) carry.push_back(x.tensor);
    const auto one = [this](const std::vector<Tensor>& before, const Tensor& i) {
      const OnnxValues found = step(i, OnnxValue(known_bool(true), true), {before.begin(), before.end()});
      std::vector<Tensor> after, row;
      for (std::size_t k = 1; k < found.size(); ++k) (k <= carried_ ? after : row).push_back(found[k].tensor);
      return std::pair(after, row);
    };
    const auto [last, rows] = scan(one)(carry, arange(0, steps, 1, int64));
    OnnxValues all(last.begin(), last.end());
    all.insert(all.end(), rows.begin(), rows.end());
    return all;
  }

  const NodeCall& n_;
  const OnnxGraphPlan& body_;
  std::size_t carried_;
};

OnnxValues loop_node(const NodeCall& n) { return LoopNode(n).run(); }

// An attribute that has a number for each of the rows.
std::vector<Index> per_row(const NodeCall& n, std::string_view name, std::size_t rows) {
  std::vector<Index> all = n.integers(name).value_or(std::vector<Index>());
  if (all.size() > rows) fail<FileError>("'{}' has {} numbers for {}", name, all.size(), rows);
  all.resize(rows, 0);
  return all;
}

OnnxValues scan_node(const NodeCall& n) {
  const Index scanned = n.integer("num_scan_inputs");
  if (scanned < 1 || scanned > static_cast<Index>(n.size()))
    fail<FileError>("{} of {} inputs should be scanned", scanned, n.size());
  const auto rows = static_cast<std::size_t>(scanned);
  const std::size_t states = n.size() - rows;
  const OnnxGraphPlan& body = n.graph("body");
  if (body.inputs.size() != n.size() || body.outputs.size() < states)
    fail<FileError>("the body of a scan of {} values takes {} and returns {}", n.size(), body.inputs.size(),
                    body.outputs.size());
  const std::vector<Index> axes = per_row(n, "scan_input_axes", rows), back = per_row(n, "scan_input_directions", rows);
  std::vector<Tensor> carry, xs;
  for (std::size_t i = 0; i < n.size(); ++i) {
    if (i < states) {
      carry.push_back(n(i));
      continue;
    }
    const Tensor x = moveaxis(n(i), axes[i - states], 0);
    xs.push_back(back[i - states] != 0 ? flip(x, 0) : x);
  }
  const auto one = [&n, states](const std::vector<Tensor>& before, const std::vector<Tensor>& row) {
    OnnxValues inputs(before.begin(), before.end());
    inputs.insert(inputs.end(), row.begin(), row.end());
    const OnnxValues found = n.run("body", std::move(inputs));
    std::vector<Tensor> after, results;
    for (std::size_t k = 0; k < found.size(); ++k) (k < states ? after : results).push_back(found[k].tensor);
    return std::pair(after, results);
  };
  const auto [last, ys] = scan(one)(carry, xs);
  OnnxValues all(last.begin(), last.end());
  const std::vector<Index> out_axes = per_row(n, "scan_output_axes", ys.size()),
                           out_back = per_row(n, "scan_output_directions", ys.size());
  for (std::size_t i = 0; i < ys.size(); ++i)
    all.emplace_back(moveaxis(out_back[i] != 0 ? flip(ys[i], 0) : ys[i], 0, out_axes[i]));
  return all;
}

constexpr OnnxOperator control_flow_rows[] = {
    {"If", 1, branch, OnnxOperator::Known::never},
    {"Loop", 1, loop_node, OnnxOperator::Known::never},
    {"Scan", 9, scan_node, OnnxOperator::Known::never},
};

}  // namespace

std::span<const OnnxOperator> onnx_control_flow() { return control_flow_rows; }

}  // namespace stave_detail
