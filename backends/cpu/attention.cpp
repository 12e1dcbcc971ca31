// Attention and its gradient. q, k and v are stacks of matrices, for example one for each head of
// each entry of the batch. BLAS computes the scores s = scale q k^T + mask for one block of queries
// and one block of keys at a time. A block of scores is used before the next one is computed, so a
// thread stores two blocks, and never all scores of a matrix.
//
// In the forward pass, each block of queries visits the blocks of keys one after the other, with a
// running maximum and sum (Milakov and Gimelshein, "Online normalizer calculation for softmax",
// 2018; Dao et al., "FlashAttention", 2022). The "total" of a query is the logarithm of its sum of
// exp(s). In the backward pass, the weights p = exp(s - total) are computed again. If there are
// enough matrices for all threads, each thread computes all gradients of a matrix. Otherwise two
// loops run in parallel over blocks: over blocks of queries for the gradient of q, and over blocks
// of keys for those of k and v. So no two threads write the same results. The blocks and the order
// in which they are summed do not depend on the number of threads.
#include <stave/backends/cpu/attention.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <stave/backends/cpu/attention_blocks.h>
#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/elementwise.h>
#include <stave/backends/cpu/in_floats.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/strided.h>
#include <stave/core/effects/fiber.h>

namespace stave_cpu {

using stave::AttentionAttributes;
using stave::View;

namespace {

// The numbers of queries and keys of a block, whose scores fit into the L2 cache.
constexpr Index most_queries = 128, most_keys = 256;

/// The inputs of attention, and the blocks of one thread.
template <class T>
class Attention {
 public:
  /// Takes the inputs of attention; `mask` is null if there is none.
  Attention(const AttentionAttributes& attributes, const View& q, const View& k, const View& v, const View* mask)
      : attributes_(attributes), q_(q), k_(k), v_(v), mask_(mask) {}

  Index queries() const { return q_.shape[q_.shape.size() - 2]; }
  Index keys() const { return k_.shape[k_.shape.size() - 2]; }

  /// Computes out = softmax(s) v and the totals, for queries first, ..., first + count - 1
  /// of one matrix.
  void means(Index matrix, Index first, Index count, const View& out, T* totals) {
    const Matrix q = load(MatrixRows(q_, matrix, first, count), q_copy_);
    sum_.resize(count, v_.shape.back());
    sum_.fill(0);
    largest_.assign(static_cast<std::size_t>(count), -infinity);
    weight_.assign(static_cast<std::size_t>(count), 0);
    for_keys(first, count, [&](Index key, Index width) {
      if (excludes_all(matrix, first, count, key, width)) return;
      scores(matrix, q, first, key, width);
      shift_by_largest();
      exponentials();
      weigh_keys(scores_, load(MatrixRows(v_, matrix, key, width), v_copy_), {matrix, first, key});
      fold();
    });
    for (Index i = 0; i < count; ++i) {
      const auto r = static_cast<std::size_t>(i);
      const bool nothing = weight_[r] == 0;
      totals[i] = nothing ? 0 : static_cast<T>(static_cast<double>(largest_[r]) + std::log(weight_[r]));
      for (T* x = sum_.row(i); x < sum_.row(i + 1); ++x)
        *x = nothing ? 0 : static_cast<T>(static_cast<double>(*x) / weight_[r]);
    }
    store(MatrixRows(out, matrix, first, count), sum_);
  }

