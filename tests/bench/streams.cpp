#include "streams.h"

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_reduce.h>

#include <cstring>
#include <functional>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

// The loops are compiled once for each register width.
#if defined(__x86_64__)
#define STAVE_BENCH_WIDEST [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define STAVE_BENCH_WIDEST
#endif

namespace stave_bench {

namespace {

using Line = float __attribute__((vector_size(64)));  // a cache line
constexpr Index line = sizeof(Line) / sizeof(float);

STAVE_BENCH_WIDEST void copy_lines(Line* out, const Line* in, Index count) {
  for (Index i = 0; i < count; ++i) {
    out[i] = in[i];
    asm volatile("" ::: "memory");  // keeps the compiler from calling memcpy
  }
}

void stream_lines(Line* out, const Line* in, Index count) {
#if defined(__SSE2__)
  auto* to = reinterpret_cast<__m128*>(out);
  const auto* from = reinterpret_cast<const __m128*>(in);
  for (Index i = 0; i < 4 * count; ++i) _mm_stream_ps(reinterpret_cast<float*>(to + i), from[i]);
  _mm_sfence();
#else
  copy_lines(out, in, count);
#endif
}

float total(const Line& x) {
  float sum = 0;
  for (Index i = 0; i < line; ++i) sum += x[i];
  return sum;
}

// Uses four sums, so that additions need not wait for each other.
STAVE_BENCH_WIDEST float read_lines(const Line* in, Index count) {
  Line sums[4] = {};
  Index i = 0;
  for (; i + 4 <= count; i += 4)
    for (Index j = 0; j < 4; ++j) sums[j] += in[i + j];
  for (; i < count; ++i) sums[0] += in[i];
  const Line sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return total(sum);
}

STAVE_BENCH_WIDEST float prefetch_lines(const Line* in, Index count) {
  constexpr Index ahead = 32;
  Line sums[4] = {};
  Index i = 0;
  for (; i + 4 <= count; i += 4)
    for (Index j = 0; j < 4; ++j) {
      __builtin_prefetch(in + i + j + ahead, 0, 0);
      sums[j] += in[i + j];
    }
  for (; i < count; ++i) sums[0] += in[i];
  const Line sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return total(sum);
}

using Range = tbb::blocked_range<Index>;

/// Returns the range of lines, in pieces of at least 256 KiB, which idle threads take.
Range lines_of(Index n) { return Range(0, n / line, 1 << 12); }

template <class Copy>
void copy_in_parallel(float* out, const float* in, Index n, Copy copy) {
  auto* to = reinterpret_cast<Line*>(out);
  const auto* from = reinterpret_cast<const Line*>(in);
  tbb::parallel_for(lines_of(n), [=](const Range& range) {
    copy(to + range.begin(), from + range.begin(), static_cast<Index>(range.size()));
  });
}

template <class Read>
float read_in_parallel(const float* in, Index n, Read read) {
  const auto* from = reinterpret_cast<const Line*>(in);
  return tbb::parallel_reduce(
      lines_of(n), 0.f,
      [=](const Range& range, float sum) { return sum + read(from + range.begin(), static_cast<Index>(range.size())); },
      std::plus<>());
}

}  // namespace

void copy_by_memcpy(float* out, const float* in, Index n) {
  copy_in_parallel(out, in, n, [](Line* to, const Line* from, Index count) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(Line));
  });
}
void copy_by_loop(float* out, const float* in, Index n) { copy_in_parallel(out, in, n, copy_lines); }
void copy_by_stream(float* out, const float* in, Index n) { copy_in_parallel(out, in, n, stream_lines); }

float read_by_loop(const float* in, Index n) { return read_in_parallel(in, n, read_lines); }
float read_by_prefetch(const float* in, Index n) { return read_in_parallel(in, n, prefetch_lines); }

}  // namespace stave_bench
