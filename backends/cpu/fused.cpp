// Regions by tiles: each step on as many elements as the first cache holds of all values, before the next elements.
#include <stave/core/ops/fused.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/scratch.h>
#include <stave/backends/cpu/strided.h>

namespace stave_cpu {

using stave::OpId;
using stave::Region;
using stave::size_of;

namespace {

constexpr Index most_elements = 1024, least_elements = 128;  // of a tile; powers of two
constexpr Index tile_bytes = 32768;  // of all values together, where that makes no tile too short

Index bytes_of(Dtype dtype) { return static_cast<Index>(size_of(dtype)); }

/// An input, and how elements are found in it by their place in the output.
struct Source {
  const char* data = nullptr;
  Index size = 0;
  Axes axes;                                          // one of length n, if it is contiguous or a single value
  Index step() const { return axes.back().step[1]; }  // along the last axis, in bytes
  bool repeated() const { return axes.size() == 1 && step() == 0; }

  /// Elements first, ..., first + count - 1: where they lie next to each other, or `buffer`, into which they are copied.
  const char* read(Index first, Index count, char* buffer) const {
    Index column = first % axes.back().length;
    const char* at = row(first / axes.back().length);
    if (step() == size && column + count <= axes.back().length) return at + column * size;
    for (char* to = buffer; count > 0;) {
      const Index run = std::min(count, axes.back().length - column);
      if (step() == 0) fill_elements(to, at, run, size);
      else copy_tile(to, run * size, size, at + column * step(), 0, step(), 1, run, size);
      to += run * size;
      count -= run;
      first += run;
      column = 0;
      if (count > 0) at = row(first / axes.back().length);
    }
    return buffer;
  }

 private:
  const char* row(Index index) const {
    Index offset = 0;
    for (std::size_t axis = axes.size() - 1; axis-- > 0; index /= axes[axis].length)
      offset += index % axes[axis].length * axes[axis].step[1];
    return data + offset;
  }
};

Source source(const View& view) {
  const stave::Strides places = stave::contiguous_strides(stave::Shape(view.shape));  // of the output
  const Index size = bytes_of(view.dtype), sizes[] = {1, size};
  const Index* const strides[] = {places.data(), view.strides.data()};
  Source found{static_cast<const char*>(view.data), size, merged_axes(view.shape, strides, sizes)};
  if (found.axes.empty()) found.axes.push_back({});  // one element
  return found;
}

/// Whether neighbours in the output are far apart in memory, so that each read of a tile would bring in a line for an element.
bool is_scattered(const View& view, Index n) {
  constexpr Index line = 64, few = 4096;
  return n > few && std::abs(source(view).step()) >= line;
}

BlockKernel kernel_of(const Region& region, const Region::Step& step) {
  const auto given = static_cast<int>(region.dtype(step.operands.back())), made = static_cast<int>(step.dtype);
  const Kernels& table = kernels();
  if (step.op->id == OpId::where) return table.where[made];
  if (step.op->id == OpId::astype || step.op->id == OpId::stop_gradient) return table.convert[given][made];
  return table.elementwise[step.op->id][given];
}

/// What stays the same from tile to tile.
class Tiles {
 public:
  Tiles(const Region& region, std::span<const View> inputs, std::span<const View> outputs)
      : region_(region), inputs_(inputs.size()), outputs_(outputs) {
    Index widest = 1;
    for (const View& input : inputs) {
      sources_.push_back(source(input));
      widest = std::max(widest, sources_.back().size);
    }
    for (const Region::Step& step : region.steps()) {
      kernels_.push_back(step.op ? kernel_of(region, step) : nullptr);
      widest = std::max(widest, bytes_of(step.dtype));
    }
    const Index buffers = std::max<Index>(1, static_cast<Index>(inputs_) + region.slots());
    length_ = most_elements;
    while (length_ > least_elements && buffers * length_ * widest > tile_bytes) length_ /= 2;
    const Index n = element_count(outputs[0].shape);
    while (length_ > 64 && length_ / 2 >= n) length_ /= 2;
    buffer_bytes_ = length_ * widest;
    bytes_ = buffers * buffer_bytes_;
    for (const View& output : outputs) stream_ |= streams(n * bytes_of(output.dtype), stream_contiguous);
    written_.resize(region.steps().size(), -1);
    for (std::size_t k = outputs.size(); k-- > 0;)
      if (const int value = region.outputs()[k]; value >= static_cast<int>(inputs_))
        written_[static_cast<std::size_t>(value) - inputs_] = static_cast<int>(k);
  }

