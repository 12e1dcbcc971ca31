// Tests colourings: whether they are valid by their definitions, and how many colours they take,
// compared to scipy.optimize._numdiff.group_columns and to known results for grids.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <set>

#include <stave/handlers/structure/coloring.h>

namespace {

using namespace stave_detail;

CsrPattern pattern_of(Index rows, Index columns, const std::function<bool(Index, Index)>& is_entry) {
  CsrPattern pattern{rows, columns, {0}, {}};
  for (Index r = 0; r < rows; ++r) {
    for (Index c = 0; c < columns; ++c)
      if (is_entry(r, c)) pattern.indices.push_back(static_cast<std::int32_t>(c));
    pattern.offsets.push_back(static_cast<std::int64_t>(pattern.indices.size()));
  }
  return pattern;
}

CsrPattern tridiagonal(Index n) {
  return pattern_of(n, n, [](Index r, Index c) { return std::abs(r - c) <= 1; });
}

/// The five-point Laplacian on a grid of n x n points.
CsrPattern laplacian(Index n) {
  return pattern_of(n * n, n * n,
                    [n](Index r, Index c) { return std::abs(r / n - c / n) + std::abs(r % n - c % n) <= 1; });
}

CsrPattern random_pattern(unsigned seed, Index rows, Index columns, double density) {
  std::mt19937 engine(seed);
  std::bernoulli_distribution entry(density);
  return pattern_of(rows, columns, [&](Index, Index) { return entry(engine); });
}

/// Checks that no row has two columns of one colour.
void expect_columns_apart(const CsrPattern& pattern, const Coloring& coloring) {
  for (std::size_t r = 0; r < static_cast<std::size_t>(pattern.rows); ++r) {
    std::set<std::int32_t> colors;
    for (const std::int32_t c : pattern.row(r)) {
      const std::int32_t color = coloring.colors[static_cast<std::size_t>(c)];
      EXPECT_TRUE(color >= 0 && color < coloring.count);
      EXPECT_TRUE(colors.insert(color).second) << "row " << r << ", column " << c;
    }
  }
}

/// Checks that each entry, or its mirror image, is alone with its colour in its row.
void expect_entries_readable(const CsrPattern& pattern, const Coloring& coloring) {
  const auto alone = [&](std::int32_t r, std::int32_t c) {
    int same = 0;
    for (const std::int32_t other : pattern.row(static_cast<std::size_t>(r)))
      same += coloring.colors[static_cast<std::size_t>(other)] == coloring.colors[static_cast<std::size_t>(c)];
    return same == 1;
  };
  for (std::int32_t r = 0; r < pattern.rows; ++r)
    for (const std::int32_t c : pattern.row(static_cast<std::size_t>(r)))
      EXPECT_TRUE(alone(r, c) || alone(c, r)) << r << "," << c;
}

TEST(Coloring, TridiagonalMatricesTakeThreeColors) {
  const Coloring coloring = color_columns(tridiagonal(50));
  EXPECT_EQ(coloring.count, 3);
  expect_columns_apart(tridiagonal(50), coloring);
}

// group_columns of SciPy 1.x takes 7 in the natural order and 10 in its default order. ColPack
// 1.0.10 takes 7 in the natural order and by decreasing degree, 6 by incidence degree, 5 smallest
// last.
TEST(Coloring, LaplaciansTakeSevenColorsByTheGreedyAlgorithm) {
  const Coloring coloring = color_columns(laplacian(30));
  EXPECT_LE(coloring.count, 7);
  expect_columns_apart(laplacian(30), coloring);
}

/// The pattern of a stencil on a grid: the points that `reaches` accepts, by their distances along
/// the axes. A periodic grid has no edges.
CsrPattern stencil(const Shape& grid, bool is_periodic, const std::function<bool(const std::vector<Index>&)>& reaches) {
  const auto position = [&](Index i) {
    std::vector<Index> at(grid.size());
    for (std::size_t axis = grid.size(); axis-- > 0; i /= grid[axis]) at[axis] = i % grid[axis];
    return at;
  };
  return pattern_of(grid.elements(), grid.elements(), [&](Index r, Index c) {
    std::vector<Index> apart = position(r);
    const std::vector<Index> other = position(c);
    for (std::size_t axis = 0; axis < grid.size(); ++axis) {
      apart[axis] = std::abs(apart[axis] - other[axis]);
      if (is_periodic) apart[axis] = std::min(apart[axis], grid[axis] - apart[axis]);
    }
    return reaches(apart);
  });
}
bool is_star(const std::vector<Index>& apart) { return std::accumulate(apart.begin(), apart.end(), Index{0}) <= 1; }
bool is_box(const std::vector<Index>& apart) { return *std::max_element(apart.begin(), apart.end()) <= 1; }

// The least numbers are those of entries in a row (Goldfarb and Toint 1984).
TEST(Coloring, StencilsTakeTheLeastNumberOfColors) {
  struct Case {
    Shape grid;
    bool is_periodic;
    bool (*reaches)(const std::vector<Index>&);
    int colors;
  };
  const Case cases[] = {
      {{50}, false, is_star, 3},      {{51}, true, is_star, 3},       {{20, 21}, false, is_star, 5},
      {{20, 25}, true, is_star, 5},   {{18, 17}, false, is_box, 9},   {{7, 8, 9}, false, is_star, 7},
      {{7, 8, 9}, false, is_box, 27}, {{1, 30, 1}, false, is_box, 3}, {{4, 3, 5, 6}, false, is_star, 9}};
  for (const Case& c : cases) {
    const CsrPattern pattern = stencil(c.grid, c.is_periodic, c.reaches);
    const Coloring coloring = color_columns(pattern, c.grid);
    EXPECT_EQ(coloring.count, c.colors) << c.grid;
    expect_columns_apart(pattern, coloring);
  }
}

// The lengths of these grids are no multiples of 5 and 3, so there are no linear colourings of so
// few colours.
TEST(Coloring, PeriodicGridsTakeMoreColors) {
  const CsrPattern grid = stencil({12, 13}, true, is_star), ring = stencil({50}, true, is_star);
  const Coloring of_grid = color_columns(grid, {12, 13}), of_ring = color_columns(ring, {50});
  EXPECT_LE(of_grid.count, color_columns(grid).count);
  EXPECT_EQ(of_ring.count, 4);
  expect_columns_apart(grid, of_grid);
  expect_columns_apart(ring, of_ring);
}

// The greedy algorithm in the natural order is exact for bands. More than 64 colours take several
// rounds.
TEST(Coloring, WideBandsTakeManyColors) {
  for (const Index width : {31, 32, 100}) {
    const CsrPattern band = pattern_of(400, 400, [&](Index r, Index c) { return std::abs(r - c) <= width; });
    const Coloring coloring = color_columns(band);
    EXPECT_EQ(coloring.count, 2 * width + 1);
    expect_columns_apart(band, coloring);
  }
  const CsrPattern wide = random_pattern(5, 60, 300, 0.4);
  const Coloring coloring = color_columns(wide);
  EXPECT_GT(coloring.count, 128);
  expect_columns_apart(wide, coloring);
}

// SciPy's group_columns takes 4 and 8 groups for these patterns, in the natural and in its default
// order.
TEST(Coloring, TakesNoMoreColorsThanSciPy) {
  const CsrPattern wide = pattern_of(30, 40, [](Index i, Index j) { return (i * i * 7 + j * 13 + i * j) % 11 == 0; });
  const CsrPattern square = pattern_of(60, 60, [](Index i, Index j) { return (i * 5 + j * 3) % 17 == 0 || i == j; });
  EXPECT_LE(color_columns(wide).count, 4);
  EXPECT_LE(color_columns(square).count, 8);
}

TEST(Coloring, IsValidForRandomPatterns) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const CsrPattern pattern = random_pattern(seed, 40, 30, 0.01 * seed);
    expect_columns_apart(pattern, color_columns(pattern));
    const CsrPattern symmetric = random_pattern(seed, 30, 30, 0.01 * seed).symmetric();
    EXPECT_EQ(symmetric, symmetric.transposed());
    expect_entries_readable(symmetric, color_symmetric(symmetric));
    EXPECT_LE(color_symmetric(symmetric).count, color_columns(symmetric).count);
  }
}

