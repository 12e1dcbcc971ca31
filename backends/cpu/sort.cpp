// sort and argsort, which sort one row at a time. Elements are converted to unsigned keys that have
// the order of the elements. Radix sort, which is stable and takes linear time, sorts the keys: for
// 2^20 floats it is ten times faster than a sort by comparison. Short rows are sorted by
// comparison.
//
// Elements with equal keys are equal, with two exceptions: -0 has the key of 0, and every NaN has
// the largest key. argsort sorts positions together with the keys. sort converts sorted keys back
// to elements. If x has a -0 or a NaN, the elements with one of these two keys are copied from x
// instead.
#include <stave/backends/cpu/sort.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/sort_keys.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

using stave::View;

namespace {

// ---- keys ---------------------------------------------------------------------------------------

/// Returns true if the key of x does not determine x, because x is -0 or NaN.
template <class T>
bool is_ambiguous(T x) {
  if constexpr (!std::is_integral_v<T>) return x != x || (x == 0 && std::bit_cast<KeyOf<T>>(x) != 0);
  else return false;
}

template <class K>
K key_in(K key) {
  return key;
}
template <class K, class P>
K key_in(const KeyAt<K, P>& item) {
  return item.key;
}

// ---- sorting ------------------------------------------------------------------------------------

/// Sorts arrays of `Item`, each of at most the given length, in buffers that the sorter owns.
template <class Item>
class Sorter {
  using K = decltype(key_in(std::declval<Item>()));
  static constexpr int digit_bits = sizeof(K) <= 2 ? 8 : 11;
  static constexpr int digits = (8 * static_cast<int>(sizeof(K)) + digit_bits - 1) / digit_bits;
  static constexpr std::size_t radix = std::size_t{1} << digit_bits;
  // In shorter arrays, counting digits would take longer than a sort by comparison (measured).
  static constexpr Index least = sizeof(K) == 1 ? 64 : sizeof(K) <= 4 ? 256 : 512;

 public:
  explicit Sorter(Index length) : items_(new_items(length)) {
    if (length < least) return;
    spare_ = new_items(length);
    counts_ = std::make_unique_for_overwrite<Index[]>(digits * radix);
  }

  /// The buffer for the items to sort.
  Item* items() { return items_.get(); }
  /// Sorts the first n items and returns them. Afterwards, items() returns the sorted buffer.
  Item* sort(Index n) {
    if (n < least) std::sort(items_.get(), items_.get() + n);
    else sort_by_radix(n);
    return items_.get();
  }

 private:
  static std::unique_ptr<Item[]> new_items(Index n) {
    return std::make_unique_for_overwrite<Item[]>(static_cast<std::size_t>(n));
  }
  static std::size_t digit(const Item& item, int d) {
    return static_cast<std::size_t>(key_in(item) >> (d * digit_bits)) & (radix - 1);
  }
  Index* counts(int d) { return counts_.get() + static_cast<std::size_t>(d) * radix; }

  // Sorts by the digits of the keys, from the lowest to the highest. Each pass is stable. A digit
  // that is equal in all items is skipped.
  void sort_by_radix(Index n) {
    std::fill_n(counts_.get(), digits * radix, 0);
    for (Index i = 0; i < n; ++i)
      for (int d = 0; d < digits; ++d) ++counts(d)[digit(items_[static_cast<std::size_t>(i)], d)];
    for (int d = 0; d < digits; ++d)
      if (counts(d)[digit(items_[0], d)] != n) {
        distribute(d, n);
        items_.swap(spare_);
      }
  }
  void distribute(int d, Index n) {
    Index* const next = counts(d);
    Index before = 0;
    for (std::size_t v = 0; v < radix; ++v) before += std::exchange(next[v], before);
    const Item* const from = items_.get();
    Item* const to = spare_.get();
    for (Index i = 0; i < n; ++i) to[next[digit(from[i], d)]++] = from[i];
  }

  std::unique_ptr<Item[]> items_, spare_;
  std::unique_ptr<Index[]> counts_;
};

// ---- rows ---------------------------------------------------------------------------------------

/// The rows along the sorted axis: the steps along a row, and the other axes, which determine where
/// each row starts in `in` and `out`.
struct SortedRows {
  Index length, in_step, out_step;
  Axes others;

  SortedRows(std::size_t axis, const View& in, const View& out) : length(in.shape[axis]) {
    const Index sizes[] = {static_cast<Index>(stave::size_of(in.dtype)), static_cast<Index>(stave::size_of(out.dtype))};
    in_step = in.strides[axis] * sizes[0];
    out_step = out.strides[axis] * sizes[1];
    stave::Shape shape(in.shape);
    shape[axis] = 1;
    const Index* strides[] = {in.strides.data(), out.strides.data()};
    others = merged_axes(shape, strides, sizes);
  }

