#include <stave/handlers/structure/coloring.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <random>

namespace stave_detail {

namespace {

using Order = std::vector<std::int32_t>;

// ---- linear colourings of grids -----------------------------------------------------------------

/// Looks for a colouring of the elements of a grid by a linear function of their position, as
/// (i + 2 j) mod 5 for element (i, j). The columns of a pattern are the grid's elements in
/// row-major order.
class LinearColoring {
 public:
  LinearColoring(const CsrPattern& pattern, const std::vector<std::int32_t>& rows, const Shape& grid)
      : pattern_(pattern), rows_(rows) {
    for (const Index length : grid)
      if (length > 1) lengths_.push_back(length);
    const auto widest = std::ranges::max_element(rows, {}, [&](std::int32_t r) { return row(r).size(); });
    if (widest != rows.end() && row(*widest).size() <= most_colors) add_sample(*widest);
  }

  /// Returns a colouring with `count` colours; none: there is none of this kind.
  std::optional<Coloring> find(std::int32_t count) {
    constexpr double most_tried = 1 << 15;
    if (count > static_cast<std::int32_t>(most_colors) || lengths_.empty() ||
        std::pow(count, lengths_.size()) > most_tried)
      return {};
    // The position of element (i_1, ..., i_d) is multiplied by factors in [0, count).
    std::vector<Index> factors(lengths_.size());
    do {
      if (!std::ranges::all_of(samples_, [&](const auto& sample) { return is_apart(sample, factors, count); }))
        continue;
      Coloring coloring = color(factors, count);
      const auto is_valid = [&](std::int32_t r) {
        return differ(row(r), [&](std::int32_t c) { return coloring.colors[static_cast<std::size_t>(c)]; });
      };
      const auto failed = std::ranges::find_if_not(rows_, is_valid);
      if (failed == rows_.end()) return coloring;
      add_sample(*failed);
    } while (next(factors, count));
    return {};
  }

 private:
  using Position = std::vector<Index>;
  static constexpr std::size_t most_colors = 64;  // each is a bit of a word

  std::span<const std::int32_t> row(std::int32_t r) const { return pattern_.row(static_cast<std::size_t>(r)); }
  void add_sample(std::int32_t r) {
    std::vector<Position>& sample = samples_.emplace_back();
    for (const std::int32_t column : row(r)) {
      Position& position = sample.emplace_back(lengths_.size());
      Index rest = column;
      for (std::size_t axis = lengths_.size(); axis-- > 0; rest /= lengths_[axis])
        position[axis] = rest % lengths_[axis];
    }
  }
  /// Returns true if these elements have different colours.
  template <class Elements, class ColorOf>
  static bool differ(const Elements& elements, const ColorOf& color_of) {
    std::uint64_t seen = 0;
    for (const auto& element : elements) {
      const std::uint64_t bit = std::uint64_t{1} << color_of(element);
      if (seen & bit) return false;
      seen |= bit;
    }
    return true;
  }
  static bool is_apart(const std::vector<Position>& sample, const std::vector<Index>& factors, Index count) {
    return differ(sample, [&](const Position& position) {
      return std::inner_product(position.begin(), position.end(), factors.begin(), Index{0}) % count;
    });
  }
  static bool next(std::vector<Index>& factors, Index count) {
    for (Index& factor : factors) {
      if (++factor < count) return true;
      factor = 0;
    }
    return false;
  }
  Coloring color(const std::vector<Index>& factors, std::int32_t count) const {
    Coloring coloring{count, {}};
    coloring.colors.reserve(static_cast<std::size_t>(pattern_.columns));
    Position position(lengths_.size());
    const auto last = lengths_.size() - 1;
    while (coloring.colors.size() < static_cast<std::size_t>(pattern_.columns)) {
      auto color = static_cast<std::int32_t>(
          std::inner_product(position.begin(), position.end() - 1, factors.begin(), Index{0}) % count);
      for (Index i = 0; i < lengths_[last]; ++i) {
        coloring.colors.push_back(color);
        color += static_cast<std::int32_t>(factors[last]);
        if (color >= count) color -= count;
      }
      for (std::size_t axis = last; axis-- > 0;) {
        if (++position[axis] < lengths_[axis]) break;
        position[axis] = 0;
      }
    }
    return coloring;
  }

