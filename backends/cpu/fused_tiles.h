// Fused regions that run tile by tile. A tile has as many elements as the L1 cache can hold of all
// values together. All steps are computed for a tile before the next tile begins.
#pragma once

#include <vector>

#include <stave/backends/cpu/kernels/kernels.h>
#include <stave/backends/cpu/scratch.h>
#include <stave/backends/cpu/strided.h>
#include <stave/core/program/region.h>

namespace stave_cpu {

/// Returns the kernel that computes a step, which is not a number.
BlockKernel kernel_of(const stave::Region& region, const stave::Region::Step& step, const Kernels& table);

/// A region prepared for the kernels: how its values are computed, and in which buffers they
/// are stored.
struct PreparedRegion final : stave::Region::Prepared {
  PreparedRegion(const stave::Region& region, const Kernels& table);
  static constexpr int most_operands = stave_detail::Loop::most_operands;
  using Chain = std::remove_reference_t<decltype(Kernels::chain[0])>;

  struct Step {
    int value;                           // the value that it computes; for a chain, the last one
    BlockKernel kernel;                  // null: the step is a chain
    int operands[most_operands], count;  // the operands of a kernel, as values
    Chain chain;
    std::size_t first_link, links;
  };
  struct Number {
    const void* bytes;
    Index size;
    // The slot is -1 if only chains read the number, because these need no buffer.
    int value, slot;
  };
  /// A value that is stored in memory, and its slot: the number of its buffer.
  struct Kept {
    int value, slot;
  };
  /// A value that is written element by element.
  struct Destination {
    int value;
    Index size;
    // True if the step that computes the value writes to this destination directly.
    // False if the value is copied, because no step computes it or because the step writes
    // to an earlier destination.
    bool is_made_there = false;
  };
  /// The source of an output of the region.
  struct Output {
    enum Kind {
      elements,  // the output is a destination
      folded,    // the reduction of a destination, while its tiles are computed
      whole,     // the reduction of a destination, after all its tiles have been computed
      given      // the reduction of an input or a number
    } kind;
    int destination, value;  // -1 if the kind has none
  };

  std::vector<Step> steps;
  std::vector<Link> links;  // the links of all chains; their arrays are numbered as values
  std::vector<Number> numbers;
  std::vector<Kept> kept;
  std::vector<Destination> destinations;  // the outputs that are values come first
  std::vector<Output> outputs;
  std::vector<int> last_readers;  // for each input: the last value that is computed from it, or -1
  std::vector<bool> links_alone;  // for each input: true if only links read it
  std::size_t inputs;
  int values, buffers, plain = 0;  // plain: the number of destinations that are outputs
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

/// An input of a region. Its elements are addressed by their position in the output.
class Source {
 public:
  Source(const View& view, Index n);
  bool repeated() const { return step_ == 0 && length_ == n_; }
  bool contiguous() const { return length_ == n_ && step_ == size_; }
  /// The number of consecutive elements that are one repeated number; 1 if there are none.
  Index repeats() const { return step_ == 0 ? length_ : 1; }
  const void* data() const { return data_; }
  Index size() const { return size_; }
  /// Returns elements first, ..., first + count - 1: in place if they are contiguous, or else
  /// copied into `buffer`.
  const char* read(Index first, Index count, char* buffer) const {
    if (contiguous()) return data_ + first * size_;
    return gather(first, count, buffer);
  }
  /// Returns the address of row `index`, that is, of element index * length of the last axis,
  /// or of the number repeated there.
  const char* row(Index index) const;
  /// Prefetches `count` elements from `first` on, if the input is contiguous and too large
  /// for the caches of one core.
  void prefetch(Index first, Index count) const {
    constexpr Index line = 64, many = Index{1} << 20;
    if (!contiguous() || n_ * size_ < many) return;
    for (const char *at = data_ + first * size_, *end = at + count * size_; at < end; at += line)
      __builtin_prefetch(at);
  }

 private:
  const char* gather(Index first, Index count, char* buffer) const;

  const char* data_;
  Index size_, n_, length_, step_;  // length and step, in bytes, of the last axis
  stave::SmallVector<Axis, 1> outer_;
};

/// A call of a region: the state that is the same for all tiles.
class Tiles {
 public:
  /// `to` has the address of each destination's elements. For a null entry, each thread sets
  /// an address by State::send.
  Tiles(const PreparedRegion& region, std::span<const View> inputs, std::span<char* const> to, Index n);

  /// The buffers and destinations of one thread.
  class State {
   public:
    explicit State(const Tiles& tiles);
    State(const State&) = delete;
    /// Sets the address of a destination's elements: element `origin` is written to `to`,
    /// and later elements follow.
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
  };

  /// Declares that a destination is the memory of an input. It is written after the input's last
  /// reader, and not with non-temporal stores, because the caches hold this memory already.
  void lies_in(int destination, std::size_t input) {
    not_before_[static_cast<std::size_t>(destination)] = region_.last_readers[input];
    stream_ = false;
  }
  /// Keeps outputs in the caches, because they are read again soon, and prefetches inputs `ahead`
  /// elements before they are read.
  void stay_in_caches(Index ahead) {
    stream_ = false;
    ahead_ = ahead;
  }
  void run(Index first, Index last, State& state) const;
  const PreparedRegion& region() const { return region_; }
  /// Returns the memory of an output that is the same value as this destination,
  /// so that the elements need not be written twice. Returns null if there is none,
  /// or if outputs are written with non-temporal stores.
  char* lies_at(int destination) const;

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
  std::vector<Link> own_links_;  // used instead of the region's links if some inputs are numbers
  std::vector<bool> is_number_;  // for each input: true if links read it as a number; or empty
  // The number of consecutive elements for which inputs read as numbers stay the same. No tile
  // crosses such a boundary. 0: they never change.
  Index row_ = 0;
  stave::SmallVector<Source, 4> sources_;
  std::span<char* const> to_;
  // For each destination: the index of the first value that may be written to its memory,
  // which an input may share.
  stave::SmallVector<int, 4> not_before_;
  Index n_, length_, buffer_bytes_, bytes_;
  Index ahead_ = 0;      // how far ahead of a tile's start inputs are prefetched; 0: the next tile
  bool stream_ = false;  // outputs are written with non-temporal stores
};

}  // namespace stave_cpu
