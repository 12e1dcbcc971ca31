// Random numbers on the CPU: loops over keys and counters that call the Threefry kernels.
#include <stave/backends/cpu/random.h>

#include <algorithm>
#include <memory>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

using stave::View;

namespace {

// The grain of loops that compute random numbers: 20 rounds of Threefry take about as long as four
// cheap operations.
constexpr Index hash_grain = cheap_grain / 4;

struct KeyWords {
  std::uint32_t k0, k1;
};

/// The keys [batch..., 2], with any strides.
class Keys {
 public:
  explicit Keys(const View& keys) : data_(static_cast<const char*>(keys.data)), second_(4 * keys.strides.back()) {
    const Index* strides[] = {keys.strides.data()};
    Index size = 4;
    axes_ = merged_axes(keys.shape.first(keys.shape.size() - 1), strides, &size);
  }
  Index count() const { return TileWalk(axes_, 1, -1, 1, 1).count(); }
  KeyWords operator[](Index i) const {
    TileWalk walk(axes_, 1, -1, 1, 1);
    walk.seek(i);
    return at(walk);
  }
  TileWalk walk() const { return TileWalk(axes_, 1, -1, 1, 1); }
  KeyWords at(const TileWalk& walk) const {
    const char* at = data_ + walk.offset(0);
    return {*reinterpret_cast<const std::uint32_t*>(at), *reinterpret_cast<const std::uint32_t*>(at + second_)};
  }

 private:
  const char* data_;
  Index second_;
  Axes axes_;
};

KeyWords hash(KeyWords key, std::uint64_t counter) {
  std::uint64_t word;
  kernels().random_words(&word, key.k0, key.k1, counter, 1);
  return {static_cast<std::uint32_t>(word >> 32), static_cast<std::uint32_t>(word)};
}

/// Calls fill(key, position in the output, counter, n) for runs of n elements with the same key.
/// `counter` is the counter of the first element.
template <class F>
void for_runs(const View& keys_view, const View& out, F fill) {
  Index total = element_count(out.shape);
  if (total == 0) return;
  Keys keys(keys_view);
  Index each = total / keys.count();
  parallel_for(total, hash_grain, [&](Index first, Index last) {
    for (Index i = first; i < last;) {
      Index counter = i % each, n = std::min(each - counter, last - i);
      fill(keys[i / each], i, static_cast<std::uint64_t>(counter), n);
      i += n;
    }
  });
}

// ---- permutations -------------------------------------------------------------------------------

/// Sorts n entries by their upper 32 bits. Entries with equal upper bits keep their order.
/// `scratch` has room for n entries.
void sort_by_key(std::uint64_t* entries, std::uint64_t* scratch, Index n) {
  if (n <= 64) {
    for (Index i = 1; i < n; ++i) {
      std::uint64_t entry = entries[i];
      Index j = i;
      for (; j > 0 && entries[j - 1] >> 32 > entry >> 32; --j) entries[j] = entries[j - 1];
      entries[j] = entry;
    }
    return;
  }
  constexpr int digit_bits = 11;  // With 11 bits, three passes cover 32 bits.
  for (int shift = 32; shift < 64; shift += digit_bits) {
    std::uint32_t starts[1 << digit_bits] = {};
    auto digit = [&](std::uint64_t entry) { return entry >> shift & ((1u << digit_bits) - 1); };
    for (Index i = 0; i < n; ++i) ++starts[digit(entries[i])];
    std::uint32_t sum = 0;
    for (std::uint32_t& start : starts) sum += std::exchange(start, sum);
    for (Index i = 0; i < n; ++i) scratch[starts[digit(entries[i])]++] = entries[i];
    std::swap(entries, scratch);
  }
  // The number of passes is odd, so `scratch` is now the array of the caller's entries.
  std::copy_n(entries, n, scratch);
}

void permute(KeyWords key, std::int32_t* out, Index n) {
  auto memory = std::make_unique_for_overwrite<std::uint64_t[]>(static_cast<std::size_t>(2 * n));
  auto bits = std::make_unique_for_overwrite<std::uint32_t[]>(static_cast<std::size_t>(n));
  std::uint64_t* entries = memory.get();
  for (Index i = 0; i < n; ++i) entries[i] = static_cast<std::uint64_t>(i);
  for (int round = stave::permutation_rounds(n); round > 0; --round) {
    KeyWords subkey = hash(key, 1);
    key = hash(key, 0);
    kernels().random_bits(bits.get(), subkey.k0, subkey.k1, 0, n);
    for (Index i = 0; i < n; ++i)
      entries[i] = static_cast<std::uint64_t>(bits[static_cast<std::size_t>(i)]) << 32 | (entries[i] & 0xffffffffu);
    sort_by_key(entries, entries + n, n);
  }
  for (Index i = 0; i < n; ++i) out[i] = static_cast<std::int32_t>(entries[i] & 0xffffffffu);
}

}  // namespace

void run_fold_in(const View& keys_view, const View& data, const View& out) {
  Index n = element_count(data.shape);
  if (n == 0) return;
  Keys keys(keys_view);
  const Index* strides[] = {data.strides.data()};
  Index size = 4;
  Axes axes = merged_axes(data.shape, strides, &size);
  auto* to = static_cast<std::uint32_t*>(out.data);
  parallel_for(n, hash_grain / 16, [&](Index first, Index last) {
    TileWalk walk(axes, 1, -1, 1, 1);
    TileWalk key = keys.walk();
    walk.seek(first);
    key.seek(first);
    for (Index i = first; i < last; ++i, walk.next(), key.next()) {
      KeyWords folded = hash(
          keys.at(key), *reinterpret_cast<const std::uint32_t*>(static_cast<const char*>(data.data) + walk.offset(0)));
      to[2 * i] = folded.k0;
      to[2 * i + 1] = folded.k1;
    }
  });
}

void run_random_bits(const View& keys, const View& out) {
  auto* to = static_cast<std::uint32_t*>(out.data);
  for_runs(keys, out, [&](KeyWords key, Index at, std::uint64_t counter, Index n) {
    kernels().random_bits(to + at, key.k0, key.k1, counter, n);
  });
}

void run_random_uniform(const stave::UniformAttributes& attributes, const View& keys, const View& out) {
  const auto size = static_cast<Index>(stave::size_of(out.dtype));
  auto uniform = kernels().random_uniform[static_cast<int>(out.dtype)];
  for_runs(keys, out, [&](KeyWords key, Index at, std::uint64_t counter, Index n) {
    uniform(static_cast<char*>(out.data) + at * size, key.k0, key.k1, counter, n, attributes.low, attributes.high);
  });
}

void run_random_permutation(const View& keys_view, const View& out) {
  Index total = element_count(out.shape);
  if (total == 0) return;
  Keys keys(keys_view);
  Index n = out.shape.back();
  auto* to = static_cast<std::int32_t*>(out.data);
  parallel_for(total / n, std::max<Index>(1, hash_grain / 8 / n), [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) permute(keys[i], to + i * n, n);
  });
}

}  // namespace stave_cpu
