// Basic indexing, x(1, slice(2, none), ellipsis, newaxis): one slice, then a reshape that removes
// the axes of integers and adds the new axes. Both are views. If the slice or the reshape would
// change nothing, it is not performed.

#include <algorithm>

#include <stave/core/op/op.h>
#include <stave/core/ops/basic_index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using stave_detail::BasicIndex, stave_detail::fail, stave_detail::Overloaded;

Tensor Tensor::stave_detail_index(std::span<const Subscript> subscripts) const {
  const auto count = [&]<class T>(std::type_identity<T>) {
    return std::count_if(subscripts.begin(), subscripts.end(),
                         [](const Subscript& s) { return std::holds_alternative<T>(s.value); });
  };
  const auto used = count(std::type_identity<Index>()) + count(std::type_identity<Slice>());
  if (used > rank()) fail<IndexError>("{} indices are too many for shape {}", used, shape());
  if (count(std::type_identity<Ellipsis>()) > 1) fail<IndexError>("an index has more than one ellipsis");

  BasicIndex index{shape()};
  for (const Subscript& subscript : subscripts)
    std::visit(Overloaded{[&](Index i) { index.add(i); }, [&](const Slice& slice) { index.add(slice); },
                          [&](Ellipsis) { index.whole_axes(static_cast<std::size_t>(rank() - used)); },
                          [&](NewAxis) { index.result.push_back(1); }},
               subscript.value);
  index.whole_axes(shape().size() - index.axis);
  if (index.everything()) return reshape(*this, index.result);
  auto attributes =
      make_intrusive<SliceAttributes>(std::move(index.starts), std::move(index.lengths), std::move(index.steps));
  return reshape(apply(op_slice, {*this}, std::move(attributes)), index.result);
}

}  // namespace stave