  const CsrPattern& pattern_;
  const std::vector<std::int32_t>& rows_;
  std::vector<Index> lengths_;
  std::vector<std::vector<Position>> samples_;  // the elements of rows that rule out many factors
};

// ---- greedy colourings --------------------------------------------------------------------------

/// Returns the best of `best` and of the colourings of n vertices in three orders.
/// color(order, most) may stop as soon as it needs `most` colours. A colouring with `least` colours
/// cannot be improved.
Coloring best_of_orders(Coloring best, Index n, std::int32_t least,
                        const std::function<std::int64_t(std::int32_t)>& degree,
                        const std::function<Coloring(const Order&, std::int32_t)>& color) {
  Order order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const auto try_order = [&] {
    Coloring other = color(order, best.count);
    if (other.count < best.count) best = std::move(other);
    return best.count <= least;
  };
  if (best.count <= least || try_order()) return best;
  std::vector<std::int64_t> degrees;
  for (const std::int32_t v : order) degrees.push_back(degree(v));
  std::ranges::stable_sort(order, std::greater(), [&](std::int32_t v) { return degrees[static_cast<std::size_t>(v)]; });
  if (try_order()) return best;
  std::mt19937 engine(1);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[engine() % i]);
  try_order();
  return best;
}

constexpr std::int32_t no_limit = std::numeric_limits<std::int32_t>::max();

/// Gives each column, in this order, the smallest colour that no other column of its rows has. It
/// stops when `most` colours are needed. The rows of column c are those of row c of `rows_of`. The
/// colours that a row has are bits of a word, so 64 colours are given at a time, and columns that
/// none of them fits wait for the next 64.
Coloring color_greedily(const CsrPattern& rows_of, Order order, std::int32_t most) {
  Coloring coloring{0, std::vector<std::int32_t>(static_cast<std::size_t>(rows_of.rows))};
  std::vector<std::uint64_t> taken_in(static_cast<std::size_t>(rows_of.columns));
  Order waiting;
  for (std::int32_t first = 0; !order.empty(); first += 64) {
    std::ranges::fill(taken_in, 0);
    waiting.clear();
    for (const std::int32_t column : order) {
      const auto rows = rows_of.row(static_cast<std::size_t>(column));
      std::uint64_t taken = 0;
      for (const std::int32_t r : rows) taken |= taken_in[static_cast<std::size_t>(r)];
      const int color = std::countr_one(taken);
      if (color == 64) {
        waiting.push_back(column);
        continue;
      }
      for (const std::int32_t r : rows) taken_in[static_cast<std::size_t>(r)] |= std::uint64_t{1} << color;
      coloring.colors[static_cast<std::size_t>(column)] = first + color;
      coloring.count = std::max(coloring.count, first + color + 1);
      if (coloring.count >= most) return coloring;
    }
    order.swap(waiting);
  }
  return coloring;
}

/// Colours that one vertex may not have.
class Forbidden {
 public:
  void add(std::int32_t color, std::int32_t vertex) { last_forbidden_for_[static_cast<std::size_t>(color)] = vertex; }
  bool has(std::int32_t color, std::int32_t vertex) const {
    return last_forbidden_for_[static_cast<std::size_t>(color)] == vertex;
  }
  std::int32_t smallest_other(std::int32_t vertex) {
    const auto found = std::find_if(last_forbidden_for_.begin(), last_forbidden_for_.end(),
                                    [&](std::int32_t by) { return by != vertex; });
    const auto color = static_cast<std::int32_t>(found - last_forbidden_for_.begin());
    if (found == last_forbidden_for_.end()) last_forbidden_for_.push_back(-1);
    return color;
  }
  std::int32_t colors() const { return static_cast<std::int32_t>(last_forbidden_for_.size()); }

 private:
  // For each colour, the last vertex that may not have it, or -1.
  std::vector<std::int32_t> last_forbidden_for_;
};

/// The least number of colours of a star colouring that this sees: three if some edge joins two
/// vertices with further neighbours, since two colours would alternate on that path.
std::int32_t least_symmetric(const CsrPattern& pattern) {
  const auto neighbours = [&](std::int32_t v) {
    const auto row = pattern.row(static_cast<std::size_t>(v));
    return static_cast<std::int64_t>(row.size()) - std::ranges::binary_search(row, v);
  };
  std::int32_t least = 1;
  for (std::int32_t v = 0; v < pattern.rows; ++v) {
    const bool is_inner = neighbours(v) > 1;
    for (const std::int32_t w : pattern.row(static_cast<std::size_t>(v))) {
      if (w == v) continue;
      if (is_inner && neighbours(w) > 1) return 3;
      least = 2;
    }
  }
  return least;
}

}  // namespace

std::vector<std::int32_t> CsrPattern::column_counts() const {
  std::vector<std::int32_t> counts(static_cast<std::size_t>(columns));
  for (const std::int32_t column : indices) ++counts[static_cast<std::size_t>(column)];
  return counts;
}

