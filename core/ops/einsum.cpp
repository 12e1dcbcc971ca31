// einsum: sums of products whose axes are named by labels.
//
// First each operand is reduced to one that has every label once, and only the labels
// that the output or another operand needs. A label that occurs twice in the operand selects
// a diagonal, and a label that occurs nowhere else is summed.
//
// Then two operands at a time are contracted into one, by matmul if a label is summed, else
// by multiplication. The order with the fewest multiplications is found by dynamic programming over
// sets of operands (Pfeifer, Haegeman, Verstraete, "Faster identification of optimal contraction
// sequences for tensor networks", 2014, section II). With many operands, the pair is contracted
// first whose product adds least to the total number of elements, or removes most from it.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <tuple>

#include <stave/core/ops/contract.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using stave_detail::fail;

namespace {

// The label of an axis: a letter, or for an axis of an ellipsis -1, -2, ..., its position from the
// end of the ellipsis.
using Label = int;
using Labels = std::vector<Label>;

bool contains(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// ---- the subscripts -------------------------------------------------------------------------

// One operand or the output in the subscripts: the text between two commas, or after the arrow.
struct Term {
  // The letters before and after the ellipsis; without an ellipsis all are before.
  Labels before, after;
  bool ellipsis = false;

  std::size_t letters() const { return before.size() + after.size(); }
  // Returns all labels, for an ellipsis of `axes` axes.
  Labels labels(std::size_t axes) const {
    Labels result = before;
    for (std::size_t i = axes; i > 0; --i) result.push_back(-static_cast<Label>(i));
    result.insert(result.end(), after.begin(), after.end());
    return result;
  }
};

struct Subscripts {
  std::string text;  // for error messages
  std::vector<Term> operands;
  Term output;
  bool has_output = false;
};

Term parsed_term(std::string_view term, const std::string& text) {
  Term result;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (term[i] == ' ') continue;
    if (is_letter(term[i])) {
      (result.ellipsis ? result.after : result.before).push_back(term[i]);
    } else if (term.substr(i, 3) == "...") {
      if (result.ellipsis) fail<ShapeError>("einsum: \"{}\" has two ellipses in \"{}\"", text, term);
      result.ellipsis = true;
      i += 2;
    } else {
      fail<ShapeError>("einsum: '{}' in \"{}\" is not a label: write letters, \"...\", \",\" and one \"->\"", term[i],
                       text);
    }
  }
  return result;
}

Subscripts parsed(std::string_view text) {
  Subscripts result;
  result.text = text;
  const std::size_t arrow = text.find("->");
  std::string_view inputs = text.substr(0, arrow);
  for (;;) {
    const std::size_t comma = inputs.find(',');
    result.operands.push_back(parsed_term(inputs.substr(0, comma), result.text));
    if (comma == std::string_view::npos) break;
    inputs.remove_prefix(comma + 1);
  }
  result.has_output = arrow != std::string_view::npos;
  if (result.has_output) result.output = parsed_term(text.substr(arrow + 2), result.text);
  return result;
}

// Returns the labels of each operand's axes. Throws if an operand's rank does not fit its term in
// the subscripts.
std::vector<Labels> labels_of(const Subscripts& subscripts, const std::vector<Tensor>& operands) {
  if (subscripts.operands.size() != operands.size())
    fail<ShapeError>("einsum: \"{}\" names {} operands, but there are {}", subscripts.text, subscripts.operands.size(),
                     operands.size());
  std::vector<Labels> result;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Term& term = subscripts.operands[i];
    const Shape& shape = operands[i].shape();
    if (shape.size() < term.letters() || (!term.ellipsis && shape.size() > term.letters()))
      fail<ShapeError>("einsum: operand {} of shape {} has {} axes, but \"{}\" names {}{} of it", i, shape,
                       shape.size(), subscripts.text, term.ellipsis ? "at least " : "", term.letters());
    result.push_back(term.labels(shape.size() - term.letters()));
  }
  return result;
}

// Returns the labels of the output if the subscripts have no arrow: the axes of the ellipsis, then
// the letters that occur once, in alphabetical order.
Labels implicit_output(const std::vector<Labels>& inputs, std::size_t ellipsis_axes) {
  Labels all, once;
  for (const Labels& labels : inputs) all.insert(all.end(), labels.begin(), labels.end());
  std::sort(all.begin(), all.end());
  for (Label label : all)
    if (label > 0 && std::count(all.begin(), all.end(), label) == 1) once.push_back(label);
  return Term{.before = {}, .after = once, .ellipsis = true}.labels(ellipsis_axes);
}

