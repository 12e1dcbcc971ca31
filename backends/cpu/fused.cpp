// Runs fused regions tile by tile (fused_tiles.h). Without reductions, tiles run in parallel. With
// reductions, a tile runs when a reduction reads its elements.
#include <stave/core/program/fused.h>

#include <algorithm>
#include <forward_list>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/fused_single.h>
#include <stave/backends/cpu/fused_tiles.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/reduce.h>

namespace stave_cpu {

using stave::Region;
using stave::Shape;

namespace {

using Output = PreparedRegion::Output;

/// Returns true if neighbouring elements of the output are in different cache lines of this view,
/// and neighbours along another axis are nearer to each other. A tile would then read a cache line
/// for each element, and other tiles would read the same line for its other elements.
bool is_scattered(const View& view, Index n) {
  constexpr Index line = 64, few = 4096;
  if (n <= few) return false;
  const auto size = static_cast<Index>(stave::size_of(view.dtype));
  Index inner = 0;  // The distance of neighbouring elements.
  for (std::size_t axis = view.shape.size(); axis-- > 0;) {
    if (view.shape[axis] == 1) continue;
    const Index distance = std::abs(view.strides[axis]) * size;
    if (inner == 0) inner = distance;
    if (inner < line) return false;
    if (distance != 0 && distance < inner) return true;
  }
  return false;
}

Shape reduced_axes(const Region::Reduction& reduction, std::size_t rank) {
  Shape axes;
  for (const Index axis : reduction.axes) axes.push_back(axis + static_cast<Index>(rank));
  return axes;
}

const Reduction& kernels_of(const Region& region, const Region::Reduction& reduction) {
  return kernels().reduce[reduction.op->id][static_cast<int>(region.dtype(reduction.value))];
}

/// The arrays of a region that are computed and reduced together, tile by tile, as an argument of
/// run_reduce.
class FoldedArrays final : public Computed {
 public:
  FoldedArrays(const Tiles& tiles, std::vector<int> destinations)
      : tiles_(tiles), destinations_(std::move(destinations)) {}
  std::unique_ptr<Reader> reader() const override { return std::make_unique<TileReader>(*this); }

 private:
  class TileReader final : public Reader {
   public:
    explicit TileReader(const FoldedArrays& arrays) : arrays_(arrays), state_(arrays.tiles_) {}

    void read(Index offset, Index rows, Index row_step, Index n, const char** arrays) override {
      if (rows * n > room_) make_room(rows * n);
      if (row_step == n || rows == 1) return read_row(offset, rows * n, 0, arrays, true);
      for (Index r = 0; r < rows; ++r) read_row(offset + r * row_step, n, r * n, arrays, false);
    }

   private:
    void make_room(Index elements) {
      room_ = (elements + 63) / 64 * 64;  // The size is rounded up so that each array is aligned.
      Index size = 0;
      for (const int k : arrays_.destinations_) size += element_size(k);
      data_ = scratch<char>(static_cast<std::size_t>(size * room_));
    }
    // Computes n elements from `offset` on, as a part of read(): they are elements `place`,
    // `place` + 1, ... of its result. `whole` is true if they are the whole result.
    void read_row(Index offset, Index n, Index place, const char** arrays, bool whole) {
      char* room = data_.get();
      for (std::size_t k = 0; k < arrays_.destinations_.size(); ++k) {
        const int destination = arrays_.destinations_[k];
        if (char* const there = whole ? arrays_.tiles_.matching_output(destination) : nullptr) {
          arrays[k] = there + offset * element_size(destination);
          state_.send(destination, there, 0);
          continue;
        }
        arrays[k] = room;
        state_.send(destination, room + place * element_size(destination), offset);
        room += room_ * element_size(destination);
      }
      arrays_.tiles_.run(offset, offset + n, state_);
    }
    Index element_size(int destination) const {
      return arrays_.tiles_.region().destinations[static_cast<std::size_t>(destination)].size;
    }

    const FoldedArrays& arrays_;
    Tiles::State state_;
    Scratch<char> data_;
    Index room_ = 0;
  };

  const Tiles& tiles_;
  const std::vector<int> destinations_;
};

/// A call of a region that ends in reductions.
class Reductions {
 public:
  Reductions(const Region& region, const PreparedRegion& prepared, std::span<const View> inputs,
             std::span<const View> outputs)
      : region_(region), prepared_(prepared), inputs_(inputs), outputs_(outputs), shape_(inputs[0].shape) {}