CsrPattern CsrPattern::transposed(const std::vector<bool>& left_out) const {
  CsrPattern result{columns, rows, std::vector<std::int64_t>(static_cast<std::size_t>(columns) + 2), {}};
  const auto each_entry = [&](const auto& visit) {
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r)
      if (left_out.empty() || !left_out[r])
        for (const std::int32_t column : row(r)) visit(static_cast<std::int32_t>(r), static_cast<std::size_t>(column));
  };
  each_entry([&](std::int32_t, std::size_t column) { ++result.offsets[column + 2]; });
  std::partial_sum(result.offsets.begin(), result.offsets.end(), result.offsets.begin());
  result.indices.resize(static_cast<std::size_t>(result.offsets.back()));
  // offsets[c + 1] is the place of the next entry of row c, and in the end that of row c + 1.
  each_entry([&](std::int32_t r, std::size_t column) {
    result.indices[static_cast<std::size_t>(result.offsets[column + 1]++)] = r;
  });
  result.offsets.pop_back();
  return result;
}

CsrPattern CsrPattern::symmetric() const {
  const CsrPattern other = transposed();
  CsrPattern result{rows, columns, {0}, {}};
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
    const auto a = row(r), b = other.row(r);
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(result.indices));
    result.offsets.push_back(static_cast<std::int64_t>(result.indices.size()));
  }
  return result;
}

Coloring color_columns(const CsrPattern& pattern, const Shape& grid, const std::vector<bool>& left_out) {
  const auto n = static_cast<std::size_t>(pattern.columns);
  std::vector<std::int32_t> rows;  // those that count
  std::size_t widest = 0;
  for (std::size_t r = 0; r < static_cast<std::size_t>(pattern.rows); ++r) {
    if (!left_out.empty() && left_out[r]) continue;
    rows.push_back(static_cast<std::int32_t>(r));
    widest = std::max(widest, pattern.row(r).size());
  }
  if (widest == n) {  // a full row: each column has a colour of its own
    Coloring all{static_cast<std::int32_t>(n), std::vector<std::int32_t>(n)};
    std::iota(all.colors.begin(), all.colors.end(), 0);
    return all;
  }
  const auto least = std::max(std::int32_t{1}, static_cast<std::int32_t>(widest));
  LinearColoring linear(pattern, rows, grid);
  if (std::optional<Coloring> found = linear.find(least)) return std::move(*found);
  const CsrPattern rows_of = pattern.transposed(left_out);
  const auto degree = [&](std::int32_t c) {
    std::int64_t sum = 0;
    for (const std::int32_t r : rows_of.row(static_cast<std::size_t>(c)))
      sum += static_cast<std::int64_t>(pattern.row(static_cast<std::size_t>(r)).size());
    return sum;
  };
  Coloring best =
      best_of_orders({no_limit, {}}, pattern.columns, least, degree,
                     [&](const Order& order, std::int32_t most) { return color_greedily(rows_of, order, most); });
  for (std::int32_t count = least + 1; count < best.count; ++count)
    if (std::optional<Coloring> found = linear.find(count)) return std::move(*found);
  return best;
}

Coloring color_symmetric(const CsrPattern& pattern, const Shape& grid) {
  const auto n = static_cast<std::size_t>(pattern.columns);
  const auto degree = [&](std::int32_t v) {
    return static_cast<std::int64_t>(pattern.row(static_cast<std::size_t>(v)).size());
  };
  Order rows(n);
  std::iota(rows.begin(), rows.end(), 0);
  // A colouring in which columns of one colour have no row in common is valid, too.
  std::int64_t widest = 1;
  for (const std::int32_t v : rows) widest = std::max(widest, degree(v));
  Coloring apart =
      LinearColoring(pattern, rows, grid).find(static_cast<std::int32_t>(widest)).value_or(Coloring{no_limit, {}});
  const auto color = [&](const Order& order, std::int32_t most) {
    Coloring coloring{0, std::vector<std::int32_t>(n, -1)};
    const auto color_of = [&](std::int32_t v) { return coloring.colors[static_cast<std::size_t>(v)]; };
    const auto around = [&](std::int32_t v) { return pattern.row(static_cast<std::size_t>(v)); };
    Forbidden forbidden;
    // A path v - w - x - y must not alternate between two colours.
    for (const std::int32_t v : order) {
      for (const std::int32_t w : around(v)) {
        if (w == v) continue;
        if (color_of(w) >= 0) forbidden.add(color_of(w), v);
        for (const std::int32_t x : around(w)) {
          if (x == v || x == w || color_of(x) < 0) continue;
          if (color_of(w) < 0) forbidden.add(color_of(x), v);
          else if (!forbidden.has(color_of(x), v))
            for (const std::int32_t y : around(x))
              if (y != w && y != x && color_of(y) == color_of(w)) {
                forbidden.add(color_of(x), v);
                break;
              }
        }
      }
      coloring.colors[static_cast<std::size_t>(v)] = forbidden.smallest_other(v);
      if (forbidden.colors() >= most) break;
    }
    coloring.count = forbidden.colors();
    return coloring;
  };
  return best_of_orders(std::move(apart), pattern.columns, least_symmetric(pattern), degree, color);
}

}  // namespace stave_detail
