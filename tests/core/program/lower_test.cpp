// Lowering: what the code is made of, its errors, and programs whose results are the library's bit
// for bit. The table of operations (table/programs.cpp) holds every operation to its reference.
#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stave/core/program/lowered.h>
#include <stave/stave.h>

#include "lowered.h"
#include "matchers.h"
#include "programs.h"

namespace stave_test {
namespace {

using stave_detail::lower;
using stave_detail::LoweredBuilder;
using stave_detail::verify;
using ::testing::HasSubstr;

Lowered lowered(const Program& program) {
  Lowered code = lower(program);
  verify(code);
  return code;
}

// Runs the lowered code of f, whose results must be those of f in every bit.
template <class F, class... Xs>
void expect_same(F f, const Xs&... xs) {
  const Program program = trace(f)(xs...);
  const Lowered code = lowered(program);
  LoweredRun run(code);
  const std::vector<Tensor> inputs{xs...}, found = run(inputs);
  ASSERT_EQ(run.error, "");
  const Outputs expected = program(inputs);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) EXPECT_THAT(found[k], Is(expected[k])) << code.str();
}

// Numbers between -2 and 2 that differ.
Tensor numbers(const Shape& shape, Dtype dtype = float64) {
  std::vector<double> values;
  for (Index i = 0; i < shape.elements(); ++i) values.push_back(std::sin(static_cast<double>(3 * i + 1)) * 2);
  return astype(from(values, shape), dtype);
}

std::size_t count(const Lowered& code, Lowered::Code what) {
  return static_cast<std::size_t>(std::count_if(code.instructions.begin(), code.instructions.end(),
                                                [&](const auto& it) { return it.code == what; }));
}

TEST(Lower, WritesALoopForALargeArray) {
  const auto f = [](const Tensor& x) { return x * x + 1; };
  EXPECT_EQ(lowered(trace(f)(zeros({100}, float64))).str(),
            "in0: float64[100]\n"
            "out0: float64[100]\n"
            "  %0:float64 = number 1\n"
            "  loop %1 100\n"
            "    %2:float64 = load in0[%1]\n"
            "    %3:float64 = multiply %2 %2\n"
            "    %4:float64 = add %3 %0\n"
            "    store out0[%1] %4\n"
            "  end\n");
}

TEST(Lower, ComputesTheElementsOfASmallArray) {
  const auto f = [](const Tensor& x) { return x(0) * x(1) + x(0) * x(1); };
  EXPECT_EQ(lowered(trace(f)(zeros({2}, float32))).str(),
            "in0: float32[2]\n"
            "out0: float32[1]\n"
            "  %0:float32 = load in0[0]\n"
            "  %1:float32 = load in0[1]\n"
            "  %2:float32 = multiply %0 %1\n"
            "  %3:float32 = add %2 %2\n"
            "  store out0[0] %3\n");
}

// Values of the same operations are reused where they are visible, and only there, however many
// there are.
TEST(Lower, ReusesVisibleValues) {
  constexpr int many = 1000;
  code_with({{float64, {1}}}, {{float64, {2}}}, [](Lowered& code, LoweredBuilder& b) {
    const int x = b.load(0, -1, 0), square = b.add(ScalarOp::multiply, x, x);
    const auto sum = [&](int k) { return b.add(ScalarOp::add, x, b.number(k, float64)); };
    std::vector<int> outer, inner;
    for (int k = 0; k < many; k += 2) outer.push_back(sum(k));
    b.begin_loop(3);
    for (int k = 0; k < many; ++k) inner.push_back(sum(k));
    for (int k = 0; k < many; ++k) EXPECT_EQ(sum(k), inner[static_cast<std::size_t>(k)]);
    for (int k = 0; k < many; k += 2)
      EXPECT_EQ(inner[static_cast<std::size_t>(k)], outer[static_cast<std::size_t>(k / 2)]);
    EXPECT_EQ(b.add(ScalarOp::multiply, x, x), square);
    b.end_loop();
    EXPECT_EQ(b.add(ScalarOp::multiply, x, x), square);
    const std::size_t values = code.values.size();
    for (int k = 0; k < many; ++k) {
      if (k % 2 == 0) EXPECT_EQ(sum(k), outer[static_cast<std::size_t>(k / 2)]);
      else EXPECT_NE(sum(k), inner[static_cast<std::size_t>(k)]);
    }
    EXPECT_EQ(code.values.size(), values + many);  // a number and a sum for each odd k
    b.store(1, -1, 0, square);
    b.store(1, -1, 1, sum(many - 1));
  });
}

// An element that was stored at a known place is not loaded, unless a store at a computed place, or
// a loop, may have changed it.
TEST(Lower, ReusesStoredElements) {
  code_with({{float64, {4}}}, {{float64, {4}}}, [](Lowered&, LoweredBuilder& b) {
    const int x = b.load(0, -1, 0), y = b.load(0, -1, 1);
    b.store(1, -1, 2, x);
    b.store(1, -1, 3, y);
    EXPECT_EQ(b.load(1, -1, 2), x);
    b.store(1, -1, 2, y);
    EXPECT_EQ(b.load(1, -1, 2), y);
    const int i = b.begin_loop(2);
    const int loaded = b.load(1, -1, 2);
    EXPECT_NE(loaded, y);
    EXPECT_EQ(b.load(1, -1, 2), loaded);
    b.store(1, -1, 2, x);
    EXPECT_EQ(b.load(1, -1, 2), x);
    b.store(1, i, 0, y);
    EXPECT_NE(b.load(1, -1, 2), x);
    b.end_loop();
    EXPECT_NE(b.load(1, -1, 2), y);
  });
}

TEST(Lower, KeepsLoopsOfPrograms) {
  const auto f = [](const Tensor& x) { return loop(1000, [](const Tensor& y) { return sin(y) * 0.5; })(x); };
  const Lowered code = lowered(trace(f)(tensor(1.0, float64)));
  EXPECT_EQ(count(code, Lowered::Code::loop), 1u);
  EXPECT_LT(code.instructions.size(), 12u);
  expect_same(f, tensor(1.0, float64));
}

// Arrays of more than 64 elements lie in memory, which a step reads while it computes the next one.
TEST(Lower, LargeLoopStatesAreNotOverwrittenTooEarly) {
  const auto shifts = [](const Tensor& given) {
    return loop(5, [](const Tensor& x) { return x + 0.5 * roll(x, 1); })(given);
  };
  expect_same(shifts, numbers({100}));
  using Pair = std::pair<Tensor, Tensor>;
  const auto exchanges = [](const Tensor& x, const Tensor& y) {
    const auto [a, b] = loop(5, [](const Pair& now) { return Pair(now.second, now.first + 1); })(Pair(x, y));
    return std::vector{a, b};
  };
  expect_same(exchanges, numbers({100}), numbers({100}) * 3);
  const auto parts = [](const Tensor& given) {
    return loop(3, [](const Tensor& x) { return concat({x(slice(50, none)), x(slice(50))}); })(given);
  };
  expect_same(parts, numbers({100}));
  // A state that is changed in place, and read before and after.
  const auto updates = [](const Tensor& given) {
    const auto step = [](const Pair& now) {
      const auto& [x, i] = now;
      return Pair(x.at(i).set(2 * x(0)).at(0).set(take(x, i, 0)), i + 1);
    };
    return loop(7, step)(Pair(given, tensor(3))).first;
  };
  expect_same(updates, numbers({100}));
}

TEST(Lower, DerivativesOfLoopsHaveTheBitsOfTheLibrary) {
  const auto lorenz = [](const Tensor& start) {
    const auto velocity = [](const Tensor& s) {
      const Tensor x = s(0), y = s(1), z = s(2);
      return stack({10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3 * z});
    };
    return loop(50, [&](const Tensor& y) { return y + 0.01 * velocity(y + 0.005 * velocity(y)); })(start);
  };
  const Tensor start = tensor({1.0, 2.0, 20.0}, float64);
  expect_same(lorenz, start);
  expect_same(grad([&](const Tensor& y) { return sum(lorenz(y)); }), start);
  expect_same(jacrev(lorenz), start);
  expect_same(jacfwd(lorenz), start);
  expect_same(hessian([&](const Tensor& y) { return sum(square(lorenz(y))); }), start);
}

TEST(Lower, ScansHaveTheBitsOfTheLibrary) {
  const auto filter = [](const Tensor& xs) {
    const auto [state, ys] = scan([](const Tensor& c, const Tensor& x) {
      const Tensor next = 0.9 * c + x;
      return std::pair(next, next * next);
    })(zeros({3}, float64), xs);
    return ys + state;
  };
  expect_same(filter, numbers({40, 3}));
  expect_same(grad([&](const Tensor& xs) { return sum(filter(xs)); }), numbers({40, 3}));
  const auto backward = [](const Tensor& xs) {
    return scan([](const Tensor& c, const Tensor& x) { return std::pair(c + x, c); }, {.reverse = true})(
               zeros({70}, float64), xs)
        .second;
  };
  expect_same(backward, numbers({6, 70}));
}

// Products up to 16, and factors up to 4, are computed in the order of the CPU's kernels.
TEST(Lower, SmallMatricesHaveTheBitsOfTheLibrary) {
  const auto spd = [](const Tensor& a) { return matmul(a, transpose(a)) + eye(a.shape()[0], float64); };
  for (const Index n : {1, 2, 3, 4, 5, 6, 7, 12}) {
    SCOPED_TRACE(n);
    const Tensor a = numbers({n, n}) + 3 * eye(n, float64);
    expect_same([](const Tensor& x) { return matmul(x, x); }, a);
    if (n <= 8) expect_same([&](const Tensor& x) { return cholesky(spd(x)); }, a);
    expect_same([](const Tensor& x) { return solve(x, x(0)); }, a);
    expect_same([](const Tensor& x) { return triangular_solve(x, x, {.lower = true}); }, a);
    expect_same([](const Tensor& x) { return inv(x); }, a);
    expect_same([](const Tensor& x) { return qr(x).first; }, numbers({n + 2, n}));
    expect_same([](const Tensor& x) { return qr(x).second; }, a);
  }
  for (const double scale : {1e300, 1e-300})
    expect_same([](const Tensor& x) { return qr(x).first; }, numbers({4, 3}) * scale);
  const Tensor broken = full({3, 3}, std::numeric_limits<double>::infinity());
  expect_same([](const Tensor& x) { return std::vector{qr(x).first, qr(x).second, cholesky(x)}; }, broken);
  expect_same(grad([](const Tensor& x) { return det(x); }), numbers({4, 4}));
  expect_same(vmap([](const Tensor& x) { return inv(x); }), numbers({5, 3, 3}));
}

TEST(Lower, RandomNumbersHaveTheBitsOfTheLibrary) {
  const Key key(7);
  expect_same([&](const Tensor& x) { return x + uniform(key, {100}, float64); }, numbers({100}));
  expect_same([&](const Tensor& x) { return x + uniform(key, {3, 5}, float32); }, numbers({3, 5}, float32));
  expect_same([&](const Tensor& x) { return x + uniform(fold_in(key, 3), {2}, float64); }, numbers({2}));
}

TEST(Lower, FailedCheckNamesTheError) {
  const auto f = [](const Tensor& x, const Tensor& i) { return take(x, i, 0); };
  const Tensor x = numbers({5}), i = tensor({1, -5, 4});
  const Lowered code = lowered(trace(f)(x, i));
  LoweredRun good(code);
  EXPECT_THAT(good({x, i})[0], Is(f(x, i)));
  for (const int wrong : {5, -6}) {
    LoweredRun run(code);
    run({x, tensor({1, wrong, 4})});
    EXPECT_THAT(run.error, HasSubstr("gather: an index is out of range for an axis of length 5")) << wrong;
  }
  const Lowered factor = lowered(trace([](const Tensor& a) { return cholesky(a); })(eye(2, float64)));
  LoweredRun run(factor);
  run({-eye(2, float64)});
  EXPECT_THAT(run.error, HasSubstr("cholesky: the matrix is not positive definite"));
}

// A program that branched on a value is lowered for that branch.
TEST(Lower, ReadsBecomeChecks) {
  const auto f = [](const Tensor& x) { return bool(x(0) > 0) ? x : -x; };
  const Lowered code = lowered(trace(f)(tensor({1.0, 2.0}, float64)));
  LoweredRun run(code);
  run({tensor({-1.0, 2.0}, float64)});
  EXPECT_THAT(run.error, HasSubstr("branched on"));
}

TEST(Lower, NamesOperationsThatItCannotLower) {
  const Tensor a = eye(3, float64);
  EXPECT_THAT(message_of<TransformError>([&] { lower(trace([](const Tensor& x) { return eigvalsh(x); })(a)); }),
              HasSubstr("lower: eigvalsh (f64[3]) cannot be lowered to operations on single numbers"));
  EXPECT_THAT(message_of<DtypeError>([&] { lower(trace([](const Tensor& x) { return x * 2; })(astype(a, bfloat16))); }),
              HasSubstr("the program has values of bfloat16, which lowered code does not have"));
}

TEST(Lower, SharesTheWorkspace) {
  // Each of the ten products needs the one before it alone, so two arrays are enough.
  const auto f = [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 10; ++i) y = matmul(y, x);
    return y;
  };
  const Lowered code = lowered(trace(f)(numbers({20, 20})));
  EXPECT_EQ(code.work_bytes, 2 * 400 * 8);
}

