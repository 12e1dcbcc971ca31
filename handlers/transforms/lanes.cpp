#include <stave/handlers/transforms/lanes.h>

#include <algorithm>
#include <cstring>

#include <stave/core/ops/create.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/read_storage.h>
#include <stave/core/tensor/storage.h>

namespace stave_detail {

Index Rows::row_of(std::int32_t lane) const {
  return lanes_.empty() ? lane : std::lower_bound(lanes_.begin(), lanes_.end(), lane) - lanes_.begin();
}

bool Rows::has(const Rows& lanes) const {
  return is_all() ||
         (!lanes.is_all() && std::includes(lanes_.begin(), lanes_.end(), lanes.lanes_.begin(), lanes.lanes_.end()));
}

std::string Rows::str() const {
  constexpr Index shown = 3;
  std::string text = size_ == 1 ? "lane " : "lanes ";
  for (Index row = 0; row < size_ && row < shown; ++row) text += (row ? ", " : "") + std::to_string(lane(row));
  return size_ > shown ? fmt::format("{} and {} more", text, size_ - shown) : text;
}

std::vector<std::int32_t> Rows::rows_within(const Rows& all) const {
  std::vector<std::int32_t> rows(static_cast<std::size_t>(size_));
  const bool few = size_ * 16 < all.size_;
  Index at = 0;
  for (Index i = 0; i < size_; ++i) {
    if (few || all.is_all()) at = all.row_of(lane(i));
    else
      while (at < all.size_ && all.lane(at) < lane(i)) ++at;
    check_has(all, at, lane(i));
    rows[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(at);
  }
  return rows;
}

void Rows::check_has(const Rows& all, Index row, std::int32_t lane) {
  if (row < all.size_ && all.lane(row) == lane) return;
  fail<TransformError>(
      "vmap: a value of {} is used by lane {}, which took another path: return it from the function instead of storing "
      "it",
      all.str(), lane);
}

Index Rows::row_in(const Rows& all) const {
  const Index row = all.row_of(lane(0));
  check_has(all, row, lane(0));
  return row;
}

Rows::Places Rows::places_in(const Rows& all, Device device) const {
  if (is_own() && known_)
    for (const Places& places : *known_)
      if (places.all == all.id_ && (!places.indices.defined() || places.indices.device() == device)) return places;
  const std::vector<std::int32_t> rows = rows_within(all);
  Places places{all.id_, rows.front(), {}};
  if (rows.back() - rows.front() + 1 != size_) {
    UnderFrame past_all_handlers(nullptr);
    places.indices = from(rows, {size_, 1}, device);
  }
  if (is_own()) {
    if (!known_) known_ = std::make_unique<std::array<Places, 4>>();
    (*known_)[next_++ % known_->size()] = places;
  }
  return places;
}

Tensor Rows::of(const Tensor& x, const Rows& all) const {
  if (all.size_ == size_ && (all.lanes_ == lanes_)) return x;
  const Places places = places_in(all, x.device());
  return places.indices.defined() ? gather(x, places.indices) : x(slice(places.start, places.start + size_));
}

HostRows::HostRows(const Tensor& x, Index rows)
    : count_(static_cast<std::size_t>(rows)), bytes_(static_cast<std::size_t>(x.size() / rows) * size_of(x.dtype())) {
  const Tensor read = read_value(x);
  UnderFrame past_all_handlers(nullptr);
  kept_ = contiguous(view_of(read));
  data_ = static_cast<const char*>(kept_.node().data());
  if (kept_.node().memory() == cpu) return;
  copy_.resize(bytes_ * count_);
  read_storage(kept_.node().memory(), copy_.data(), data_, copy_.size());
  data_ = copy_.data();
}

bool HostRows::agree() const noexcept {
  return count_ < 2 || std::memcmp(data_, data_ + bytes_, (count_ - 1) * bytes_) == 0;
}

Tensor LaneValue::of(const RowsPtr& lanes, bool alone, const Rows& all, bool keep) {
  if (is_dead)
    fail<TransformError>(
        "vmap: the function ran again for lanes that take another path, and uses a value ({} {}) that its first run "
        "had released: apart from the values of its lanes it must do the same each time",
        batched.dtype(), lane_shape(batched));
  if (rows == lanes && !alone) return batched;
  if (taken_for == lanes) return taken;
  Tensor found = alone ? batched[lanes->row_in(*rows)] : lanes->of(batched, *rows);
  if (keep && rows->is_own() && !rows->is_older_than(all)) {
    taken_for = lanes;
    taken = found;
  }
  return found;
}

void Lanes::labelled(const NamePtr& name) {
  auto labelled = make_intrusive<LaneValue>(value->batched, value->rows);
  labelled->is_dead = value->is_dead;
  labelled->dead_bytes = value->dead_bytes;
  labelled->unlabelled = value;
  if (!labelled->is_dead) labelled->batched = relabel(std::move(labelled->batched), name);
  value = std::move(labelled);
}

Tensor Vmap::lane(LaneValuePtr value, Shape shape) const {
  Strides strides = contiguous_strides(shape);
  const Tensor& batched = value->batched;
  auto node = NodePtr(new Node(batched.dtype(), batched.device(), std::move(shape), std::move(strides), nullptr));
  return notes.put(Tensor(std::move(node)), Lanes{std::move(value)});
}

Tensor Vmap::lane(Tensor batched, const RowsPtr& rows) const {
  Shape shape = lane_shape(batched);
  return lane(make_intrusive<LaneValue>(std::move(batched), rows), std::move(shape));
}

}  // namespace stave_detail