Labels output_labels(const Subscripts& subscripts, const std::vector<Labels>& inputs) {
  std::size_t ellipsis_axes = 0;
  Labels all;
  for (const Labels& labels : inputs) {
    all.insert(all.end(), labels.begin(), labels.end());
    const auto axes = std::count_if(labels.begin(), labels.end(), [](Label label) { return label < 0; });
    ellipsis_axes = std::max(ellipsis_axes, static_cast<std::size_t>(axes));
  }
  if (!subscripts.has_output) return implicit_output(inputs, ellipsis_axes);
  const Labels result = subscripts.output.labels(subscripts.output.ellipsis ? ellipsis_axes : 0);
  for (Label label : result) {
    if (std::count(result.begin(), result.end(), label) > 1)
      fail<ShapeError>("einsum: label {} occurs twice in the output of \"{}\"", static_cast<char>(label),
                       subscripts.text);
    if (!contains(all, label))
      fail<ShapeError>("einsum: label {} of the output occurs in no operand of \"{}\"", static_cast<char>(label),
                       subscripts.text);
  }
  return result;
}

// ---- the sum --------------------------------------------------------------------------------

// An operand, or the product of several, with a label for each axis.
struct Factor {
  Tensor value;
  Labels labels;

  Index length(Label label) const {
    return value.shape()[static_cast<std::size_t>(std::find(labels.begin(), labels.end(), label) - labels.begin())];
  }
  // Returns the value with its axes in the order of `order`, a permutation of `labels`.
  Tensor ordered(const Labels& order) const {
    Shape axes;
    for (Label label : order) axes.push_back(std::find(labels.begin(), labels.end(), label) - labels.begin());
    return permute_dims(value, axes);
  }
};

std::string described(Label label) {
  return label > 0 ? fmt::format("label {}", static_cast<char>(label)) : fmt::format("axis {} of the ellipsis", label);
}

// Throws if a label has two lengths. As in NumPy, length 1 matches every other length,
// but not within one operand.
void check_lengths(const std::vector<Factor>& factors, const std::string& text) {
  for (std::size_t i = 0; i < factors.size(); ++i)
    for (std::size_t axis = 0; axis < factors[i].labels.size(); ++axis)
      for (std::size_t j = 0; j <= i; ++j) {
        const Label label = factors[i].labels[axis];
        if (!contains(factors[j].labels, label)) continue;
        const Index first = factors[j].length(label), here = factors[i].value.shape()[axis];
        if (first != here && (i == j || (first != 1 && here != 1)))
          fail<ShapeError>(
              "einsum: {} has length {} in operand {} of shape {}, but {} in operand {} of shape {} (\"{}\")",
              described(label), first, j, factors[j].value.shape(), here, i, factors[i].value.shape(), text);
      }
}

// Returns the factor without axes of length 1 whose label has another length in another factor.
// Such an axis broadcasts, so the product does not need it.
Factor without_repeating_axes(const Factor& factor, const std::vector<Factor>& all) {
  Factor result{factor.value, {}};
  Shape dropped;
  for (std::size_t axis = 0; axis < factor.labels.size(); ++axis) {
    const Label label = factor.labels[axis];
    const bool repeats =
        factor.value.shape()[axis] == 1 && std::any_of(all.begin(), all.end(), [&](const Factor& other) {
          return contains(other.labels, label) && other.length(label) != 1;
        });
    if (repeats) dropped.push_back(static_cast<Index>(axis));
    else result.labels.push_back(label);
  }
  if (!dropped.empty()) result.value = squeeze(factor.value, dropped);
  return result;
}

// Replaces a factor that has a label twice by its diagonal, so that every label occurs once.
void take_diagonals(Factor& factor) {
  for (std::size_t i = 0; i < factor.labels.size();) {
    const Label label = factor.labels[i];
    const auto again =
        std::find(factor.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1, factor.labels.end(), label);
    if (again == factor.labels.end()) {
      ++i;
      continue;
    }
    factor.value = diagonal(factor.value, 0, static_cast<Index>(i), again - factor.labels.begin());
    factor.labels.erase(again);
    factor.labels.erase(factor.labels.begin() + static_cast<std::ptrdiff_t>(i));
    factor.labels.push_back(label);
  }
}

