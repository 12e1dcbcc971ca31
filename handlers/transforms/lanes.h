// Sets of lanes of vmap, and the values of the lanes. Internal to vmap.cpp and paths*.cpp.
//
// The physical tensor behind a lane's value has a row for each lane of some set, at first
// of all lanes. After lanes split, each path has a smaller set, and takes the rows of its lanes
// from a value when it next needs that value.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <stave/core/op/op.h>
#include <stave/core/tensor/label.h>
#include <stave/core/tensor/note.h>

namespace stave_detail {

/// A set of lanes in ascending order. Row i of a tensor of their values belongs to `lane(i)`.
class Rows : public RefCounted {
 public:
  /// The set of all lanes: 0, 1, ...
  explicit Rows(Index size) : size_(size) {}
  explicit Rows(std::vector<std::int32_t> lanes) : size_(static_cast<Index>(lanes.size())), lanes_(std::move(lanes)) {}
  /// A copy of a set, which counts as created later than the set (is_older_than).
  Rows(const Rows& same) : RefCounted(), size_(same.size_), lanes_(same.lanes_), thread_(same.thread_) {}

  Index size() const noexcept { return size_; }
  bool is_all() const noexcept { return lanes_.empty(); }
  std::int32_t lane(Index row) const {
    return lanes_.empty() ? static_cast<std::int32_t>(row) : lanes_[static_cast<std::size_t>(row)];
  }
  Index row_of(std::int32_t lane) const;
  /// Returns true if this set contains all of `lanes`.
  bool has(const Rows& lanes) const;
  /// Returns the names of the lanes: "lane 3", "lanes 0, 2, 5 and 13 more".
  std::string str() const;
  /// Returns the rows of x for the lanes of this set. x has a row for each lane of `all`. Selecting
  /// the rows is an operation, which the outer handlers see, unless the sets are equal: then x is
  /// returned. Throws TransformError if `all` lacks one of these lanes.
  Tensor of(const Tensor& x, const Rows& all) const;
  /// Returns the row in `all` of the single lane of this set. Throws TransformError if `all` does
  /// not have the lane.
  Index row_in(const Rows& all) const;
  /// Returns true if this thread created the set. Only then are results cached in it.
  bool is_own() const noexcept { return thread_ == id_of_this_thread(); }
  bool is_older_than(const Rows& other) const noexcept { return id_ < other.id_; }

 private:
  /// Returns the rows of these lanes in `all`. Throws TransformError if `all` does not have them.
  std::vector<std::int32_t> rows_within(const Rows& all) const;
  static void check_has(const Rows& all, Index row, std::int32_t lane);
  // The rows of this set's lanes in the set `all`: consecutive rows from `start` on, or, if
  // defined, the rows `indices`, of shape [n, 1].
  struct Places {
    InstallationId all = 0;
    Index start = 0;
    Tensor indices;
  };
  Places places_in(const Rows& all, Device device) const;

  const InstallationId id_ = next_installation_id();
  const Index size_;
  const std::vector<std::int32_t> lanes_;  // empty: all lanes
  const void* const thread_ = id_of_this_thread();
  // A cache of the last results. Only the thread that created this set reads and writes it; other
  // threads, on which rules may run, compute their results anew.
  mutable std::unique_ptr<std::array<Places, 4>> known_;
  mutable std::size_t next_ = 0;
};
using RowsPtr = IntrusivePtr<const Rows>;

/// Returns the shape of one lane's value. `batched` has the values of some lanes as its rows.
inline Shape lane_shape(const Tensor& batched) {
  return Shape(std::span<const Index>(batched.shape().begin() + 1, batched.shape().end()));
}
/// Returns true if `batched` holds lanes of this shape and dtype.
inline bool has_lanes_of(const Tensor& batched, const Abstract& lane) {
  return batched.dtype() == lane.dtype && batched.rank() == lane.shape.rank() + 1 &&
         std::equal(lane.shape.begin(), lane.shape.end(), batched.shape().begin() + 1);
}

/// Reads a whole tensor for the program, and gives access to its rows in host memory.
class HostRows {
 public:
  HostRows(const Tensor& x, Index rows);
  std::string_view operator[](std::size_t row) const { return {data_ + row * bytes_, bytes_}; }
  std::size_t bytes() const noexcept { return bytes_; }  // size of one row
  /// Returns true if all rows have the same bits.
  bool agree() const noexcept;

