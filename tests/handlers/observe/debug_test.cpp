#include <stave/handlers/observe/debug.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <stave/core/effects/scope.h>
#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/softmax.h>
#include <stave/core/ops/sort.h>
#include <stave/core/ops/transfer.h>
#include <stave/handlers/observe/profile.h>
#include <stave/handlers/transforms/grad.h>
#include <stave/handlers/transforms/jacobian.h>
#include <stave/handlers/transforms/jvp.h>
#include <stave/handlers/transforms/vmap.h>

#include "separate_backend.h"

namespace {

using namespace stave;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();

// Returns the lines that Debug prints for body.
template <class Body>
std::string trace(Body body, DebugOptions options = {}) {
  std::ostringstream out;
  options.out = &out;
  with(Debug(options), body);
  return out.str();
}

template <class Body>
std::string values(Body body) {
  const std::string line = trace(body, {.values = true});
  const std::size_t arrow = line.find("->");
  return line.substr(line.find("  ", arrow));
}

template <class E, class Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// ---- the line of an operation -------------------------------------------------------------------

TEST(Debug, ShowsOneLinePerOperation) {
  const Tensor a = zeros({2, 3}), b = zeros({3, 4});
  EXPECT_EQ(trace([&] {
              const Tensor product = matmul(a, b);
              return sin(product);
            }),
            "matmul f32[2,3], f32[3,4] -> f32[2,4]\n"
            "sin f32[2,4] -> f32[2,4]\n");
}

TEST(Debug, ShowsDevicesAndTheirTime) {
  stave_test::SeparateBackend backend(3);
  const auto there_and_back = [](const Tensor& from) { return to(sin(to(from, cuda(3))), cpu); };
  const Tensor x = zeros({2});
  EXPECT_EQ(trace([&] { return there_and_back(x); }),
            "to cuda:3 f32[2] -> f32[2]@cuda:3\n"
            "sin f32[2]@cuda:3 -> f32[2]@cuda:3\n"
            "to cpu f32[2]@cuda:3 -> f32[2]\n");
  EXPECT_THAT(trace([&] { return ones({2}, float32, cuda(3)); }, {.time = true}),
              MatchesRegex("full .* -> f32.2.@cuda:3 +1 s\n"));
  std::ostringstream inside;
  vmap(debug([](const Tensor& lane) { return sin(lane); }, {.out = &inside, .time = true}))(to(zeros({2, 3}), cuda(3)));
  EXPECT_THAT(inside.str(), MatchesRegex("sin f32.3.@cuda:3 -> f32.3.@cuda:3 +1 s\n"));
  Profile profile;
  with(profile, [&] { return there_and_back(x); });
  EXPECT_EQ(profile.operation("sin").time, std::chrono::seconds(1));
}

TEST(Debug, ShowsAttributes) {
  const Tensor x = zeros({4, 2});
  EXPECT_EQ(trace([&] { return sum(x, {0, 1}, keepdims); }), "sum axes=[0,1] keepdims f32[4,2] -> f32[1,1]\n");
}

TEST(Debug, ShowsDtypes) {
  const Tensor a = zeros({2}, float64), i = zeros({2}, int64);
  EXPECT_EQ(trace([&] {
              less(a, a);
              i + i;
              astype(i, uint8);
            }),
            "less f64[2], f64[2] -> bool[2]\n"
            "add i64[2], i64[2] -> i64[2]\n"
            "astype dtype=uint8 i64[2] -> u8[2]\n");
}

TEST(Debug, ShowsNothingPerformedOutside) {
  const Tensor x = zeros({2});
  std::ostringstream out;
  sin(x);
  with(Debug({.out = &out}), [&] { return cos(x); });
  tan(x);
  EXPECT_EQ(out.str(), "cos f32[2] -> f32[2]\n");
}

TEST(Debug, DescribesItself) {
  with(Debug(), [] { EXPECT_EQ(current_handlers(), "debug"); });
}

TEST(Debug, MeasuresTime) {
  const Tensor x = zeros({2});
  EXPECT_THAT(trace([&] { return sin(x); }, {.time = true}),
              MatchesRegex("sin f32\\[2\\] -> f32\\[2\\] {38}[0-9.]+ (ns|us|ms)\n"));
  EXPECT_THAT(trace([&] { return sin(x); }, {.values = true, .time = true}),
              MatchesRegex("sin f32\\[2\\] -> f32\\[2\\] {38}min 0 max 0 mean 0 nan 0 inf 0  [0-9.]+ (ns|us|ms)\n"));
}

// ---- indentation and scopes ---------------------------------------------------------------------

// Performs a cosine for each sine.
struct CosineForSine : Handler {
  Outputs handle(Call& call) override {
    if (call.op().id == OpId::sin) cos(call.input(0));
    return perform(std::move(call));
  }
};

TEST(Debug, IndentsOperationsThatAHandlerPerforms) {
  const Tensor x = zeros({2});
  EXPECT_EQ(trace([&] {
              exp(x);
              with(CosineForSine(), [&] { return sin(x); });
            }),
            "exp f32[2] -> f32[2]\n"
            "  cos f32[2] -> f32[2]\n"
            "  sin f32[2] -> f32[2]\n");
}

TEST(Debug, NestedDebugsShowBothSidesOfAHandler) {
  const Tensor x = zeros({2});
  std::ostringstream out;
  const DebugOptions options{.out = &out};
  with(Debug(options),
       [&] { return with(CosineForSine(), [&] { return with(Debug(options), [&] { return sin(x); }); }); });
  EXPECT_EQ(out.str(),
            "    cos f32[2] -> f32[2]\n"
            "    sin f32[2] -> f32[2]\n"
            "sin f32[2] -> f32[2]\n");
}

TEST(Debug, ShowsScopesFromInsideOut) {
  const Tensor x = zeros({2});
  EXPECT_EQ(trace([&] {
              Scope outer("outer scope");
              sin(x);
              with(CosineForSine(), [&] {
                Scope inner("inner scope");
                return sin(x);
              });
            }),
            "  sin f32[2] -> f32[2]  [outer scope]\n"
            "      cos f32[2] -> f32[2]  [inner scope]  [outer scope]\n"
            "      sin f32[2] -> f32[2]  [inner scope]  [outer scope]\n");
}

TEST(Debug, DoesNotShowScopesAroundItself) {
  const Tensor x = zeros({2});
  Scope around("around");
  EXPECT_EQ(trace([&] { return sin(x); }), "sin f32[2] -> f32[2]\n");
}

// ---- values -------------------------------------------------------------------------------------

TEST(Debug, SummarisesFloats) {
  const Tensor x = tensor({-1.5, 4., 0.5});
  EXPECT_EQ(trace([&] { return -x; }, {.values = true}),
            "negative f32[3] -> f32[3]                                 min -4 max 1.5 mean -1 nan 0 inf 0\n");
}

TEST(Debug, CountsNansAndInfinitiesSeparately) {
  const Tensor x = tensor({nan, -1., inf, 3., -inf, nan}), nans = tensor({nan, nan});
  EXPECT_THAT(values([&] { return -x; }), HasSubstr("min -inf max inf mean -1 nan 2 inf 2"));
  EXPECT_THAT(values([&] { return -nans; }), HasSubstr("min nan max nan mean nan nan 2 inf 0"));
}

TEST(Debug, SummarisesIntegersAndBools) {
  const Tensor i = tensor({3, -7, 1}), b = tensor({true, false, true, true}), u = tensor({255, 0}, uint8);
  EXPECT_THAT(values([&] { return -i; }), MatchesRegex(" +min -3 max 7 mean 1\n"));
  EXPECT_THAT(values([&] { return logical_not(b); }), MatchesRegex(" +min 0 max 1 mean 0.25\n"));
  EXPECT_THAT(values([&] { return u + u; }), MatchesRegex(" +min 0 max 254 mean 127\n"));
}

TEST(Debug, ShowsTheValueOfOneElement) {
  const Tensor x = tensor({1., 2.}), none = zeros({0, 3}), bad = tensor(nan);
  EXPECT_THAT(values([&] { return sum(x); }), MatchesRegex(" +value 3\n"));
  EXPECT_THAT(values([&] { return -bad; }), MatchesRegex(" +value nan\n"));
  EXPECT_THAT(values([&] { return -none; }), MatchesRegex(" +no elements\n"));
}

TEST(Debug, ReadsABroadcastValueOnce) {
  const Tensor x = tensor({1., nan});
  const Index many = Index(1) << 40;
  EXPECT_THAT(values([&] {
                return broadcast_to(x, {many, 2});
              }),
              HasSubstr("min 1 max 1 mean 1 nan 1099511627776 inf 0"));
}

struct CountOps : Handler {
  int count = 0;
  Outputs handle(Call& call) override {
    ++count;
    return perform(std::move(call));
  }
};

TEST(Debug, ReadingValuesPerformsNoOperations) {
  const Tensor x = zeros({3, 2});
  CountOps count;
  with(count, [&] { return trace([&] { return sin(permute_dims(x, {1, 0})); }, {.values = true, .trap_nan = true}); });
  EXPECT_EQ(count.count, 2);
}

TEST(Debug, DoesNotPreventBufferReuse) {
  Tensor x = contiguous(tensor({1., 2.})) + tensor({1., 1.});
  const float* buffer = x.data<float>().data();
  std::ostringstream out;
  const Tensor y = with(Debug({.out = &out, .values = true}), [&] { return sin(std::move(x)); });
  EXPECT_EQ(y.data<float>().data(), buffer);
}

// ---- errors -------------------------------------------------------------------------------------

struct Refuse : Handler {
  Outputs handle(Call&) override { throw DeviceError("refused"); }
};

TEST(Debug, ShowsThatAnOperationThrows) {
  const Tensor x = zeros({2});
  std::ostringstream out;
  with(Refuse(), [&] {
    EXPECT_THROW(with(Debug({.out = &out}), [&] { return sin(x); }), DeviceError);
    EXPECT_EQ(current_handlers(), "(anonymous namespace)::Refuse");
  });
  EXPECT_EQ(out.str(), "sin f32[2] -> throws\n");
  EXPECT_EQ(current_handlers(), "");
}

TEST(Debug, TrapsTheFirstNan) {
  const Tensor x = tensor({-1., 1., -2.});
  std::ostringstream out;
  const auto f = [&] {
    const Tensor y = exp(x);
    const Tensor z = log(x);
    return y + z;
  };
  EXPECT_EQ(message_of<TransformError>([&] { with(Debug({.out = &out, .trap_nan = true, .print = false}), f); }),
            "log: NaN in 2 of 3 elements of the result (log f32[3] -> f32[3]). No operand has a NaN: it arises here\n"
            "  inside debug");
  EXPECT_EQ(out.str(), "");
  EXPECT_THROW(with(Debug({.out = &out, .trap_nan = true}), f), TransformError);
  EXPECT_EQ(out.str(), "exp f32[3] -> f32[3]\nlog f32[3] -> f32[3]\n");
}

TEST(Debug, NanTrapSaysIfAnOperandHadTheNan) {
  const Tensor x = tensor({nan, 1.}), y = zeros({2});
  EXPECT_THAT(
      message_of<TransformError>([&] { with(Debug({.trap_nan = true, .print = false}), [&] { return y * x; }); }),
      HasSubstr("multiply: NaN in 1 of 2 elements of the result (multiply f32[2], f32[2] -> f32[2]). Operand 1 has NaN "
                "already, but no operation that was observed here produced it: it came from outside"));
}

TEST(Debug, NanTrapLetsOtherValuesPass) {
  const Tensor x = tensor({1., 0., -1.}), i = tensor({1, 2});
  const Tensor y = with(Debug({.trap_nan = true, .print = false}), [&] {
    i + i;
    return where(x > 0, 1 / x, 0.);
  });
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 0, 0}));
}

