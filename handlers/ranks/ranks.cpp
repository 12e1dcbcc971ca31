#include <stave/handlers/ranks/ranks.h>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/ranks/processes.h>

namespace stave {

using namespace stave_detail;

Ranks::Ranks(std::string axis_name, RanksOptions options)
    : axis_name_(std::move(axis_name)), processes_(make_intrusive<Processes>(axis_name_, options)) {
  if (axis_name_.empty()) fail<TransformError>("Ranks: the axis has no name");
}
Ranks::~Ranks() = default;

Index Ranks::size() const noexcept { return processes_->size; }
Index Ranks::place() const noexcept { return processes_->place; }

std::string Ranks::describe() const {
  return fmt::format("Ranks \"{}\" (place {} of {}{})", axis_name_, place(), size(), processes_->way());
}

std::optional<Index> Ranks::handle(AxisSize& axis) {
  if (axis.name == axis_name_) return size();
  return perform(AxisSize(axis));
}

namespace {

bool is_extreme(const Op& op) { return &op == &op_pmax || &op == &op_pmin; }

// Returns the dtype in which a tensor is exchanged. Collectives that compute need another dtype in
// two cases: MPI and NCCL do not compute with float16 and bfloat16 as this library does, and NCCL
// does not compute with 16-bit integers. Collectives that only move data keep the dtype.
Dtype exchanged_in(const Op& op, Dtype dtype, Device device) {
  const bool computes = is_extreme(op) || &op == &op_psum || &op == &op_reduce_scatter;
  if (computes && device != cpu && (dtype == int16 || dtype == uint16)) return dtype == int16 ? int32 : uint32;
  return computes ? computed_in(dtype) : dtype;
}

Tensor on(Device device, const Tensor& x) { return x.device() == device ? x : to(x, device); }

}  // namespace

Outputs Ranks::handle(Call& call) {
  const Op& op = call.op();
  const CollectiveAttributes* const attributes = unbound_collective(op, call.attributes());
  if (!attributes || attributes->axis_name != axis_name_) return perform(std::move(call));
  if (&op == &op_axis_index) return {full({}, static_cast<std::int64_t>(place()), int32, attributes->device)};
  const Tensor& x = call.input(0);
  const Device device = processes_->exchanges_on(
      x.device(), [&](Device where) { return description_of(op, *attributes, x.dtype(), x.shape(), where); });
  const AttributesPtr bound = attributes->bound(processes_);
  // pmax and pmin must return NaN if an operand is NaN, which NCCL does not guarantee. So the
  // operands of all processes are gathered, and each process reduces them.
  if (device != cpu && is_extreme(op) && is_float(x.dtype()))
    return {on(x.device(), result_at_all_places(op, *attributes, apply(op_all_gather, {on(device, x)}, bound)).result)};
  const Tensor result = apply(op, {on(device, astype(x, exchanged_in(op, x.dtype(), device)))}, bound);
  return {astype(on(x.device(), result), x.dtype())};
}

void Ranks::begin() const noexcept { ++open_withs; }

void Ranks::end() const {
  processes_->end();
  --open_withs;
}

void Ranks::abort(const std::exception_ptr& why) const noexcept {
  std::string text = "an exception that is not a std::exception";
  try {
    std::rethrow_exception(why);
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {
  }
  end_all(fmt::format("{} ends all processes: {}", processes_->str(), text));
}

}  // namespace stave