// Sums over the labels that are not in `needed`.
void sum_alone(Factor& factor, const Labels& needed) {
  Shape axes;
  Labels kept;
  for (std::size_t axis = 0; axis < factor.labels.size(); ++axis) {
    if (contains(needed, factor.labels[axis])) kept.push_back(factor.labels[axis]);
    else axes.push_back(static_cast<Index>(axis));
  }
  if (axes.empty()) return;
  factor.value = astype(sum(factor.value, axes), factor.value.dtype());
  factor.labels = kept;
}

// Returns the labels of the output and of all factors except i and j.
Labels needed_beside(const std::vector<Factor>& factors, std::size_t i, std::size_t j, const Labels& output) {
  Labels needed = output;
  for (std::size_t k = 0; k < factors.size(); ++k)
    if (k != i && k != j) needed.insert(needed.end(), factors[k].labels.begin(), factors[k].labels.end());
  return needed;
}

// The roles of the labels of two factors in their product.
struct Roles {
  // `shared` are in both factors and in the result, `left` only in the first factor, and `right`
  // only in the second one.
  Labels shared, left, right;
  Labels summed;  // in both factors, but not in the result
  Roles(const Factor& a, const Factor& b, const Labels& needed) {
    for (Label label : a.labels)
      (!contains(b.labels, label) ? left : contains(needed, label) ? shared : summed).push_back(label);
    for (Label label : b.labels)
      if (!contains(a.labels, label)) right.push_back(label);
  }
};

Labels join_labels(Labels first, const Labels& second, const Labels& third) {
  first.insert(first.end(), second.begin(), second.end());
  first.insert(first.end(), third.begin(), third.end());
  return first;
}

Shape lengths_of(const Factor& factor, const Labels& labels) {
  Shape lengths;
  for (Label label : labels) lengths.push_back(factor.length(label));
  return lengths;
}

Factor product(const Factor& a, const Factor& b, const Roles& roles) {
  const auto& [shared, left, right, summed] = roles;
  const Shape batch = lengths_of(a, shared), rows = lengths_of(a, left), columns = lengths_of(b, right);
  const Tensor x = a.ordered(join_labels(shared, left, summed)), y = b.ordered(join_labels(shared, summed, right));
  const Labels labels = join_labels(shared, left, right);
  if (summed.empty()) {
    const Shape no_columns(std::vector<Index>(right.size(), 1)), no_rows(std::vector<Index>(left.size(), 1));
    return {reshape(x, stave_detail::joined({batch, rows, no_columns})) *
                reshape(y, stave_detail::joined({batch, no_rows, columns})),
            labels};
  }
  const Index m = rows.elements(), k = lengths_of(a, summed).elements(), n = columns.elements();
  const Tensor sums = matmul(reshape(x, stave_detail::joined({batch, Shape{m, k}})),
                             reshape(y, stave_detail::joined({batch, Shape{k, n}})));
  return {reshape(sums, stave_detail::joined({batch, rows, columns})), labels};
}

// Returns by how many elements the product is larger than the two factors.
double growth(const Factor& a, const Factor& b, const Roles& roles) {
  // Not an Index: the product of a rejected pair may have more elements than Index holds.
  double size = 1;
  for (Label label : roles.shared) size *= static_cast<double>(a.length(label));
  for (Label label : roles.left) size *= static_cast<double>(a.length(label));
  for (Label label : roles.right) size *= static_cast<double>(b.length(label));
  return size - static_cast<double>(a.value.size()) - static_cast<double>(b.value.size());
}

void contract_best_pair(std::vector<Factor>& factors, const Labels& output) {
  std::size_t first = 0, second = 1;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < factors.size(); ++i)
    for (std::size_t j = i + 1; j < factors.size(); ++j) {
      const double cost =
          growth(factors[i], factors[j], {factors[i], factors[j], needed_beside(factors, i, j, output)});
      if (cost < least) std::tie(least, first, second) = std::tuple(cost, i, j);
    }
  const Roles roles(factors[first], factors[second], needed_beside(factors, first, second, output));
  factors[first] = product(factors[first], factors[second], roles);
  factors.erase(factors.begin() + static_cast<std::ptrdiff_t>(second));
}

// The cheapest order of contracting a few factors. Sets of factors and sets of labels are bit
// masks.
class CheapestOrder {
 public:
  static constexpr std::size_t most_factors = 8, most_labels = 64;