TEST(Debug, TrapsTheFirstInfinity) {
  const Tensor x = tensor({0., 1., -0.});
  const auto f = [&] { return exp(x) + log(x); };
  EXPECT_EQ(message_of<TransformError>([&] { with(Debug({.trap_inf = true, .print = false}), f); }),
            "log: infinity in 2 of 3 elements of the result (log f32[3] -> f32[3]). No operand has an infinity: it "
            "arises here\n  inside debug");
  EXPECT_THAT(message_of<TransformError>([&] {
                debug(grad([](const Tensor& v) { return sqrt(v); }), {.trap_inf = true, .print = false})(tensor(0.));
              }),
              HasSubstr("infinity in 1 of 1 elements of the result"));
  const Tensor infinite = tensor({INFINITY, 1.}), y = ones({2});
  EXPECT_THAT(message_of<TransformError>(
                  [&] { with(Debug({.trap_inf = true, .print = false}), [&] { return y * infinite; }); }),
              HasSubstr("Operand 1 has infinity already"));
  // A NaN is none, and each trap finds its own kind.
  const auto nan_and_infinity = [] { return log(tensor({-1., 0.})); };
  EXPECT_NO_THROW(with(Debug({.trap_inf = true, .print = false}), [] { return log(tensor({-1., 1.})); }));
  EXPECT_NO_THROW(with(Debug({.trap_nan = true, .print = false}), [] { return log(tensor({0., 1.})); }));
  EXPECT_THAT(message_of<TransformError>(
                  [&] { with(Debug({.trap_nan = true, .trap_inf = true, .print = false}), nan_and_infinity); }),
              HasSubstr("log: NaN in 1 of 2"));
  EXPECT_NO_THROW(with(Debug({.trap_inf = true, .print = false}), [] { return tensor({1, 2}) + 3; }));
  EXPECT_THAT(message_of<TransformError>([&] {
                with(Debug({.trap_inf = true, .print = false}), [] {
                  return vmap([](const Tensor& v) { return 1 / v; })(tensor({0., 1.}));
                });
              }),
              HasSubstr("divide: infinity in 1 of 2"));
}

