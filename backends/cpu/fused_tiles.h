// Fused regions that run tile by tile. A tile is a run of at most 1024 elements, fewer if the
// buffers of all values would not fit into the L1 cache. All steps are computed for a tile before
// the next tile begins. A "number" is a constant or an input that has one value for all elements of
// a tile.
#pragma once

#include <vector>

#include <stave/backends/cpu/kernels/kernels.h>
#include <stave/backends/cpu/scratch.h>
#include <stave/backends/cpu/strided.h>
#include <stave/core/program/region.h>

namespace stave_cpu {

/// Returns the kernel that computes a step. The step must be an operation and not a number.
BlockKernel kernel_of(const stave::Region& region, const stave::Region::Step& step);

/// A region prepared for the kernels: the steps that compute its values, and the buffers that hold
/// the values.
struct PreparedRegion final : stave::Region::Prepared {
  PreparedRegion(const stave::Region& region, const Kernels& table);
  static constexpr int most_operands = stave_detail::Loop::most_operands;
  using Chain = std::remove_reference_t<decltype(Kernels::chain[0])>;

  struct Step {
    int value;                           // The computed value; for a chain, its last value.
    BlockKernel kernel;                  // Null if the step is a chain.
    int operands[most_operands], count;  // The operands of a kernel, as indices of values.
    Chain chain;
    std::size_t first_link, links;
  };
  struct Number {
    const void* bytes;
    Index size;
    // The slot is -1 if only chains read the number, because they need no buffer for it.
    int value, slot;
  };
  /// A value that is stored in memory, and its slot: the index of its buffer.
  struct Kept {
    int value, slot;
  };
  /// A complete array in memory that receives the elements of a value: an output, or a value to
  /// reduce.
  struct Destination {
    int value;
    Index size;
    // True if the step that computes the value writes directly to this destination. Otherwise the
    // value is copied, because it is an input or a number, or because the step writes directly to
    // an earlier destination.
    bool is_made_there = false;
  };
  /// How an output of the region is computed.
  struct Output {
    enum Kind {
      elements,  // The output is a destination itself.
      folded,    // The output reduces a destination tile by tile, as soon as each tile is computed.
      whole,     // The output reduces a destination after all its tiles have been computed.
      given      // The output reduces an input or a number.
    } kind;
    // The destination and the value of the output; -1 if the kind has none.
    int destination, value;
  };

  std::vector<Step> steps;
  std::vector<Link> links;  // The links of all chains. Their arrays have the indices of values.
  std::vector<Number> numbers;
  std::vector<Kept> kept;
  std::vector<Destination> destinations;  // Destinations that are outputs come first.
  std::vector<Output> outputs;
  std::vector<int> last_readers;  // for each input: the last value that is computed from it, or -1
  std::vector<bool> links_alone;  // For each input: true if only links read it, and no kernel does.
  std::size_t inputs;
  // `plain` is the number of destinations that are outputs; the others are reduced.
  int values, buffers, plain = 0;
  // The number of operations of the region. If the program has a compiled loop for the region
  // (own_kernels.h), one step performs all of them.
  int operations = 0;
  Index widest = 1;  // the size of the largest element, in bytes

 private:
  void add_outputs(const stave::Region& region);
  void add_loop(const stave::Region& region, const stave_detail::Loop& loop);
  int destination(const stave::Region& region, int value);
};

/// Returns the region prepared for the kernels that this process uses.
const PreparedRegion& prepared_region(const stave::Region& region);

/// The readers of the inputs that are neither contiguous nor one repeated number.
using Readers = stave::SmallVector<StridedReader, 2>;

/// An input of a region. Its elements are addressed by their position in the output.
class Source {
 public:
  /// Adds a reader to `readers` if the input needs one.
  Source(const View& view, Index n, Readers& readers);
  bool repeated() const { return step_ == 0 && length_ == n_; }
  bool contiguous() const { return length_ == n_ && step_ == size_; }
  /// The number of consecutive elements that are one repeated number; 1 if there are none.
  Index repeats() const { return step_ == 0 ? length_ : 1; }
  const char* data() const { return data_; }
  Index size() const { return size_; }
  /// Returns elements first, ..., first + count - 1: in place if they are dense, or else copied
  /// into `buffer`. The input is not repeated.
  const char* read(Index first, Index count, char* buffer, Readers& readers) const {
    if (reader_ < 0) return data_ + first * size_;
    return readers[static_cast<std::size_t>(reader_)].read(first, count, buffer);
  }
  /// Returns the address of an element.
  const char* element(Index position, const Readers& readers) const {
    if (reader_ < 0) return data_ + position * step_;
    return readers[static_cast<std::size_t>(reader_)].element(position);
  }
  /// Prefetches `count` elements from `first` on, if the input is contiguous and too large
  /// for the caches of one core.
  void prefetch(Index first, Index count) const {
    constexpr Index line = 64, many = Index{1} << 20;
    if (!contiguous() || n_ * size_ < many) return;
    for (const char *at = data_ + first * size_, *end = at + count * size_; at < end; at += line)
      __builtin_prefetch(at);
  }

