// layer_norm and its gradient on the CPU. Rows are divided among threads. The gradients of weight
// and bias are sums over rows. They are computed in parts, and the division into parts depends on
// the number of rows alone.
#include <stave/backends/cpu/normalize.h>

#include <algorithm>
#include <memory>
#include <vector>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

using stave::NormAttributes;
using stave::View;

namespace {

Index rows_of(const View& x) { return element_count(x.shape.first(x.shape.size() - 1)); }
char* row_at(const View& x, Index row) {
  return static_cast<char*>(x.data) + row * x.shape.back() * static_cast<Index>(stave::size_of(x.dtype));
}
Index row_grain(Index n) { return std::max<Index>(1, cheap_grain / 4 / n); }

/// Computes out [n], the sum of the rows of `sums` [parts, n].
void add_parts(const std::vector<double>& sums, Index parts, Index n, const View& out) {
  const auto store = [&]<class T>(T) {
    parallel_for(n, std::max<Index>(1, cheap_grain / 4 / parts), [&](Index first, Index last) {
      for (Index i = first; i < last; ++i) {
        double total = 0;
        for (Index part = 0; part < parts; ++part) total += sums[static_cast<std::size_t>(part * n + i)];
        static_cast<T*>(out.data)[i] = static_cast<T>(total);
      }
    });
  };
  if (out.dtype == stave::float64) store(double());
  else store(float());
}

}  // namespace

void run_layer_norm(const NormAttributes& attributes, std::span<const View> in, const View& out) {
  if (element_count(out.shape) == 0) return;
  const Dense x(in[0]), weight(in[1]), bias(in[2]);
  const Normalization& kernel = kernels().layer_norm[static_cast<int>(out.dtype)];
  const Index n = out.shape.back();
  parallel_for(rows_of(out), row_grain(n), [&](Index first, Index last) {
    kernel.rows(row_at(x.view(), first), weight.view().data, bias.view().data, last - first, n, attributes.epsilon,
                row_at(out, first));
  });
}

void run_layer_norm_gradient(const NormAttributes& attributes, std::span<const View> in, std::span<const View> out) {
  constexpr Index most_parts = 64, least_rows = 16;
  const Index n = out[0].shape.back(), rows = rows_of(out[0]);
  if (n == 0) return;
  const Dense x(in[0]), weight(in[1]), ct(in[2]);
  const Normalization& kernel = kernels().layer_norm[static_cast<int>(out[0].dtype)];
  const Index parts = std::clamp<Index>(rows / least_rows, 1, most_parts), part_grain = row_grain(n) * parts;
  std::vector<double> of_weight(static_cast<std::size_t>(parts * n)), of_bias(of_weight.size());
  parallel_for(parts, std::max<Index>(1, part_grain / std::max<Index>(1, rows)), [&](Index begin, Index end) {
    const auto work = std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(2 * n));
    for (Index part = begin; part < end; ++part) {
      const Index first = rows * part / parts, last = rows * (part + 1) / parts;
      kernel.gradient(row_at(x.view(), first), weight.view().data, row_at(ct.view(), first), last - first, n,
                      attributes.epsilon, row_at(out[0], first), &of_weight[static_cast<std::size_t>(part * n)],
                      &of_bias[static_cast<std::size_t>(part * n)], work.get());
    }
  });
  add_parts(of_weight, parts, n, out[1]);
  add_parts(of_bias, parts, n, out[2]);
}

}  // namespace stave_cpu
