// Reductions on the CPU.
#pragma once

#include <memory>

#include <stave/backends/cpu/kernels/kernels.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Runs sum, prod, max, min, all or any. In `out` the reduced axes are removed or have length 1.
void run_reduce(const Reduction& reduction, const stave::Shape& axes, const stave::View& in, const stave::View& out);

/// One reduction of an array. Elements of the array and of the result have `size` bytes.
struct Fold {
  Reduction kernels;
  Index size;
  char* out;
};

/// Row-major arrays of one shape whose elements are computed while they are reduced.
class Computed {
 public:
  /// Computes blocks of the arrays, for one thread.
  class Reader {
   public:
    virtual ~Reader() = default;
    /// Computes elements offset + r * row_step + i of each array, for r < rows and i < n. It sets
    /// arrays[k] to the address of these elements of array k, which are stored as dense rows of n
    /// elements.
    virtual void read(Index offset, Index rows, Index row_step, Index n, const char** arrays) = 0;
  };
  virtual ~Computed() = default;
  virtual std::unique_ptr<Reader> reader() const = 0;
};

/// Reduces arrays that are computed on demand, array k by folds[k], and computes every element
/// once. The results are, bit for bit, those of the other run_reduce for arrays in memory.
void run_reduce(std::span<const Fold> folds, const stave::Shape& axes, std::span<const Index> shape,
                const Computed& arrays);

/// Runs argmax or argmin over one axis, or over all axes as one row-major vector. `out`
/// is int32 or int64.
void run_arg_reduce(const ArgReduction& reduction, const stave::Shape& axes, const stave::View& in,
                    const stave::View& out);

}  // namespace stave_cpu
