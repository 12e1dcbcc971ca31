// The inner loop of products of float matrices and of convolutions: a block of results in
// registers. backends/cpu/panel_products.h has the loops around it.
#include <stave/backends/cpu/kernels/fill.h>

#include <machine.h>

namespace STAVE_KERNELS {

using stave_cpu::Dtype;
using stave_cpu::Index;

// A block has as many sums as leave registers for two vectors of x and a broadcast element of a.
constexpr int most_rows = STAVE_VECTOR_BYTES == 64 ? 12 : 6, panel_vectors = 2;
static_assert(most_rows <= stave_cpu::most_panel_rows);

/// Writes n columns of `rows` rows of `width` vectors, or adds them to `out`.
template <class T>
STAVE_OUTLINE void write_some(T* out, Index out_step, const T* sums, int rows, int width, Index n, bool accumulate) {
  using V = Vec<T>;
#pragma GCC unroll 1
  for (int r = 0; r < rows; ++r, sums += width * V::lanes)
#pragma GCC unroll 1
    for (Index j = 0; j < n; j += V::lanes) {
      const Index some = n - j < V::lanes ? n - j : V::lanes;
      T* const to = out + r * out_step + j;
      const V sum = V::load(sums + j);
      store_some(accumulate ? load_some<T>(to, some) + sum : sum, to, some);
    }
}

/// Computes `rows` rows of `width` vectors of results, each sum in several strands, which are added
/// at the end.
template <class T, int rows, int strands, int width>
STAVE_INLINE void multiply_vectors(void* out, Index out_step, const void* a, Index a_step, const void* x,
                                   const Index* offsets, Index terms, Index n, bool accumulate) {
  using V = Vec<T>;
  constexpr int lanes = V::lanes;
  auto *left = static_cast<const T*>(a), *right = static_cast<const T*>(x);
  V sums[strands][rows][width];
#pragma GCC unroll 16
  for (int s = 0; s < strands; ++s)
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
      for (int w = 0; w < width; ++w) sums[s][r][w] = V(0);
  const auto add = [&](Index p, V(&to)[rows][width]) __attribute__((always_inline)) {
    const T* const from = right + offsets[p];
    V row[width];
#pragma GCC unroll 16
    for (int w = 0; w < width; ++w) row[w] = V::load(from + w * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const V factor(left[r * a_step + p]);
#pragma GCC unroll 16
      for (int w = 0; w < width; ++w) to[r][w] = fma(factor, row[w], to[r][w]);
    }
  };
  Index p = 0;
  for (; p + strands <= terms; p += strands)
#pragma GCC unroll 16
    for (int s = 0; s < strands; ++s) add(p + s, sums[s]);
  if constexpr (strands > 1)
    for (; p < terms; ++p) add(p, sums[0]);
  const auto each = [&](auto visit) __attribute__((always_inline)) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
      for (int w = 0; w < width; ++w) {
        V sum = sums[0][r][w];
#pragma GCC unroll 16
        for (int s = 1; s < strands; ++s) sum = sum + sums[s][r][w];
        visit(sum, r, w);
      }
  };
  T* const to = static_cast<T*>(out);
  if (n == width * lanes && accumulate) {
    each([&](V sum, int r, int w) __attribute__((always_inline)) {
      T* const at = to + r * out_step + w * lanes;
      (V::load(at) + sum).store(at);
    });
  } else if (n == width * lanes) {
    each([&](V sum, int r, int w) __attribute__((always_inline)) { sum.store(to + r * out_step + w * lanes); });
  } else {
    alignas(64) T all[rows * width * lanes];
    each([&](V sum, int r, int w) __attribute__((always_inline)) { sum.store(all + (r * width + w) * lanes); });
    write_some(to, out_step, all, rows, width, n, accumulate);
  }
}

/// PanelProduct::Multiply for `rows` rows. A sum does not depend on the number of columns.
template <class T, int rows, int strands>
void multiply_panel(void* out, Index out_step, const void* a, Index a_step, const void* x, const Index* offsets,
                    Index terms, Index n, bool accumulate) {
  if (n <= panel_vectors / 2 * Vec<T>::lanes)
    multiply_vectors<T, rows, strands, panel_vectors / 2>(out, out_step, a, a_step, x, offsets, terms, n, accumulate);
  else multiply_vectors<T, rows, strands, panel_vectors>(out, out_step, a, a_step, x, offsets, terms, n, accumulate);
}

template <class T, int... rows>
void fill_panels(stave_cpu::PanelProduct& product, std::integer_sequence<int, rows...>) {
  product.rows = most_rows;
  product.columns = panel_vectors * Vec<T>::lanes;
  ((product.multiply[rows] = multiply_panel<T, rows + 1, 1>), ...);
  product.multiply_few[0] = multiply_panel<T, 1, 4>;
  product.multiply_few[1] = multiply_panel<T, 2, 2>;
  product.multiply_few[2] = multiply_panel<T, 3, 2>;
}

void fill_products(stave_cpu::Kernels& table) {
  // Other instruction sets leave products to BLAS.
  if constexpr (STAVE_VECTOR_BYTES >= 32 && has_fma) {
    constexpr std::make_integer_sequence<int, most_rows> all{};
    fill_panels<float>(table.panel_product[static_cast<int>(Dtype::float32)], all);
    fill_panels<double>(table.panel_product[static_cast<int>(Dtype::float64)], all);
  }
}

}  // namespace STAVE_KERNELS