  struct Cotangents {
    const View &total, &ct, &shift;
  };
  /// Computes the gradient of a block of queries: scale t k, where t is the cotangent of the
  /// scores.
  void gradient_of_queries(Index matrix, Index first, Index count, const Cotangents& c, const View& out) {
    load_queries(matrix, first, count, c);
    sum_.resize(count, q_.shape.back());
    sum_.fill(0);
    for_keys(first, count, [&](Index key, Index width) {
      weigh(matrix, first, key, width, c);
      weigh_keys(cotangents_, load(MatrixRows(k_, matrix, key, width), k_copy_), {matrix, first, key});
      add_to(sum_.elements.data(), term_);
    });
    scale_elements(sum_);
    store(MatrixRows(out, matrix, first, count), sum_);
  }
  /// Computes the gradients of a block of keys, scale t^T q, and of their values, p^T ct.
  void gradient_of_keys(Index matrix, Index key, Index width, const Cotangents& c, const View& of_k, const View& of_v) {
    begin_keys(width);
    for_queries(key, width, [&](Index first, Index count, Index meeting) {
      load_queries(matrix, first, count, c);
      weigh(matrix, first, key, meeting, c);
      add_of_keys({matrix, first, key});
    });
    end_keys(matrix, key, width, of_k, of_v);
  }
  /// Computes all three gradients of a matrix, with one computation of the scores.
  /// The blocks and the order of sums are those of gradient_of_queries and gradient_of_keys.
  void gradient_of_matrix(Index matrix, const Cotangents& c, std::span<const View> out) {
    queries_sum_.resize(queries(), q_.shape.back());
    queries_sum_.fill(0);
    for (Index key = 0; key < keys(); key += most_keys) {
      const Index width = std::min(most_keys, keys() - key);
      begin_keys(width);
      for_queries(key, width, [&](Index first, Index count, Index meeting) {
        load_queries(matrix, first, count, c);
        weigh(matrix, first, key, meeting, c);
        add_of_keys({matrix, first, key});
        weigh_keys(cotangents_, load(MatrixRows(k_, matrix, key, meeting), k_copy_), {matrix, first, key});
        add_to(queries_sum_.row(first), term_);
      });
      end_keys(matrix, key, width, out[1], out[2]);
    }
    scale_elements(queries_sum_);
    store(MatrixRows(out[0], matrix, 0, queries()), queries_sum_);
  }

 private:
  static constexpr T infinity = std::numeric_limits<T>::infinity();
  static constexpr int dtype = static_cast<int>(stave::dtype_of<T>());

  /// Calls f(first key, number of keys) for each block of keys. Blocks that the causal mask
  /// excludes entirely are skipped.
  template <class F>
  void for_keys(Index first, Index count, F f) const {
    const Index end = attributes_.causal ? std::min(keys(), first + count) : keys();
    for (Index key = 0; key < end; key += most_keys) f(key, std::min(most_keys, end - key));
  }

  /// Calls f(first query, number of queries, number of keys) for each block of queries, where the
  /// keys are those of [key, key + width) that these queries may attend to.
  template <class F>
  void for_queries(Index key, Index width, F f) const {
    for (Index first = 0; first < queries(); first += most_queries) {
      const Index count = std::min(most_queries, queries() - first);
      const Index meeting = attributes_.causal ? std::min(width, first + count - key) : width;
      if (meeting > 0) f(first, count, meeting);
    }
  }

  /// Computes scores_ = scale q k^T + mask. The scores of excluded keys are -inf.
  void scores(Index matrix, const Matrix& q, Index first, Index key, Index width) {
    multiply(scores_, q, transposed(load(MatrixRows(k_, matrix, key, width), k_copy_)));
    const T scale = static_cast<T>(attributes_.scale);
    T* const s = scores_.elements.data();
    for (Index i = 0; i < scores_.rows * scores_.columns; ++i) s[i] *= scale;
    if (mask_) apply_mask(MatrixRows(*mask_, matrix, first, q.rows), key, width);
    if (attributes_.causal)
      for (Index i = 0; i < q.rows; ++i)
        std::fill(scores_.row(i) + std::clamp<Index>(first + i + 1 - key, 0, width), scores_.row(i + 1), -infinity);
  }
  void apply_mask(const MatrixRows& mask, Index key, Index width) {
    if (mask.view.dtype == stave::bool_) {
      const Index step = mask.view.strides.back();
      for (Index i = 0; i < mask.count; ++i) {
        const char* const takes_part = mask.at(i, key);
        T* const row = scores_.row(i);
        for (Index j = 0; j < width; ++j) row[j] = takes_part[j * step] ? row[j] : -infinity;
      }
      return;
    }
    const Matrix added = load(mask, key, width, mask_copy_);
    const T* const from = reinterpret_cast<const T*>(added.data);
    for (Index i = 0; i < mask.count; ++i) {
      T* const row = scores_.row(i);
      for (Index j = 0; j < width; ++j) {
        const T bias = from[i * added.row_step + j * added.column_step];
        const T biased = row[j] + bias;
        // A bias of -inf excludes the key, even if the score is inf or NaN.
        row[j] = bias == -infinity ? -infinity : biased;
      }
    }
  }

