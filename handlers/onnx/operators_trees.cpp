// Ensembles of decision trees (domain ai.onnx.ml). All trees are walked at once: a step looks up
// the nodes at which examples stand, and moves each example to one of the two nodes below.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/search.h>
#include <stave/handlers/onnx/ml.h>
#include <stave/handlers/onnx/operators.h>

namespace stave_detail {

namespace {

// How an inner node compares a feature with its threshold; the numbers are those of TreeEnsemble.
enum class Branch : std::uint8_t { leq, less, geq, greater, equal, not_equal, member };
constexpr Branch all_but_member[] = {Branch::leq,     Branch::less,  Branch::geq,
                                     Branch::greater, Branch::equal, Branch::not_equal};

Tensor compared(Branch branch, const Tensor& x, const Tensor& threshold) {
  switch (branch) {
    case Branch::leq: return x <= threshold;
    case Branch::less: return x < threshold;
    case Branch::geq: return x >= threshold;
    case Branch::greater: return x > threshold;
    case Branch::equal: return x == threshold;
    default: return x != threshold;
  }
}

// The nodes of all trees. A leaf is its own successor.
struct Trees {
  std::vector<Index> roots, features, on_true, on_false;
  std::vector<double> thresholds;
  std::vector<Branch> branches;
  std::vector<bool> takes_nan;  // NaN goes the way of true

  Index size() const { return std::ssize(features); }
  Index add(Index feature, double threshold, Branch branch, Index yes, Index no, bool nan) {
    features.push_back(feature);
    thresholds.push_back(threshold);
    branches.push_back(branch);
    on_true.push_back(yes);
    on_false.push_back(no);
    takes_nan.push_back(nan);
    return size() - 1;
  }
  Index add_leaf() { return add(0, 0, Branch::leq, size(), size(), false); }

  // The number of steps from the roots to the deepest leaf.
  Index depth() const {
    const auto is_inside = [&](Index place) { return place >= 0 && place < size(); };
    std::set<Index> level(roots.begin(), roots.end());
    for (Index steps = 0; steps <= size(); ++steps) {
      std::set<Index> below;
      for (const Index place : level) {
        if (!is_inside(place)) fail<FileError>("a tree has no node {}", place);
        const auto at = static_cast<std::size_t>(place);
        if (on_true[at] == place && on_false[at] == place) continue;
        below.insert({on_true[at], on_false[at]});
      }
      if (below.empty()) return steps;
      level = std::move(below);
    }
    fail<FileError>("the nodes of a tree form a cycle");
  }

