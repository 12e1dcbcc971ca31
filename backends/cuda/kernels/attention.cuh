// The kernels of attention and its gradient, as bodies that run on the device and on
// the host (see attention_plan.h).
//
// Scores are computed tile by tile in shared memory and never stored in global memory. The weighted
// means take one pass over the keys. The pass keeps the largest score so far, the sum of weights
// and the sum of weighted values, and scales these sums down when a larger score appears (Milakov
// and Gimelshein, "Online normalizer calculation for softmax", 2018). The gradient recomputes the
// weights p of the keys from the scores s and the total (log-sum-exp) of each query:
//
//   p = exp(s - total), t = p (ct v^T + shift)
//   gradient of q: scale t k,  of k: scale t^T q,  of v: p^T ct
//
// The gradients of k and v sum over queries, that of q over keys. float16 and bfloat16 are computed
// in float. Weights are summed in double.
#pragma once

#include <stave/backends/cuda/attention_plan.h>
#include <stave/backends/cuda/kernels/block.cuh>
#include <stave/backends/cuda/kernels/lane.cuh>

namespace stave_cuda {

template <class T>
struct AttentionShared {
  // One extra column, so that threads that access a column together use different banks.
  T left[score_tile][score_tile + 1], right[score_tile][result_columns<T> + 1];
  T scores[score_tile][score_tile + 1], cotangents[score_tile][score_tile + 1];
  T sum[score_tile][result_columns<T> + 1];
  T largest[score_tile], decay[score_tile];
  double weight[score_tile];
};

/// The part of a tile that one thread computes. The threads of a block form a grid of 16 x 16. Each
/// thread has 2 adjacent rows of the tile, and every sixteenth column.
struct TilePart {
  int row, column;
  STAVE_BOTH explicit TilePart(unsigned thread)
      : row(static_cast<int>(thread / 16) * 2), column(static_cast<int>(thread % 16)) {}
};
static_assert(block_threads == 16 * score_tile / 2);

/// Computes sum[r, c] = factor(r) sum[r, c] + the sum of a(r, i) b(i, c) over 0 <= i < score_tile,
/// for the rows r and the columns c < `columns` of this thread. If meets(r, i) is false, a(r, i) is
/// 0, and b(i, c) has no effect even if it is infinite or NaN: an entry that becomes NaN is summed
/// again without such terms.
template <int columns, class T, int width, class Factor, class A, class B, class Meets>
STAVE_BOTH void multiply_part(unsigned thread, T (&sum)[score_tile][width], Factor factor, A a, B b, Meets meets) {
  const TilePart part(thread);
  constexpr int each = columns / 16;
  T own[2][each] = {};
  STAVE_UNROLL(4)
  for (int i = 0; i < score_tile; ++i) {
    const T first = a(part.row, i), second = a(part.row + 1, i);
    STAVE_UNROLL(4)
    for (int j = 0; j < each; ++j) {
      const T other = b(i, part.column + 16 * j);
      own[0][j] += first * other;
      own[1][j] += second * other;
    }
  }
  for (int r = 0; r < 2; ++r)
    for (int j = 0; j < each; ++j) {
      if (own[r][j] != own[r][j]) {
        own[r][j] = 0;
        STAVE_UNROLL(1)
        for (int i = 0; i < score_tile; ++i)
          if (meets(part.row + r, i)) own[r][j] += a(part.row + r, i) * b(i, part.column + 16 * j);
      }
      T& to = sum[part.row + r][part.column + 16 * j];
      to = to * factor(part.row + r) + own[r][j];
    }
}

template <class E, class Block>
struct AttentionTile {
  using T = stave::Computed<E>;
  using Args = AttentionArgs;
  static constexpr int columns = result_columns<T>;

  const Block& block;
  const Args& args;
  AttentionShared<T>& shared;
  // The index of the matrix in the batch, and the first row and column of the tile in the result.
  Index matrix, row, column;
  Offsets<Args::operands> start;

  STAVE_BOTH static T infinity() { return static_cast<T>(HUGE_VAL); }
  template <class N>
  STAVE_BOTH const N* data(int operand) const {
    return static_cast<const N*>(args.operand[operand].data) + start[operand];
  }
  // Returns entry i of an operand with one number per query, such as the totals. It is 0 past the
  // end.
  STAVE_BOTH T number(int operand, Index i) const {
    const AttentionOperand& x = args.operand[operand];
    return i < x.rows ? data<T>(operand)[i * x.row_step] : T(0);
  }

