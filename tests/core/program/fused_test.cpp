// Regions and the operation that runs them: random regions against their steps one by one, bit for
// bit, with derivatives of any order.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>

#include <stave/stave.h>

#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;

using Random = std::mt19937_64;

Index pick(Random& random, Index low, Index high) { return std::uniform_int_distribution<Index>(low, high)(random); }
template <class T>
const T& one_of(Random& random, const std::vector<T>& choices) {
  return choices[static_cast<std::size_t>(pick(random, 0, static_cast<Index>(choices.size()) - 1))];
}

const std::vector<Dtype> every_dtype = {
#define X(name, type) Dtype::name,
    STAVE_DTYPES(X)
#undef X
};
std::vector<const Op*> elementwise_ops() {
  std::vector<const Op*> found;
  for (const Op* op : all_ops())
    if (Region::admits(*op)) found.push_back(op);
  return found;
}

// Adds a reduction of a random value, over random axes out of `rank`.
int random_reduction(Random& random, Region& region, int values, int rank, bool smooth) {
  static const std::vector<const Op*> of_numbers = {&op_sum, &op_prod, &op_max, &op_min}, of_bools = {&op_all, &op_any};
  const int value = static_cast<int>(pick(random, 0, values - 1));
  if (is_complex(region.dtype(value))) return value;  // no region ends in a reduction of these
  Shape axes;
  for (Index axis = -1; axis >= -rank; --axis)
    if (pick(random, 0, 1) == 0) axes.push_back(axis);
  const Op& op = *one_of(random, region.dtype(value) == bool_ ? of_bools : of_numbers);
  return region.reduce(smooth && &op != &op_prod ? op_sum : op, value, axes, pick(random, 0, 1) == 0);
}

// Returns a region of random operations on earlier values; an operation that refuses its operands
// is drawn again. In regions of arrays of this rank, some outputs are reductions.
RegionPtr random_region(Random& random, std::vector<Dtype> inputs, Index steps, const std::vector<const Op*>& ops,
                        const std::vector<Dtype>& dtypes, int rank, bool smooth = false) {
  IntrusivePtr<Region> region(new Region(std::move(inputs)));
  auto count = static_cast<int>(region->inputs().size());
  while (steps > 0) {
    if (pick(random, 0, 9) == 0) {
      const Dtype dtype = one_of(random, dtypes);
      region->add(dtype == bool_ ? Scalar(pick(random, 0, 1) == 1) : Scalar(pick(random, 0, 3)), dtype);
    } else {
      const Op& op = *one_of(random, ops);
      std::vector<int> operands;
      const Index arity = op.id == OpId::where                                                   ? 3
                          : (op.id >= OpId::add && op.id < OpId::full) || op.id == OpId::complex ? 2
                                                                                                 : 1;
      for (Index i = 0; i < arity; ++i) operands.push_back(static_cast<int>(pick(random, 0, count - 1)));
      try {
        region->add(op, operands, one_of(random, dtypes));
      } catch (const DtypeError&) {
        continue;
      }
    }
    ++count;
    --steps;
  }
  std::vector<int> outputs;
  for (Index i = pick(random, 1, 4); i > 0; --i)
    outputs.push_back(pick(random, 0, 1) == 0 ? static_cast<int>(pick(random, 0, count - 1))
                                              : random_reduction(random, *region, count, rank, smooth));
  outputs.push_back(pick(random, 0, 1) == 0 ? count - 1 : random_reduction(random, *region, count, rank, smooth));
  region->set_outputs(outputs);
  return region;
}

// Returns an input of `shape`, or of a shape that broadcasts to it, in one of many layouts.
Tensor random_input(Random& random, Dtype dtype, Shape shape) {
  for (Index& length : shape)
    if (pick(random, 0, 5) == 0 && length != 0) length = 1;
  const Index drop = shape.rank() > 0 && pick(random, 0, 5) == 0 ? pick(random, 1, shape.rank()) : 0;
  shape = Shape(std::span<const Index>(shape).subspan(static_cast<std::size_t>(drop)));
  const auto make = [&](const Shape& of) {
    if (is_complex(dtype)) return normal(Key(static_cast<std::uint64_t>(random())), of, dtype) * 2;
    const Tensor numbers = normal(Key(static_cast<std::uint64_t>(random())), of, float32) * 2;
    return is_float(dtype) ? astype(numbers, dtype) : dtype == bool_ ? numbers > 0 : astype(abs(numbers) * 20, dtype);
  };
  if (shape.rank() == 0) return make(shape);
  switch (pick(random, 0, 3)) {
    case 0: {
      Shape turned = shape;
      std::reverse(turned.begin(), turned.end());
      Shape axes;
      for (Index axis = shape.rank(); axis-- > 0;) axes.push_back(axis);
      return permute_dims(make(turned), axes);
    }
    case 1: return flip(make(shape), {pick(random, 0, shape.rank() - 1)});
    case 2: {
      Shape longer = shape;
      longer.push_back(3);
      return unstack(make(longer), -1)[1];
    }
    default: return make(shape);
  }
}

