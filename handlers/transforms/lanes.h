// Lanes of vmap: sets of them, and the values that they have. Internal to vmap.cpp and paths.cpp.
//
// What stands behind a lane's value is a tensor with a row for each lane of some set: of all, at first. Where lanes part, each path
// has a smaller set, and takes the rows of its lanes when it next needs a value.
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

/// A set of lanes, ascending; row i of a tensor of their values is that of `lane(i)`.
class Rows : public RefCounted {
 public:
  /// All: 0, 1, ...
  explicit Rows(Index size) : size_(size) {}
  explicit Rows(std::vector<std::int32_t> lanes) : size_(static_cast<Index>(lanes.size())), lanes_(std::move(lanes)) {}
  /// The same lanes, as a set that was made later.
  Rows(const Rows& same) : RefCounted(), size_(same.size_), lanes_(same.lanes_), thread_(same.thread_) {}

  Index size() const noexcept { return size_; }
  bool is_all() const noexcept { return lanes_.empty(); }
  std::int32_t lane(Index row) const {
    return lanes_.empty() ? static_cast<std::int32_t>(row) : lanes_[static_cast<std::size_t>(row)];
  }
  Index row_of(std::int32_t lane) const;
  /// Whether all of `lanes` are among these.
  bool has(const Rows& lanes) const;
  /// "lane 3", "lanes 0, 2, 5 and 13 more".
  std::string str() const;
  /// x, which has a row for each of `all`, with these rows alone. An operation, for the handlers below.
  Tensor of(const Tensor& x, const Rows& all) const;
  /// The row in `all` of the one lane that this is.
  Index row_in(const Rows& all) const;
  /// Whether this thread made it: what is found may then be kept.
  bool is_own() const noexcept { return thread_ == id_of_this_thread(); }
  bool is_older_than(const Rows& other) const noexcept { return id_ < other.id_; }

 private:
  /// Throws TransformError for rows of others.
  std::vector<std::int32_t> rows_within(const Rows& all) const;
  static void check_has(const Rows& all, Index row, std::int32_t lane);
  // Where they stand in another set: from `start` on, or at `indices` [n, 1].
  struct Places {
    InstallationId all = 0;
    Index start = 0;
    Tensor indices;
  };
  Places places_in(const Rows& all, Device device) const;

  const InstallationId id_ = next_installation_id();
  const Index size_;
  const std::vector<std::int32_t> lanes_;  // empty: all
  const void* const thread_ = id_of_this_thread();
  // What was asked for last; by the thread that made this: others, on which rules may run, find it anew.
  mutable std::unique_ptr<std::array<Places, 4>> known_;
  mutable std::size_t next_ = 0;
};
using RowsPtr = IntrusivePtr<const Rows>;

/// The shape of one lane's value, of which `batched` has all.
inline Shape lane_shape(const Tensor& batched) {
  return Shape(std::span<const Index>(batched.shape().begin() + 1, batched.shape().end()));
}
/// Whether `batched` has such values.
inline bool has_lanes_of(const Tensor& batched, const Abstract& lane) {
  return batched.dtype() == lane.dtype && batched.rank() == lane.shape.rank() + 1 &&
         std::equal(lane.shape.begin(), lane.shape.end(), batched.shape().begin() + 1);
}

/// The rows of a tensor that the program reads, in the host's memory.
class HostRows {
 public:
  HostRows(const Tensor& x, Index rows);
  std::string_view operator[](std::size_t row) const { return {data_ + row * bytes_, bytes_}; }
  std::size_t bytes() const noexcept { return bytes_; }  // of one
  /// Whether all have the same bits.
  bool agree() const noexcept;

 private:
  const std::size_t count_, bytes_;
  Tensor kept_;
  std::vector<char> copy_;
  const char* data_;
};

struct PathLog;

/// What stands behind a lane's value. Notes own it; the log of a path knows of it (paths.h), and keeps nothing alive.
struct LaneValue : RefCounted, Pooled {
  Tensor batched;  // with these rows
  const RowsPtr rows;
  RowsPtr taken_for;  // what a path asked for last, of the thread that made the rows
  Tensor taken;
  PathLog* log = nullptr;  // in which it is step `step`; of a hollow value: in which the one is that it stands for
  std::uint32_t step = 0;
  bool hollow = false;  // in place of one that is gone
  std::size_t bytes_of_gone = 0;
  IntrusivePtr<LaneValue> unlabelled;  // this one, without its label

  LaneValue(Tensor batched, RowsPtr rows) : batched(std::move(batched)), rows(std::move(rows)) {}
  ~LaneValue() {
    if (log && !hollow) leave_log();
  }
  std::size_t bytes() const noexcept { return hollow ? bytes_of_gone : bytes_kept_by(batched.node()); }
  /// The rows of these lanes, for a run for `all`; `alone`: the value of the one lane. They are kept for who asks next if the value is of
  /// this run too: what the function of an operation takes from outside of it, recorders may forget, or record anew. Throws
  /// TransformError if the value was gone when the function ran first.
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

/// One vmap: what its runs share, and what lives as long as functions that run again on its lanes.
struct Vmap {
  explicit Vmap(Index size, std::string axis_name = {}) : size(size), axis_name(std::move(axis_name)) {}
  const Index size;
  const std::string axis_name;  // empty: it has none
  const RowsPtr all = make_intrusive<const Rows>(size);
  const Notes<Lanes> notes{"vmap"};

  /// A lane's value of this shape, behind which stands `value`.
  Tensor lane(LaneValuePtr value, Shape shape) const;
  /// The value of one lane, of which `batched` has a row for each of `rows`.
  Tensor lane(Tensor batched, const RowsPtr& rows) const;
};

}  // namespace stave_detail