 private:
  const std::size_t count_, bytes_;
  Tensor kept_;
  std::vector<char> copy_;
  const char* data_;
};

struct PathLog;

/// The batched tensor behind the value that a lane sees. Its owners are vmap's notes on such
/// values, and the paths that will need it when they run. The log of a path (paths.h) refers to it,
/// but does not keep it alive.
struct LaneValue : RefCounted, Pooled {
  Tensor batched;  // has a row for each lane of `rows`; undefined: the value was given up
  const RowsPtr rows;
  // The lanes whose rows `taken` holds; null: none. A path took these rows last, on the thread that
  // created `rows`.
  RowsPtr taken_for;
  Tensor taken;
  // Step `step` of `log` produced this value. Null: no log that still exists contains the value, as
  // for an argument. For a placeholder (`is_dead`), that step produced the dead value that the
  // placeholder represents.
  PathLog* log = nullptr;
  std::uint32_t step = 0;
  bool is_dead = false;                // this object is a placeholder for a dead value
  std::size_t dead_bytes = 0;          // the size of a dead value, or of one that was given up
  IntrusivePtr<LaneValue> unlabelled;  // this value without its label; null: it has no label

  LaneValue(Tensor batched, RowsPtr rows) : batched(std::move(batched)), rows(std::move(rows)) {}
  ~LaneValue() {
    if (log && !is_dead) leave_log();
  }
  std::size_t bytes() const noexcept { return is_dead || is_given_up() ? dead_bytes : bytes_kept_by(batched.node()); }
  /// Returns true if one note alone has this value, and `given` are its rows.
  bool is_in_one_note(const Tensor& given) const noexcept {
    return counted_once(*this) && !taken.defined() && !unlabelled && given.node_ptr() == batched.node_ptr();
  }
  bool is_given_up() const noexcept { return !batched.defined(); }
  /// Releases the rows, for a call that reads them last.
  void give_up() noexcept {
    dead_bytes = bytes();
    batched = Tensor();
  }
  /// Returns the rows of these lanes, in a run for the lanes `all`. If `alone`, returns the value
  /// of the single lane without the axis of lanes. If `keep`, and if the value was computed in
  /// this run, the rows are cached for the next call. The rows of a value that an operation's
  /// function captures are not cached, because recorders may discard the rows or record them anew.
  /// Throws TransformError for a placeholder, whose value was dead at this point of the first run,
  /// and if the value has no row for one of the lanes.
  Tensor of(const RowsPtr& lanes, bool alone, const Rows& all, bool keep = true);

 private:
  void leave_log() noexcept;
};
using LaneValuePtr = IntrusivePtr<LaneValue>;

/// The note on a lane's value.
struct Lanes {
  LaneValuePtr value;
  const Tensor* physical() const noexcept { return value ? &value->batched : nullptr; }
  std::size_t bytes() const noexcept { return value ? value->bytes() : 0; }
  void labelled(const NamePtr& name);
};

/// The data that all runs of one vmap share. It lives as long as any function that may run again on
/// the lanes.
struct Vmap {
  explicit Vmap(Index size, std::string axis_name = {}) : size(size), axis_name(std::move(axis_name)) {}
  const Index size;
  const std::string axis_name;  // empty: the axis has no name
  const RowsPtr all = make_intrusive<const Rows>(size);
  const Notes<Lanes> notes{"vmap"};

  /// Returns the tensor that a lane sees, of this shape, with `value` as the batched tensor behind
  /// it.
  Tensor lane(LaneValuePtr value, Shape shape) const;
  /// Returns the tensor that a lane sees. `batched` has a row for each of `rows`.
  Tensor lane(Tensor batched, const RowsPtr& rows) const;
};

}  // namespace stave_detail