// The cotangents of the two square roots at 0 are infinite, with opposite signs.
Tensor difference_of_roots(const Tensor& x) {
  const Tensor a = sqrt(x), b = sqrt(x);
  return sum(a - b);
}

TEST(Debug, TrapsANanOfTheBackwardPass) {
  const Tensor x = zeros({2});
  const std::string message =
      message_of<TransformError>([&] { debug(grad(difference_of_roots), {.trap_nan = true, .print = false})(x); });
  EXPECT_THAT(message, HasSubstr("add: NaN in 2 of 2 elements of the result (add f32[2], f32[2] -> f32[2])"));
  EXPECT_THAT(message, HasSubstr("\n  inside backward of grad, inside debug"));
}

// Returns the error of the gradient of f at x under the NaN trap; "" if there is none.
template <class F>
std::string trapped(F f, const Tensor& x) {
  const std::string message =
      message_of<TransformError>([&] { debug(grad(f), {.trap_nan = true, .print = false})(x); });
  return message == "nothing was thrown" ? "" : message;
}

TEST(Debug, NanTrapReportsZeroTimesInfinity) {
  const auto log_of_exp = [](const Tensor& x) { return sum(log(exp(x))); };
  const auto square_of_root = [](const Tensor& x) { return sum(square(sqrt(x))); };
  EXPECT_EQ(grad(log_of_exp)(tensor({1., 1000.})).to_vector<float>(), (std::vector<float>{1, 0}));
  const std::string message = trapped(log_of_exp, tensor({1., 1000.}));
  EXPECT_THAT(message,
              HasSubstr("scale: in 1 of 2 elements a zero swallows an infinity or NaN (scale f32[2], f32[2] -> "
                        "f32[2]): the derivative there is 0"));
  EXPECT_THAT(message, HasSubstr("\n  inside backward of grad, inside debug"));
  EXPECT_THAT(trapped(square_of_root, tensor({0., 4., 0.})), HasSubstr("scale: in 2 of 3 elements"));
  EXPECT_THAT(trapped([](const Tensor& x) { return sum(sqrt(x * x)); }, tensor({0., 1.})),
              HasSubstr("scale: in 1 of 2"));
  EXPECT_THAT(trapped([](const Tensor& x) { return sum(sqrt(square(x)(slice(1, none)))); }, tensor({1., 0.})),
              HasSubstr("scale: in 1 of 2"));
  EXPECT_THAT(message_of<TransformError>([&] {
                debug([&](const Tensor& t) { return jvp(log_of_exp, t, ones({2})).second; },
                      {.trap_nan = true, .print = false})(tensor({1., 1000.}));
              }),
              HasSubstr("scale: in 1 of 2"));
  EXPECT_THAT(message_of<TransformError>([&] {
                debug(vmap(grad(log_of_exp)), {.trap_nan = true, .print = false})(tensor({{1.}, {1000.}}));
              }),
              HasSubstr("scale: in 1 of 2"));
}

