// Collectives (core/ops/collective.h) that name the lanes of a vmap: reductions, permutations and
// the like of the values of all lanes, and each lane's number (axis_index).
#include <stave/core/op/function.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/named_axis.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/transforms/paths.h>

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
  PathEffects* const outermost = stave::perform(FindPathEffects{*vmap_, true});
  const auto counted = [&](Outputs outputs) {
    if (outermost) ++outermost->next_collective;
    return outputs;
  };
  if (path.replaying()) {
    Call again = call;
    return counted(replayed(again));
  }
  const PathLog::Given given = path.log ? given_of(call) : PathLog::Given();
  std::exception_ptr threw;
  try {
    return counted(perform_collective(call, given, outermost));
  } catch (const std::bad_alloc&) {
    path.log = nullptr;
    throw;
  } catch (...) {
    threw = std::current_exception();
  }
  fail_all(call, given, threw);
}

Outputs PathRun::perform_collective(const Call& call, const PathLog::Given& given, PathEffects* outermost) {
  LanePath& path = *path_;
  const Op& op = call.op();
  if (outermost && outermost->next_collective < outermost->collective_results.size())
    return known_collective(call, given, outermost->collective_results[outermost->next_collective]);
  if (path.lanes->size() != vmap_->size)
    fail<TransformError>(
        "{}: all {} lanes of \"{}\" must take part, but they have split, and only {} came here: use where instead of "
        "if, or let lanes split after it",
        op.name, vmap_->size, vmap_->axis_name, path.lanes->str());
  if (path.log) path.log->has_collective = true;
  const auto& attributes = call.as<CollectiveAttributes>();
  const auto of_lanes = [&](Tensor batched) {
    auto value = make_intrusive<LaneValue>(std::move(batched), path.lanes);
    path.note(op, value.get(), given);
    if (outermost) outermost->collective_results.push_back({&op, value, {}});
    return vmap_->lane(std::move(value), call.abstract_outputs()[0].shape);
  };
  if (&op == &op_axis_index) return {of_lanes(arange(0, vmap_->size, 1, int32, attributes.device))};
  const Tensor& x = call.input(0);
  const Lanes* const lanes = vmap_->notes.find(x);
  OfAllPlaces all =
      result_at_all_places(op, attributes, lanes ? rows_of(*lanes, path) : broadcast_lanes(x, vmap_->size));
  if (!all.same) return {of_lanes(std::move(all.result))};
  path.note({.answer = all.result, .op = &op, .given = given});
  if (outermost) outermost->collective_results.push_back({&op, nullptr, all.result});
  return {std::move(all.result)};
}

// Returns the known result: lanes that run again from the start get the results that all lanes
// computed before. Throws TransformError if the known result is not that of such a collective.
Outputs PathRun::known_collective(const Call& call, const PathLog::Given& given,
                                  const PathEffects::CollectiveResult& known) {
  const Abstract& expected = call.abstract_outputs()[0];
  const bool same = known.op == &call.op() &&
                    (known.value ? has_lanes_of(known.value->batched, expected)
                                 : known.same.shape() == expected.shape && known.same.dtype() == expected.dtype);
  if (!same) fail_other_way(call.op().name, known.op->name);
  LanePath& path = *path_;
  if (path.log) path.log->has_collective = true;
  if (!known.value) {
    path.note({.answer = known.same, .op = &call.op(), .given = given});
    return {clone_node(known.same)};
  }
  Tensor rows = known.value->of(path.lanes, path.alone, *lanes_);
  if (path.alone) return {clone_node(rows)};
  auto value = make_intrusive<LaneValue>(std::move(rows), path.lanes);
  path.note(call.op(), value.get(), given);
  return {vmap_->lane(std::move(value), expected.shape)};
}

}  // namespace stave_detail