// Returns the bytes of x, with one NaN for all NaNs, as operations promise neither the sign nor the
// payload of a NaN.
std::vector<std::byte> bytes_of(const Tensor& x) {
  if (is_complex(x.dtype())) return bytes_of(stack({real(x), imag(x)}));
  const Tensor row_major = contiguous(is_float(x.dtype()) ? where(isnan(x), std::nan(""), x) : x);
  const auto* const data = static_cast<const std::byte*>(row_major.node().data());
  return {data, data + static_cast<std::size_t>(x.size()) * size_of(x.dtype())};
}

// max and min of no elements are refused by both.
Outputs steps_of(const RegionPtr& region, std::vector<Tensor> inputs) {
  Shape common;
  for (const Tensor& input : inputs) common = broadcast_shapes(common, input.shape(), "test");
  for (Tensor& input : inputs) input = broadcast_to(input, common);
  return stave_detail::perform_steps(*region, inputs);
}
void expect_same(const Outputs& found, const Outputs& expected, const RegionPtr& region, const std::string& where) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    ASSERT_EQ(found[k].shape(), expected[k].shape());
    ASSERT_EQ(bytes_of(found[k]), bytes_of(expected[k])) << where << ", output " << k << "\n" << region->str();
  }
}
void expect_steps(const RegionPtr& region, const std::vector<Tensor>& inputs, const std::string& where_at) {
  Outputs expected;
  try {
    expected = steps_of(region, inputs);
  } catch (const ShapeError&) {
    EXPECT_THROW(fused(region, inputs), ShapeError);
    return;
  }
  expect_same(fused(region, inputs), expected, region, where_at);
  const auto rows = [&] {  // rows in memory of their own, which outputs may reuse
    Inputs copies;
    for (const Tensor& input : inputs) copies.push_back(where(true, input, input));
    return copies;
  };
  const Inputs copies = rows();
  expect_same(fused(region, rows()), steps_of(region, {copies.begin(), copies.end()}), region, where_at + ", donated");
}

TEST(Fused, EqualsItsStepsBitForBit) {
  Random random(17);
  const auto ops = elementwise_ops();
  const std::vector<Shape> shapes = {{},       {1},          {5},         {3, 4},    {0, 3},    {127},
                                     {40, 33}, {2, 3, 4, 5}, {7, 1, 300}, {1, 5000}, {5, 1100}, {70000}};
  for (int round = 0; round < 500; ++round) {
    const Shape shape = one_of(random, shapes);
    std::vector<Dtype> dtypes;
    for (Index i = pick(random, 1, 5); i > 0; --i) dtypes.push_back(one_of(random, every_dtype));
    const Index steps = shape.elements() > 10000 ? 12 : pick(random, 1, round % 10 == 0 ? 300 : 25);
    const RegionPtr region = random_region(random, dtypes, steps, ops, every_dtype, shape.rank());
    std::vector<Tensor> inputs;
    for (const Dtype dtype : dtypes) inputs.push_back(random_input(random, dtype, shape));
    inputs[0] = broadcast_to(inputs[0], shape);  // so that it has the reduced axes
    expect_steps(region, inputs, "round " + std::to_string(round) + ", shape " + shape.str());
  }
}

