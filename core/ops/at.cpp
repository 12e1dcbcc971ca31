// x.at(index...): reading and updating by any index, in two steps. The integers, slices and new
// axes of an index (NumPy's basic indices) select a part of x, which is called the box. The tensors
// of the index (NumPy's advanced indices) select entries of the box by gather and scatter. An
// update computes a new box and puts it back into x.

#include <stave/core/ops/at.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include <stave/core/op/op.h>
#include <stave/core/ops/basic_index.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/search.h>
#include <stave/core/tensor/fail.h>

namespace stave {

using namespace stave_detail;

namespace {

constexpr const char* function = "at";

// ---- the parts of an index ------------------------------------------------------------------

// A tensor of the index, and the first axis of the box (the part of x that the basic indices
// select) that the tensor indexes.
struct IndexedAxis {
  Tensor tensor;
  Index axis;
  bool is_mask() const { return tensor.dtype() == bool_; }
};

struct ParsedIndex {
  BasicIndex box;
  std::vector<IndexedAxis> tensors = {};
  // The next three members describe the advanced indices: the tensors, and the integers beside
  // them.
  bool adjacent = true;  // no other part of the index is between them
  Index front = 0;       // the number of axes of the box before the first advanced index
  bool integers = false;

  ParsedIndex(const Tensor& x, std::span<const AnyIndex> index) : box{x.shape()} {
    const int used = axes_used(index);
    if (used > x.rank()) fail<IndexError>("{}: {} indices are too many for shape {}", function, used, x.shape());
    for (const AnyIndex& part : index) {
      if (const Tensor* tensor = std::get_if<Tensor>(&part.value)) add(*tensor);
      else add(std::get<Tensor::Subscript>(part.value), x.shape().size() - static_cast<std::size_t>(used));
    }
    box.whole_axes(x.shape().size() - box.axis);
  }

 private:
  bool begun_ = false, separated_ = false;

  static int axes_used(std::span<const AnyIndex> index) {
    int used = 0, ellipses = 0;
    for (const AnyIndex& part : index) {
      if (const Tensor* tensor = std::get_if<Tensor>(&part.value)) {
        used += require_defined(*tensor, function, 1).dtype() == bool_ ? tensor->rank() : 1;
        continue;
      }
      const auto& value = std::get<Tensor::Subscript>(part.value).value;
      used += std::holds_alternative<Index>(value) || std::holds_alternative<Tensor::Slice>(value);
      ellipses += std::holds_alternative<Tensor::Ellipsis>(value);
    }
    if (ellipses > 1) fail<IndexError>("{}: an index has more than one ellipsis", function);
    return used;
  }

  void beside_tensors() {
    if (!begun_) front = static_cast<Index>(box.result.size());
    else if (separated_) adjacent = false;
    begun_ = true;
  }
  void add(const Tensor::Subscript& subscript, std::size_t ellipsis) {
    if (!std::holds_alternative<Index>(subscript.value)) separated_ = begun_;
    std::visit(Overloaded{[&](Index i) { add_integer(i); }, [&](const Tensor::Slice& slice) { box.add(slice); },
                          [&](Tensor::Ellipsis) { box.whole_axes(ellipsis); },
                          [&](Tensor::NewAxis) { box.result.push_back(1); }},
               subscript.value);
  }
  void add_integer(Index i) {
    beside_tensors();
    integers = true;
    box.add(i);
  }
  void add(const Tensor& tensor) {
    beside_tensors();
    tensors.push_back({tensor, static_cast<Index>(box.result.size())});
    if (tensor.dtype() != bool_) {
      tensors.back().tensor = as_indices(tensor, function);
      return box.whole_axes(1);
    }
    const auto rank = tensor.shape().size();
    const std::span<const Index> stands_for = std::span<const Index>(box.shape).subspan(box.axis, rank);
    if (!std::equal(stands_for.begin(), stands_for.end(), tensor.shape().begin()))
      fail<IndexError>("{}: a mask of shape {} cannot index axes of lengths {} (of shape {}): they must be equal",
                       function, tensor.shape(), Shape(stands_for), box.shape);
    if (rank > 0) return box.whole_axes(rank);
    box.result.push_back(1);  // A mask of rank 0 applies to a new axis of length 1.
    tensors.back().tensor = reshape(tensor, {1});
  }
};

// ---- the box --------------------------------------------------------------------------------

// Returns the box: the part of x that the integers, slices and new axes select, in their shape.
Tensor box_of(const Tensor& x, const BasicIndex& box) {
  if (box.everything()) return reshape(x, box.result);
  const Tensor part = apply(op_slice, {x}, make_intrusive<SliceAttributes>(box.starts, box.lengths, box.steps));
  return reshape(part, box.result);
}

// Returns a copy of x in which `value` replaces the box (the part that the basic indices select).
Tensor with_box(const Tensor& x, const BasicIndex& box, const Tensor& value) {
  const Tensor part = reshape(value, box.lengths);
  if (box.everything() || part.size() == 0) return part.size() == 0 ? x : part;
  const bool steps = std::any_of(box.steps.begin(), box.steps.end(), [](Index step) { return step != 1; });
  if (!steps) {
    return dynamic_update_slice(x, part, from<Index>(box.starts, Shape(x.rank()), x.device()));
  }
  const auto spread = [&](const Tensor& values) {
    return apply(op_pad, {values}, make_intrusive<PadAttributes>(x.shape(), box.starts, box.steps, Scalar(0)));
  };
  return where(spread(ones(part.shape(), bool_, x.device())), spread(part), x);
}

// ---- tensors --------------------------------------------------------------------------------

// Returns whether indices are in range for an axis of this length.
Tensor is_within(const Tensor& index, Index length) {
  const Tensor wide = astype(index, int64);
  return logical_and(wide >= -length, wide < length);
}

// The integer tensors of an index, which broadcast to one shape, and the axes that they index.
// These are axes of the box, the part of x that the basic indices select. The class permutes the
// axes of the box for gather and scatter.
class AdvancedIndex {
 public:
  AdvancedIndex(const ParsedIndex& places) : front_(static_cast<int>(places.front)), adjacent_(places.adjacent) {
    for (const IndexedAxis& addressing : places.tensors) {
      if (!addressing.is_mask()) {
        add(addressing.tensor, addressing.axis);
        continue;
      }
      Index axis = addressing.axis;
      for (const Tensor& positions : nonzero(addressing.tensor)) add(positions, axis++);
    }
    for (const Tensor& index : indices_) at_ = broadcast_shapes(at_, index.shape(), function);
  }