TEST(Debug, NanTrapAcceptsZerosSelectedByWhere) {
  const Tensor x = tensor({0., 4., 0.}), i = tensor({1});
  const auto passes = [&](auto f) { EXPECT_EQ(trapped(f, x), ""); };
  passes([](const Tensor& t) { return sum(where(t > 0, sqrt(t), 0)); });
  passes([](const Tensor& t) { return sum(3 * -where(t > 0, log(sqrt(t)), t)); });
  passes([](const Tensor& t) { return sum(maximum(sqrt(t) - 1, 0) * 2); });
  passes([](const Tensor& t) { return sum(clip(log(t), 0, 1)); });
  passes([](const Tensor& t) { return sum(relu(log(t))); });
  passes([](const Tensor& t) { return max(sqrt(t)); });
  passes([&](const Tensor& t) { return sum(take(sqrt(t), i)); });
  passes([](const Tensor& t) { return sqrt(t)(1); });
  passes([](const Tensor& t) { return sum(sqrt(t)(slice(1, 2))); });
  passes([](const Tensor& t) { return sum(sort(sqrt(t))(slice(2, 3))); });
  passes([](const Tensor& t) { return sum(concat({sqrt(t)(slice(1, 2)), t})); });
  passes([](const Tensor& t) { return sum(dynamic_slice(sqrt(t), {1}, {1})); });
  passes([](const Tensor& t) { return sum(matmul(reshape(where(t > 0, sqrt(t), 0), {1, 3}), ones({3, 2}))); });
  passes([](const Tensor& t) { return norm(t(slice(none, none, 2))) + stave::std(t(slice(none, none, 2))); });
  passes([](const Tensor& t) { return logsumexp(where(t > 0, t, -inf)) + logsumexp(t * 0 - inf); });
  passes([](const Tensor& t) { return sum(softmax(where(t > 0, t, -inf))); });
  debug(jacfwd([](const Tensor& t) { return sqrt(t + 1); }), {.trap_nan = true, .print = false})(x);
  debug(vmap(grad([](const Tensor& t) { return where(t > 0, sqrt(t), 0); })), {.trap_nan = true, .print = false})(x);
  vmap(debug(grad([](const Tensor& t) { return where(t > 0, sqrt(t), 0); }), {.trap_nan = true, .print = false}))(x);
  const Tensor g =
      debug(grad([](const Tensor& t) { return sum(where(t > 0, sqrt(t), 0)); }), {.trap_nan = true, .print = false})(x);
  EXPECT_EQ(g.to_vector<float>(), (std::vector<float>{0, 0.25, 0}));
}