TEST(Lower, VerifierFindsInvalidCode) {
  const auto broken = [](auto change) {
    Lowered code = lowered(trace([](const Tensor& x) { return x * x + 1; })(zeros({100}, float64)));
    change(code);
    return message_of<TransformError>([&] { verify(code); });
  };
  using Code = Lowered::Code;
  EXPECT_THAT(broken([](Lowered& c) { c.instructions.pop_back(); }), HasSubstr("a loop does not end"));
  EXPECT_THAT(broken([](Lowered& c) { c.instructions[0].dtype = float32; }), HasSubstr("the result has another dtype"));
  EXPECT_THAT(broken([](Lowered& c) { std::swap(c.instructions[2], c.instructions[3]); }),
              HasSubstr("%2 is read before it is assigned, in `%3:float64 = multiply %2 %2`"));
  EXPECT_THAT(broken([](Lowered& c) { std::swap(c.instructions[5], c.instructions[6]); }),
              HasSubstr("is read outside of its loop"));
  EXPECT_THAT(broken([](Lowered& c) { c.instructions[5].buffer = 0; }), HasSubstr("the buffer is only read"));
  EXPECT_THAT(broken([](Lowered& c) { c.instructions[3].operands[1] = 1; }),
              HasSubstr("operands have different dtypes"));
  EXPECT_THAT(broken([](Lowered& c) { c.instructions[2].operands[0] = -1, c.instructions[2].number = 100; }),
              HasSubstr("the index is out of range"));
  EXPECT_THAT(broken([](Lowered& c) { c.instructions.insert(c.instructions.begin(), {Code::end}); }),
              HasSubstr("there is no loop"));
}

}  // namespace
}  // namespace stave_test