  void run(Index first, Index last) const {
    alignas(64) char few[16384];
    Scratch<char> many;
    if (bytes_ > static_cast<Index>(sizeof few)) many = scratch<char>(static_cast<std::size_t>(bytes_));
    char* const buffers = many ? many.get() : few;

    std::vector<const char*> values(inputs_ + region_.steps().size());
    fill_repeated(buffers, values, std::min(length_, last - first));
    for (Index i = first; i < last; i += length_) run_tile(i, std::min(length_, last - i), buffers, values);
    if (stream_) kernels().end_streams();
  }

 private:
  char* slot(char* buffers, int slot) const { return buffers + (static_cast<Index>(inputs_) + slot) * buffer_bytes_; }
  char* output(std::size_t k, Index first) const {
    return static_cast<char*>(outputs_[k].data) + first * bytes_of(outputs_[k].dtype);
  }

  /// Numbers, and inputs of one value.
  void fill_repeated(char* buffers, std::vector<const char*>& values, Index count) const {
    for (std::size_t i = 0; i < inputs_; ++i) {
      if (!sources_[i].repeated()) continue;
      char* const buffer = buffers + static_cast<Index>(i) * buffer_bytes_;
      fill_elements(buffer, sources_[i].data, count, sources_[i].size);
      values[i] = buffer;
    }
    for (std::size_t s = 0; s < region_.steps().size(); ++s) {
      const Region::Step& step = region_.steps()[s];
      if (step.op) continue;
      char* const buffer = slot(buffers, step.slot);
      fill_elements(buffer, &step.bytes, count, bytes_of(step.dtype));
      values[inputs_ + s] = buffer;
    }
  }

  void run_tile(Index first, Index count, char* buffers, std::vector<const char*>& values) const {
    for (std::size_t i = 0; i < inputs_; ++i)
      if (!sources_[i].repeated())
        values[i] = sources_[i].read(first, count, buffers + static_cast<Index>(i) * buffer_bytes_);
    for (std::size_t s = 0; s < region_.steps().size(); ++s) {
      const Region::Step& step = region_.steps()[s];
      if (!step.op) continue;
      const void* in[3];
      for (std::size_t k = 0; k < step.operands.size(); ++k) in[k] = values[static_cast<std::size_t>(step.operands[k])];
      char* const to = written_[s] >= 0 && !stream_ ? output(static_cast<std::size_t>(written_[s]), first)
                                                    : slot(buffers, step.slot);
      kernels_[s](to, in, count);
      values[inputs_ + s] = to;
    }
    for (std::size_t k = 0; k < outputs_.size(); ++k) {
      const char* const from = values[static_cast<std::size_t>(region_.outputs()[k])];
      char* const to = output(k, first);
      const Index bytes = count * bytes_of(outputs_[k].dtype);
      if (stream_) kernels().stream_bytes(to, from, bytes);
      else if (to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
    }
  }

  const Region& region_;
  const std::size_t inputs_;
  const std::span<const View> outputs_;
  std::vector<Source> sources_;
  std::vector<BlockKernel> kernels_;
  std::vector<int> written_;  // of each step, the output that it computes in place; -1: none
  Index length_, buffer_bytes_, bytes_;
  bool stream_ = false;
};

}  // namespace

}  // namespace stave_cpu

namespace stave_detail {

void run_fused(const Attributes* attributes, std::span<const View> inputs, std::span<const View> outputs) {
  using namespace stave_cpu;
  const Region& region = *static_cast<const FusedAttributes&>(*attributes).region;
  if (outputs.empty()) return;
  const Index n = element_count(outputs[0].shape);
  if (n == 0) return;
  std::deque<Dense> copies;
  std::vector<View> laid_out(inputs.begin(), inputs.end());
  for (View& view : laid_out)
    if (is_scattered(view, n)) view = copies.emplace_back(view).view();
  const Tiles tiles(region, laid_out, outputs);
  const auto steps = static_cast<Index>(region.steps().size());
  parallel_for(n, std::max<Index>(cheap_grain / std::max<Index>(steps, 1), most_elements),
               [&](Index first, Index last) { tiles.run(first, last); });
}

}  // namespace stave_detail
