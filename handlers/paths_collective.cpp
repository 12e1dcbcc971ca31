// Collectives (core/ops/collective.h) that name the lanes of a vmap: reductions and permutations of what stands behind all of them.
#include <stave/core/fail.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/function.h>
#include <stave/core/ops/named_axis.h>
#include <stave/handlers/paths.h>

namespace stave_detail {

std::optional<Index> PathRun::handle(AxisSize& axis) {
  if (axis.name == vmap_->axis_name && !axis.name.empty()) return vmap_->size;
  return perform(AxisSize(axis));
}

bool PathRun::answers(const Call& call) const {
  const CollectiveAttributes* const attributes = unbound_collective(call.op(), call.attributes());
  return attributes && attributes->axis_name == vmap_->axis_name;
}

Outputs PathRun::collective(const Call& call) {
  LanePath& path = *path_;
  if (!path.replays.empty()) {
    Call again = call;
    return replayed(again);
  }
  const Op& op = call.op();
  if (path.lanes->size() != vmap_->size)
    fail<TransformError>(
        "{}: all {} lanes of \"{}\" take part, but they have parted, and {} came here: use where in place of if, or "
        "let "
        "lanes part after it",
        op.name, vmap_->size, vmap_->axis_name, path.lanes->str());
  if (path.log) path.log->joint = true;
  const auto& attributes = call.as<CollectiveAttributes>();
  const auto of_lanes = [&](Tensor batched) {
    auto value = make_intrusive<LaneValue>(std::move(batched), path.lanes);
    path.note(op, value.get());
    return vmap_->lane(std::move(value), call.abstract_outputs()[0].shape);
  };
  if (&op == &op_axis_index) return {of_lanes(arange(0, vmap_->size, 1, int32, attributes.device))};
  const Tensor& x = call.input(0);
  const Lanes* const lanes = vmap_->notes.find(x);
  OfAllPlaces all = all_places(op, attributes, lanes ? rows_of(*lanes, path) : broadcast_lanes(x, vmap_->size));
  if (!all.same) return {of_lanes(std::move(all.result))};
  path.note({nullptr, 0, all.result, &op, nullptr});
  return {std::move(all.result)};
}

}  // namespace stave_detail