// ---- with transforms ----------------------------------------------------------------------------

Tensor sum_of_sines(const Tensor& x) { return sum(sin(x)); }

TEST(Debug, InsideGradShowsPrimalOperations) {
  std::ostringstream out;
  grad(debug(sum_of_sines, {.out = &out}))(zeros({3}));
  EXPECT_EQ(out.str(),
            "sin f32[3] -> f32[3]\n"
            "sum axes=[0] f32[3] -> f32[]\n");
}

TEST(Debug, OutsideGradShowsTheBackwardPassToo) {
  std::ostringstream out;
  debug(grad(sum_of_sines), {.out = &out})(zeros({3}));
  EXPECT_THAT(out.str(), HasSubstr("  sin f32[3] -> f32[3]\n  sum axes=[0] f32[3] -> f32[]\n"));
  EXPECT_THAT(out.str(), HasSubstr("\n  cos f32[3] -> f32[3]  [backward of grad]\n"));
}

TEST(Debug, InsideVmapShowsOneLaneOutsideAll) {
  std::ostringstream inside, outside;
  debug(vmap(debug(sum_of_sines, {.out = &inside, .values = true})), {.out = &outside})(zeros({5, 3}));
  EXPECT_THAT(inside.str(), HasSubstr("sin f32[3] -> f32[3] "));
  EXPECT_THAT(inside.str(), HasSubstr(" min 0 max 0 mean 0 nan 0 inf 0\n"));
  EXPECT_THAT(outside.str(), HasSubstr("    sin f32[5,3] -> f32[5,3]\n"));
  EXPECT_THAT(outside.str(), HasSubstr("    sum axes=[1] f32[5,3] -> f32[5]\n"));
}