// Regions are made most often of arithmetic of one dtype. The values are read at once, later, or
// twice; either operand may be a number; and sizes are not multiples of the length of a vector.
TEST(Fused, ArithmeticRegionsEqualTheirStepsBitForBit) {
  Random random(29);
  const std::vector<const Op*> ops = {&op_abs,      &op_negative, &op_sign,  &op_sqrt,     &op_rsqrt,     &op_square,
                                      &op_add,      &op_relu,     &op_floor, &op_ceil,     &op_round,     &op_trunc,
                                      &op_subtract, &op_multiply, &op_scale, &op_divide,   &op_maximum,   &op_minimum,
                                      &op_copysign, &op_exp,      &op_add,   &op_subtract, &op_reciprocal};
  for (int round = 0; round < 400; ++round) {
    const Dtype dtype = round % 2 == 0 ? float32 : float64;
    const Shape shape = round % 8 == 0 ? Shape{3, 1, 830} : Shape{1, 1, pick(random, 1, 300)};
    const std::vector<Dtype> dtypes(static_cast<std::size_t>(pick(random, 1, 3)), dtype);
    const RegionPtr region = random_region(random, dtypes, pick(random, 2, 40), ops, {dtype}, 3);
    std::vector<Tensor> inputs;
    for (const Dtype of : dtypes) inputs.push_back(random_input(random, of, shape));
    inputs[0] = broadcast_to(inputs[0], shape);
    expect_steps(region, inputs, "round " + std::to_string(round) + ", shape " + shape.str());
  }
}

// Rows and columns: short, long, and of a few elements; results of one value, whole and in parts.
// Products near 1 show the order of the factors.
TEST(Fused, ReducesInTheOrderOfTheOperation) {
  Random random(3);
  const std::vector<Shape> shapes = {{3000, 7},   {5000, 3, 2}, {40, 5000},   {3, 100000}, {1000, 300}, {700, 3, 60},
                                     {60, 70, 9}, {3, 5, 4099}, {300, 2, 33}, {200001},    {9, 3000},   {65536}};
  for (const Shape& shape : shapes)
    for (const Dtype dtype : {float32, float64, bfloat16, float16, int16})
      for (int axes = 0; axes < 1 << shape.rank(); ++axes) {
        Shape reduced;
        for (int axis = 0; axis < shape.rank(); ++axis)
          if (axes >> axis & 1) reduced.push_back(-1 - axis);
        const IntrusivePtr<Region> region(new Region({dtype, dtype}));
        const int last = region->add(op_subtract, {0, 1});
        const int value = is_float(dtype) ? region->add(op_exp, {last}) : last;
        region->set_outputs({region->reduce(op_prod, value, reduced), region->reduce(op_sum, value, reduced), value,
                             region->reduce(op_max, value, {-1}), region->reduce(op_prod, 0, reduced)});
        const auto small = [](const Tensor& x) { return is_float(x.dtype()) ? x / 256 : x; };
        const std::vector<Tensor> inputs = {broadcast_to(small(random_input(random, dtype, shape)), shape),
                                            small(random_input(random, dtype, shape))};
        expect_steps(region, inputs, "shape " + shape.str() + " of " + std::string(name_of(dtype)));
      }
}

// Rows of a few elements, of arrays that are broadcast or parts of larger ones: regions give the
// bits of their steps and, without reductions, those of contiguous copies. Some arrays are divided
// among threads.
TEST(Fused, ShortRowsGiveTheBitsOfContiguousArrays) {
  Random random(41);
  const auto ops = elementwise_ops();
  for (int round = 0; round < 400; ++round) {
    const Index columns = pick(random, 1, 16), n = round % 20 == 0 ? 40009 : pick(random, 0, 1500);
    const std::vector<Shape> shapes = {
        {n, columns}, {n, 2, columns}, {pick(random, 1, 3), n, columns}, {n, 3, 2, columns}};
    const Shape shape = n > 2000 ? shapes[0] : one_of(random, shapes);
    const auto short_rows = [&](Dtype dtype) {
      Shape stored = shape;
      for (Index& length : stored)
        if (length != 0 && pick(random, 0, 2) == 0) length = 1;
      const Index before = pick(random, 0, 3), after = pick(random, 0, 9), last = stored[stored.size() - 1];
      stored[stored.size() - 1] = before + last + after;
      const Tensor x = random_input(random, dtype, stored);
      return broadcast_to(broadcast_to(x, stored)(ellipsis, slice(before, before + last)), shape);
    };
    std::vector<Dtype> dtypes;
    for (Index i = pick(random, 1, 5); i > 0; --i) dtypes.push_back(one_of(random, every_dtype));
    const bool reduces = round % 4 == 0;
    const RegionPtr region =
        random_region(random, dtypes, pick(random, 1, 20), ops, every_dtype, reduces ? shape.rank() : 0);
    std::vector<Tensor> inputs, copies;
    for (const Dtype of : dtypes) {
      inputs.push_back(short_rows(of));
      copies.push_back(contiguous(inputs.back()));
    }
    const std::string where_at = "round " + std::to_string(round) + ", shape " + shape.str();
    expect_steps(region, inputs, where_at);
    if (reduces) continue;
    const Outputs expected = fused(region, copies);
    expect_same(fused(region, inputs), expected, region, where_at + ", contiguous");
    expect_same(steps_of(region, inputs), expected, region, where_at + ", step by step");
  }
}