  // The leaves [batch, trees] to which the rows of x [batch, features] come.
  Tensor leaves(const Tensor& x) const {
    for (const Index feature : features)
      if (feature < 0 || feature >= x.shape(1)) fail<ShapeError>("a tree reads feature {} of {}", feature, x.shape(1));
    const Index steps = depth();
    const Tensor limits = astype(from(thresholds), x.dtype()), nan = from(takes_nan);
    std::vector<Index> numbers;
    for (const Branch branch : branches) numbers.push_back(static_cast<Index>(branch));
    const bool any_nan = std::find(takes_nan.begin(), takes_nan.end(), true) != takes_nan.end();
    Tensor at = broadcast_to(from(roots), {x.shape(0), std::ssize(roots)});
    for (Index step = 0; step < steps; ++step) {
      const Tensor value = take_along_axis(x, take(from(features), at), 1), limit = take(limits, at);
      Tensor holds;
      for (const Branch branch : all_but_member) {
        if (std::find(branches.begin(), branches.end(), branch) == branches.end()) continue;
        const Tensor found = compared(branch, value, limit);
        holds = holds.defined() ? where(take(from(numbers), at) == static_cast<Index>(branch), found, holds) : found;
      }
      if (any_nan) holds = holds || (isnan(value) && take(nan, at));
      at = where(holds, take(from(on_true), at), take(from(on_false), at));
    }
    return at;
  }
};

// Combines the values of leaves over trees. Entry i of `weights` is the value of the target
// targets[i] at the leaf leaves[i].
Tensor aggregated(const NodeCall& n, const Trees& trees, const Tensor& at, const Tensor& weights,
                  const std::vector<Index>& leaves, const std::vector<Index>& targets, Index count,
                  const std::string& how) {
  if (!weights.defined()) n.refuse("the leaves have no values");
  if (std::ssize(leaves) != weights.size() || std::ssize(targets) != weights.size() || count < 1)
    fail<ShapeError>("{} values are given for {} leaves and {} targets", weights.size(), leaves.size(), targets.size());
  for (const Index target : targets)
    if (target < 0 || target >= count) fail<ShapeError>("a leaf has a value for the target {} of {}", target, count);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double missing = how == "MIN" ? infinity : how == "MAX" ? -infinity : 0;
  const Tensor table = full({trees.size(), count}, missing, weights.dtype());
  const Tensor entries = stack({from(leaves), from(targets)}, -1);
  if (how == "SUM" || how == "AVERAGE") {
    const Tensor total = sum(take(scatter_add(table, entries, reshape(weights, -1)), at), 1);
    return how == "SUM" ? total : total / static_cast<double>(trees.roots.size());
  }
  if (how != "MIN" && how != "MAX") n.refuse("there is no aggregate_function '{}'", how);
  const Tensor values = take(scatter(table, entries, reshape(weights, -1)), at);
  const Tensor extreme = how == "MIN" ? (min)(values, 1) : (max)(values, 1);
  return where(isinf(extreme), zeros_like(extreme), extreme);
}

Branch branch_of(const NodeCall& n, const std::string& mode) {
  constexpr const char* names[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"};
  for (const Branch branch : all_but_member)
    if (mode == names[static_cast<std::size_t>(branch)]) return branch;
  n.refuse("there is no mode '{}' of nodes", mode);
}

std::vector<Index> list(const NodeCall& n, std::string_view name) {
  return n.integers(name).value_or(std::vector<Index>());
}

// The numbers of an attribute, or of a tensor NAME_as_tensor.
std::vector<double> numbers(const NodeCall& n, const std::string& name) {
  return n.numbers(n.has(name + "_as_tensor") ? name + "_as_tensor" : name);
}

// Returns for each of `count` nodes whether a missing value counts as true: none without the
// attribute.
std::vector<Index> tracks_of_missing(const NodeCall& n, std::size_t count) {
  auto tracks = list(n, "nodes_missing_value_tracks_true");
  if (tracks.empty()) tracks.resize(count, 0);
  return tracks;
}

void require_sizes(std::size_t wanted, std::initializer_list<std::pair<const char*, std::size_t>> sizes) {
  for (const auto& [name, found] : sizes)
    if (found != wanted) fail<ShapeError>("the attribute '{}' has {} entries for {}", name, found, wanted);
}

// The trees of TreeEnsembleRegressor and TreeEnsembleClassifier, whose nodes are named by a tree
// and a number.
struct NumberedTrees {
  Trees trees;
  std::map<std::pair<Index, Index>, Index> places;

  explicit NumberedTrees(const NodeCall& n) {
    const auto tree = list(n, "nodes_treeids"), number = list(n, "nodes_nodeids"),
               feature = list(n, "nodes_featureids"), yes = list(n, "nodes_truenodeids"),
               no = list(n, "nodes_falsenodeids");
    const auto nan = tracks_of_missing(n, tree.size());
    const auto modes = n.texts("nodes_modes");
    const auto values = numbers(n, "nodes_values");
    require_sizes(tree.size(), {{"nodes_nodeids", number.size()},
                                {"nodes_featureids", feature.size()},
                                {"nodes_truenodeids", yes.size()},
                                {"nodes_falsenodeids", no.size()},
                                {"nodes_missing_value_tracks_true", nan.size()},
                                {"nodes_modes", modes.size()},
                                {"nodes_values", values.size()}});
    for (std::size_t i = 0; i < tree.size(); ++i) places.emplace(std::pair(tree[i], number[i]), static_cast<Index>(i));
    std::set<Index> below;
    for (std::size_t i = 0; i < tree.size(); ++i) {
      if (modes[i] == "LEAF") {
        trees.add_leaf();
        continue;
      }
      const Index on_true = place(tree[i], yes[i]), on_false = place(tree[i], no[i]);
      trees.add(feature[i], values[i], branch_of(n, modes[i]), on_true, on_false, nan[i] != 0);
      below.insert({on_true, on_false});
    }
    for (Index i = 0; i < trees.size(); ++i)
      if (!below.contains(i)) trees.roots.push_back(i);
  }

  Index place(Index tree, Index number) const {
    const auto found = places.find({tree, number});
    if (found == places.end()) fail<FileError>("the tree {} has no node {}", tree, number);
    return found->second;
  }
};

// The rows of the input in the type in which features and thresholds are compared.
Tensor rows_of(const NodeCall& n) {
  const Tensor& x = n(0);
  if (x.rank() != 2) fail<ShapeError>("examples should be the rows of a matrix, not {}", x.shape());
  return x.dtype() == float64 ? x : astype(x, float32);
}

// The values of all targets [batch, targets]; `kind` begins the names of attributes.
Tensor values_of(const NodeCall& n, const std::string& kind, Index count) {
  const NumberedTrees all(n);
  const auto tree = list(n, kind + "_treeids"), number = list(n, kind + "_nodeids");
  if (number.size() != tree.size()) fail<ShapeError>("{} leaves are in {} trees", number.size(), tree.size());
  std::vector<Index> leaves;
  for (std::size_t i = 0; i < tree.size(); ++i) leaves.push_back(all.place(tree[i], number[i]));
  return aggregated(n, all.trees, all.trees.leaves(rows_of(n)), n.parameter(kind + "_weights"), leaves,
                    list(n, kind + "_ids"), count, n.text("aggregate_function", "SUM"));
}

Tensor tree_regressor(const NodeCall& n) {
  Tensor y = values_of(n, "target", n.integer("n_targets", 1));
  if (const Tensor base = n.parameter("base_values"); base.defined()) y = y + base;
  return astype(onnx_post_transform(n, y, n.text("post_transform", "NONE")), float32);
}

// The class is the one of the largest score. With two classes of which only the first one has
// values, these are the scores of the second one: its share if no value is negative, or a number
// whose sign decides.
OnnxValues tree_classifier(const NodeCall& n) {
  const auto count =
      static_cast<Index>(std::max(list(n, "classlabels_int64s").size(), n.texts("classlabels_strings").size()));
  const std::string how = n.text("post_transform", "NONE");
  const auto ids = list(n, "class_ids");
  const Tensor base = n.parameter("base_values");
  Tensor scores = values_of(n, "class", count);
  const bool one_score = count == 2 && std::all_of(ids.begin(), ids.end(), [](Index id) { return id == 0; });
  if (!one_score) {
    if (base.defined()) scores = scores + base;
    return results({onnx_labels(n, "classlabels_int64s", argmax(scores, 1)),
                    astype(onnx_post_transform(n, scores, how), float32)});
  }
  Tensor score = scores(ellipsis, 0);
  if (base.defined() && base.size() != 1) n.refuse("there are {} base_values for one score", base.size());
  if (base.defined()) score = score + base[0];
  const auto weights = numbers(n, "class_weights");
  const bool is_share = std::all_of(weights.begin(), weights.end(), [](double w) { return w >= 0; });
  return results({onnx_labels(n, "classlabels_int64s", score > (is_share ? 0.5 : 0.)),
                  astype(onnx_two_scores(score, how, is_share), float32)});
}

// The newest form: nodes and leaves are numbered apart. A node that asks for one of several values
// becomes a chain of nodes that ask for one each.
Tensor tree_ensemble(const NodeCall& n) {
  const auto feature = list(n, "nodes_featureids"), yes = list(n, "nodes_truenodeids"),
             no = list(n, "nodes_falsenodeids"), yes_leaf = list(n, "nodes_trueleafs"),
             no_leaf = list(n, "nodes_falseleafs"), target = list(n, "leaf_targetids");
  const auto nan = tracks_of_missing(n, feature.size());
  const auto splits = n.numbers("nodes_splits"), members = n.numbers("membership_values");
  const auto modes = list(n, "nodes_modes");
  require_sizes(feature.size(), {{"nodes_splits", splits.size()},
                                 {"nodes_modes", modes.size()},
                                 {"nodes_truenodeids", yes.size()},
                                 {"nodes_falsenodeids", no.size()},
                                 {"nodes_trueleafs", yes_leaf.size()},
                                 {"nodes_falseleafs", no_leaf.size()},
                                 {"nodes_missing_value_tracks_true", nan.size()}});
  const auto nodes = static_cast<Index>(feature.size());
  std::vector<Index> leaves;
  const auto place = [&](Index number, Index is_leaf) { return is_leaf != 0 ? nodes + number : number; };
  Trees trees;
  trees.roots = list(n, "tree_roots");
  for (std::size_t i = 0; i < feature.size(); ++i) {
    if (modes[i] < 0 || modes[i] > 6) n.refuse("there is no mode {} of nodes", modes[i]);
    trees.add(feature[i], splits[i], static_cast<Branch>(modes[i]), place(yes[i], yes_leaf[i]),
              place(no[i], no_leaf[i]), nan[i] != 0);
  }
  for (std::size_t i = 0; i < target.size(); ++i) leaves.push_back(trees.add_leaf());
  auto next = members.begin();
  for (std::size_t i = 0; i < feature.size(); ++i) {
    if (trees.branches[i] != Branch::member) continue;
    trees.branches[i] = Branch::equal;
    const auto end = std::find_if(next, members.end(), [](double x) { return std::isnan(x); });
    trees.thresholds[i] = next == end ? std::numeric_limits<double>::quiet_NaN() : *next;
    for (std::size_t last = i; end - next > 1; last = static_cast<std::size_t>(trees.size() - 1)) {
      ++next;
      trees.on_false[last] =
          trees.add(feature[i], *next, Branch::equal, trees.on_true[i], trees.on_false[last], nan[i] != 0);
    }
    next = end == members.end() ? end : end + 1;
  }
  constexpr const char* aggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  constexpr const char* transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const Index aggregate = n.integer("aggregate_function", 1), transform = n.integer("post_transform", 0);
  if (aggregate < 0 || aggregate > 3) n.refuse("there is no aggregate_function {}", aggregate);
  if (transform < 0 || transform > 4) n.refuse("there is no post_transform {}", transform);
  const Tensor y = aggregated(n, trees, trees.leaves(rows_of(n)), n.parameter("leaf_weights"), leaves, target,
                              n.integer("n_targets"), aggregates[aggregate]);
  return astype(onnx_post_transform(n, y, transforms[transform]), n(0).dtype());
}

constexpr OnnxOperator trees_rows[] = {
    {"TreeEnsemble", 5, tree_ensemble},
    {"TreeEnsembleClassifier", 1, tree_classifier},
    {"TreeEnsembleRegressor", 1, tree_regressor},
};

}  // namespace

std::span<const OnnxOperator> onnx_trees() { return trees_rows; }

}  // namespace stave_detail