  // Returns the box with its axes in the order that gather expects: `batch()` leading axes, the
  // axes that the tensors index, and the rest. If the tensors are not adjacent in the index, the
  // axes that they index are moved to the front. `restored` undoes this.
  Tensor arranged(const Tensor& box) const { return adjacent_ ? box : moveaxis(box, axes_, leading()); }
  Tensor restored(const Tensor& box) const { return adjacent_ ? box : moveaxis(box, leading(), axes_); }
  Index batch() const { return adjacent_ ? front_ : 0; }

  // Returns the tuples of indices for gather: [batch..., at..., k]. of(index, length) returns the
  // tensor to use in place of `index`, the tensor that indexes an axis of this length.
  template <class Of>
  Tensor indices(const Tensor& arranged, Of of) const {
    const Shape& shape = arranged.shape();
    std::vector<Tensor> columns;
    for (std::size_t i = 0; i < indices_.size(); ++i)
      columns.push_back(broadcast_to(of(indices_[i], shape[static_cast<std::size_t>(batch()) + i]), at_));
    const Tensor tuples = columns.size() == 1 ? expand_dims(columns[0], -1) : stack(columns, -1);
    Shape all(std::span<const Index>(shape).first(static_cast<std::size_t>(batch())));
    all.append(tuples.shape().begin(), tuples.shape().end());
    return broadcast_to(tuples, all);
  }
  Tensor indices(const Tensor& arranged) const {
    return indices(arranged, [](const Tensor& index, Index) { return index; });
  }

  // Returns the shape of the entries that the tensors select from `arranged`, a result of
  // arranged(): [batch..., at..., rest...].
  Shape shape(const Tensor& arranged) const {
    const std::span<const Index> all = arranged.shape();
    Shape result(all.first(static_cast<std::size_t>(batch())));
    result.append(at_.begin(), at_.end());
    const auto rest = all.subspan(static_cast<std::size_t>(batch()) + indices_.size());
    result.append(rest.begin(), rest.end());
    return result;
  }
  // Returns whether all indices are in range, in a shape that broadcasts to that of the selected
  // entries.
  Tensor within(const Tensor& arranged) const {
    Tensor result;
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      const Index length = arranged.shape()[static_cast<std::size_t>(batch()) + i];
      const Tensor valid = is_within(indices_[i], length);
      result = result.defined() ? logical_and(result, valid) : valid;
    }
    Shape shape = at_;
    shape.resize(at_.size() + arranged.shape().size() - static_cast<std::size_t>(batch()) - indices_.size(), 1);
    return reshape(broadcast_to(result, at_), shape);
  }

 private:
  void add(const Tensor& index, Index axis) {
    indices_.push_back(index);
    axes_.push_back(axis);
  }
  Shape leading() const {
    Shape first;
    for (std::size_t i = 0; i < indices_.size(); ++i) first.push_back(static_cast<Index>(i));
    return first;
  }

