#include "cuda/random_regions.h"

#include <iterator>

#include <stave/core/effects/error.h>
#include <stave/core/ops/elementwise_ops.h>

namespace stave_test {

bool is_function(const stave::Op& op, stave::Dtype dtype) {
  constexpr stave_detail::Work works[] = {
#define X(name, Struct) stave_detail::Struct::work,
      STAVE_UNARY_OPS(X) STAVE_BINARY_OPS(X)
#undef X
  };
  const auto id = static_cast<std::size_t>(op.id);
  return is_float(dtype) && id < std::size(works) && works[id] == stave_detail::Work::function;
}
namespace {

/// Returns true if the result shows the sign of a NaN, which is not specified.
bool shows_sign(const stave::Op& op) { return op.id == stave::OpId::signbit || op.id == stave::OpId::copysign; }
std::size_t arity_of(const stave::Op& op) {
  using stave::OpId;
  return op.id == OpId::where ? 3 : op.id >= OpId::add && op.id < OpId::full ? 2 : 1;
}
std::vector<const stave::Op*> region_ops() {
  std::vector<const stave::Op*> found;
  for (const stave::Op* op : stave::all_ops())
    if (stave::Region::admits(*op) && (op->id < stave::OpId::complex || op->id > stave::OpId::conj))
      found.push_back(op);  // regions with complex numbers are not compiled
  return found;
}

}  // namespace

// Each step gets random earlier values. An operation that refuses them is drawn again.
stave::RegionPtr exact_region(Random& random, std::vector<stave::Dtype> inputs, stave::Index steps) {
  stave::IntrusivePtr<stave::Region> region(new stave::Region(std::move(inputs)));
  const auto ops = region_ops();
  auto count = static_cast<int>(region->inputs().size());
  while (steps > 0) {
    const stave::Dtype dtype = one_of(random, every_dtype);
    if (pick(random, 0, 9) == 0) {
      region->add(dtype == stave::bool_ ? stave::Scalar(pick(random, 0, 1) == 1) : stave::Scalar(pick(random, 0, 3)),
                  dtype);
    } else {
      const stave::Op& op = *one_of(random, ops);
      std::vector<int> operands;
      for (std::size_t i = 0; i < arity_of(op); ++i) operands.push_back(static_cast<int>(pick(random, 0, count - 1)));
      if (is_function(op, region->dtype(operands.back())) || shows_sign(op)) continue;
      try {
        region->add(op, operands, dtype);
      } catch (const stave::DtypeError&) {
        continue;  // the operation does not admit the dtypes
      }
    }
    ++count;
    --steps;
  }
  std::vector<int> outputs;
  for (stave::Index i = pick(random, 1, 4); i > 0; --i) outputs.push_back(static_cast<int>(pick(random, 0, count - 1)));
  outputs.push_back(count - 1);
  region->set_outputs(outputs);
  return region;
}

stave::RegionPtr every_operation(stave::Dtype dtype) {
  stave::IntrusivePtr<stave::Region> region(new stave::Region({dtype, dtype, dtype, stave::bool_}));
  std::vector<int> outputs;
  for (const stave::Op* op : region_ops()) {
    try {
      if (op->id == stave::OpId::astype)
        for (const stave::Dtype to : every_dtype) outputs.push_back(region->add(*op, {0}, to));
      else if (op->id == stave::OpId::where) outputs.push_back(region->add(*op, {3, 0, 1}));
      else if (arity_of(*op) == 2) outputs.push_back(region->add(*op, {0, 1}));
      else outputs.push_back(region->add(*op, {2}));
    } catch (const stave::DtypeError&) {  // the operation does not admit the dtype
    }
  }
  region->set_outputs(outputs);
  return region;
}

stave::RegionPtr sum_of_inputs(int count) {
  stave::IntrusivePtr<stave::Region> region(
      new stave::Region(std::vector<stave::Dtype>(static_cast<std::size_t>(count), stave::float32)));
  int sum = 0;
  for (int i = 1; i < count; ++i) sum = region->add(stave::op_add, {sum, i});
  region->set_outputs({sum});
  return region;
}

stave::RegionPtr region_with_reductions() {
  stave::IntrusivePtr<stave::Region> region(new stave::Region({stave::float32, stave::float32, stave::bool_}));
  const int product = region->add(stave::op_multiply, {0, 1}), sum = region->add(stave::op_add, {product, 0});
  region->set_outputs({region->reduce(stave::op_sum, product, {-1}), product,
                       region->reduce(stave::op_max, sum, {-2, -1}, true), region->reduce(stave::op_sum, sum, {-2}),
                       region->reduce(stave::op_any, 2, {-1}), region->reduce(stave::op_min, 0, {-2})});
  return region;
}

std::vector<stave::RegionPtr> regions_of_tests() {
  std::vector<stave::RegionPtr> regions{sum_of_inputs()};
  for (const stave::Dtype dtype : every_dtype) regions.push_back(every_operation(dtype));
  Random random(29);
  for (int i = 0; i < 100; ++i) {
    std::vector<stave::Dtype> inputs;
    for (stave::Index n = pick(random, 1, 5); n > 0; --n) inputs.push_back(one_of(random, every_dtype));
    regions.push_back(exact_region(random, std::move(inputs), i < 3 ? 120 : pick(random, 1, 20)));
  }
  regions.push_back(region_with_reductions());
  return regions;
}

}  // namespace stave_test