 private:
  const char* data_;
  // `size_` is the size of an element in bytes, and `n_` the number of elements. `length_` is the
  // length of the last axis after merging, and `step_` the step along it in bytes.
  Index size_, n_, length_, step_;
  int reader_ = -1;  // The index of the input's reader, or -1.
};

/// One call of a region: the state that all tiles share.
class Tiles {
 public:
  /// `to` has the address of each destination. For a null entry, each thread sets an address by
  /// State::send.
  Tiles(const PreparedRegion& region, std::span<const View> inputs, std::span<char* const> to, Index n);

  /// The buffers and destinations of one thread.
  class State {
   public:
    explicit State(const Tiles& tiles);
    State(const State&) = delete;
    /// Sets the address of a destination: element `origin` is written to `to`, and later elements
    /// follow.
    void send(int destination, char* to, Index origin) { to_[static_cast<std::size_t>(destination)] = {to, origin}; }

   private:
    friend Tiles;
    struct To {
      char* data;
      Index origin;
    };
    alignas(64) char few_[16384];
    char* few_values_[32];
    Scratch<char> many_;
    std::vector<char*> many_values_;
    char* buffers_;
    char** values_;
    stave::SmallVector<To, 4> to_;
    Readers readers_;
  };

  /// Declares that a destination shares the memory of an input. The destination is then written
  /// after the input's last reader, and without non-temporal stores, because the memory is in the
  /// caches.
  void declare_alias(int destination, std::size_t input) {
    not_before_[static_cast<std::size_t>(destination)] = region_.last_readers[input];
    stream_ = false;
  }
  /// Keeps outputs in the caches, because they are read again soon. Inputs are prefetched `ahead`
  /// elements before they are read.
  void stay_in_caches(Index ahead) {
    stream_ = false;
    ahead_ = ahead;
  }
  void run(Index first, Index last, State& state) const;
  const PreparedRegion& region() const { return region_; }
  /// Returns the memory of an output that holds the same value as this destination, so that the
  /// elements need not be written twice. Returns null if there is no such output, or if outputs are
  /// written with non-temporal stores.
  char* matching_output(int destination) const;

 private:
  char* slot(const State& state, int slot) const {
    return state.buffers_ + (static_cast<Index>(region_.inputs) + slot) * buffer_bytes_;
  }
  bool is_number(std::size_t input) const { return !is_number_.empty() && is_number_[input]; }
  bool is_made_at(std::size_t destination) const {
    const PreparedRegion::Destination& it = region_.destinations[destination];
    const bool streams = stream_ && static_cast<int>(destination) < region_.plain;
    return it.is_made_there && !streams && it.value >= not_before_[destination];
  }
  char* place(const State& state, std::size_t destination, Index first) const {
    const State::To& to = state.to_[destination];
    return to.data + (first - to.origin) * region_.destinations[destination].size;
  }
  void take_numbers();
  void run_tile(Index first, Index count, State& state) const;

  const PreparedRegion& region_;
  const Link* links_;
  // The links that replace the region's links if some inputs are read as numbers.
  stave::SmallVector<Link, 16> own_links_;
  // For each input: true if links read it as a number. Empty if this is true for no input.
  stave::SmallVector<bool, 8> is_number_;
  // Inputs that are read as numbers keep their value for this number of consecutive elements, and
  // no tile crosses such a boundary. 0 means that they never change.
  Index row_ = 0;
  stave::SmallVector<Source, 4> sources_;
  Readers readers_;  // Each thread has copies of its own.
  std::span<char* const> to_;
  // For each destination: the index of the first value that may be written to it. An input may
  // share the destination's memory, and earlier values are computed from that input.
  stave::SmallVector<int, 4> not_before_;
  Index n_, length_, buffer_bytes_, bytes_;
  // The distance from a tile's start at which inputs are prefetched; 0 means the next tile.
  Index ahead_ = 0;
  bool stream_ = false;  // True if outputs are written with non-temporal stores.
};

}  // namespace stave_cpu