  /// Calls body(state of this thread, start of the row in `in`, start of the row in `out`)
  /// for all rows.
  template <class State, class Body>
  void for_each(const View& in, const View& out, Body body) const {
    constexpr Index sort_grain = cheap_grain / 16;
    const TileWalk rows(others, 2, -1, 1, 1);
    parallel_for(rows.count(), std::max<Index>(1, sort_grain / length), [&](Index first, Index last) {
      State state(length);
      TileWalk walk = rows;
      walk.seek(first);
      for (Index i = first; i < last; ++i, walk.next())
        body(state, static_cast<const char*>(in.data) + walk.offset(0), static_cast<char*>(out.data) + walk.offset(1));
    });
  }
};

/// Copies the elements of x that have the same key as `like`, in their order in x, to the place of
/// this key in the sorted output. `flip` is the mask by which keys are inverted for a descending
/// order.
template <class T>
void restore_run(const SortedRows& rows, const char* x, const KeyOf<T>* sorted, KeyOf<T> flip, T like, char* out) {
  const KeyOf<T> key = key_of(like), flipped = static_cast<KeyOf<T>>(key ^ flip);
  const auto [first, last] = std::equal_range(sorted, sorted + rows.length, flipped);
  char* to = out + (first - sorted) * rows.out_step;
  for (Index i = 0, left = last - first; left > 0; ++i) {
    const T element = read<T>(x + i * rows.in_step);
    if (key_of(element) != key) continue;
    *reinterpret_cast<T*>(to) = element;
    to += rows.out_step;
    --left;
  }
}

template <class T>
void sort_rows(const SortedRows& rows, bool descending, const View& in, const View& out) {
  using K = KeyOf<T>;
  const K flip = descending ? static_cast<K>(~K{0}) : K{0};
  rows.for_each<Sorter<K>>(in, out, [&](Sorter<K>& sorter, const char* x, char* y) {
    bool ambiguous = false;
    for (Index i = 0; i < rows.length; ++i) {
      const T element = read<T>(x + i * rows.in_step);
      ambiguous |= is_ambiguous(element);
      sorter.items()[i] = static_cast<K>(key_of(element) ^ flip);
    }
    const K* const sorted = sorter.sort(rows.length);
    for (Index i = 0; i < rows.length; ++i)
      *reinterpret_cast<T*>(y + i * rows.out_step) = element_of<T>(static_cast<K>(sorted[i] ^ flip));
    if constexpr (!std::is_integral_v<T>)
      if (ambiguous)
        for (const T like : {T(0), T(std::numeric_limits<stave::Computed<T>>::quiet_NaN())})
          restore_run(rows, x, sorted, flip, like, y);
  });
}

template <class T, class P>
void argsort_rows(const SortedRows& rows, bool descending, const View& in, const View& out) {
  using K = KeyOf<T>;
  using Item = KeyAt<K, P>;
  const K flip = descending ? static_cast<K>(~K{0}) : K{0};
  rows.for_each<Sorter<Item>>(in, out, [&](Sorter<Item>& sorter, const char* x, char* y) {
    for (Index i = 0; i < rows.length; ++i)
      sorter.items()[i] = {static_cast<K>(key_of(read<T>(x + i * rows.in_step)) ^ flip), static_cast<P>(i)};
    const Item* const sorted = sorter.sort(rows.length);
    for (Index i = 0; i < rows.length; ++i) *reinterpret_cast<P*>(y + i * rows.out_step) = sorted[i].position;
  });
}

}  // namespace

void run_sort(const stave::SortAttributes& attributes, const View& in, const View& out) {
  if (element_count(out.shape) == 0) return;
  const SortedRows rows(static_cast<std::size_t>(attributes.axis), in, out);
  stave::visit_real_dtype(in.dtype,
                          [&](auto zero) { sort_rows<Stored<decltype(zero)>>(rows, attributes.descending, in, out); });
}

void run_argsort(const stave::SortAttributes& attributes, const View& in, const View& out) {
  if (element_count(out.shape) == 0) return;
  const SortedRows rows(static_cast<std::size_t>(attributes.axis), in, out);
  stave::visit_real_dtype(in.dtype, [&](auto zero) {
    using T = Stored<decltype(zero)>;
    if (out.dtype == stave::int64) argsort_rows<T, std::int64_t>(rows, attributes.descending, in, out);
    else argsort_rows<T, std::int32_t>(rows, attributes.descending, in, out);
  });
}

}  // namespace stave_cpu