  int front_;
  bool adjacent_;
  std::vector<Tensor> indices_;
  Shape axes_, at_;
};

// ---- updates --------------------------------------------------------------------------------

// How an update combines values with old elements.
struct Update {
  // Combines entries with values elementwise.
  Tensor (*entries)(const Tensor& old, const Tensor& values);
  // Combines values with the elements of x at positions, which may occur twice.
  Tensor (*places)(const Tensor& x, const Tensor& indices, const Tensor& updates, Index batch_axes);
  bool computes;  // whether the update computes with numbers, so that bools become int32
};

// Returns the values in a shape that broadcasts to the box, if the index has a single tensor,
// which is a mask, and the values are the same for all true elements of the mask. Otherwise returns
// nullopt.
std::optional<Tensor> one_for_all(const ParsedIndex& places, const Tensor& values) {
  if (places.tensors.size() != 1 || places.integers || !places.tensors[0].is_mask()) return std::nullopt;
  const auto [mask, axis] = places.tensors[0];
  const int behind = static_cast<int>(places.box.result.size()) - static_cast<int>(axis) - mask.rank();
  if (values.rank() <= behind) return values;
  // The axis of `values` along which the true elements of the mask lie.
  const auto elements = static_cast<std::size_t>(values.rank() - behind - 1);
  if (values.shape()[elements] != 1) return std::nullopt;
  Shape shape = values.shape();
  for (int i = 1; i < mask.rank(); ++i) shape.push_back(1);
  std::rotate(shape.begin() + static_cast<std::ptrdiff_t>(elements) + 1, shape.end() - (mask.rank() - 1), shape.end());
  return reshape(values, shape);
}

// Returns the mask in a shape that broadcasts to the box: the axes of the mask, then axes of
// length 1.
Tensor over_box(const IndexedAxis& mask, const Shape& box) {
  Shape shape = mask.tensor.shape();
  shape.resize(box.size() - static_cast<std::size_t>(mask.axis), 1);
  return reshape(mask.tensor, shape);
}

Tensor updated_box(const ParsedIndex& places, const Tensor& box, const Tensor& values, const Update& update) {
  if (places.tensors.empty()) return update.entries(box, broadcast_to(values, box.shape()));
  if (const std::optional<Tensor> value = one_for_all(places, values)) {
    const Tensor mask = over_box(places.tensors[0], box.shape());
    return where(mask, update.entries(box, broadcast_to(*value, box.shape())), box);
  }
  const AdvancedIndex addressed(places);
  const Tensor arranged = addressed.arranged(box);
  const Tensor updates = broadcast_to(values, addressed.shape(arranged));
  return addressed.restored(update.places(arranged, addressed.indices(arranged), updates, addressed.batch()));
}

Tensor updated(const Tensor& x, std::span<const AnyIndex> index, const Operand& operand, const Update& update) {
  require_defined(x, function, 0);
  if (!operand.is_scalar()) require_defined(operand.tensor(), function, 1);
  return named(function, [&] {
    Dtype dtype = operand.is_scalar() ? operand.scalar().with(x.dtype()) : promote(x.dtype(), operand.tensor().dtype());
    if (update.computes) dtype = multiplied_in(dtype);
    const Tensor old = astype(x, dtype), values = as_tensor(Operand(operand), dtype, nullptr, x.device());
    const ParsedIndex places(old, index);
    return with_box(old, places.box, updated_box(places, box_of(old, places.box), values, update));
  });
}

// Returns the entries that an index selects: the box itself if the index has no tensors, else the
// result of `read`, which selects entries of the box.
template <class Read>
Tensor entries_of(const Tensor& x, std::span<const AnyIndex> index, Read read) {
  require_defined(x, function, 0);
  return named(function, [&] {
    const ParsedIndex places(x, index);
    const Tensor box = box_of(x, places.box);
    if (places.tensors.empty()) return box;
    const AdvancedIndex addressed(places);
    return read(addressed, addressed.arranged(box));
  });
}

}  // namespace

// ---- at.h -----------------------------------------------------------------------------------

Tensor At::get() const {
  return entries_of(x_, index_, [](const AdvancedIndex& addressed, const Tensor& box) {
    return gather(box, addressed.indices(box), addressed.batch());
  });
}

Tensor At::get(const Operand& fill) const {
  return entries_of(x_, index_, [&](const AdvancedIndex& addressed, const Tensor& box) {
    // An index out of range reads entry 0. If the box is empty, no index is in range.
    const auto in_range = [](const Tensor& index, Index length) { return where(is_within(index, length), index, 0); };
    const Tensor entries = box.size() == 0 ? zeros(addressed.shape(box), box.dtype(), box.device())
                                           : gather(box, addressed.indices(box, in_range), addressed.batch());
    return where(addressed.within(box), entries, fill);
  });
}

Tensor At::set(const Operand& values) const {
  return updated(x_, index_, values, {[](const Tensor&, const Tensor& v) { return v; }, scatter, false});
}
Tensor At::add(const Operand& values) const {
  return updated(x_, index_, values, {[](const Tensor& x, const Tensor& v) { return x + v; }, scatter_add, true});
}
Tensor At::multiply(const Operand& values) const {
  return updated(x_, index_, values, {[](const Tensor& x, const Tensor& v) { return x * v; }, scatter_multiply, true});
}
Tensor At::min(const Operand& values) const {
  return updated(x_, index_, values,
                 {[](const Tensor& x, const Tensor& v) { return minimum(x, v); }, scatter_min, true});
}
Tensor At::max(const Operand& values) const {
  return updated(x_, index_, values,
                 {[](const Tensor& x, const Tensor& v) { return maximum(x, v); }, scatter_max, true});
}

}  // namespace stave
