// The tiled loop of a region: how inputs are read, and how a tile runs through the steps.
#include <stave/backends/cpu/fused_tiles.h>

#include <algorithm>
#include <cstring>

#include <stave/backends/cpu/dispatch.h>

namespace stave_cpu {

using stave::size_of;

namespace {

// The largest and the smallest number of elements of a tile; powers of two.
constexpr Index most_elements = 1024, least_elements = 128;
// The largest number of elements of a tile if an input leaves out most of the memory that it spans,
// such as a few columns of a matrix. The L1 cache then holds the cache lines of a tile, which other
// inputs often read as well (measured: three slices of one matrix take an eighth less time).
constexpr Index most_sparse_elements = 512;
// The limit for the buffers of all values together, in bytes, unless tiles would become too short.
constexpr Index tile_bytes = 32768;

}  // namespace

// ---- inputs -------------------------------------------------------------------------------------

Source::Source(const View& view, Index n, Readers& readers)
    : data_(static_cast<const char*>(view.data)), size_(static_cast<Index>(size_of(view.dtype))), n_(n), length_(n),
      step_(size_) {
  const bool is_repeated =
      n == 1 || std::all_of(view.strides.begin(), view.strides.end(), [](Index step) { return step == 0; });
  if (is_repeated) step_ = 0;
  if (is_repeated || is_contiguous(view.shape, view.strides)) return;
  const Index* const strides[] = {view.strides.data()};
  const Axes axes = merged_axes(view.shape, strides, &size_);
  length_ = axes.back().length;
  step_ = axes.back().step[0];
  if (repeated()) return;
  reader_ = static_cast<int>(readers.size());
  readers.emplace_back(data_, axes, 0, size_);
}

// ---- tiles --------------------------------------------------------------------------------------

Tiles::Tiles(const PreparedRegion& region, std::span<const View> inputs, std::span<char* const> to, Index n)
    : region_(region), links_(region.links.data()), to_(to), not_before_(to.size(), -1), n_(n), length_(most_elements) {
  for (const View& input : inputs) sources_.emplace_back(input, n, readers_);
  take_numbers();
  // Contiguous inputs are read in place.
  const auto in_place =
      std::count_if(sources_.begin(), sources_.end(), [](const Source& it) { return it.contiguous(); });
  const Index buffers = region.buffers - static_cast<Index>(in_place);
  while (length_ > least_elements && buffers * length_ * region.widest > tile_bytes) length_ /= 2;
  if (std::any_of(readers_.begin(), readers_.end(), [](const StridedReader& it) { return it.is_sparse(); }))
    length_ = std::min(length_, most_sparse_elements);
  while (length_ > 64 && length_ / 2 >= n) length_ /= 2;
  buffer_bytes_ = length_ * region.widest;
  bytes_ = region.buffers * buffer_bytes_;
  for (int k = 0; k < region.plain; ++k)
    stream_ |= streams(n * region.destinations[static_cast<std::size_t>(k)].size, stream_contiguous);
}

// Finds the inputs that links can read as numbers instead of arrays. Such an input is read by links
// only, and it is constant over a tile; tiles may end where its value changes.
void Tiles::take_numbers() {
  // If the value changes after fewer elements, tiles would be so short that it is faster to fill
  // buffers with copies of the value.
  constexpr Index least = 512;
  const auto is_same = [&](std::size_t i) {
    return region_.links_alone[i] && sources_[i].repeats() >= std::min(least, n_);
  };
  for (std::size_t i = 0; i < region_.inputs; ++i)
    if (is_same(i) && !sources_[i].repeated())
      row_ = row_ ? std::min(row_, sources_[i].repeats()) : sources_[i].repeats();
  for (std::size_t i = 0; i < region_.inputs; ++i) {
    if (!is_same(i) || (row_ && sources_[i].repeats() % row_ != 0)) continue;
    is_number_.resize(region_.inputs);
    is_number_[i] = true;
  }
  if (is_number_.empty()) return;
  own_links_.append(region_.links.begin(), region_.links.end());
  for (Link& link : own_links_)
    if (static_cast<std::size_t>(link.operand) < region_.inputs && is_number_[static_cast<std::size_t>(link.operand)])
      link.code = of_number(link.code);
  links_ = own_links_.data();
}

char* Tiles::matching_output(int destination) const {
  const auto& all = region_.destinations;
  for (std::size_t k = 0; !stream_ && k < static_cast<std::size_t>(region_.plain); ++k)
    if (all[k].value == all[static_cast<std::size_t>(destination)].value) return to_[k];
  return nullptr;
}

Tiles::State::State(const Tiles& tiles) : buffers_(few_), values_(few_values_), readers_(tiles.readers_) {
  const PreparedRegion& region = tiles.region_;
  if (tiles.bytes_ > static_cast<Index>(sizeof few_)) {
    many_ = scratch<char>(static_cast<std::size_t>(tiles.bytes_));
    buffers_ = many_.get();
  }
  if (region.values > static_cast<int>(std::size(few_values_))) {
    many_values_.resize(static_cast<std::size_t>(region.values));
    values_ = many_values_.data();
  }
  for (char* const to : tiles.to_) to_.push_back({to, 0});
  const Index count = std::min(tiles.length_, tiles.n_);
  for (std::size_t i = 0; i < region.inputs; ++i) {
    const Source& source = tiles.sources_[i];
    if (!source.repeated() || tiles.is_number(i)) continue;
    char* const buffer = buffers_ + static_cast<Index>(i) * tiles.buffer_bytes_;
    fill_elements(buffer, source.data(), count, source.size());
    values_[i] = buffer;
  }
  for (const PreparedRegion::Number& number : region.numbers) {
    if (number.slot < 0) {
      values_[number.value] = static_cast<char*>(const_cast<void*>(number.bytes));
      continue;
    }
    char* const buffer = tiles.slot(*this, number.slot);
    fill_elements(buffer, number.bytes, count, number.size);
    values_[number.value] = buffer;
  }
  for (const PreparedRegion::Kept& kept : region.kept) values_[kept.value] = tiles.slot(*this, kept.slot);
}

void Tiles::run(Index first, Index last, State& state) const {
  for (Index i = first, count; i < last; i += count) {
    count = std::min(length_, last - i);
    if (row_) count = std::min(count, row_ - i % row_);
    run_tile(i, count, state);
  }
  if (stream_) kernels().end_streams();
}

void Tiles::run_tile(Index first, Index count, State& state) const {
  // Without prefetches, the processor waits for memory at the start of each tile (measured:
  // the sum of eight operations takes half as long again).
  const Index next = first + (ahead_ ? ahead_ : count), asked = std::min(ahead_ ? count : length_, n_ - next);
  for (const Source& source : sources_) source.prefetch(next, asked);
  for (std::size_t i = 0; i < region_.inputs; ++i)
    if (is_number(i)) state.values_[i] = const_cast<char*>(sources_[i].element(first, readers_));
    else if (!sources_[i].repeated())
      state.values_[i] = const_cast<char*>(
          sources_[i].read(first, count, state.buffers_ + static_cast<Index>(i) * buffer_bytes_, state.readers_));
  for (std::size_t k = 0; k < region_.destinations.size(); ++k)
    if (is_made_at(k)) state.values_[region_.destinations[k].value] = place(state, k, first);
  for (const PreparedRegion::Step& step : region_.steps) {
    if (!step.kernel) {
      step.chain(links_ + step.first_link, static_cast<Index>(step.links), state.values_, count);
      continue;
    }
    const void* in[PreparedRegion::most_operands];
    for (int k = 0; k < step.count; ++k) in[k] = state.values_[step.operands[k]];
    step.kernel(state.values_[step.value], in, count);
  }
  for (std::size_t k = 0; k < region_.destinations.size(); ++k) {
    const PreparedRegion::Destination& destination = region_.destinations[k];
    const char* const from = state.values_[destination.value];
    char* const to = place(state, k, first);
    const Index bytes = count * destination.size;
    if (stream_ && static_cast<int>(k) < region_.plain) kernels().stream_bytes(to, from, bytes);
    else if (to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
}

}  // namespace stave_cpu