TEST(Fused, ArraysBeyondTheCachesGiveTheSameValues) {
  const auto f = [](const Tensor& x, const Tensor& y) { return x * y + 1; };
  const auto recorded = elementwise_op("f", f);
  const Tensor x = normal(Key(1), {3000, 3000}), row = normal(Key(2), {3000});
  EXPECT_TRUE(array_equal(recorded(x, row), f(x, row)));
  EXPECT_TRUE(array_equal(recorded(matrix_transpose(x), row), f(matrix_transpose(x), row)));
  // Its first result lies where the third would have room.
  const IntrusivePtr<Region> region(new Region({float32}));
  const int square = region->add(op_square, {0}), more = region->add(op_exp, {square});
  region->set_outputs({square, region->add(op_tanh, {more})});
  const Outputs found = fused(region, {x});
  EXPECT_TRUE(array_equal(found[0], stave::square(x)));
  EXPECT_TRUE(array_equal(found[1], tanh(exp(stave::square(x)))));
}

// Operations that are smooth everywhere and never large.
std::vector<const Op*> smooth_ops() {
  return {&op_add, &op_subtract, &op_multiply, &op_tanh, &op_sin, &op_cos,
          &op_erf, &op_negative, &op_sigmoid,  &op_gelu, &op_atan};
}
Tensor total(const Outputs& outputs) {
  Tensor sum_of = zeros({}, float64);
  for (const Tensor& output : outputs) sum_of = sum_of + sum(sin(output));
  return sum_of;
}

TEST(Fused, DerivativesOfAnyOrderEqualThoseOfItsSteps) {
  Random random(23);
  for (int round = 0; round < 40; ++round) {
    const RegionPtr region =
        random_region(random, {float64, float64}, pick(random, 1, 14), smooth_ops(), {float64}, 2, true);
    const auto whole = [&](const Tensor& x, const Tensor& y) { return total(fused(region, {x, y})); };
    const auto steps = [&](const Tensor& x, const Tensor& y) {
      return total(stave_detail::perform_steps(*region, std::vector<Tensor>{x, broadcast_to(y, x.shape())}));
    };
    const Tensor x = normal(Key(static_cast<std::uint64_t>(round)), {2, 3}, float64), y = normal(Key(99), {3}, float64);
    const Tensor dx = normal(Key(5), {2, 3}, float64), dy = normal(Key(6), {3}, float64);
    const auto near_to = [](const Tensor& expected) { return IsNear(expected, 1e-11); };
    EXPECT_THAT(grad<0>(whole)(x, y), near_to(grad<0>(steps)(x, y))) << region->str();
    EXPECT_THAT(grad<1>(whole)(x, y), near_to(grad<1>(steps)(x, y))) << region->str();
    EXPECT_THAT(jvp(whole, std::tuple(x, y), std::tuple(dx, dy)).second,
                near_to(jvp(steps, std::tuple(x, y), std::tuple(dx, dy)).second));
    const auto second = [&](const auto& f) {
      return grad<1>([&f](const Tensor& a, const Tensor& b) { return sum(square(grad<0>(f)(a, b))); })(x, y);
    };
    EXPECT_THAT(second(whole), near_to(second(steps))) << region->str();
    const auto lanes = [&](const auto& f) { return vmap(grad<0>(f), {.in_axes = {0, unmapped}})(stack({x, dx}), y); };
    EXPECT_THAT(lanes(whole), near_to(lanes(steps)));
    const auto forward = [&](const auto& f) { return jvp(grad<0>(f), std::tuple(x, y), std::tuple(dx, dy)).second; };
    EXPECT_THAT(forward(whole), near_to(forward(steps)));
  }
}

