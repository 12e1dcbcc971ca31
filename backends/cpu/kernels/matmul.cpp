// The inner loops of the matmuls that BLAS does not compute: those of integers, tiny ones, for
// which a call of BLAS costs more than the arithmetic, those whose sums have few terms, for
// which BLAS copies and clears more memory than it multiplies, and those of dense rows with a
// vector, which wait for memory.
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

/// Multiplies `height` rows of a by x. With fewer rows at a time, the processor would have less
/// memory to read ahead.
template <class T, int height>
STAVE_INLINE void vector_rows(T* out, Index out_step, const T* a, Index a_row, const T* x, Index n) {
  using V = Vec<T>;
  constexpr Index lanes = V::lanes;
  V sums[height];
  for (V& sum : sums) sum = V(0);
  Index j = 0;
  for (; j + lanes <= n; j += lanes) {
    const V factor = V::load(x + j);
    for (int r = 0; r < height; ++r) sums[r] = sums[r] + V::load(a + r * a_row + j) * factor;
  }
  if (j < n) {
    const V factor = load_some<T>(x + j, n - j);
    for (int r = 0; r < height; ++r) sums[r] = sums[r] + load_some<T>(a + r * a_row + j, n - j) * factor;
  }
  for (int r = 0; r < height; ++r) out[r * out_step] = sum_across(sums[r]);
}
template <class T>
void multiply_vector(void* out, Index out_step, const void* a, Index a_row, const void* x, Index rows, Index n) {
  auto* to = static_cast<T*>(out);
  auto *from = static_cast<const T*>(a), *vector = static_cast<const T*>(x);
  Index i = 0;
  for (; i + 4 <= rows; i += 4) vector_rows<T, 4>(to + i * out_step, out_step, from + i * a_row, a_row, vector, n);
  for (; i < rows; ++i) vector_rows<T, 1>(to + i * out_step, out_step, from + i * a_row, a_row, vector, n);
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
  table.multiply_vector[static_cast<int>(Dtype::float32)] = multiply_vector<float>;
  table.multiply_vector[static_cast<int>(Dtype::float64)] = multiply_vector<double>;
}

}  // namespace STAVE_KERNELS
