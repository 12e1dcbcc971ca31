// x.at(index...): entries of x by all that NumPy takes as an index, to be read or, in a copy of x, updated.
//
//   x.at(0, slice(2)).set(1)        x with two entries of its first row set
//   x.at(ids).add(rows)             rows added to those that ids names, twice where a number occurs twice
//   x.at(x < 0).set(0)              where a mask is true
//   x.at(ids).get(NAN)              x(ids), but NaN where an index is out of range
//
// An index has integers, slices, `ellipsis` and `newaxis` as x(...) has them, and tensors: of integers, negative ones counting from
// the end, or of bools (masks). A mask has the shape of the axes that it stands for; it is as many tensors of integers, the
// positions of its true elements, whose number is a value that is read. Tensors broadcast to one shape, C++ integers beside them too.
// The axes of that shape stand where the tensors do in the index; at the front if something stands between them (NumPy's rule).
//
// Updates broadcast to the shape that is read; dtypes are promoted, C++ numbers weak. Where a place is named twice, `set` keeps the
// last update, `add` and `multiply` take all. An update by a mask that has one value for all its elements reads no mask, so that
// masks may differ between lanes of vmap.
// Errors: IndexError for an index out of range and for more indices than axes, ShapeError for what does not broadcast.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include <stave/core/tensor/tensor.h>

namespace stave {

/// One part of an index.
struct AnyIndex {
  template <class OneIndex>
    requires std::is_constructible_v<Tensor::Subscript, const OneIndex&>
  AnyIndex(const OneIndex& index) : value(Tensor::Subscript(index)) {}
  AnyIndex(Tensor index) : value(std::move(index)) {}
  std::variant<Tensor::Subscript, Tensor> value;
};

/// Entries of a tensor: what x.at(index...) gives.
class At {
 public:
  At(Tensor x, std::vector<AnyIndex> index) : x_(std::move(x)), index_(std::move(index)) {}

  /// The entries.
  Tensor get() const;
  /// The entries, with `fill` in place of those that a tensor of integers names out of range.
  Tensor get(const Operand& fill) const;

  /// x with entries replaced; added to; multiplied; the least or greatest of both.
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
