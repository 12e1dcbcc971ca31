// Products with quantized weights. For few rows of x, kernels compute the weights from their codes
// in registers, so that only the codes are read from memory. For more rows, blocks of weights are
// unpacked, each small enough for a cache, and multiplied as matrices of floats.
#include <stave/backends/cpu/quantized_matmul.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include <stave/backends/attributes.h>
#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/in_floats.h>
#include <stave/backends/cpu/matmul.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/scratch.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

using stave::Dtype;
using stave::QuantizedAttributes;
using stave::Shape;
using stave::Strides;
using stave::View;

namespace {

// The largest number of rows of x for which the weights are computed in registers. The measure is
// the benchmark quantized_matmul.
constexpr Index few_rows = 16;
// The number of weights that are unpacked at a time: 8 MiB of float32.
constexpr Index block_elements = Index{1} << 21;
constexpr Index least_block = 64;

/// A stack of matrices whose rows are dense. A view with other rows is copied.
class DenseRows {
 public:
  explicit DenseRows(const View& x) {
    const std::size_t rank = x.shape.size();
    const bool is_dense = (x.strides[rank - 1] == 1 || x.shape[rank - 1] <= 1) &&
                          (x.strides[rank - 2] == x.shape[rank - 1] || x.shape[rank - 2] <= 1);
    if (!is_dense) copy_.emplace(x);
    view_ = copy_ ? copy_->view() : x;
  }
  DenseRows(const DenseRows&) = delete;
  const View& view() const { return view_; }
  Index rows() const { return view_.shape[view_.shape.size() - 2]; }
  Index columns() const { return view_.shape.back(); }
  Index size() const { return static_cast<Index>(stave::size_of(view_.dtype)); }
  const char* at(Index offset, Index row = 0) const {
    return static_cast<const char*>(view_.data) + offset + row * columns() * size();
  }

 private:
  std::optional<Dense> copy_;
  View view_{};
};

/// A product in T: float or double.
template <class T>
class QuantizedProduct {
  static constexpr Dtype dtype = stave::dtype_of<T>();

 public:
  QuantizedProduct(const QuantizedAttributes& attributes, const View& x, std::span<const View> in, const View& out)
      : transpose_(attributes.transpose), x_(x), codes_(in[1]), scales_(in[2]),
        kernels_(kernels().quantized[attributes.bits / 8][static_cast<int>(dtype)]),
        zero_(static_cast<T>(1 << (attributes.bits - 1))), k_(codes_.columns() * 8 / attributes.bits),
        out_(static_cast<T*>(out.data)), n_out_(out.shape.back()) {
    if (in.size() > 3) biases_.emplace(in[3]);
    const View& biases = biases_ ? biases_->view() : scales_.view();
    const Index* strides[] = {x_.view().strides.data(), codes_.view().strides.data(), scales_.view().strides.data(),
                              biases.strides.data()};
    const Index sizes[] = {x_.size(), codes_.size(), scales_.size(), scales_.size()};
    batch_.emplace(merged_axes(out.shape.first(out.shape.size() - 2), strides, sizes), most_operands, -1, 1, 1);
  }

  void run() const {
    if (transpose_ && x_.rows() <= few_rows) return multiply_in_registers();
    TileWalk walk = *batch_;
    for (Index i = 0; i < batch_->count(); ++i, walk.next()) multiply_by_blocks(walk, out_ + i * x_.rows() * n_out_);
  }

 private:
  Index groups() const { return scales_.columns(); }

  /// Memory for the scales and biases of one row, in T.
  using Buffer = std::unique_ptr<T[]>;
  Buffer make_buffer() const { return std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(2 * groups())); }
  static const T* in_dtype(const DenseRows& numbers, const char* from, T* buffer) {
    if (numbers.view().dtype == dtype) return reinterpret_cast<const T*>(from);
    const void* in[] = {from};
    stave_cpu::kernels().convert[static_cast<int>(numbers.view().dtype)][static_cast<int>(dtype)](buffer, in,
                                                                                                  numbers.columns());
    return buffer;
  }
  QuantizedRow row_at(const TileWalk& walk, Index row, const Buffer& buffer) const {
    QuantizedRow result;
    result.codes = reinterpret_cast<const std::uint8_t*>(codes_.at(walk.offset(1), row));
    result.group = k_ / groups();
    const T* const scales = in_dtype(scales_, scales_.at(walk.offset(2), row), buffer.get());
    T* const biases = buffer.get() + groups();
    result.scales = scales;
    if (biases_) {
      result.biases = in_dtype(*biases_, biases_->at(walk.offset(3), row), biases);
    } else {
      for (Index g = 0; g < groups(); ++g) biases[g] = -zero_ * scales[g];
      result.biases = biases;
    }
    return result;
  }