  /// The position of a block of scores: its matrix, first query and first key.
  struct Place {
    Index matrix, query, key;
  };
  bool excludes() const { return mask_ || attributes_.causal; }
  /// Returns true if a mask of bools excludes all keys of a block for all its queries. Such a block
  /// would only add zeros. A cache of keys has many of them, since its end is not in use yet.
  bool excludes_all(Index matrix, Index first, Index count, Index key, Index width) const {
    if (!mask_ || mask_->dtype != stave::bool_) return false;
    const MatrixRows mask(*mask_, matrix, first, count);
    const Index step = mask_->strides.back();
    for (Index i = 0; i < count; ++i) {
      const char* const takes_part = mask.at(i, key);
      for (Index j = 0; j < width; ++j)
        if (takes_part[j * step]) return false;
    }
    return true;
  }
  /// Sets found[j] to whether the query attends to key place.key + j, for j < width.
  void find_part(const Place& place, Index query, Index width, std::vector<char>& found) {
    found.assign(static_cast<std::size_t>(width), 1);
    if (mask_) {
      const MatrixRows mask(*mask_, place.matrix, query, 1);
      const bool is_bool = mask.view.dtype == stave::bool_;
      const Matrix added = is_bool ? Matrix{} : load(mask, place.key, width, mask_copy_);
      for (Index j = 0; j < width; ++j)
        found[static_cast<std::size_t>(j)] =
            is_bool ? *mask.at(0, place.key + j) != 0
                    : reinterpret_cast<const T*>(added.data)[j * added.column_step] != -infinity;
    }
    if (attributes_.causal)
      std::fill(found.begin() + std::clamp<Index>(query + 1 - place.key, 0, width), found.end(), char{0});
  }
  /// Sets parts_[i][j] to whether query i of a block attends to key j of the block.
  void find_parts(const Place& place, Index count, Index width) {
    parts_.resize(static_cast<std::size_t>(count));
    for (Index i = 0; i < count; ++i) find_part(place, place.query + i, width, parts_[static_cast<std::size_t>(i)]);
  }
  /// Returns true if an element is infinite or NaN. It computes several sums, so that the compiler
  /// can vectorise the loop.
  static bool has_infinite(const Block<T>& x) {
    constexpr Index lanes = 16;
    T sums[lanes] = {};
    const T* const from = x.elements.data();
    const Index n = x.rows * x.columns;
    Index i = 0;
    for (; i + lanes <= n; i += lanes)
      for (Index lane = 0; lane < lanes; ++lane) sums[lane] += from[i + lane] * 0;
    for (; i < n; ++i) sums[0] += from[i] * 0;
    return std::any_of(sums, sums + lanes, [](T sum) { return sum != 0; });
  }
  /// weigh_keys computes term_ = weights x, and weigh_queries computes term_ = weights^T x. Weights
  /// of excluded keys are 0, but 0 times an infinite or NaN element of x is NaN. So results that
  /// are NaN are summed again without excluded keys.
  void weigh_keys(const Block<T>& weights, const Matrix& x, const Place& place) {
    multiply(term_, weights.matrix(), x);
    if (!excludes() || !has_infinite(term_)) return;
    find_parts(place, weights.rows, weights.columns);
    sum_again(weights.matrix(), x, [&](Index i, Index j) { return takes_part(i, j); });
  }
  void weigh_queries(const Block<T>& weights, const Matrix& x, const Place& place) {
    multiply(term_, weights.transposed(), x);
    if (!excludes() || !has_infinite(term_)) return;
    find_parts(place, weights.rows, weights.columns);
    sum_again(weights.transposed(), x, [&](Index i, Index j) { return takes_part(j, i); });
  }
  bool takes_part(Index i, Index j) const {
    return parts_[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] != 0;
  }
  template <class F>
  void sum_again(const Matrix& weights, const Matrix& x, F takes_part) {
    const T *const w = reinterpret_cast<const T*>(weights.data), *const from = reinterpret_cast<const T*>(x.data);
    for (Index i = 0; i < term_.rows; ++i)
      for (Index c = 0; c < term_.columns; ++c) {
        T& to = term_.row(i)[c];
        if (to == to) continue;
        to = 0;
        for (Index j = 0; j < weights.columns; ++j)
          if (takes_part(i, j))
            to += w[i * weights.row_step + j * weights.column_step] * from[j * x.row_step + c * x.column_step];
      }
  }