TEST(Debug, SummarisesAllLanes) {
  std::ostringstream out;
  const auto f = [](const Tensor& x) { return -x; };
  vmap(debug(f, {.out = &out, .values = true}))(tensor({1., 2., 6.}));
  EXPECT_THAT(out.str(), MatchesRegex("negative f32\\[\\] -> f32\\[\\] +min -6 max -1 mean -3 nan 0 inf 0\n"));
}

TEST(Debug, ChangesNoDerivative) {
  const Tensor x = tensor({0.5, 1.5});
  const DebugOptions silent{.values = true, .trap_nan = true, .print = false};
  const Tensor expected = grad(sum_of_sines)(x);
  EXPECT_EQ(grad(debug(sum_of_sines, silent))(x).to_vector<float>(), expected.to_vector<float>());
  EXPECT_EQ(debug(grad(debug(sum_of_sines, silent)), silent)(x).to_vector<float>(), expected.to_vector<float>());
}

// ---- debug(f) -----------------------------------------------------------------------------------

TEST(Debug, TakesOverloadedFunctions) {
  const Tensor x = tensor({1., 2.});
  std::ostringstream out;
  EXPECT_EQ(debug(negative, {.out = &out})(x).to_vector<float>(), (std::vector<float>{-1, -2}));
  debug(sin, {.out = &out})(x);
  EXPECT_EQ(debug(sum, {.out = &out})(x).item<float>(), 3);
  EXPECT_EQ(out.str(),
            "negative f32[2] -> f32[2]\n"
            "sin f32[2] -> f32[2]\n"
            "sum axes=[0] f32[2] -> f32[]\n");
}

TEST(Debug, ForwardsArgumentsAndResults) {
  auto take = debug([](std::unique_ptr<int> p) { return p; }, {.print = false});
  EXPECT_EQ(*take(std::make_unique<int>(7)), 7);
  const auto same = debug([](int& i) -> int& { return i; }, {.print = false});
  int i = 0;
  EXPECT_EQ(&same(i), &i);
  auto counter = debug([n = 0]() mutable { return ++n; }, {.print = false});
  counter();
  EXPECT_EQ(counter(), 2);
}

TEST(Debug, LinesOfSeveralThreadsStayWhole) {
  std::ostringstream out;
  const auto work = [&] {
    const Tensor x = zeros({2});
    with(Debug({.out = &out}), [&] {
      for (int i = 0; i < 200; ++i) sin(x);
    });
  };
  std::thread first(work), second(work);
  first.join();
  second.join();
  std::istringstream lines(out.str());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) ASSERT_EQ(line, "sin f32[2] -> f32[2]");
  EXPECT_EQ(count, 400);
}

}  // namespace