  /// Calls f(r, c) for all positions of a tile of scores.
  template <class F>
  STAVE_BOTH void for_scores(F f) const {
    block.for_threads([&](unsigned t) {
      const TilePart part(t);
      for (int r = 0; r < 2; ++r)
        for (int j = 0; j < 2; ++j) f(part.row + r, part.column + 16 * j);
    });
  }
  /// Sets to[r, c] = x[first_row + r, first_column + c], or 0 outside of x, where x is the operand.
  /// All threads of a phase call this function (block.cuh).
  template <int wide, int width>
  STAVE_BOTH void load(unsigned thread, T (&to)[score_tile][width], int operand, Index first_row,
                       Index first_column) const {
    const AttentionOperand& x = args.operand[operand];
    const E* const from = data<E>(operand);
    for (int i = static_cast<int>(thread); i < score_tile * wide; i += static_cast<int>(block_threads)) {
      const Index r = first_row + i / wide, c = first_column + i % wide;
      to[i / wide][i % wide] = r < x.rows && c < x.columns ? computed(from[r * x.row_step + c * x.column_step]) : T(0);
    }
  }

  /// Sets to[r, c] to the dot product of row `first` + r of operand `of` and row `other` + c of
  /// operand `by`.
  STAVE_BOTH void products(T (&to)[score_tile][score_tile + 1], int of, Index first, int by, Index other) const {
    for_scores([&](int r, int c) { to[r][c] = 0; });
    for (Index from = 0; from < args.operand[of].columns; from += score_tile) {
      block.for_threads([&](unsigned t) {
        load<score_tile>(t, shared.left, of, first, from);
        load<score_tile>(t, shared.right, by, other, from);
      });
      block.for_threads([&](unsigned t) {
        multiply_part<score_tile>(
            t, to, [](int) { return T(1); }, [&](int r, int i) { return shared.left[r][i]; },
            [&](int i, int c) { return shared.right[c][i]; }, [](int, int) { return true; });
      });
    }
  }
  /// Returns the term that the mask adds to the score of a query and a key. It is -inf if the query
  /// does not attend to the key.
  STAVE_BOTH T bias(Index query, Index key) const {
    if (query >= args.operand[Args::q].rows || key >= args.operand[Args::k].rows || (args.causal && key > query))
      return -infinity();
    if (!args.has_mask) return 0;
    const AttentionOperand& x = args.operand[Args::mask];
    const Index at = query * x.row_step + key * x.column_step;
    if (args.mask_is_bool) return data<std::uint8_t>(Args::mask)[at] ? T(0) : -infinity();
    return computed(data<E>(Args::mask)[at]);
  }
  STAVE_BOTH bool meet(Index query, Index key) const { return bias(query, key) != -infinity(); }
  /// Returns the score s of a query and a key, whose dot product is `product`. The score is -inf if
  /// the query does not attend to the key, even if the product is infinite or NaN.
  STAVE_BOTH T masked(T product, Index query, Index key) const {
    const T added = bias(query, key);
    return added == -infinity() ? added : product * static_cast<T>(args.scale) + added;
  }
  STAVE_BOTH void scores(Index query, Index key) const {
    products(shared.scores, Args::q, query, Args::k, key);
    for_scores([&](int r, int c) { shared.scores[r][c] = masked(shared.scores[r][c], query + r, key + c); });
  }
  STAVE_BOTH void clear_sum() const {
    block.for_threads([&](unsigned t) {
      for (int i = static_cast<int>(t); i < score_tile * columns; i += static_cast<int>(block_threads))
        shared.sum[i / columns][i % columns] = 0;
      if (t >= score_tile) return;
      shared.largest[t] = -infinity();
      shared.weight[t] = 0;
    });
  }
  /// Writes of(r, sum[r, c]) to the output for all entries of the tile that are in the result.
  template <class F>
  STAVE_BOTH void store(F of) const {
    block.for_threads([&](unsigned t) {
      E* const out = static_cast<E*>(args.out) + matrix * args.rows * args.columns;
      for (int i = static_cast<int>(t); i < score_tile * columns; i += static_cast<int>(block_threads)) {
        const Index r = row + i / columns, c = column + i % columns;
        if (r < args.rows && c < args.columns)
          out[r * args.columns + c] = element_of<E>(of(i / columns, shared.sum[i / columns][i % columns]));
      }
    });
  }

  // ---- the means ------------------------------------------------------------------------------

  STAVE_BOTH static T exponential(T x) { return exp(Lane<T>(x)).value; }

