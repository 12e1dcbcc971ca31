// x.at(index...): entries of x, selected by any kind of index that NumPy takes.
// They can be read or, in a copy of x, updated.
//
//   x.at(0, slice(2)).set(1)        x with two entries of its first row set
//   x.at(ids).add(rows)             rows added to the rows ids of x, twice where an id occurs twice
//   x.at(x < 0).set(0)              where a mask is true
//   x.at(ids).get(NAN)              x(ids), but NaN where an index is out of range
//
// An index consists of integers, slices, `ellipsis` and `newaxis`, as in x(...), and of tensors.
// Integer tensors hold positions along one axis; negative ones count from the end. Bool tensors
// are masks. A mask has the shape of the axes that it replaces. It acts as several integer tensors,
// the positions of its true elements; their number is read on the host. All tensors of an index,
// and C++ integers beside them, broadcast to one shape. The axes of that shape replace those
// of the tensors if these are adjacent in the index, else they come first (NumPy's rule).
//
// Updates broadcast to the shape of the selected entries. Dtypes are promoted;
// C++ numbers are weakly typed. If an entry is selected twice, `set` keeps the last update,
// while `add` and `multiply` apply all. An update by a mask with one value for all its elements
// does not read the mask, so that the masks of a vmap's lanes may differ.
//
// Throws IndexError for an index out of range and for more indices than axes, and ShapeError
// if shapes do not broadcast.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include <stave/core/tensor/tensor.h>

namespace stave {

/// One part of an index: an integer, a slice, `ellipsis`, `newaxis`, or a tensor.
struct AnyIndex {
  template <class OneIndex>
    requires std::is_constructible_v<Tensor::Subscript, const OneIndex&>
  AnyIndex(const OneIndex& index) : value(Tensor::Subscript(index)) {}
  AnyIndex(Tensor index) : value(std::move(index)) {}
  std::variant<Tensor::Subscript, Tensor> value;
};

/// Selected entries of a tensor: the result of x.at(index...).
class At {
 public:
  At(Tensor x, std::vector<AnyIndex> index) : x_(std::move(x)), index_(std::move(index)) {}

  /// Returns the selected entries.
  Tensor get() const;
  /// Returns the selected entries, with `fill` where an index of an integer tensor is out of range.
  Tensor get(const Operand& fill) const;

  /// A copy of x in which the entries are replaced by `values` (set), added to (add), multiplied
  /// (multiply), or combined with `values` by minimum or maximum (min, max).
  Tensor set(const Operand& values) const;
  Tensor add(const Operand& values) const;
  Tensor multiply(const Operand& values) const;
  Tensor(min)(const Operand& values) const;
  Tensor(max)(const Operand& values) const;

 private:
  Tensor x_;
  std::vector<AnyIndex> index_;
};

}  // namespace stave

namespace stave_detail {

template <class... Indices>
struct EntriesOf<stave::Tensor, Indices...> {
  static stave::At at(const stave::Tensor& x, const Indices&... indices) {
    using namespace stave;
    if constexpr (sizeof...(Indices) == 1 && (std::is_convertible_v<const Indices&, std::vector<AnyIndex>> && ...)) {
      return At(x, indices...);
    } else {
      constexpr bool known = (std::is_convertible_v<const Indices&, AnyIndex> && ...);
      static_assert(known,
                    "stave: an index must be an integer, a slice, ellipsis, newaxis, or a tensor of integers or bools");
      if constexpr (known) return At(x, {AnyIndex(indices)...});
      else return At(x, {});
    }
  }
};

}  // namespace stave_detail
