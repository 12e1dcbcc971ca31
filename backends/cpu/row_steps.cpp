// Plans of operations that run on a few rows at a time: a subclass of RowStep for each form of
// operation.
#include <stave/backends/cpu/row_steps.h>

#include <algorithm>
#include <vector>

#include <stave/backends/attributes.h>
#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/fused_tiles.h>
#include <stave/backends/cpu/row_values.h>
#include <stave/backends/cpu/scratch.h>
#include <stave/core/program/fused.h>

namespace stave_cpu {

using stave::Backend;
using stave::Region;
using stave_detail::as;

namespace {

// FoldedRows processes rows of these lengths, because every reduction processes each of them from
// left to right, as FoldedRows does. A reduction may process rows of a few elements as columns, and
// it divides very long rows into pieces (reduce_rows.h). The range keeps away from both.
constexpr Index least_length = 128, most_length = 8192;

Index elements_of(const View& view) { return element_count(view.shape.subspan(1)); }

/// Reduces rows of `length` elements, which follow each other in memory, to one value each.
class FoldedRows {
 public:
  FoldedRows(const Reduction& kernels, Index length, const View& out, Index given)
      : kernels_(kernels), length_(length), given_(given), made_(static_cast<Index>(stave::size_of(out.dtype))),
        out_(static_cast<char*>(out.data)) {}

  void run(const char* in, Index first, Index count) const {
    constexpr Index together = 64;
    alignas(64) char accumulators[together * 16];
    for (Index end = first + count, n; first < end; first += n, in += n * length_ * given_) {
      n = std::min(together, end - first);
      kernels_.start(accumulators, n);
      kernels_.rows(in, n, length_, length_, accumulators);
      kernels_.finish(accumulators, n, out_ + first * made_);
    }
  }
  static bool takes(Index length) { return length >= least_length && length <= most_length; }

 private:
  const Reduction& kernels_;
  // The number of elements of a row, and the bytes of an element and of a result.
  const Index length_, given_, made_;
  char* const out_;
};

class ReductionStep final : public RowStep {
 public:
  ReductionStep(const Reduction& kernels, const View& in, const View& out)
      : data_(static_cast<const char*>(in.data)), in_row_(elements_of(in)), out_row_(elements_of(out)),
        size_(static_cast<Index>(stave::size_of(in.dtype))), rows_(kernels, in.shape.back(), out, size_) {}

  void run(Index first, Index count) const override {
    rows_.run(data_ + first * in_row_ * size_, first * out_row_, count * out_row_);
  }

 private:
  const char* const data_;
  const Index in_row_, out_row_, size_;
  const FoldedRows rows_;
};

class RowValueStep final : public RowStep {
 public:
  RowValueStep(RowValues values, const View& out)
      : values_(std::move(values)), rows_(elements_of(out) / values_.length()) {}
  void run(Index first, Index count) const override { values_.run(first * rows_, (first + count) * rows_); }

 private:
  const RowValues values_;
  const Index rows_;
};

class DenseStep final : public RowStep {
 public:
  DenseStep(BlockKernel kernel, const Backend::Step& step) : kernel_(kernel), row_(elements_of(step.outputs[0])) {
    for (const View& view : step.inputs) arrays_.push_back(array(view));
    arrays_.push_back(array(step.outputs[0]));
  }
  void run(Index first, Index count) const override {
    const void* in[2] = {arrays_[0].at(first * row_), arrays_[arrays_.size() - 2].at(first * row_)};
    kernel_(arrays_.back().at(first * row_), in, count * row_);
  }

 private:
  struct Array {
    char* data;
    Index size;
    char* at(Index element) const { return data + element * size; }
  };
  static Array array(const View& view) {
    return {static_cast<char*>(view.data), static_cast<Index>(stave::size_of(view.dtype))};
  }
  const BlockKernel kernel_;
  const Index row_;
  stave::SmallVector<Array, 3> arrays_;
};

class RegionStep final : public RowStep {
 public:
  RegionStep(const Region& region, const PreparedRegion& prepared, const Backend::Step& step, Index at_a_time)
      : row_(elements_of(step.inputs[0])), to_(prepared.destinations.size()) {
    const Index length = step.inputs[0].shape.back();
    for (std::size_t k = 0; k < step.outputs.size(); ++k) {
      const PreparedRegion::Output& output = prepared.outputs[k];
      const View& out = step.outputs[k];
      if (output.kind == PreparedRegion::Output::elements) {
        to_[static_cast<std::size_t>(output.destination)] = static_cast<char*>(out.data);
        continue;
      }
      const Region::Reduction& reduction = *region.reduction(region.outputs()[k]);
      const Dtype dtype = region.dtype(reduction.value);
      folds_.push_back({FoldedRows(kernels().reduce[reduction.op->id][static_cast<int>(dtype)], length, out,
                                   static_cast<Index>(stave::size_of(dtype))),
                        output.destination, row_ / length});
    }
    tiles_.emplace(prepared, step.inputs, to_, step.inputs[0].shape[0] * row_);
    tiles_->stay_in_caches(at_a_time * row_);
    for (std::size_t k = 0; k < step.outputs.size(); ++k)
      for (std::size_t i = 0; i < step.inputs.size(); ++i)
        if (step.outputs[k].data == step.inputs[i].data && prepared.outputs[k].kind == PreparedRegion::Output::elements)
          tiles_->declare_alias(prepared.outputs[k].destination, i);
  }