TEST(Fused, KeepsTheDerivativeRulesOfItsSteps) {
  const auto f = elementwise_op(
      "f", [](const Tensor& x) { return x * stop_gradient(x) + astype(x > 0, float32) + maximum(x, 0); });
  const Tensor x = tensor({-2.f, 3.f});
  EXPECT_THAT(grad([&](const Tensor& t) { return sum(f(t)); })(x), IsNear(tensor({-2.f, 4.f}), 1e-6));
  const IntrusivePtr<Region> both(new Region({float32}));  // x^2, and whether x > 0
  both->set_outputs({both->add(op_square, {0}), both->add(op_greater, {0, both->add(0, float32)})});
  const auto slope = grad([&](const Tensor& t) {
    const Outputs found = fused(both, {t});
    return sum(where(found[1], found[0] * t, 0));
  });
  EXPECT_THAT(slope(x), IsNear(tensor({0.f, 27.f}), 1e-6));
  EXPECT_THAT(jvp(slope, x, ones({2})).second, IsNear(tensor({0.f, 18.f}), 1e-6));
  const auto counted = elementwise_op("counted", [](const Tensor& t) { return t > 0; });
  EXPECT_THAT(grad([&](const Tensor& t) { return sum(where(counted(t), t, 0)); })(x), IsNear(tensor({0.f, 1.f}), 0));
}

TEST(Fused, InvalidRegionsAreErrors) {
  Region region({float32, bool_});
  EXPECT_THAT(message_of<DtypeError>([&] { region.add(op_add, {0, 1}); }), HasSubstr("add: operand 0 is float32"));
  EXPECT_THAT(message_of<DtypeError>([&] { region.add(op_exp, {1}); }), HasSubstr("exp: operand 0 is bool"));
  EXPECT_THAT(message_of<TransformError>([&] { region.add(op_exp, {7}); }), HasSubstr("there is no value 7"));
  EXPECT_THAT(message_of<TransformError>([&] { region.add(op_exp, {0, 0}); }), HasSubstr("takes 1 operands, not 2"));
  EXPECT_THAT(message_of<TransformError>([&] { region.add(op_sum, {0}); }),
              HasSubstr("sum is not an elementwise operation"));
  EXPECT_THAT(message_of<DtypeError>([&] { region.add(Scalar(300), uint8); }), HasSubstr("300"));
  EXPECT_THAT(message_of<TransformError>([&] { region.set_outputs({4}); }), HasSubstr("no value 4"));
  EXPECT_THAT(message_of<TransformError>([&] { region.set_outputs({-1}); }), HasSubstr("no value -1"));
  EXPECT_THAT(message_of<TransformError>([&] { region.reduce(op_exp, 0, {-1}); }),
              HasSubstr("which is not a reduction"));
  EXPECT_THAT(message_of<TransformError>([&] { region.reduce(op_sum, 9, {-1}); }), HasSubstr("no value 9"));
  EXPECT_THAT(message_of<DtypeError>([&] { region.reduce(op_sum, 1, {-1}); }),
              HasSubstr("does not take a value of bool"));
  EXPECT_THAT(message_of<DtypeError>([&] { region.reduce(op_any, 0, {-1}); }), HasSubstr("of float32"));
  EXPECT_THAT(message_of<IndexError>([&] { region.reduce(op_sum, 0, {0}); }), HasSubstr("axis 0 is not negative"));
  EXPECT_THAT(message_of<ShapeError>([&] { region.reduce(op_sum, 0, {-1, -1}); }), HasSubstr("given twice"));
  const IntrusivePtr<Region> product(new Region({float32, float32}));
  product->set_outputs({product->add(op_multiply, {0, 1})});
  const Tensor x = zeros({2});
  EXPECT_THAT(message_of<TransformError>([&] { fused(product, {x}); }), HasSubstr("has 2 inputs, not 1"));
  EXPECT_THAT(message_of<DtypeError>([&] {
                fused(product, {x, astype(x, float64)});
              }),
              HasSubstr("input 1 of its region is float32"));
  EXPECT_THAT(message_of<ShapeError>([&] { fused(product, {x, zeros({3})}); }), HasSubstr("do not broadcast"));
  const IntrusivePtr<Region> ended(new Region({float32}));
  ended->set_outputs({ended->reduce(op_max, 0, {-2})});
  EXPECT_THAT(message_of<IndexError>([&] { fused(ended, {x}); }), HasSubstr("max: axis -2"));
  EXPECT_THAT(message_of<ShapeError>([&] { fused(ended, {zeros({0, 2})}); }), HasSubstr("no elements to choose from"));
}

