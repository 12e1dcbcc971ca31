// argtopk and searchsorted. argtopk selects the largest entries of rows in one pass that keeps a
// few candidates. searchsorted does a binary search in sorted vectors. Both compare keys instead of
// elements (sort_keys.h).
#include <stave/backends/cpu/select.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/sort_keys.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

using stave::View;

namespace {

// ---- the largest entries ------------------------------------------------------------------------

/// Collects items and keeps the first k of them in the order of their keys, and then of their
/// positions. It stores at most about 2 k items at a time.
template <class Item>
class FirstItems {
 public:
  explicit FirstItems(Index k) : k_(static_cast<std::size_t>(k)) {}
  std::vector<Item>& kept() { return kept_; }
  bool full() const { return kept_.size() >= k_ && bounded_; }
  /// Returns a bound: an item with a later position whose key is not less than this bound is not
  /// among the first k.
  auto bound() const { return bound_; }
  void offer(const Item& item) {
    kept_.push_back(item);
    if (kept_.size() >= 2 * k_ + 64) shrink();
  }
  void shrink() {
    if (kept_.size() <= k_) return;
    std::nth_element(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(k_ - 1), kept_.end());
    kept_.resize(k_);
    bound_ = kept_.back().key;
    bounded_ = true;
  }

 private:
  std::size_t k_;
  std::vector<Item> kept_;
  decltype(Item::key) bound_{};
  bool bounded_ = false;
};

/// Returns true if no element is larger than `bound` or NaN, for n dense elements. Returns false if
/// `bound` is NaN.
template <class T>
bool none_beyond(const T* x, Index n, T bound) {
  using C = stave::Computed<T>;
  unsigned beyond = 0;
  for (Index i = 0; i < n; ++i) beyond |= !(static_cast<C>(x[i]) <= static_cast<C>(bound));
  return beyond == 0;
}

/// Selects the largest entries at positions [first, last) of a row. The bits of their keys are
/// inverted, so that the largest entries have the smallest keys.
template <class T, class Item>
void select_part(const char* row, Index step, Index first, Index last, FirstItems<Item>& best) {
  using K = KeyOf<T>;
  constexpr Index together = 64;
  const bool dense = step == Index{sizeof(T)};
  for (Index begin = first; begin < last; begin += together) {
    const Index end = std::min(begin + together, last);
    if (dense && best.full() &&
        none_beyond(reinterpret_cast<const T*>(row) + begin, end - begin, element_of<T>(static_cast<K>(~best.bound()))))
      continue;
    for (Index i = begin; i < end; ++i) {
      const K key = static_cast<K>(~key_of(read<T>(row + i * step)));
      if (!best.full() || key < best.bound()) best.offer({key, static_cast<decltype(Item::position)>(i)});
    }
  }
  best.shrink();
}

template <class T, class P>
void argtopk_rows(std::size_t axis, Index k, const View& in, const View& out) {
  using Item = KeyAt<KeyOf<T>, P>;
  const Index sizes[] = {Index{sizeof(T)}, Index{sizeof(P)}}, length = in.shape[axis];
  const Index *strides[] = {in.strides.data(), out.strides.data()}, in_step = in.strides[axis] * sizes[0],
              out_step = out.strides[axis] * sizes[1];
  stave::Shape shape(in.shape);
  shape[axis] = 1;
  const TileWalk rows(merged_axes(shape, strides, sizes), 2, -1, 1, 1);
  // A long row is divided into parts, and the first k items of each part are candidates. The order
  // has no equal items, so the result does not depend on the division.
  constexpr Index part = Index{1} << 16;
  const Index parts = k < part / 8 ? (length + part - 1) / part : 1;
  std::vector<FirstItems<Item>> found(static_cast<std::size_t>(rows.count() * parts), FirstItems<Item>(k));
  const Index grain = std::max<Index>(1, cheap_grain / 4 / (length / parts + 1));
  parallel_for(rows.count() * parts, grain, [&](Index first, Index last) {
    TileWalk walk = rows;
    for (Index task = first; task < last; ++task) {
      walk.seek(task / parts);
      const Index p = task % parts;
      select_part<T>(static_cast<const char*>(in.data) + walk.offset(0), in_step, length * p / parts,
                     length * (p + 1) / parts, found[static_cast<std::size_t>(task)]);
    }
  });
  parallel_for(rows.count(), std::max<Index>(1, cheap_grain / 16 / (k * parts)), [&](Index first, Index last) {
    TileWalk walk = rows;
    for (Index row = first; row < last; ++row) {
      walk.seek(row);
      FirstItems<Item>& best = found[static_cast<std::size_t>(row * parts)];
      for (Index p = 1; p < parts; ++p)
        for (const Item& item : found[static_cast<std::size_t>(row * parts + p)].kept()) best.offer(item);
      best.shrink();
      std::sort(best.kept().begin(), best.kept().end());
      char* to = static_cast<char*>(out.data) + walk.offset(1);
      for (const Item& item : best.kept()) *reinterpret_cast<P*>(to) = item.position, to += out_step;
    }
  });
}

// ---- search -------------------------------------------------------------------------------------

// The number of values that are searched together, so that their memory accesses overlap.
constexpr Index together = 16;

/// For i < count, sets result[i] to the number of keys that are less than values[i] or, if `right`,
/// not greater. The n keys are ascending. All searches take the same steps, without branches.
template <bool right, class K>
void count_before(const K* keys, Index n, const K* values, Index count, Index* result) {
  const auto before = [](K key, K value) { return right ? key <= value : key < value; };
  std::fill_n(result, count, Index{0});
  for (Index left = n; left > 1; left -= left / 2) {
    const Index half = left / 2;
    const K* const middle = keys + half - 1;
    for (Index i = 0; i < count; ++i) result[i] += half & -static_cast<Index>(before(middle[result[i]], values[i]));
  }
  for (Index i = 0; n > 0 && i < count; ++i) result[i] += before(keys[result[i]], values[i]);
}

template <class T, class P>
void search(const stave::SearchAttributes& attributes, const View& sorted, const View& values, const View& out) {
  using K = KeyOf<T>;
  const auto batch = static_cast<std::size_t>(attributes.batch_dims);
  const Index n = sorted.shape[batch], lanes = element_count(sorted.shape.first(batch)),
              each = element_count(out.shape) / lanes, sizes[] = {Index{sizeof(T)}, Index{sizeof(P)}};
  // The keys of the sorted vectors are computed first, then those of the values.
  // A TileWalk visits the elements of operands that are not dense.
  const auto keys = std::make_unique_for_overwrite<K[]>(static_cast<std::size_t>(lanes * n));
  const auto walk_of = [&](const View& view) {
    const Index* strides[] = {view.strides.data()};
    return TileWalk(merged_axes(view.shape, strides, sizes), 1, -1, 1, 1);
  };
  TileWalk walk = walk_of(sorted);
  if (n > 0) walk.seek(0);
  for (Index i = 0; i < lanes * n; ++i, walk.next())
    keys[static_cast<std::size_t>(i)] = key_of(read<T>(static_cast<const char*>(sorted.data) + walk.offset(0)));
  const TileWalk start = walk_of(values);
  const bool dense = is_contiguous(values.shape, values.strides);
  parallel_for(lanes * each, cheap_grain / 16, [&](Index first, Index last) {
    TileWalk at = start;
    at.seek(first);
    for (Index i = first; i < last;) {
      // The values searched together belong to one lane.
      const Index count = std::min({together, last - i, each - i % each});
      K some[together];
      Index found[together];
      for (Index j = 0; j < count; ++j) {
        some[j] = key_of(read<T>(static_cast<const char*>(values.data) + (dense ? (i + j) * sizes[0] : at.offset(0))));
        if (!dense) at.next();
      }
      const K* const own = keys.get() + i / each * n;
      if (attributes.right) count_before<true>(own, n, some, count, found);
      else count_before<false>(own, n, some, count, found);
      for (Index j = 0; j < count; ++j) static_cast<P*>(out.data)[i + j] = static_cast<P>(found[j]);
      i += count;
    }
  });
}

}  // namespace

void run_argtopk(const stave::TopkAttributes& attributes, const View& in, const View& out) {
  if (element_count(out.shape) == 0) return;
  const auto axis = static_cast<std::size_t>(attributes.axis);
  stave::visit_real_dtype(in.dtype, [&](auto zero) {
    using T = Stored<decltype(zero)>;
    if (out.dtype == stave::int64) argtopk_rows<T, std::int64_t>(axis, attributes.k, in, out);
    else argtopk_rows<T, std::int32_t>(axis, attributes.k, in, out);
  });
}

void run_searchsorted(const stave::SearchAttributes& attributes, const View& sorted, const View& values,
                      const View& out) {
  if (element_count(out.shape) == 0) return;
  stave::visit_real_dtype(sorted.dtype, [&](auto zero) {
    using T = Stored<decltype(zero)>;
    if (out.dtype == stave::int64) search<T, std::int64_t>(attributes, sorted, values, out);
    else search<T, std::int32_t>(attributes, sorted, values, out);
  });
}

}  // namespace stave_cpu