  CheapestOrder(const std::vector<Factor>& factors, const Labels& output)
      : factors_(factors), plans_(std::size_t{1} << factors.size()) {
    for (const Factor& factor : factors)
      for (Label label : factor.labels)
        if (!contains(names_, label)) {
          names_.push_back(label);
          lengths_.push_back(static_cast<double>(factor.length(label)));
        }
    possible_ = names_.size() <= most_labels;
    if (!possible_) return;
    const Set all = plans_.size() - 1;
    for (Set set = all; set > 0; --set)
      plans_[set].labels = labels_in(set) & (labels_of(output) | labels_in(all & ~set));
    for (Set set = 1; set <= all; ++set) plan(set);
  }
  bool possible() const { return possible_; }
  Factor contracted() const { return contracted(plans_.size() - 1); }

 private:
  using Set = std::size_t;
  struct Plan {
    std::uint64_t labels = 0;  // the labels that the output or a factor outside the set needs
    double multiplications = 0;
    // The set's product is the product of the factors in `left` times the product of its other
    // factors.
    Set left = 0;
  };

  std::uint64_t labels_of(const Labels& labels) const {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (contains(labels, names_[i])) bits |= std::uint64_t{1} << i;
    return bits;
  }
  std::uint64_t labels_in(Set set) const {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < factors_.size(); ++i)
      if (set >> i & 1) bits |= labels_of(factors_[i].labels);
    return bits;
  }
  double elements(std::uint64_t labels) const {
    double product = 1;
    for (; labels != 0; labels &= labels - 1) product *= lengths_[static_cast<std::size_t>(std::countr_zero(labels))];
    return product;
  }
  // Finds the cheapest plan of a set. Its subsets are smaller numbers, so they have plans already.
  // The set's lowest factor is always in `left`, so each pair of subsets is tried once.
  void plan(Set set) {
    const Set lowest = set & (~set + 1), others = set ^ lowest;
    if (others == 0) return;
    Plan& best = plans_[set];
    best.multiplications = std::numeric_limits<double>::infinity();
    for (Set more = (others - 1) & others;; more = (more - 1) & others) {
      const Plan &left = plans_[lowest | more], &right = plans_[others ^ more];
      const double cost = left.multiplications + right.multiplications + elements(left.labels | right.labels);
      if (cost < best.multiplications || best.left == 0) {
        best.multiplications = cost;
        best.left = lowest | more;
      }
      if (more == 0) break;
    }
  }
  Factor contracted(Set set) const {
    const Plan& plan = plans_[set];
    if (plan.left == 0) return factors_[static_cast<std::size_t>(std::countr_zero(set))];
    const Factor left = contracted(plan.left), right = contracted(set ^ plan.left);
    Labels needed;
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (plan.labels >> i & 1) needed.push_back(names_[i]);
    return product(left, right, {left, right, needed});
  }

  const std::vector<Factor>& factors_;
  std::vector<Plan> plans_;
  Labels names_;
  std::vector<double> lengths_;
  bool possible_ = true;
};

// Returns the product of all factors, with the labels that the output needs.
Factor contracted(std::vector<Factor> factors, const Labels& output) {
  if (factors.size() > 2 && factors.size() <= CheapestOrder::most_factors)
    if (const CheapestOrder order(factors, output); order.possible()) return order.contracted();
  while (factors.size() > 1) contract_best_pair(factors, output);
  return factors[0];
}

}  // namespace

Tensor einsum(std::string_view subscripts, const std::vector<Tensor>& operands) {
  const Subscripts terms = parsed(subscripts);
  stave_detail::check_defined(operands, "einsum");
  const std::vector<Labels> labels = labels_of(terms, operands);
  const Labels output = output_labels(terms, labels);
  return stave_detail::named("einsum", [&] {
    Dtype dtype = operands[0].dtype();
    for (const Tensor& operand : operands) dtype = promote(dtype, operand.dtype());
    dtype = stave_detail::multiplied_in(dtype);

    std::vector<Factor> all, factors;
    for (std::size_t i = 0; i < operands.size(); ++i) all.push_back({astype(operands[i], dtype), labels[i]});
    check_lengths(all, terms.text);
    for (const Factor& factor : all) factors.push_back(without_repeating_axes(factor, all));
    for (Factor& factor : factors) take_diagonals(factor);
    for (std::size_t i = 0; i < factors.size(); ++i) sum_alone(factors[i], needed_beside(factors, i, i, output));
    return contracted(std::move(factors), output).ordered(output);
  });
}

}  // namespace stave
