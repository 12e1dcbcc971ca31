#include <stave/ranks/ranks.h>

#include <cstdio>
#include <cstdlib>

#include <stave/core/fail.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/transfer.h>
#include <stave/ranks/processes.h>

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
  return fmt::format("Ranks \"{}\" (place {} of {})", axis_name_, place(), size());
}

std::optional<Index> Ranks::handle(AxisSize& axis) {
  if (axis.name == axis_name_) return size();
  return perform(AxisSize(axis));
}

namespace {

// MPI does not compute with halves; what it only passes on are bytes.
Dtype exchanged_in(const Op& op, Dtype dtype) {
  const bool computes = &op == &op_psum || &op == &op_pmax || &op == &op_pmin || &op == &op_reduce_scatter;
  return computes ? computed_in(dtype) : dtype;
}

}  // namespace

Outputs Ranks::handle(Call& call) {
  const CollectiveAttributes* const attributes = unbound_collective(call.op(), call.attributes());
  if (!attributes || attributes->axis_name != axis_name_) return perform(std::move(call));
  if (&call.op() == &op_axis_index) return {full({}, static_cast<std::int64_t>(place()), int32, attributes->device)};
  const Tensor& x = call.input(0);
  const Device device = x.device();
  Tensor there = to(astype(x, exchanged_in(call.op(), x.dtype())), cpu);
  Tensor result = apply(call.op(), {std::move(there)}, attributes->bound(processes_));
  return {astype(to(result, device), x.dtype())};
}

void Ranks::end() const {
  processes_->check_alike([] { return std::string("nothing more: it has left Ranks"); });
}

void Ranks::abort(const std::exception_ptr& why) const noexcept {
  std::string text = "an exception that is no std::exception";
  try {
    std::rethrow_exception(why);
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {
  }
  std::fprintf(stderr, "stave: rank %d of %d of \"%s\" ends all: %s\n", processes_->place, processes_->size,
               axis_name_.c_str(), text.c_str());
  std::fflush(nullptr);
  end_all();
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::_Exit(1);
}

}  // namespace stave
