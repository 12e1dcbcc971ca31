#include <stave/handlers/structure/coloring.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

namespace stave_detail {

namespace {

using Order = std::vector<std::int32_t>;

/// Colours that one vertex may not have.
class Forbidden {
 public:
  void add(std::int32_t color, std::int32_t vertex) { by_[static_cast<std::size_t>(color)] = vertex; }
  bool has(std::int32_t color, std::int32_t vertex) const { return by_[static_cast<std::size_t>(color)] == vertex; }
  std::int32_t smallest_other(std::int32_t vertex) {
    const auto found = std::find_if(by_.begin(), by_.end(), [&](std::int32_t by) { return by != vertex; });
    const auto color = static_cast<std::int32_t>(found - by_.begin());
    if (found == by_.end()) by_.push_back(-1);
    return color;
  }
  std::int32_t colors() const { return static_cast<std::int32_t>(by_.size()); }

 private:
  std::vector<std::int32_t> by_;  // for each colour, the last vertex that may not have it, or -1
};

/// Returns the best colouring of three orders of n vertices; a colouring with `least` colours
/// cannot be improved.
Coloring best_of_orders(Index n, std::int32_t least, const std::vector<std::int64_t>& degrees,
                        const std::function<Coloring(const Order&)>& color) {
  Order order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  Coloring best = color(order);
  const auto try_order = [&] {
    if (best.count <= least) return;
    Coloring other = color(order);
    if (other.count < best.count) best = std::move(other);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return degrees[static_cast<std::size_t>(a)] > degrees[static_cast<std::size_t>(b)];
  });
  try_order();
  std::mt19937 engine(1);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[engine() % i]);
  try_order();
  return best;
}

}  // namespace

CsrPattern CsrPattern::transposed() const {
  CsrPattern result{columns, rows, std::vector<std::int64_t>(static_cast<std::size_t>(columns) + 1), {}};
  result.indices.resize(indices.size());
  for (const std::int32_t column : indices) ++result.offsets[static_cast<std::size_t>(column) + 1];
  std::partial_sum(result.offsets.begin(), result.offsets.end(), result.offsets.begin());
  std::vector<std::int64_t> next(result.offsets.begin(), result.offsets.end() - 1);
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r)
    for (const std::int32_t column : row(r))
      result.indices[static_cast<std::size_t>(next[static_cast<std::size_t>(column)]++)] = static_cast<std::int32_t>(r);
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

Coloring color_columns(const CsrPattern& pattern, const std::vector<bool>& left_out) {
  const CsrPattern rows_of = pattern.transposed();
  const auto n = static_cast<std::size_t>(pattern.columns);
  const auto counts = [&](std::int32_t r) { return left_out.empty() || !left_out[static_cast<std::size_t>(r)]; };
  std::int64_t widest = 0;
  for (std::size_t r = 0; r < static_cast<std::size_t>(pattern.rows); ++r)
    if (counts(static_cast<std::int32_t>(r)))
      widest = std::max(widest, static_cast<std::int64_t>(pattern.row(r).size()));
  if (widest == pattern.columns) {  // a full row: each column has a colour of its own
    Coloring all{static_cast<std::int32_t>(n), std::vector<std::int32_t>(n)};
    std::iota(all.colors.begin(), all.colors.end(), 0);
    return all;
  }
  std::vector<std::int64_t> degrees(n);
  for (std::size_t c = 0; c < n; ++c)
    for (const std::int32_t r : rows_of.row(c))
      if (counts(r)) degrees[c] += static_cast<std::int64_t>(pattern.row(static_cast<std::size_t>(r)).size());
  return best_of_orders(pattern.columns, static_cast<std::int32_t>(widest), degrees, [&](const Order& order) {
    Coloring coloring{0, std::vector<std::int32_t>(n, -1)};
    Forbidden forbidden;
    for (const std::int32_t column : order) {
      for (const std::int32_t r : rows_of.row(static_cast<std::size_t>(column))) {
        if (!counts(r)) continue;
        for (const std::int32_t other : pattern.row(static_cast<std::size_t>(r)))
          if (const std::int32_t color = coloring.colors[static_cast<std::size_t>(other)]; color >= 0)
            forbidden.add(color, column);
      }
      coloring.colors[static_cast<std::size_t>(column)] = forbidden.smallest_other(column);
    }
    coloring.count = forbidden.colors();
    return coloring;
  });
}

Coloring color_symmetric(const CsrPattern& pattern) {
  const auto n = static_cast<std::size_t>(pattern.columns);
  std::vector<std::int64_t> degrees(n);
  for (std::size_t v = 0; v < n; ++v) degrees[v] = static_cast<std::int64_t>(pattern.row(v).size());
  return best_of_orders(pattern.columns, 1, degrees, [&](const Order& order) {
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
    }
    coloring.count = forbidden.colors();
    return coloring;
  });
}

}  // namespace stave_detail
