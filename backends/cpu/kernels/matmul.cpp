// The inner loops of the matmuls that BLAS does not compute: those of integers, tiny ones, for
// which a call of BLAS costs more than the arithmetic, and those whose sums have few terms, for
// which BLAS copies and clears more memory than it multiplies.
#include <stave/backends/cpu/kernels/fill.h>

#include <machine.h>

namespace STAVE_KERNELS {

using stave_cpu::Dtype;
using stave_cpu::Index;

template <class T>
void multiply_add(void* out, const void* a, const void* b, Index n) {
  using V = Vec<T>;
  T* to = static_cast<T*>(out);
  const T* from = static_cast<const T*>(b);
  T factor = *static_cast<const T*>(a);
  Index j = 0;
  for (; j + V::lanes <= n; j += V::lanes) (V::load(to + j) + V(factor) * V::load(from + j)).store(to + j);
  for (; j < n; ++j) to[j] = (V(to[j]) + V(factor) * V(from[j]))[0];
}

/// Multiplies each row of a by b. Each row of b is held in `width` registers.
template <class T, int width>
STAVE_INLINE void tiny_rows(T* out, const T* a, const T* b, Index m, Index k, Index n, Index a_stride, Index b_stride) {
  using V = Vec<T>;
  V rows[16][width];
  constexpr Index lanes = V::lanes;
  auto part = [n](int w) { return n - w * lanes < lanes ? n - w * lanes : lanes; };
  for (Index p = 0; p < k; ++p)
    for (int w = 0; w < width; ++w)
      rows[p][w] = part(w) <= 0 ? V(0) : load_some<T>(b + p * b_stride + w * lanes, part(w));
  for (Index i = 0; i < m; ++i) {
    V sums[width];
    for (V& sum : sums) sum = V(0);
    for (Index p = 0; p < k; ++p)
      for (int w = 0; w < width; ++w) sums[w] = sums[w] + V(a[i * a_stride + p]) * rows[p][w];
    for (int w = 0; w < width; ++w)
      if (part(w) > 0) store_some(sums[w], out + i * n + w * lanes, part(w));
  }
}
template <class T>
void tiny_matmul(void* out, const void* a, const void* b, Index m, Index k, Index n, Index a_stride, Index b_stride) {
  constexpr int most = Vec<T>::lanes >= 16 ? 1 : 16 / Vec<T>::lanes;
  auto* to = static_cast<T*>(out);
  auto *left = static_cast<const T*>(a), *right = static_cast<const T*>(b);
  if (n <= Vec<T>::lanes) tiny_rows<T, 1>(to, left, right, m, k, n, a_stride, b_stride);
  else tiny_rows<T, most>(to, left, right, m, k, n, a_stride, b_stride);
}

/// Multiplies `height` rows of a by b.
template <class T, int height>
STAVE_INLINE void few_terms_rows(T* out, const T* a, const T* b, Index k, Index n, Index out_step, Index a_row,
                                 Index a_column, Index b_row) {
  using V = Vec<T>;
  constexpr Index lanes = V::lanes;
  constexpr int width = 2;
  Index j = 0;
  for (; j + width * lanes <= n; j += width * lanes) {
    V sums[height][width];
    for (auto& row : sums)
      for (V& sum : row) sum = V(0);
    for (Index p = 0; p < k; ++p)
      for (int w = 0; w < width; ++w) {
        const V factor = V::load(b + p * b_row + j + w * lanes);
        for (int r = 0; r < height; ++r) sums[r][w] = sums[r][w] + V(a[r * a_row + p * a_column]) * factor;
      }
    for (int r = 0; r < height; ++r)
      for (int w = 0; w < width; ++w) sums[r][w].store(out + r * out_step + j + w * lanes);
  }
  for (; j < n; j += lanes) {
    const Index part = n - j < lanes ? n - j : lanes;
    V sums[height];
    for (V& sum : sums) sum = V(0);
    for (Index p = 0; p < k; ++p) {
      const V factor = load_some<T>(b + p * b_row + j, part);
      for (int r = 0; r < height; ++r) sums[r] = sums[r] + V(a[r * a_row + p * a_column]) * factor;
    }
    for (int r = 0; r < height; ++r) store_some(sums[r], out + r * out_step + j, part);
  }
}
template <class T>
void few_terms_matmul(void* out, const void* a, const void* b, Index m, Index k, Index n, Index out_step, Index a_row,
                      Index a_column, Index b_row) {
  auto* to = static_cast<T*>(out);
  auto *left = static_cast<const T*>(a), *right = static_cast<const T*>(b);
  Index i = 0;
  for (; i + 4 <= m; i += 4)
    few_terms_rows<T, 4>(to + i * out_step, left + i * a_row, right, k, n, out_step, a_row, a_column, b_row);
  for (; i < m; ++i)
    few_terms_rows<T, 1>(to + i * out_step, left + i * a_row, right, k, n, out_step, a_row, a_column, b_row);
}

template <class T>
void fill_type(stave_cpu::Kernels& table, Dtype dtype) {
  table.multiply_add[static_cast<int>(dtype)] = multiply_add<T>;
  table.tiny_matmul[static_cast<int>(dtype)] = tiny_matmul<T>;
}

void fill_matmul(stave_cpu::Kernels& table) {
#define X(name, type) fill_type<type>(table, Dtype::name);
  STAVE_INTEGERS(X)
#undef X
  fill_type<float>(table, Dtype::float32);
  fill_type<double>(table, Dtype::float64);
  table.few_terms_matmul[static_cast<int>(Dtype::float32)] = few_terms_matmul<float>;
  table.few_terms_matmul[static_cast<int>(Dtype::float64)] = few_terms_matmul<double>;
}

}  // namespace STAVE_KERNELS