  /// Allocates memory for the values that must be complete before they are reduced.
  void make_room(std::span<char*> to, Index n) {
    for (const Output& output : prepared_.outputs) {
      if (output.kind != Output::whole) continue;
      const auto destination = static_cast<std::size_t>(output.destination);
      rooms_.push_front(scratch<char>(static_cast<std::size_t>(n * prepared_.destinations[destination].size)));
      to[destination] = rooms_.front().get();
    }
  }
  /// Computes and reduces all outputs of kind `folded` in one pass. Returns false if there are
  /// none.
  bool run_folded(const Tiles& tiles) const {
    std::vector<Fold> folds;
    std::vector<int> destinations;
    const Region::Reduction* last = nullptr;
    for (std::size_t k = 0; k < outputs_.size(); ++k) {
      if (prepared_.outputs[k].kind != Output::folded) continue;
      last = &reduction(k);
      folds.push_back({kernels_of(region_, *last), static_cast<Index>(stave::size_of(outputs_[k].dtype)),
                       static_cast<char*>(outputs_[k].data)});
      destinations.push_back(prepared_.outputs[k].destination);
    }
    if (!last) return false;
    run_reduce(folds, reduced_axes(*last, shape_.size()), shape_, FoldedArrays(tiles, std::move(destinations)));
    return true;
  }
  /// Computes the reductions that run_folded does not: those of values that are complete in memory,
  /// of inputs and of constants.
  void run_rest(std::span<char* const> to) const {
    const stave::Strides dense = stave::contiguous_strides(Shape(shape_));
    stave::Strides still;
    still.resize(shape_.size());
    for (std::size_t k = 0; k < outputs_.size(); ++k) {
      const Output& output = prepared_.outputs[k];
      View in{nullptr, outputs_[k].dtype, shape_, dense};
      if (output.kind == Output::whole) in.data = to[static_cast<std::size_t>(output.destination)];
      else if (output.kind == Output::given) in = given(output.value, still);
      else continue;
      run_reduce(kernels_of(region_, reduction(k)), reduced_axes(reduction(k), shape_.size()), in, outputs_[k]);
    }
  }

 private:
  const Region::Reduction& reduction(std::size_t k) const { return *region_.reduction(region_.outputs()[k]); }
  View given(int value, const stave::Strides& still) const {
    if (static_cast<std::size_t>(value) < inputs_.size()) return inputs_[static_cast<std::size_t>(value)];
    const Region::Step& number = region_.step(value);
    return {const_cast<stave::Bytes16*>(&number.bytes), number.dtype, shape_, still};
  }

  const Region& region_;
  const PreparedRegion& prepared_;
  const std::span<const View> inputs_, outputs_;
  const std::span<const Index> shape_;
  std::forward_list<Scratch<char>> rooms_;
};

}  // namespace

}  // namespace stave_cpu

namespace stave_detail {

void run_fused(const Attributes* attributes, std::span<const View> inputs, std::span<const View> outputs) {
  using namespace stave_cpu;
  const Region& region = *static_cast<const FusedAttributes&>(*attributes).region;
  const Index n = element_count(inputs[0].shape);
  if (n == 1 && supports_scalar_interpreter(region)) return interpret_scalars(region, inputs, outputs);
  const PreparedRegion& prepared = prepared_region(region);
  std::forward_list<Dense> copies;
  SmallVector<View, 4> laid_out(inputs.begin(), inputs.end());
  for (View& view : laid_out)
    if (is_scattered(view, n)) view = copies.emplace_front(view).view();

  SmallVector<char*, 4> to(prepared.destinations.size());
  for (std::size_t k = 0; k < outputs.size(); ++k)
    if (const PreparedRegion::Output& output = prepared.outputs[k]; output.kind == PreparedRegion::Output::elements)
      to[static_cast<std::size_t>(output.destination)] = static_cast<char*>(outputs[k].data);
  Reductions reductions(region, prepared, inputs, outputs);
  reductions.make_room(to, n);
  Tiles tiles(prepared, laid_out, to, n);
  for (std::size_t k = 0; k < outputs.size(); ++k)
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (outputs[k].data == inputs[i].data && prepared.outputs[k].kind == PreparedRegion::Output::elements)
        tiles.declare_alias(prepared.outputs[k].destination, i);
  if (!reductions.run_folded(tiles) && !to.empty()) {
    parallel_for(n, std::max<Index>(cheap_grain / std::max(prepared.operations, 1), 1024),
                 [&](Index first, Index last) {
                   Tiles::State state(tiles);
                   tiles.run(first, last, state);
                 });
  }
  reductions.run_rest(to);
}

}  // namespace stave_detail