TEST(Coloring, RowsThatAreLeftOutDoNotCount) {
  const CsrPattern arrow = pattern_of(20, 20, [](Index r, Index c) { return r == c || r == 0 || c == 0; });
  EXPECT_EQ(color_columns(arrow).count, 20);
  std::vector<bool> first(20);
  first[0] = true;
  EXPECT_EQ(color_columns(arrow, {}, first).count, 2);
}

TEST(Coloring, DenseMatricesTakeAllColors) {
  EXPECT_EQ(color_columns(pattern_of(3, 7, [](Index r, Index) { return r == 1; })).count, 7);
}

// The star chromatic number of grids with at least 4 rows and columns is 5 (G. Fertin, A. Raspaud,
// B. Reed, Star coloring of graphs, Journal of Graph Theory 47 (2004), theorem 7). The greedy
// algorithm may take one more.
TEST(Coloring, StarColoringsTakeFewerColors) {
  const CsrPattern grid = laplacian(20);
  const Coloring coloring = color_symmetric(grid);
  EXPECT_LE(coloring.count, 6);
  EXPECT_GE(coloring.count, 5);
  expect_entries_readable(grid, coloring);
  EXPECT_EQ(color_symmetric(tridiagonal(50)).count, 3);
  const CsrPattern arrow = pattern_of(20, 20, [](Index r, Index c) { return r == c || r == 0 || c == 0; });
  EXPECT_EQ(color_symmetric(arrow).count, 2);
}

TEST(Coloring, TransposesPatterns) {
  const CsrPattern pattern = random_pattern(3, 7, 5, 0.3), transposed = pattern.transposed();
  EXPECT_EQ(transposed.rows, 5);
  EXPECT_EQ(transposed.transposed(), pattern);
  EXPECT_EQ(transposed, pattern_of(5, 7, [&](Index r, Index c) {
              const auto row = pattern.row(static_cast<std::size_t>(c));
              return std::find(row.begin(), row.end(), static_cast<std::int32_t>(r)) != row.end();
            }));
}

}  // namespace