  void run(Index first, Index count) const override {
    Tiles::State state(*tiles_);
    stave::SmallVector<Scratch<char>, 2> rooms;
    stave::SmallVector<const char*, 2> arrays;
    for (const Folded& fold : folds_) {
      const Index size = tiles_->region().destinations[static_cast<std::size_t>(fold.destination)].size;
      if (char* const there = tiles_->matching_output(fold.destination)) {
        state.send(fold.destination, there, 0);
        arrays.push_back(there + first * row_ * size);
        continue;
      }
      rooms.push_back(scratch<char>(static_cast<std::size_t>(count * row_ * size)));
      state.send(fold.destination, rooms.back().get(), first * row_);
      arrays.push_back(rooms.back().get());
    }
    tiles_->run(first * row_, (first + count) * row_, state);
    for (std::size_t k = 0; k < folds_.size(); ++k)
      folds_[k].rows.run(arrays[k], first * folds_[k].results, count * folds_[k].results);
  }

 private:
  struct Folded {
    FoldedRows rows;
    int destination;
    Index results;  // the number of results for each row of axis 0
  };
  const Index row_;
  stave::SmallVector<char*, 4> to_;
  std::vector<Folded> folds_;
  std::optional<Tiles> tiles_;
};

bool is_dense(const View& view) { return is_contiguous(view.shape, view.strides); }

std::unique_ptr<RowStep> reduction_step(const Backend::Step& step) {
  const View& in = step.inputs[0];
  const stave::Shape& axes = as<stave::ReduceAttributes>(step.attributes).axes;
  const auto last = static_cast<Index>(in.shape.size()) - 1;
  if (!is_dense(in) || axes.size() != 1 || axes[0] != last || last == 0 || !FoldedRows::takes(in.shape.back()))
    return nullptr;
  const Reduction& kernels = stave_cpu::kernels().reduce[step.op->id][static_cast<int>(in.dtype)];
  return kernels.rows ? std::make_unique<ReductionStep>(kernels, in, step.outputs[0]) : nullptr;
}

std::unique_ptr<RowStep> elementwise_step(const Backend::Step& step) {
  const View& out = step.outputs[0];
  if (std::optional<RowValues> values = RowValues::of(step.op->id, step.inputs, out);
      values && values->length() <= elements_of(out))
    return std::make_unique<RowValueStep>(std::move(*values), out);
  const BlockKernel kernel = kernels().elementwise[step.op->id][static_cast<int>(step.inputs[0].dtype)];
  if (!kernel || !std::all_of(step.inputs.begin(), step.inputs.end(), is_dense)) return nullptr;
  return std::make_unique<DenseStep>(kernel, step);
}

std::unique_ptr<RowStep> region_step(const Backend::Step& step, Index at_a_time) {
  const Region& region = *as<stave::FusedAttributes>(step.attributes).region;
  const std::span<const Index> shape = step.inputs[0].shape;
  const auto is_of_rows = [&](const Region::Reduction& reduction) {
    return reduction.axes.size() == 1 && reduction.axes[0] == -1;
  };
  if (shape.size() < 2 || !FoldedRows::takes(shape.back()) ||
      !std::all_of(region.reductions().begin(), region.reductions().end(), is_of_rows))
    return nullptr;
  const PreparedRegion& prepared = prepared_region(region);
  for (const PreparedRegion::Output& output : prepared.outputs)
    if (output.kind != PreparedRegion::Output::elements && output.kind != PreparedRegion::Output::folded)
      return nullptr;
  // An input with another last stride would be copied as a whole.
  for (const View& input : step.inputs)
    if (input.strides.back() != 0 && input.strides.back() != 1) return nullptr;
  return std::make_unique<RegionStep>(region, prepared, step, at_a_time);
}

}  // namespace

std::unique_ptr<RowStep> row_step(const Backend::Step& step, Index at_a_time) {
  if (dynamic_cast<const stave::FusedAttributes*>(step.attributes)) return region_step(step, at_a_time);
  if (Region::admits_reduction(*step.op)) return reduction_step(step);
  if (step.op->id < OpId::full) return elementwise_step(step);
  return nullptr;
}

}  // namespace stave_cpu