TEST(Fused, OutputsReuseTheMemoryOfSolelyOwnedInputs) {
  const IntrusivePtr<Region> region(new Region({float32, float32}));
  const int product = region->add(op_multiply, {0, 1});
  region->set_outputs({product, region->add(op_subtract, {product, 0}), region->reduce(op_sum, product, {-1})});
  const Tensor y = tensor({5.f, 7.f, 9.f});
  const auto memory_of = [](const Tensor& x) { return x.node().data(); };
  Tensor x = tensor({1.f, 2.f, 3.f});
  const void* const memory = memory_of(x);
  const auto call = [&](Tensor given) {
    Inputs inputs;
    inputs.push_back(std::move(given));
    inputs.push_back(y);
    return fused(region, std::move(inputs));
  };
  const Tensor kept = x;
  Outputs found = call(std::move(x));
  EXPECT_NE(memory_of(found[0]), memory);  // the memory is still in use
  x = kept + 0;
  const void* const another = memory_of(x);
  found = call(std::move(x));
  EXPECT_EQ(memory_of(found[0]), another);
  EXPECT_THAT(found[0], IsNear(tensor({5.f, 14.f, 27.f}), 0));
  EXPECT_THAT(found[1], IsNear(tensor({4.f, 12.f, 24.f}), 0));
  EXPECT_THAT(found[2], IsNear(Tensor(46.f), 0));
  EXPECT_THAT(y, IsNear(tensor({5.f, 7.f, 9.f}), 0));

  const auto f = elementwise_op("f", [](const Tensor& a, const Tensor& b) { return exp(a) * b - a; });
  const Tensor one = kept + 0, expected = exp(one) * y - one;
  Tensor given = kept + 0;
  const void* const taken = memory_of(given);
  const Tensor result = f(std::move(given), y);
  EXPECT_EQ(memory_of(result), taken);
  EXPECT_TRUE(array_equal(result, expected));
  Tensor twice = kept + 0;
  const Tensor view = twice(newaxis);
  EXPECT_TRUE(array_equal(f(std::move(twice), view)(0), exp(one) * one - one));
  EXPECT_TRUE(array_equal(view(0), one));  // another view of the same memory
  Tensor one_row = reshape(kept + 0, {1, 3});
  EXPECT_TRUE(array_equal(f(std::move(one_row), ones({2, 3}))(1), exp(one) - one));
}

TEST(Fused, MaxSharesItsDerivativeAmongEqualElements) {
  const IntrusivePtr<Region> region(new Region({float32}));
  const int squares = region->add(op_square, {0});
  region->set_outputs({region->reduce(op_max, squares, {-1}), region->reduce(op_sum, squares, {-1})});
  const Tensor x = tensor({{2.f, -2.f, 1.f}, {0.f, 3.f, 1.f}});
  const auto largest = [&](const Tensor& t) { return sum(fused(region, {t})[0]); };
  const auto both = [&](const Tensor& t) {
    const Outputs found = fused(region, {t});
    return sum(found[0] * found[1]);
  };
  EXPECT_THAT(grad(largest)(x), IsNear(tensor({{2.f, -2.f, 0.f}, {0.f, 6.f, 0.f}}), 0));
  EXPECT_THAT(grad(both)(x), IsNear(tensor({{34.f, -34.f, 8.f}, {0.f, 114.f, 18.f}}), 0));
  EXPECT_THAT(jvp(both, x, x).second, IsNear(Tensor(504.f), 0));
}

// A single element is computed by other code than tiles.
TEST(Fused, OneElementGivesTheBitsOfManyElements) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const std::vector<double> special = {0., -0., 1., -1.5, inf, -inf, nan, 1e-310, 1e-40, 3e38, -1e-320, 0.1};
  for (const Op* op : elementwise_ops())
    for (const Dtype dtype : {float32, float64}) {
      const bool chooses = op->id == OpId::where;
      const IntrusivePtr<Region> region(new Region({chooses ? bool_ : dtype, dtype, dtype}));
      int found = -1;
      for (const std::vector<int>& operands : std::vector<std::vector<int>>{{0}, {1, 2}, {0, 1, 2}}) try {
          found = region->add(*op, operands, float32);
          break;
        } catch (const Error&) {
        }
      if (found < 0) continue;
      region->set_outputs({found});
      for (const double a : special)
        for (const double b : special) {
          const std::vector<Tensor> one = {chooses ? tensor(a > 0) : tensor(a, dtype), tensor(a, dtype),
                                           tensor(b, dtype)};
          std::vector<Tensor> many;
          for (const Tensor& x : one) many.push_back(full({40}, x.item<double>(), x.dtype()));
          ASSERT_EQ(bytes_of(fused(region, one)[0]), bytes_of(fused(region, many)[0](17)))
              << op->name << " " << dtype << " of " << a << ", " << b;
        }
    }
}

}  // namespace
