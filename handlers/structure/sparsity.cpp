#include <stave/handlers/structure/sparsity.h>

#include <limits>

#include <stave/core/ops/bools.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/search.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/note.h>
#include <stave/handlers/structure/dependence.h>
#include <stave/handlers/transforms/jvp_flat.h>

namespace stave_detail {

namespace {

Index total_size(std::span<const Tensor> xs) {
  Index total = 0;
  for (const Tensor& x : xs) total += x.size();
  return total;
}

/// Ones like x, each with an element of its own in memory, so that no operation takes them for a
/// number, which would have no note.
Tensor ones_in_memory(const Tensor& x) { return contiguous(ones(x.shape(), x.dtype(), x.device())); }

/// Appends the rows of an output to the pattern; `numbers` are its sets, undefined: all are empty.
void append_rows(CsrPattern& pattern, const ElementSets& sets, const Tensor& numbers, Index rows) {
  pattern.rows += rows;
  if (!numbers.defined()) {
    pattern.offsets.resize(pattern.offsets.size() + static_cast<std::size_t>(rows), pattern.offsets.back());
    return;
  }
  const Tensor dense = contiguous(numbers);
  const std::span<const ElementSets::Number> of_row = dense.data<ElementSets::Number>();
  pattern.offsets.reserve(pattern.offsets.size() + of_row.size());
  std::int32_t stencil = 0;
  std::int64_t size = 0;
  for (const ElementSets::Number set : of_row) {
    if (sets.stencil_of(set) != stencil) {
      stencil = sets.stencil_of(set), size = 0;
      for (const ElementSets::Run run : sets.runs_of(stencil)) size += run.high - run.low;
    }
    pattern.offsets.push_back(pattern.offsets.back() + size);
  }
  pattern.indices.resize(static_cast<std::size_t>(pattern.offsets.back()));
  std::int32_t* to = pattern.indices.data() + pattern.offsets[pattern.offsets.size() - of_row.size() - 1];
  const std::int32_t* previous = to;  // the row before, which has the stencil `stencil`
  stencil = 0;
  std::int32_t offset = 0;
  for (const ElementSets::Number set : of_row) {
    std::int32_t* const begin = to;
    if (sets.stencil_of(set) == stencil && begin != previous) {
      const std::int32_t moved = sets.offset_of(set) - offset;
      for (const std::int32_t* from = previous; from != begin; ++from) *to++ = *from + moved;
    } else {
      stencil = sets.stencil_of(set);
      for (const ElementSets::Run run : sets.runs_of(stencil))
        for (std::int32_t column = run.low; column < run.high; ++column) *to++ = column + sets.offset_of(set);
    }
    previous = begin, offset = sets.offset_of(set);
  }
}

}  // namespace

FoundSparsity find_sparsity(FlatFunction f, std::span<const Tensor> xs, bool here, const char* transform,
                            InputNames names) {
  FoundSparsity found;
  found.pattern.columns = total_size(xs);
  if (found.pattern.columns > std::numeric_limits<std::int32_t>::max())
    fail<ShapeError>("{}: the argument has {} elements, but there can be at most {}", transform, found.pattern.columns,
                     std::numeric_limits<std::int32_t>::max());
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (is_complex(xs[i].dtype()))
      fail<DtypeError>("{}: {} is {}: differentiate by real(z) and imag(z)", transform, names(i), xs[i].dtype());
    if (!is_inexact(xs[i].dtype()))
      fail<DtypeError>(
          "{}: {} is {} {}, which has no derivative: make it a floating tensor, or capture it in the function instead "
          "of differentiating with respect to it",
          transform, names(i), xs[i].dtype(), xs[i].shape());
  }
  DependenceHandler handler(here);
  std::vector<Tensor> primals, tangents;
  {
    const UnderFrame outside(nullptr);
    std::int32_t first = 0;
    for (const Tensor& x : xs) {
      primals.push_back(handler.follow(clone_node(x)));
      tangents.push_back(handler.follow(ones_in_memory(x), handler.sets.singletons(x.shape(), first)));
      first += static_cast<std::int32_t>(x.size());
    }
  }
  const FlatJvp result = with(handler, [&] { return jvp_flat(f, primals, tangents, names); });
  const UnderFrame outside(nullptr);
  for (std::size_t i = 0; i < result.outputs.size(); ++i) {
    const Tensor& output = result.outputs[i];
    if (!is_inexact(output.dtype()))
      fail<DtypeError>("{}: the function returned {}, which has no derivative: return a floating tensor", transform,
                       output.dtype());
    found.outputs.push_back({output.shape(), output.dtype()});
    append_rows(found.pattern, handler.sets, handler.sets_of(result.tangents[i]), output.size());
  }
  found.dense_operations.assign(handler.dense_operations.begin(), handler.dense_operations.end());
  found.depends_on_path = handler.has_read;
  return found;
}

SparsityPattern public_pattern(const FoundSparsity& found) {
  const CsrPattern& pattern = found.pattern;
  return {.rows = pattern.rows,
          .columns = pattern.columns,
          .row_offsets = from(pattern.offsets),
          .column_indices = from(pattern.indices),
          .dense_operations = found.dense_operations,
          .depends_on_path = found.depends_on_path};
}

}  // namespace stave_detail

namespace stave {

using namespace stave_detail;

Tensor SparsityPattern::row_indices() const {
  const Tensor entries = arange(0, this->entries(), 1, int64);
  return astype(searchsorted(row_offsets, entries, {.right = true}) - 1, int32);
}

Tensor SparsityPattern::dense(const Tensor& values) const {
  if (values.shape() != Shape(entries()))
    fail<ShapeError>("SparsityPattern::dense: values of shape {} for a pattern of {} entries", values.shape(),
                     entries());
  const Tensor places = stack({row_indices(), column_indices}, -1);
  return scatter(zeros({rows, columns}, values.dtype(), values.device()), to(places, values.device()), values);
}

Tensor SparsityPattern::dense() const { return dense(ones({entries()}, bool_)); }

}  // namespace stave
