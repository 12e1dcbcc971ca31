// The plan of a loop over strided inputs into one contiguous output. This is host arithmetic,
// tested without a device.
//
// A thread computes `lanes` elements of the output, 16 bytes of the
// widest operand, in one of two ways:
//
//   by vectors    The elements are neighbours in memory. Along the innermost axis each input is
//                 either contiguous and aligned, and is loaded as one vector, or constant, and is
//                 loaded once. This covers contiguous and repeated inputs, and a row that is
//                 broadcast down the columns.
//   by elements   The elements are one from each of `lanes` rows of the block, so neighbouring
//                 threads write neighbouring elements. Inputs may have any strides.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>

#include <stave/backends/cuda/index_map.h>
#include <stave/core/tensor/backend.h>

namespace stave_cuda {

using stave::View;

inline constexpr unsigned block_threads = 256;

/// Returns the smallest number of blocks that have at least this many threads.
constexpr unsigned blocks_for(std::uint64_t threads) {
  return static_cast<unsigned>((threads + block_threads - 1) / block_threads);
}

/// Returns the number of elements per thread, given the element size in bytes of its widest
/// operand. A thread takes 16 bytes, or 8 elements of one byte, which need as many registers.
constexpr int lanes_of(std::size_t widest) { return widest == 1 ? 8 : static_cast<int>(16 / widest); }

/// The position of a thread in the grid. Tests on the host pass the positions of all threads in a
/// loop.
struct Position {
  std::uint64_t block;
  // The thread's index in the block, and the number of threads of a block.
  unsigned thread, threads;
};

/// Parameters of an elementwise kernel.
template <int inputs>
struct ElementwiseLoop {
  void* out = nullptr;
  const void* in[inputs] = {};         // null: the input is a scalar, whose value is in `number`
  stave::Bytes16 number[inputs] = {};  // the values of scalar inputs
  std::uint64_t elements = 0;
  bool by_vectors = false;
  bool flat = false;  // set only by vectors: all inputs are contiguous
  // Set only by vectors: the input is constant along the innermost axis.
  bool repeated[inputs] = {};
  // Maps the index of a vector (by vectors) or of an element to an offset in each input.
  IndexMap<inputs> map;

  /// Returns the index of this thread's first element. `stride` is the distance between its
  /// elements.
  STAVE_BOTH std::uint64_t first(Position p, unsigned lanes) const {
    std::uint64_t vector = p.block * p.threads + p.thread;
    return by_vectors ? vector * lanes : p.block * p.threads * lanes + p.thread;
  }
  STAVE_BOTH unsigned stride(Position p) const { return by_vectors ? 1 : p.threads; }
};

template <int inputs>
class ElementwisePlan {
 public:
  /// `lanes` is a power of two.
  ElementwisePlan(const View* in, const View& out, int lanes)
      : lanes_(lanes), axes_(merged_axes<inputs>(out.shape, strides_of(in))) {
    loop_.out = out.data;
    for (int k = 0; k < inputs; ++k) {
      if (in[k].is_host_constant) std::memcpy(&loop_.number[k], in[k].data, stave::size_of(in[k].dtype));
      else loop_.in[k] = in[k].data;
    }
    for (const LoopAxis<inputs>& axis : axes_) elements_ *= axis.length;
    loop_.elements = static_cast<std::uint64_t>(elements_);
    if (elements_ > 0 && vectors_fit(in, out)) take_vectors();
    plan_.emplace(std::move(axes_));
  }

  Index elements() const { return elements_; }
  bool by_vectors() const { return loop_.by_vectors; }
  unsigned blocks() const {
    const Index each = Index{block_threads} * lanes_;
    return static_cast<unsigned>((elements_ + each - 1) / each);
  }
  ElementwiseLoop<inputs> on_host() const { return with(plan_->on_host()); }
  ElementwiseLoop<inputs> on_device(const Launch& launch) const { return with(plan_->on_device(launch)); }

 private:
  static OperandStrides<inputs> strides_of(const View* in) {
    OperandStrides<inputs> strides;
    for (std::size_t k = 0; k < inputs; ++k) strides[k] = in[k].strides;
    return strides;
  }
  bool aligned(const View& view) const {
    return reinterpret_cast<std::uintptr_t>(view.data) %
               (stave::size_of(view.dtype) * static_cast<std::size_t>(lanes_)) ==
           0;
  }
  bool vectors_fit(const View* in, const View& out) const {
    if (axes_.empty() || !aligned(out)) return false;
    // A flat loop may end with an incomplete vector.
    const bool flat = axes_.size() == 1;
    if (!flat && axes_.back().length % lanes_ != 0) return false;
    for (std::size_t k = 0; k < inputs; ++k) {
      if (axes_.back().step[k] == 0) continue;
      if (axes_.back().step[k] != 1 || !aligned(in[k])) return false;
      for (std::size_t i = 0; i + 1 < axes_.size(); ++i)
        if (axes_[i].step[k] % lanes_ != 0) return false;
    }
    return true;
  }
  void take_vectors() {
    loop_.by_vectors = true;
    loop_.flat = axes_.size() == 1;
    LoopAxis<inputs>& inner = axes_.back();
    inner.length = (inner.length + lanes_ - 1) / lanes_;
    for (std::size_t k = 0; k < inputs; ++k) {
      loop_.repeated[k] = inner.step[k] == 0;
      loop_.flat &= !loop_.repeated[k];
      inner.step[k] *= lanes_;
    }
  }
  ElementwiseLoop<inputs> with(const IndexMap<inputs>& map) const {
    ElementwiseLoop<inputs> loop = loop_;
    loop.map = map;
    return loop;
  }

  int lanes_;
  Index elements_ = 1;
  ElementwiseLoop<inputs> loop_;
  LoopAxes<inputs> axes_;
  std::optional<IndexPlan<inputs>> plan_;
};

}  // namespace stave_cuda
