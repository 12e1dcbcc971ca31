// Drivers of the reductions.
#pragma once

#include <memory>

#include <stave/backends/cpu/kernels/kernels.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// sum prod max min all any: `out` has the reduced axes removed or of length 1.
void run_reduce(const Reduction& reduction, const stave::Shape& axes, const stave::View& in, const stave::View& out);

/// A reduction of an array whose elements have `size` bytes, as has what it gives.
struct Fold {
  Reduction kernels;
  Index size;
  char* out;
};

/// Row-major arrays of one shape that are computed while they are reduced.
class Computed {
 public:
  /// For one thread.
  class Reader {
   public:
    virtual ~Reader() = default;
    /// Computes of each array elements offset + r * row_step + i, for r < rows and i < n, and points arrays[k] to them, rows side by
    /// side.
    virtual void read(Index offset, Index rows, Index row_step, Index n, const char** arrays) = 0;
  };
  virtual ~Computed() = default;
  virtual std::unique_ptr<Reader> reader() const = 0;
};

/// A reduction of each of the arrays, whose every element is read once. The results are, bit for bit, those of run_reduce on the
/// same arrays in memory.
void run_reduce(std::span<const Fold> folds, const stave::Shape& axes, std::span<const Index> shape,
                const Computed& arrays);

/// argmax argmin over one axis, or over all of them as one row-major vector. `out` is int32 or int64.
void run_arg_reduce(const ArgReduction& reduction, const stave::Shape& axes, const stave::View& in,
                    const stave::View& out);

}  // namespace stave_cpu