  void multiply_in_registers() const {
    const Index m = x_.rows(), n = codes_.rows();
    parallel_for(batch_->count() * n, std::max<Index>(1, cheap_grain / (k_ * m)), [&](Index first, Index last) {
      const Buffer buffer = make_buffer();
      TileWalk walk = *batch_;
      walk.seek(first / n);
      for (Index i = first; i < last; ++i) {
        const QuantizedRow row = row_at(walk, i % n, buffer);
        const T* const x = reinterpret_cast<const T*>(x_.at(walk.offset(0)));
        T* const out = out_ + i / n * m * n + i % n;
        for (Index r = 0; r < m; r += quantized_rows)
          kernels_.dot(row, k_, x + r * k_, k_, std::min(quantized_rows, m - r), out + r * n, n);
        if ((i + 1) % n == 0) walk.next();
      }
    });
  }

  /// Multiplies by blocks of rows of the weights, or of columns.
  void multiply_by_blocks(const TileWalk& walk, T* out) const {
    const Index n = codes_.rows(), whole = transpose_ ? n : k_, other = transpose_ ? k_ : n;
    const Index block = std::min(whole, std::max(block_elements / other, least_block) / least_block * least_block);
    const Scratch<T> weights = scratch<T>(static_cast<std::size_t>(block * other));
    const bool is_whole = block == whole;
    const Scratch<T> product = is_whole ? nullptr : scratch<T>(static_cast<std::size_t>(x_.rows() * block));
    for (Index first = 0; first < whole; first += block) {
      const Index count = std::min(block, whole - first);
      if (transpose_) unpack(walk, first, count, 0, k_, weights.get());
      else unpack(walk, 0, n, first, count, weights.get());
      multiply(walk, weights.get(), count, is_whole ? out : product.get());
      if (!is_whole) copy_columns(product.get(), count, out + first);
    }
  }
  void unpack(const TileWalk& walk, Index row, Index rows, Index column, Index columns, T* to) const {
    parallel_for(rows, std::max<Index>(1, cheap_grain / columns), [&](Index first, Index last) {
      const Buffer buffer = make_buffer();
      for (Index i = first; i < last; ++i)
        kernels_.unpack(row_at(walk, row + i, buffer), column, columns, to + i * columns);
    });
  }
  void multiply(const TileWalk& walk, T* weights, Index columns, T* out) const {
    const Index m = x_.rows(), inner = x_.columns();
    const Shape x_shape{m, inner}, w_shape{inner, columns}, out_shape{m, columns};
    const Strides x_strides = stave::contiguous_strides(x_shape), out_strides = stave::contiguous_strides(out_shape);
    Strides w_strides = stave::contiguous_strides(w_shape);
    if (transpose_) w_strides[0] = 1, w_strides[1] = inner;
    run_matmul({const_cast<char*>(x_.at(walk.offset(0))), dtype, x_shape, x_strides},
               {weights, dtype, w_shape, w_strides}, {out, dtype, out_shape, out_strides});
  }
  void copy_columns(const T* from, Index columns, T* to) const {
    parallel_for(x_.rows(), std::max<Index>(1, cheap_grain / columns), [&](Index first, Index last) {
      for (Index r = first; r < last; ++r) std::copy_n(from + r * columns, columns, to + r * n_out_);
    });
  }

  const bool transpose_;
  const DenseRows x_, codes_, scales_;
  std::optional<DenseRows> biases_;
  const QuantizedKernels& kernels_;
  const T zero_;  // the code of 0 without biases
  const Index k_;
  T* const out_;
  const Index n_out_;
  std::optional<TileWalk> batch_;
};

template <class T>
void run(const QuantizedAttributes& attributes, const View& x, std::span<const View> in, const View& out) {
  if (x.shape.back() == 0) {
    std::memset(out.data, 0, static_cast<std::size_t>(element_count(out.shape)) * sizeof(T));
    return;
  }
  QuantizedProduct<T>(attributes, x, in, out).run();
}

}  // namespace

void run_quantized_matmul(const QuantizedAttributes& attributes, std::span<const View> in, const View& out) {
  if (element_count(out.shape) == 0) return;
  if (out.dtype == stave::float64) return run<double>(attributes, in[0], in, out);
  in_floats({in[0]}, out, [&](const View(&x)[1], const View& y) { run<float>(attributes, x[0], in, y); });
}

}  // namespace stave_cpu
