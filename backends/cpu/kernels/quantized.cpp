// Kernels of quantized weights, which are computed from their codes in registers: elements of a
// row, and sums of products of a row with rows of x.
#include <stave/backends/cpu/kernels/fill.h>
#include <stave/backends/cpu/kernels/vec_math.h>

namespace STAVE_KERNELS {

using stave_cpu::Dtype;
using stave_cpu::Index;
using stave_cpu::QuantizedKernels;
using stave_cpu::QuantizedRow;

namespace {

template <class T, int bits>
struct Quantized {
  using V = Vec<T>;
  // A step is as many elements as a vector has 32-bit lanes. They fill `parts` vectors of T.
  static constexpr Index step = F32::lanes;
  static constexpr int parts = sizeof(T) / sizeof(float);
  // The number of elements whose products are summed in T before the sum is added in double.
  static constexpr Index piece = 4096;

  /// A group of weights: scale code + bias.
  struct Group {
    T scale, bias;
    STAVE_INLINE T element(const std::uint8_t* codes, Index i) const {
      const int code = bits == 8 ? codes[i] : codes[i / 2] >> (i % 2 * 4) & 15;
      return scale * static_cast<T>(code) + bias;
    }
    /// Computes the elements of a step from element i on.
    STAVE_INLINE void elements(const std::uint8_t* codes, Index i, V* to) const {
      Vec<std::uint32_t> lanes;
      if constexpr (bits == 8) lanes = load_uint8(codes + i);
      else lanes = load_uint4(codes + i / 2);
      const F32 c{__builtin_convertvector(reinterpret_cast<Vec<std::int32_t>::Raw>(lanes.raw), F32::Raw)};
      if constexpr (parts == 1) {
        to[0] = multiply_add(c, V(scale), V(bias));
      } else {
        to[0] = multiply_add(low_half(c), V(scale), V(bias));
        to[1] = multiply_add(high_half(c), V(scale), V(bias));
      }
    }
  };
  static STAVE_INLINE Group group_of(const QuantizedRow& row, Index i) {
    return {static_cast<const T*>(row.scales)[i], static_cast<const T*>(row.biases)[i]};
  }

  static void unpack(const QuantizedRow& row, Index first, Index n, void* out) {
    T* const to = static_cast<T*>(out) - first;
    const Index end = first + n;
    for (Index i = first; i < end;) {
      const Index g = i / row.group, stop = (g + 1) * row.group < end ? (g + 1) * row.group : end;
      const Group group = group_of(row, g);
      for (; i + step <= stop; i += step) {
        V elements[parts];
        group.elements(row.codes, i, elements);
        for (int p = 0; p < parts; ++p) elements[p].store(to + i + p * V::lanes);
      }
#pragma GCC unroll 1
      for (; i < stop; ++i) to[i] = group.element(row.codes, i);
    }
  }

  /// The sums of products of a row of weights with `rows` rows of x. Each has `ways` parts, so that
  /// additions need not wait for one another.
  template <int rows>
  static constexpr int ways = rows <= 2 ? 4 : 2;
  template <int rows>
  using Sums = V[rows][ways<rows>][parts];