  /// Reduces each row of scores_ to one number, result[row].
  void reduce(OpId op, std::vector<T>& result) {
    const Reduction& reduction = kernels().reduce[op][dtype];
    const auto rows = static_cast<std::size_t>(scores_.rows);
    accumulator_.resize((rows * static_cast<std::size_t>(reduction.planes * reduction.plane_bytes) + 63) / 64);
    result.resize(rows);
    reduction.start(accumulator_.data(), scores_.rows);
    reduction.rows(scores_.elements.data(), scores_.rows, scores_.columns, scores_.columns, accumulator_.data());
    reduction.finish(accumulator_.data(), scores_.rows, result.data());
  }
  /// Updates the running maxima of the rows, and subtracts them from the scores. Sums over earlier
  /// blocks used the previous maxima, so they must be multiplied by decay_.
  void shift_by_largest() {
    reduce(OpId::max, found_);
    decay_.resize(largest_.size());
    for (std::size_t r = 0; r < largest_.size(); ++r) {
      // NaN counts as the largest number.
      const T before = largest_[r], now = found_[r] <= before ? before : found_[r];
      largest_[r] = now;
      decay_[r] = now == before ? 1 : std::exp(before - now);
      const T shift = now == -infinity ? 0 : now;
      T* const row = scores_.row(static_cast<Index>(r));
      for (Index j = 0; j < scores_.columns; ++j) row[j] -= shift;
    }
  }
  /// Replaces the scores by their exponentials, the weights, which are at most 1. Weights near the
  /// smallest normal number become 0: they do not affect the result, and each denormal number would
  /// cost a hundred cycles.
  void exponentials() {
    // `least` is log(2 `smallest`).
    constexpr T smallest = std::numeric_limits<T>::min(), least = sizeof(T) == 4 ? -86.6 : -707.7;
    T* const x = scores_.elements.data();
    const Index count = scores_.rows * scores_.columns;
    for (Index i = 0; i < count; ++i) x[i] = x[i] < least ? least : x[i];
    const void* in[] = {x};
    kernels().elementwise[OpId::exp][dtype](x, in, count);
    for (Index i = 0; i < count; ++i) x[i] = x[i] < 4 * smallest ? 0 : x[i];
  }
  /// Adds the weights of a block to the running sums of weights, and the weighted values in term_
  /// to the running sums of weighted values.
  void fold() {
    reduce(OpId::sum, found_);
    for (std::size_t r = 0; r < found_.size(); ++r) {
      weight_[r] = weight_[r] * static_cast<double>(decay_[r]) + static_cast<double>(found_[r]);
      T* const to = sum_.row(static_cast<Index>(r));
      const T* const from = term_.row(static_cast<Index>(r));
      for (Index j = 0; j < sum_.columns; ++j) to[j] = to[j] * decay_[r] + from[j];
    }
  }

  void load_queries(Index matrix, Index first, Index count, const Cotangents& c) {
    q_block_ = load(MatrixRows(q_, matrix, first, count), q_copy_);
    g_block_ = load(MatrixRows(c.ct, matrix, first, count), g_copy_);
  }
  /// Computes scores_ = p = exp(s - total), and cotangents_ = t = p (ct v^T + shift). Where p is 0,
  /// t is 0.
  void weigh(Index matrix, Index first, Index key, Index width, const Cotangents& c) {
    scores(matrix, q_block_, first, key, width);
    for_each_query(c.total, matrix, first, q_block_.rows, [&](Index i, T of_row) {
      T* const row = scores_.row(i);
      for (Index j = 0; j < width; ++j) {
        const T less = row[j] - of_row;
        // Excluded keys keep -inf, even if the total is infinite or NaN.
        row[j] = row[j] == -infinity ? -infinity : less;
      }
    });
    exponentials();
    multiply(cotangents_, g_block_, transposed(load(MatrixRows(v_, matrix, key, width), v_copy_)));
    for_each_query(c.shift, matrix, first, g_block_.rows, [&](Index i, T of_row) {
      T* const row = cotangents_.row(i);
      const T* const p = scores_.row(i);
      for (Index j = 0; j < width; ++j) {
        const T t = p[j] * (row[j] + of_row);
        row[j] = p[j] == 0 ? 0 : t;
      }
    });
  }

  void begin_keys(Index width) {
    keys_sum_.resize(width, q_.shape.back());
    keys_sum_.fill(0);
    values_sum_.resize(width, v_.shape.back());
    values_sum_.fill(0);
  }
  void add_of_keys(const Place& place) {
    weigh_queries(cotangents_, q_block_, place);
    add_to(keys_sum_.elements.data(), term_);
    weigh_queries(scores_, g_block_, place);
    add_to(values_sum_.elements.data(), term_);
  }
  void end_keys(Index matrix, Index key, Index width, const View& of_k, const View& of_v) {
    scale_elements(keys_sum_);
    store(MatrixRows(of_k, matrix, key, width), keys_sum_);
    store(MatrixRows(of_v, matrix, key, width), values_sum_);
  }
  /// Calls f(i, number) for i < count, where `number` is the entry of `numbers` for the matrix and
  /// for query first + i.
  template <class F>
  static void for_each_query(const View& numbers, Index matrix, Index first, Index count, F f) {
    Index offset = first * numbers.strides.back();
    for (std::size_t axis = numbers.shape.size() - 1; axis-- > 0; matrix /= numbers.shape[axis])
      offset += matrix % numbers.shape[axis] * numbers.strides[axis];
    const T* const from = static_cast<const T*>(numbers.data) + offset;
    for (Index i = 0; i < count; ++i) f(i, from[i * numbers.strides.back()]);
  }
  void scale_elements(Block<T>& sum) const {
    const T scale = static_cast<T>(attributes_.scale);
    for (Index i = 0; i < sum.rows * sum.columns; ++i) sum.elements[static_cast<std::size_t>(i)] *= scale;
  }