  /// Finds the largest score of each query so far, and the factor that scales down earlier sums.
  STAVE_BOTH void find_largest() const {
    block.for_threads([&](unsigned t) {
      if (t >= score_tile) return;
      const T before = shared.largest[t];
      T now = before;
      for (int c = 0; c < score_tile; ++c)
        // The comparison skips a NaN. Its weight makes the sum of weights NaN.
        if (shared.scores[t][c] > now) now = shared.scores[t][c];
      shared.largest[t] = now;
      shared.decay[t] = now == before ? T(1) : exponential(before - now);
    });
  }
  STAVE_BOTH void add_weights(Index key) const {
    block.for_threads([&](unsigned t) {
      load<columns>(t, shared.right, Args::v, key, column);
      if (t >= score_tile) return;
      double sum = shared.weight[t] * static_cast<double>(shared.decay[t]);
      for (int c = 0; c < score_tile; ++c) sum += static_cast<double>(shared.scores[t][c]);
      shared.weight[t] = sum;
    });
    block.for_threads([&](unsigned t) {
      multiply_part<columns>(
          t, shared.sum, [&](int r) { return shared.decay[r]; }, [&](int r, int i) { return shared.scores[r][i]; },
          [&](int i, int c) { return shared.right[i][c]; }, [&](int r, int i) { return meet(row + r, key + i); });
    });
  }
  STAVE_BOTH void means() const {
    clear_sum();
    const Index keys = args.operand[Args::k].rows, end = args.causal ? least_of(keys, row + score_tile) : keys;
    for (Index key = 0; key < end; key += score_tile) {
      scores(row, key);
      find_largest();
      for_scores([&](int r, int c) {
        const T largest = shared.largest[r];
        shared.scores[r][c] = exponential(shared.scores[r][c] - (largest == -infinity() ? T(0) : largest));
      });
      add_weights(key);
    }
    store([&](int r, T sum) {
      const double weight = shared.weight[r];
      return weight == 0 ? T(0) : static_cast<T>(static_cast<double>(sum) / weight);
    });
    if (column > 0) return;
    block.for_threads([&](unsigned t) {
      if (t >= score_tile || row + t >= args.rows) return;
      const double weight = shared.weight[t];
      static_cast<T*>(args.totals)[matrix * args.rows + row + t] =
          weight == 0 ? T(0) : static_cast<T>(static_cast<double>(shared.largest[t]) + log(Lane<double>(weight)).value);
    });
  }

  // ---- the gradient ---------------------------------------------------------------------------

  /// Computes the scores and replaces them by p if the result is the gradient of v, else by t.
  STAVE_BOTH void weights(Index query, Index key) const {
    const bool of_values = args.result == AttentionResult::of_values;
    scores(query, key);
    if (!of_values) products(shared.cotangents, Args::ct, query, Args::v, key);
    for_scores([&](int r, int c) {
      const T s = shared.scores[r][c], p = s == -infinity() ? T(0) : exponential(s - number(Args::total, query + r));
      shared.scores[r][c] = of_values || p == 0 ? p : p * (shared.cotangents[r][c] + number(Args::shift, query + r));
    });
  }
  STAVE_BOTH void add_products(int operand, Index first, bool transposed) const {
    block.for_threads([&](unsigned t) { load<columns>(t, shared.right, operand, first, column); });
    block.for_threads([&](unsigned t) {
      multiply_part<columns>(
          t, shared.sum, [](int) { return T(1); },
          [&](int r, int i) { return transposed ? shared.scores[i][r] : shared.scores[r][i]; },
          [&](int i, int c) { return shared.right[i][c]; },
          [&](int r, int i) { return transposed ? meet(first + i, row + r) : meet(row + r, first + i); });
    });
  }
  STAVE_BOTH void gradient() const {
    clear_sum();
    const Index queries = args.operand[Args::q].rows, keys = args.operand[Args::k].rows;
    if (args.result == AttentionResult::of_queries) {
      const Index end = args.causal ? least_of(keys, row + score_tile) : keys;
      for (Index key = 0; key < end; key += score_tile) {
        weights(row, key);
        add_products(Args::k, key, false);
      }
    } else {
      for (Index query = args.causal ? row : 0; query < queries; query += score_tile) {
        weights(query, row);
        add_products(args.result == AttentionResult::of_keys ? Args::q : Args::ct, query, true);
      }
    }
    const T scale = args.result == AttentionResult::of_values ? T(1) : static_cast<T>(args.scale);
    store([&](int, T sum) { return sum * scale; });
  }
};

template <class E, class Block>
STAVE_BOTH void attention_body(const Block& block, const AttentionArgs& args,
                               AttentionShared<stave::Computed<E>>& shared) {
  STAVE_UNROLL(1)
  for (Index task = block.index(); task < args.tasks(); task += block.count()) {
    const Index tiles = args.row_tiles * args.column_tiles, matrix = task / tiles;
    const AttentionTile<E, Block> tile{block,
                                       args,
                                       shared,
                                       matrix,
                                       task % tiles / args.column_tiles * score_tile,
                                       task % args.column_tiles * result_columns<stave::Computed<E>>,
                                       args.stack(static_cast<std::uint64_t>(matrix))};
    if (args.result == AttentionResult::means) tile.means();
    else tile.gradient();
  }
}

}  // namespace stave_cuda