  /// Adds the products of the step from element i on to the parts `way` of the sums.
  template <int rows>
  static STAVE_INLINE void add_step(const std::uint8_t* codes, const Group& group, Index i, const T* x, Index x_step,
                                    int way, Sums<rows>& sums) {
    V w[parts];
    group.elements(codes, i, w);
    for (int r = 0; r < rows; ++r)
      for (int p = 0; p < parts; ++p)
        sums[r][way][p] = multiply_add(V::load(x + r * x_step + i + p * V::lanes), w[p], sums[r][way][p]);
  }
  /// Adds rounds of `ways` steps as long as they end at or before `end`, and returns the first
  /// element that was not added. Either all are in group g, or each has `groups` whole groups, of
  /// which g is the first.
  template <int rows, int groups>
  static STAVE_INLINE Index add_rounds(const QuantizedRow& row, Index g, Index i, Index end, const T* x, Index x_step,
                                       Sums<rows>& sums) {
    constexpr int steps = ways<rows> / groups;
    Group of[groups];
    if constexpr (groups == 1) of[0] = group_of(row, g);
    for (; i + ways<rows> * step <= end; i += ways<rows> * step) {
      if constexpr (groups > 1)
        for (int k = 0; k < groups; ++k) of[k] = group_of(row, g++);
#pragma GCC unroll 4
      for (int way = 0; way < ways<rows>; ++way)
        add_step<rows>(row.codes, of[way / steps], i + way * step, x, x_step, way, sums);
    }
    return i;
  }
  /// Adds the products of elements first, ..., end - 1 to the totals.
  template <int rows>
  static STAVE_INLINE void add_span(const QuantizedRow& row, Index first, Index end, const T* x, Index x_step,
                                    double* totals) {
    constexpr Index round = ways<rows> * step;
    Sums<rows> sums;
    for (auto& of_row : sums)
      for (auto& way : of_row)
        for (V& sum : way) sum = V(0);
    Index i = first, g = first / row.group;
    if (row.group == round / 2) i = add_rounds<rows, 2>(row, g, i, end, x, x_step, sums);
    else if (ways<rows> == 4 && row.group == round / 4)
      i = add_rounds<rows, ways<rows>>(row, g, i, end, x, x_step, sums);
    for (g = i / row.group; i < end; ++g) {
      const Index stop = (g + 1) * row.group < end ? (g + 1) * row.group : end;
      const Group group = group_of(row, g);
      i = add_rounds<rows, 1>(row, g, i, stop, x, x_step, sums);
#pragma GCC unroll 1
      for (; i + step <= stop; i += step) add_step<rows>(row.codes, group, i, x, x_step, 0, sums);
#pragma GCC unroll 1
      for (; i < stop; ++i) {
        const auto w = static_cast<double>(group.element(row.codes, i));
        for (int r = 0; r < rows; ++r) totals[r] += static_cast<double>(x[r * x_step + i]) * w;
      }
    }
    for (int r = 0; r < rows; ++r)
      for (int p = 0; p < parts; ++p) {
        V sum = sums[r][0][p];
        for (int way = 1; way < ways<rows>; ++way) sum = sum + sums[r][way][p];
        totals[r] += static_cast<double>(sum_across(sum));
      }
  }

  template <int rows>
  static void dot_rows(const QuantizedRow& row, Index n, const T* x, Index x_step, T* out, Index out_step) {
    double totals[rows] = {};
    // Spans end with groups, unless these are longer.
    const Index span = row.group < piece ? piece / row.group * row.group : piece;
    for (Index first = 0; first < n; first += span)
      add_span<rows>(row, first, first + span < n ? first + span : n, x, x_step, totals);
    for (int r = 0; r < rows; ++r) out[r * out_step] = static_cast<T>(totals[r]);
  }
  static void dot(const QuantizedRow& row, Index n, const void* x, Index x_step, Index rows, void* out,
                  Index out_step) {
    const T* const from = static_cast<const T*>(x);
    T* const to = static_cast<T*>(out);
    if (rows == 4) return dot_rows<4>(row, n, from, x_step, to, out_step);
    if (rows >= 2) dot_rows<2>(row, n, from, x_step, to, out_step);
    if (rows % 2 == 1) dot_rows<1>(row, n, from + (rows - 1) * x_step, x_step, to + (rows - 1) * out_step, out_step);
  }

  static constexpr QuantizedKernels kernels() { return {unpack, dot}; }
};

template <int bits>
void fill_bits(QuantizedKernels* kernels) {
  kernels[static_cast<int>(Dtype::float32)] = Quantized<float, bits>::kernels();
  kernels[static_cast<int>(Dtype::float64)] = Quantized<double, bits>::kernels();
}

}  // namespace

void fill_quantized(stave_cpu::Kernels& table) {
  fill_bits<4>(table.quantized[0]);
  fill_bits<8>(table.quantized[1]);
}

}  // namespace STAVE_KERNELS
