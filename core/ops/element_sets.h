// Sets of element numbers, for dependence rules (core/op/depends.h).
//
//   ElementSets sets;
//   const Tensor x = sets.singletons({4}, 0);       // {0}, {1}, {2}, {3}
//   const Tensor y = sets.unite(x, flip(x));        // {0,3}, {1,2}, {1,2}, {0,3}
//   const Tensor z = sets.unite_over(x, Shape(0));  // {0,1,2,3}
//
// A set is a stencil at an offset: {7, 9} is the stencil {0, 2} at 7. The elements of a grid have
// few stencils between them, so a union is computed once for many elements. A stencil is a sorted
// list of disjoint runs [low, high) of numbers, so a dense range costs one run. Its smallest number
// is 0.
//
// The number of a set is stencil * 2^32 + offset, and the empty set has number 0. Tensors of such
// numbers (int64, on the CPU) say which set belongs to which element. Equal sets may have different
// numbers, because only a small table remembers which stencils exist and which unions they have.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <stave/core/op/depends.h>

namespace stave {

class ElementSets {
 public:
  using Number = std::int64_t;
  /// The numbers low, ..., high - 1.
  struct Run {
    std::int32_t low, high;
    bool operator==(const Run&) const = default;
  };

  ElementSets();

  /// Sets for the elements of an array of this shape: element i, in row-major order, gets the set
  /// {first + i}.
  Tensor singletons(const Shape& shape, std::int32_t first);
  /// The union of the sets of two elements, for each pair of elements. The shapes broadcast, and an
  /// undefined tensor stands for empty sets.
  Tensor unite(const Tensor& a, const Tensor& b);
  /// The union of the sets along these axes, which get length 1.
  Tensor unite_over(const Tensor& numbers, Shape axes);
  /// For each element the union of the sets of all elements up to it along the axis, or from it on
  /// if `reverse`.
  Tensor unite_running(const Tensor& numbers, int axis, bool reverse);
  /// For each of `count` places the union of the sets of the elements that go there: element i of
  /// `numbers` goes to places[i]. Both are vectors of one length; places are int64, in [0, count).
  Tensor unite_at(const Tensor& numbers, const Tensor& places, Index count);

  static std::int32_t stencil_of(Number set) { return static_cast<std::int32_t>(set >> 32); }
  static std::int32_t offset_of(Number set) { return static_cast<std::int32_t>(set & 0x7fffffff); }
  /// The runs of a stencil. They are valid until the next union or collection.
  std::span<const Run> runs_of(std::int32_t stencil) const {
    const Slot& slot = slots_[static_cast<std::size_t>(stencil)];
    return {runs_.data() + slot.begin, slot.count};
  }
  bool contains(Number set, Index element) const;

  /// Returns true if many sets were made since the last collection.
  bool wants_collection() const { return runs_.size() + slots_.size() > collect_at_; }
  /// Frees the stencils that none of these tensors names.
  void collect(std::span<const Tensor> live);
  /// The number of stencils.
  std::size_t size() const { return slots_.size() - free_.size(); }

 private:
  /// The runs of a stencil: runs_[begin], ..., runs_[begin + count - 1].
  struct Slot {
    std::uint32_t begin = 0, count = 0;
  };
  /// The union of stencil a at offset 0 and stencil b at `apart` is `stencil` at `offset`, which
  /// may be negative.
  struct Memo {
    std::int32_t a = 0, b = 0, apart = 0, stencil = 0, offset = 0;
  };
  /// A stencil, and the hash of its runs.
  struct Recent {
    std::uint32_t hash = 0;
    std::int32_t stencil = 0;
  };
  class Groups;
  std::int32_t add(std::span<const Run> runs);
  std::int32_t find_or_add(std::span<const Run> runs);
  Number unite(Number a, Number b);
  Number unite(std::span<const Number> sets);
  Number merge(Number a, Number b);
  void unite_rows(const Number* a, const Number* b, Number* united, std::size_t n);
  bool equals(std::int32_t stencil, std::span<const Run> runs) const;

  std::vector<Run> runs_, work_;
  std::vector<Slot> slots_;
  std::vector<std::int32_t> free_;
  std::vector<Memo> memo_;
  std::vector<Recent> recent_;
  std::vector<Number> list_;
  std::size_t collect_at_ = 1 << 21;
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

/// The rule of operations that move elements: the operation itself, performed on the numbers. The
/// inputs in `indices` say which elements are moved where. If their values cannot be used,
/// the rule returns no tensors.
Outputs depends_moved(const DependsContext& c, ValueSet indices = 0);
/// The rule of operations whose inputs and outputs have one shape.
Outputs depends_elementwise(const DependsContext& c);
/// The rule of a product of two operands: where one is a constant 0, the product depends on
/// nothing.
Outputs depends_scaled(const DependsContext& c);
/// The rule of `where`: a constant condition says which operand counts.
Outputs depends_where(const DependsContext& c);
/// The rule of operations that work along axes: each output element depends on all elements of the
/// inputs along these axes, which the output may have at another length.
Outputs depends_along(const DependsContext& c, Shape axes);
/// The rule of operations on stacks of matrices: each element of a matrix depends on all elements
/// of the matrices at the same place of the stacks.
Outputs depends_on_matrices(const DependsContext& c);

}  // namespace stave_detail
