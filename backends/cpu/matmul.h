// Matrix products on the CPU.
#pragma once

#include <memory>

#include <stave/backends/cpu/finished.h>
#include <stave/backends/cpu/scratch.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// A right matrix, packed for the kernel of products (panel_products.h).
class PackedMatrix final : public stave::PreparedInput {
 public:
  PackedMatrix(Scratch<char> data, std::size_t bytes, Index columns)
      : data_(std::move(data)), bytes_(bytes), columns_(columns) {}
  std::size_t bytes() const override { return bytes_; }
  const void* data() const { return data_.get(); }
  /// The number of columns, with those that fill the last panel.
  Index columns() const { return columns_; }

 private:
  const Scratch<char> data_;
  const std::size_t bytes_;
  const Index columns_;
};

/// Packs b for products of these layouts. Returns null if packing does not pay.
std::shared_ptr<const PackedMatrix> packed_right_matrix(const stave::View& a, const stave::View& b,
                                                        const stave::View& out);

struct MatmulSettings {
  const PackedMatrix* packed = nullptr;  // b, packed
  const Finished* finished = nullptr;    // receives blocks of results
};

/// Computes out = a b for a [..., m, k], b [..., k, n] and contiguous out [..., m, n].
/// The leading axes have equal lengths; an operand that is broadcast along one has stride 0 there.
/// Returns true if settings.finished received all results.
bool run_matmul(const stave::View& a, const stave::View& b, const stave::View& out,
                const MatmulSettings& settings = {});

}  // namespace stave_cpu
