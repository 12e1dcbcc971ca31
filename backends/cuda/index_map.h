// From a linear index to the places of several strided operands of one shape.
//
//   plan    host: axes of length 1 dropped, neighbours merged where every operand steps evenly across them
//   map     __host__ __device__, a kernel's parameter: index -> offset of each operand, in elements
//
// Indices run row-major over the shape, which is the order of an output's memory: give the output as operand 0, or leave it
// out. The rank is unlimited: a map holds its innermost axes itself, so that a kernel's parameters stay short, and those beyond
// in an array, which on_device() uploads to scratch memory. (So rare that looking there costs nothing, and no kernel and no
// driver has a second path for it.)
#pragma once

#include <array>
#include <span>
#include <vector>

#include <stave/backends/cuda/launch.h>
#include <stave/core/small_vector.h>

#ifdef __CUDACC__
#define STAVE_BOTH __host__ __device__
#else
#define STAVE_BOTH
#endif
#ifdef __CUDA_ARCH__
#define STAVE_ROLLED _Pragma("unroll 1")
#define STAVE_OUTLINE __noinline__
#else
#define STAVE_ROLLED
#define STAVE_OUTLINE
#endif

namespace stave_cuda {

/// One axis of a loop: its length and the step of each operand along it, in elements.
template <int operands>
struct LoopAxis {
  Index length = 1;
  std::array<Index, operands> step{};
  friend bool operator==(const LoopAxis&, const LoopAxis&) = default;
};
template <int operands>
using LoopAxes = stave::SmallVector<LoopAxis<operands>, 6>;

template <int operands>
using OperandStrides = std::array<std::span<const Index>, static_cast<std::size_t>(operands)>;

/// The axes of a loop over `shape`, outermost first; none for a single element. An empty shape gives one axis of length 0.
template <int operands>
LoopAxes<operands> merged_axes(std::span<const Index> shape, const OperandStrides<operands>& strides) {
  LoopAxes<operands> axes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    LoopAxis<operands> axis{shape[i]};
    for (std::size_t k = 0; k < operands; ++k) axis.step[k] = strides[k][i];
    if (axis.length == 0) {
      axes.clear();
      axes.push_back(axis);
      return axes;
    }
    if (axis.length == 1) continue;
    bool merges = !axes.empty();
    for (std::size_t k = 0; merges && k < operands; ++k) merges = axes.back().step[k] == axis.step[k] * axis.length;
    if (merges) {
      axis.length *= axes.back().length;
      axes.back() = axis;
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

/// Quotients by a divisor that is known to the host, by one multiplication.
/// (Granlund and Montgomery, "Division by invariant integers using multiplication", 1994, figure 4.1: with words of N bits,
/// s = ceil(log2 d) and m = floor(2^N (2^s - d) / d) + 1, n / d = (hi(m n) + n) >> s. The sum fits as n < 2^(N-1).)
struct Divider {
  std::uint64_t divisor = 1;
  std::uint64_t multiplier64 = 1;
  std::uint32_t multiplier32 = 1;  // for divisors of 31 bits
  std::uint32_t shift = 0;

  Divider() = default;
  explicit Divider(Index d) : divisor(static_cast<std::uint64_t>(d)) {
    while ((std::uint64_t{1} << shift) < divisor) ++shift;
    const std::uint64_t above = (std::uint64_t{1} << shift) - divisor;
    multiplier64 = static_cast<std::uint64_t>((Wide{above} << 64) / divisor + 1);
    if (d <= most_narrow) multiplier32 = static_cast<std::uint32_t>((above << 32) / divisor + 1);
  }
  /// For n and a divisor of at most most_narrow.
  STAVE_BOTH std::uint32_t narrow(std::uint32_t n) const {
    auto high = static_cast<std::uint32_t>(std::uint64_t{n} * multiplier32 >> 32);
    return (high + n) >> shift;
  }
  /// For n < 2^63.
  STAVE_BOTH std::uint64_t wide(std::uint64_t n) const {
#ifdef __CUDA_ARCH__
    const std::uint64_t high = __umul64hi(n, multiplier64);
#else
    const auto high = static_cast<std::uint64_t>(Wide{n} * multiplier64 >> 64);
#endif
    return (high + n) >> shift;
  }

  __extension__ using Wide = unsigned __int128;
  static constexpr Index most_narrow = 0x7fffffff;
};

template <int operands>
struct MapAxis {
  Divider length;
  Index step[operands];
};

/// Offsets of the operands, in elements.
template <int operands>
struct Offsets {
  Index at[operands] = {};
  STAVE_BOTH Index operator[](int operand) const { return at[operand]; }
};

inline constexpr int inline_axes = 6;

template <int operands>
struct IndexMap {
  int rank = 0;
  bool wide = false;                        // an index or an offset that 31 bits do not hold
  MapAxis<operands> axes[inline_axes];      // innermost first
  const MapAxis<operands>* more = nullptr;  // the axes beyond

  /// 0 <= index < the number of elements.
  STAVE_BOTH Offsets<operands> operator()(std::uint64_t index) const {
    if (wide) return walk_wide(index);
    return walk<std::uint32_t>(static_cast<std::uint32_t>(index));
  }

 private:
  STAVE_OUTLINE STAVE_BOTH Offsets<operands> walk_wide(std::uint64_t index) const { return walk<std::uint64_t>(index); }
  template <class Word>
  STAVE_BOTH Offsets<operands> walk(Word rest) const {
    Offsets<operands> offsets;
    // Two loops, though they do the same: an axis that may lie in either place is read through a pointer to anywhere, and those
    // within the kernel's parameters are constants, which are read as fast as registers.
    const int within = rank < inline_axes ? rank : inline_axes;
    STAVE_ROLLED
    for (int i = 0; i < within; ++i) step_along(offsets, axes[i], rest, i + 1 == rank);
    STAVE_ROLLED
    for (int i = inline_axes; i < rank; ++i) step_along(offsets, more[i - inline_axes], rest, i + 1 == rank);
    return offsets;
  }
  /// `rest` numbers places along this axis and those outside of it; of the outermost one it is the position.
  template <class Word>
  STAVE_BOTH static void step_along(Offsets<operands>& offsets, const MapAxis<operands>& a, Word& rest,
                                    bool outermost) {
    if (outermost) return add<Word>(offsets, a, rest);
    const Word quotient = sizeof(Word) == 4 ? static_cast<Word>(a.length.narrow(static_cast<std::uint32_t>(rest)))
                                            : static_cast<Word>(a.length.wide(rest));
    add<Word>(offsets, a, rest - quotient * static_cast<Word>(a.length.divisor));
    rest = quotient;
  }
  template <class Word>
  STAVE_BOTH static void add(Offsets<operands>& offsets, const MapAxis<operands>& a, Word position) {
    for (int k = 0; k < operands; ++k) {
      if constexpr (sizeof(Word) == 4)  // one multiplication of 32 bits into 64
        offsets.at[k] += Index{static_cast<std::int32_t>(a.step[k])} * static_cast<std::int32_t>(position);
      else offsets.at[k] += a.step[k] * static_cast<Index>(position);
    }
  }
};

/// What the host knows of a loop, and the map for its kernel.
template <int operands>
class IndexPlan {
 public:
  explicit IndexPlan(LoopAxes<operands> axes) : axes_(std::move(axes)) {
    Index reach[operands] = {};
    for (const LoopAxis<operands>& axis : axes_) {
      elements_ *= axis.length;
      for (std::size_t k = 0; k < operands; ++k)
        reach[k] += (axis.length - 1) * (axis.step[k] < 0 ? -axis.step[k] : axis.step[k]);
    }
    map_.rank = static_cast<int>(axes_.size());
    map_.wide = elements_ > Divider::most_narrow;
    for (Index r : reach) map_.wide |= r > Divider::most_narrow;
    if (elements_ > 0) fill_map();
  }
  IndexPlan(std::span<const Index> shape, const OperandStrides<operands>& strides)
      : IndexPlan(merged_axes<operands>(shape, strides)) {}

  Index elements() const { return elements_; }
  /// Outermost first.
  const LoopAxes<operands>& axes() const { return axes_; }
  bool wide() const { return map_.wide; }
  /// The operand's elements lie one after the other in the order of the indices.
  bool is_contiguous(int operand) const {
    return axes_.empty() || elements_ == 0 || (axes_.size() == 1 && step(axes_[0], operand) == 1);
  }
  /// One value for all indices.
  bool is_scalar(int operand) const {
    for (const LoopAxis<operands>& axis : axes_)
      if (step(axis, operand) != 0) return elements_ == 0;
    return true;
  }
  /// For this host. Lives as long as the plan.
  IndexMap<operands> on_host() const {
    IndexMap<operands> map = map_;
    map.more = more_.data();
    return map;
  }
  /// For a kernel of this launch.
  IndexMap<operands> on_device(const Launch& launch) const {
    IndexMap<operands> map = map_;
    if (more_.empty()) return map;
    const std::size_t bytes = more_.size() * sizeof more_[0];
    void* memory = launch.scratch.allocate(bytes);
    // From pageable memory the source is read before this returns, and nothing is waited for.
    check(cudaMemcpyAsync(memory, more_.data(), bytes, cudaMemcpyHostToDevice, launch.stream),
          "upload of a loop's axes");
    map.more = static_cast<const MapAxis<operands>*>(memory);
    return map;
  }

 private:
  static Index step(const LoopAxis<operands>& axis, int operand) {
    return axis.step[static_cast<std::size_t>(operand)];
  }
  void fill_map() {
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const LoopAxis<operands>& from = axes_[axes_.size() - 1 - i];
      MapAxis<operands> axis{Divider(from.length), {}};
      for (std::size_t k = 0; k < operands; ++k) axis.step[k] = from.step[k];
      if (i < inline_axes) map_.axes[i] = axis;
      else more_.push_back(axis);
    }
  }

  LoopAxes<operands> axes_;
  Index elements_ = 1;
  IndexMap<operands> map_;
  std::vector<MapAxis<operands>> more_;
};

}  // namespace stave_cuda