  struct alignas(64) Line {
    char bytes[64];
  };
  const AttentionAttributes& attributes_;
  const View &q_, &k_, &v_;
  const View* mask_;
  Block<T> q_copy_, k_copy_, v_copy_, g_copy_, mask_copy_;
  Block<T> scores_, cotangents_, term_, sum_, queries_sum_, keys_sum_, values_sum_;
  Matrix q_block_{}, g_block_{};
  std::vector<T> largest_, found_, decay_;
  std::vector<double> weight_;
  std::vector<std::vector<char>> parts_;
  std::vector<Line> accumulator_;
};

Index matrix_count(const View& x) { return element_count(x.shape.first(x.shape.size() - 2)); }

/// Divides each matrix, which has `length` rows, into blocks of at most `most` rows. Calls
/// f(state of the thread, matrix, first row, number of rows) for all blocks in parallel.
template <class T, class F>
void for_blocks(const Attention<T>& attention, Index matrices, Index length, Index most, F f) {
  const Index each = (length + most - 1) / most;
  SingleThreadedBlas guard;
  stave_detail::on_thread_stack([&] {  // BLAS may need more stack than a fiber has.
    const Index work = std::min(length, most) * attention.keys();
    parallel_for(matrices * each, std::max<Index>(1, cheap_grain / std::max<Index>(1, work)),
                 [&](Index begin, Index end) {
                   Attention<T> own = attention;
                   for (Index task = begin; task < end; ++task) {
                     const Index first = task % each * most;
                     f(own, task / each, first, std::min(most, length - first));
                   }
                 });
  });
}

template <class F>
void with_float_type(Dtype dtype, F f) {
  if (dtype == stave::float64) f(double());
  else f(float());
}

}  // namespace

void run_attention(const AttentionAttributes& attributes, std::span<const View> in, std::span<const View> out) {
  if (element_count(out[1].shape) == 0) return;
  with_float_type(in[0].dtype, [&]<class T>(T) {
    const Attention<T> attention(attributes, in[0], in[1], in[2], in.size() > 3 ? &in[3] : nullptr);
    T* const totals = static_cast<T*>(out[1].data);
    for_blocks(attention, matrix_count(in[0]), attention.queries(), most_queries,
               [&](Attention<T>& own, Index matrix, Index first, Index count) {
                 own.means(matrix, first, count, out[0], totals + matrix * attention.queries() + first);
               });
  });
}

void run_attention_gradient(const AttentionAttributes& attributes, std::span<const View> in,
                            std::span<const View> out) {
  if (in[0].shape.empty() || matrix_count(in[0]) == 0) return;
  with_float_type(in[0].dtype, [&]<class T>(T) {
    const Attention<T> attention(attributes, in[0], in[1], in[2], in.size() > 6 ? &in[6] : nullptr);
    const typename Attention<T>::Cotangents cotangents{in[3], in[4], in[5]};
    const Index matrices = matrix_count(in[0]), queries = attention.queries(), keys = attention.keys();
    if (matrices >= 2 * thread_count())
      return for_blocks(
          attention, matrices, std::max<Index>(1, queries), std::max<Index>(1, queries),
          [&](Attention<T>& own, Index matrix, Index, Index) { own.gradient_of_matrix(matrix, cotangents, out); });
    for_blocks(attention, matrices, queries, most_queries,
               [&](Attention<T>& own, Index matrix, Index first, Index count) {
                 own.gradient_of_queries(matrix, first, count, cotangents, out[0]);
               });
    for_blocks(attention, matrices, keys, most_keys, [&](Attention<T>& own, Index matrix, Index first, Index count) {
      own.gradient_of_keys(matrix, first, count, cotangents, out[1], out[2]);
    });
  });
}

}  // namespace stave_cpu
