// Regions by tiles: each step on as many elements as the first cache holds of all values, before the next elements.
#pragma once

#include <vector>

#include <stave/backends/cpu/kernels/kernels.h>
#include <stave/backends/cpu/scratch.h>
#include <stave/backends/cpu/strided.h>
#include <stave/core/program/region.h>

namespace stave_cpu {

/// What computes a step that is no number.
BlockKernel kernel_of(const stave::Region& region, const stave::Region::Step& step, const Kernels& table);

/// A region as kernels see it: by whom its values are computed, and where they are meanwhile.
struct PreparedRegion final : stave::Region::Prepared {
  PreparedRegion(const stave::Region& region, const Kernels& table);
  static constexpr int most_operands = stave_detail::Loop::most_operands;
  using Chain = std::remove_reference_t<decltype(Kernels::chain[0])>;

  struct Step {
    int value;                           // what it gives, or a chain gives last
    BlockKernel kernel;                  // null: it is a chain
    int operands[most_operands], count;  // values, of a kernel
    Chain chain;
    std::size_t first_link, links;
  };
  struct Number {
    const void* bytes;
    Index size;
    int value, slot;  // slot: -1 where chains alone read it, who take it as it is
  };
  /// A value that goes through memory.
  struct Kept {
    int value, slot;
  };
  /// Where a value goes, element by element.
  struct Destination {
    int value;
    Index size;
    bool is_made_there = false;  // rather than copied: a step gives its value, and no earlier destination takes it
  };
  /// Where an output of the region comes from.
  struct Output {
    enum Kind {
      elements,  // it is a destination
      folded,    // the reduction of a destination, together with the others over the same axes
      whole,     // the reduction of a destination that must be there before
      given      // the reduction of an input or a number
    } kind;
    int destination, value;  // or -1
  };

  std::vector<Step> steps;
  std::vector<Link> links;  // of chains; what they read and write are values
  std::vector<Number> numbers;
  std::vector<Kept> kept;
  std::vector<Destination> destinations;  // the outputs that are values first
  std::vector<Output> outputs;
  std::vector<int> last_readers;  // of each input: the last value that is computed of it, or -1
  std::vector<bool> links_alone;  // of each input: nothing else reads it
  std::size_t inputs;
  int values, buffers, plain = 0;  // plain: how many destinations are outputs
  int operations = 0;              // of the region: a loop of its own performs them in one step
  Index widest = 1;                // bytes of an element

 private:
  void add_outputs(const stave::Region& region);
  void add_loop(const stave::Region& region, const stave_detail::Loop& loop);
  int destination(const stave::Region& region, int value);
};

/// With the kernels that are in use here.
const PreparedRegion& prepared_region(const stave::Region& region);

/// An input, and how elements are found in it by their place in the output.
class Source {
 public:
  Source(const View& view, Index n);
  bool repeated() const { return step_ == 0 && length_ == n_; }
  bool contiguous() const { return length_ == n_ && step_ == size_; }
  /// Of how many elements, one after the other, each is the same; 1: of none, or none that is worth a thought.
  Index repeats() const { return step_ == 0 ? length_ : 1; }
  const void* data() const { return data_; }
  Index size() const { return size_; }
  /// Elements first, ..., first + count - 1: where they lie next to each other, or `buffer`, into which they are copied.
  const char* read(Index first, Index count, char* buffer) const {
    if (contiguous()) return data_ + first * size_;
    return gather(first, count, buffer);
  }
  /// Where the first of so many elements is, or the one that is repeated in their place: element index * length of the last axis.
  const char* row(Index index) const;
  /// Asks for elements first, ..., if they lie next to each other and are too many for a cache of one core.
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

/// A call of a region: what stays the same from tile to tile.
class Tiles {
 public:
  /// `to`: where each destination's elements go. Those at null are where a thread says.
  Tiles(const PreparedRegion& region, std::span<const View> inputs, std::span<char* const> to, Index n);

  /// What a thread needs.
  class State {
   public:
    explicit State(const Tiles& tiles);
    State(const State&) = delete;
    /// Elements from `origin` on of a destination go there.
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

  /// The destination is the memory of an input: it is written after the input's last reader, and not past the caches, which have
  /// it already.
  void lies_in(int destination, std::size_t input) {
    not_before_[static_cast<std::size_t>(destination)] = region_.last_readers[input];
    stream_ = false;
  }
  /// Outputs are read again soon; inputs, where they are in no cache, are asked for `ahead` elements before they are read.
  void stay_in_caches(Index ahead) {
    stream_ = false;
    ahead_ = ahead;
  }
  void run(Index first, Index last, State& state) const;
  const PreparedRegion& region() const { return region_; }
  /// Where the elements of this destination come to lie anyway: in those of an output that is the same value; null: nowhere.
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
  std::vector<Link> own_links_;  // in place of the region's, where some inputs are numbers to them
  std::vector<bool> is_number_;  // of each input; empty: none
  Index row_ = 0;                // in so many elements they stay the same, and no tile reaches beyond; 0: in all
  stave::SmallVector<Source, 4> sources_;
  std::span<char* const> to_;
  stave::SmallVector<int, 4> not_before_;  // of each destination: the first value that may be written there
  Index n_, length_, buffer_bytes_, bytes_;
  Index ahead_ = 0;      // how far behind a tile's end the elements begin that are asked for
  bool stream_ = false;  // outputs past the caches
};

}  // namespace stave_cpu
