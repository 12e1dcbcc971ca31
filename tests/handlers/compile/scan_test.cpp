// scan against a `for` over the rows: values, derivatives, batches and recordings.
#include <stave/stave.h>

#include "matchers.h"
#include "programs.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::HasSubstr;

using Pair = std::pair<Tensor, Tensor>;

const Tensor weight = tensor({0.5, -0.3, 0.8}, float64), start = tensor({0.1, 0.2, -0.4}, float64);
Tensor rows(Index n) { return normal(Key(3), {n, 3}, float64); }

// One step of a filter: a state, a row of inputs, and a captured weight.
auto filter(const Tensor& w) {
  return [w](const Tensor& h, const Tensor& x) {
    const Tensor next = tanh(h * w + x);
    return Pair(next, next * x + h);
  };
}

// Returns what scan is defined to return.
template <class F>
Pair written_out(F f, Tensor carry, const Tensor& xs, bool reverse) {
  const Index n = xs.shape(0);
  std::vector<Tensor> ys(static_cast<std::size_t>(n));
  for (Index k = 0; k < n; ++k) {
    const Index i = reverse ? n - 1 - k : k;
    std::tie(carry, ys[static_cast<std::size_t>(i)]) = f(carry, xs(i));
  }
  return {carry, stack(ys)};
}

// A loss of all that a scan of the filter returns.
auto loss_by_scan(ScanOptions options) {
  return [=](const Tensor& w, const Tensor& h, const Tensor& xs) {
    const auto [last, ys] = scan(filter(w), options)(h, xs);
    return sum(ys * ys) + sum(last * w);
  };
}
auto loss_written_out(bool reverse) {
  return [=](const Tensor& w, const Tensor& h, const Tensor& xs) {
    const auto [last, ys] = written_out(filter(w), h, xs, reverse);
    return sum(ys * ys) + sum(last * w);
  };
}

const ScanOptions all_options[] = {{},
                                   {.reverse = true},
                                   {.snapshots = 1},
                                   {.snapshots = 3},
                                   {.reverse = true, .snapshots = 2},
                                   {.reverse = true, .snapshots = 50}};

TEST(Scan, EqualsALoopOverRows) {
  for (const Index n : {1, 2, 3, 4, 17})
    for (const ScanOptions& options : all_options) {
      const Pair expected = written_out(filter(weight), start, rows(n), options.reverse);
      const auto f = [&](const Tensor& h, const Tensor& xs) { return scan(filter(weight), options)(h, xs); };
      const auto check = [&](const Pair& found) {
        EXPECT_THAT(found.first, Is(expected.first)) << n;
        EXPECT_THAT(found.second, Is(expected.second)) << n;
      };
      check(f(start, rows(n)));
      const auto program = trace(f)(start * 2., rows(n) + 1.);
      EXPECT_EQ(count_loops(program), n > 2 ? 1u : 0u);
      check(program(start, rows(n)));
      const auto compiled = compile(f);
      for (int i = 0; i < 3; ++i) check(compiled(start, rows(n)));
      check(linearize(f, start, rows(n)).first);
    }
}

// The running sum, which has an operation of its own, from the first and from the last row.
TEST(Scan, OfAdditionEqualsCumulativeSum) {
  const auto add = [](const Tensor& sum, const Tensor& x) { return Pair(sum + x, sum + x); };
  const Tensor xs = tensor({{1, 5}, {-2, 4}, {7, 0}, {3, 3}});
  const auto [last, sums] = scan(add)(zeros({2}, int32), xs);
  EXPECT_THAT(sums, Is(cumulative_sum(xs, 0)));
  EXPECT_THAT(last, Is(tensor({9, 12})));
  EXPECT_THAT(scan(add, {.reverse = true})(zeros({2}, int32), xs).second, Is(cumulative_sum(xs, 0, {.reverse = true})));
}

// h_i = a h_{i-1} + x_i: the derivative of the sum of all h by x_j is 1 + a + ... + a^(n-1-j), and
// that by h_{-1} is a + a^2 + ... + a^n.
TEST(Scan, HasTheGradientOfALinearRecurrence) {
  const double a = 0.75;
  const Index n = 9;
  const auto f = [&](const Tensor& h, const Tensor& xs) {
    return sum(scan([&](const Tensor& s, const Tensor& x) { return Pair(s * a + x, s * a + x); })(h, xs).second);
  };
  const auto [by_start, by_rows] = grad<0, 1>(f)(tensor(2., float64), ones({n}, float64));
  const auto [compiled_start, compiled_rows] = compile(grad<0, 1>(f))(tensor(2., float64), ones({n}, float64));
  const auto geometric = [&](Index terms) { return (1 - std::pow(a, static_cast<double>(terms))) / (1 - a); };
  EXPECT_NEAR(by_start.item<double>(), a * geometric(n), 1e-12);
  EXPECT_NEAR(compiled_start.item<double>(), a * geometric(n), 1e-12);
  for (Index j = 0; j < n; ++j) {
    EXPECT_NEAR(by_rows(j).item<double>(), geometric(n - j), 1e-12);
    EXPECT_NEAR(compiled_rows(j).item<double>(), geometric(n - j), 1e-12);
  }
}

TEST(Scan, GradientEqualsThatOfALoopBitForBit) {
  for (const Index n : {1, 2, 3, 10, 31})
    for (const ScanOptions& options : all_options) {
      const auto expected = grad<0, 1, 2>(loss_written_out(options.reverse))(weight, start, rows(n));
      const auto compiled = compile(grad<0, 1, 2>(loss_by_scan(options)));
      const auto check = [&](const auto& found, const char* mode) {
        EXPECT_THAT(std::get<0>(found), Is(std::get<0>(expected))) << mode << n << " " << options.snapshots;
        EXPECT_THAT(std::get<1>(found), Is(std::get<1>(expected))) << mode << n << " " << options.snapshots;
        EXPECT_THAT(std::get<2>(found), Is(std::get<2>(expected))) << mode << n << " " << options.snapshots;
      };
      check(grad<0, 1, 2>(loss_by_scan(options))(weight, start, rows(n)), "eager ");
      check(compiled(weight, start, rows(n)), "recorded ");
      check(compiled(weight, start, rows(n)), "compiled ");
      check(grad<0, 1, 2>(compile(loss_by_scan(options)))(weight, start, rows(n)), "grad of compiled ");
    }
}

TEST(Scan, TangentsAndHigherDerivativesEqualThoseOfALoop) {
  for (const ScanOptions& options : all_options) {
    const auto f = loss_by_scan(options);
    const auto expected_of = loss_written_out(options.reverse);
    check_grads(f, std::tuple(weight, start, rows(4)));
    const auto tangent = [](auto g, const Tensor& w, const Tensor& h, const Tensor& xs) {
      return jvp(g, std::tuple(w, h, xs), std::tuple(w * 2., h + 1., xs - 0.5)).second;
    };
    const Tensor expected = tangent(expected_of, weight, start, rows(6));
    EXPECT_THAT(tangent(f, weight, start, rows(6)), Is(expected));
    EXPECT_THAT(tangent(compile(f), weight, start, rows(6)), Is(expected));
    const Tensor second = hessian(expected_of)(weight, start, rows(6));
    EXPECT_THAT(hessian(f)(weight, start, rows(6)), IsNear(second, 1e-11));
    EXPECT_THAT(compile(hessian(f))(weight, start, rows(6)), IsNear(second, 1e-11));
  }
}

// Lanes with states, rows or weights of their own, and derivatives inside and outside of vmap.
TEST(Scan, UnderVmapEqualsALoopOverLanes) {
  const Tensor weights = normal(Key(5), {4, 3}, float64), starts = normal(Key(6), {4, 3}, float64);
  const Tensor sequences = normal(Key(7), {4, 6, 3}, float64);
  for (const ScanOptions& options : all_options) {
    const auto by_lane = [&](auto f, bool w, bool h, bool xs) {
      std::vector<Tensor> all;
      for (Index i = 0; i < 4; ++i)
        all.push_back(f(w ? weights(i) : weight, h ? starts(i) : start, xs ? sequences(i) : rows(6)));
      return stack(all);
    };
    const auto check = [&](auto f, auto expected_of) {
      constexpr std::array<bool, 3> cases[] = {
          {true, true, true}, {true, false, false}, {false, true, false}, {false, false, true}};
      for (const auto& batched : cases) {
        const bool w = batched[0], h = batched[1], xs = batched[2];
        const auto axis = [](bool is_batched) -> MapAxes { return is_batched ? MapAxes(0) : MapAxes(unmapped); };
        const auto lanes = vmap(f, {.in_axes = {axis(w), axis(h), axis(xs)}});
        const auto call = [&](auto g) { return g(w ? weights : weight, h ? starts : start, xs ? sequences : rows(6)); };
        const Tensor expected = by_lane(expected_of, w, h, xs);
        EXPECT_THAT(call(lanes), IsNear(expected, 1e-13));
        EXPECT_THAT(call(compile(lanes)), IsNear(expected, 1e-13));
      }
    };
    check(loss_by_scan(options), loss_written_out(options.reverse));
    check(grad<2>(loss_by_scan(options)), grad<2>(loss_written_out(options.reverse)));
  }
}

struct State {
  Tensor position;
  Key key;
  int kind;
};
struct Row {
  Tensor force;
  std::pair<Key, Tensor> other;
  bool operator==(const Row&) const = delete;
};
struct Found {
  Tensor noise;
  std::vector<Tensor> all;
  Key key;
  int kind;
};

// Trees with keys, integers, booleans and members that are not tensors.
TEST(Scan, StatesAndRowsMayBeTrees) {
  const auto f = [](const State& s, const Row& row) {
    const auto [here, next] = split(s.key);
    const Tensor position = s.position + uniform(here, {2}) * row.force + uniform(row.other.first, {2});
    return std::pair(State{position, next, s.kind},
                     Found{position * 2., {row.other.second > 1, row.other.second + 1}, here, 5});
  };
  const Index n = 8;
  const auto by_scan = [&](const State& s, const Row& all) { return scan(f)(s, all); };
  const State begin{zeros({2}), Key(4), 3};
  const Row all{normal(Key(1), {n, 2}), {Key(split(Key(2), n)), arange(n)}};
  State state = begin;
  std::vector<Found> steps;
  for (Index i = 0; i < n; ++i) {
    auto [next, found] = f(state, Row{all.force(i), {Key(all.other.first.data()(i)), all.other.second(i)}});
    state = next;
    steps.push_back(found);
  }
  const auto check = [&](const std::pair<State, Found>& result) {
    EXPECT_THAT(result.first.position, Is(state.position));
    EXPECT_THAT(result.first.key.data(), Is(state.key.data()));
    EXPECT_EQ(result.first.kind, 3);
    EXPECT_EQ(result.second.kind, 5);
    for (Index i = 0; i < n; ++i) {
      const Found& found = steps[static_cast<std::size_t>(i)];
      EXPECT_THAT(result.second.noise(i), Is(found.noise));
      EXPECT_THAT(result.second.all[0](i), Is(found.all[0]));
      EXPECT_THAT(result.second.all[1](i), Is(found.all[1]));
      EXPECT_THAT(result.second.key.data()(i), Is(found.key.data()));
    }
  };
  check(by_scan(begin, all));
  const auto program = trace(by_scan)(begin, all);
  EXPECT_EQ(count_loops(program), 1u);
  check(program(begin, all));
  check(compile([&](const State& s, const Row& a) { return scan(f, {.snapshots = 2})(s, a); })(begin, all));
}

// Objects behind smart pointers, which the caller or the function owns as well, keep their tensors.
TEST(Scan, DoesNotModifySharedObjects) {
  using Shared = std::shared_ptr<Tensor>;
  const auto captured = std::make_shared<Tensor>(weight);
  const auto f = [captured](const Shared& h, const Shared& x) {
    return std::pair(std::make_shared<Tensor>(*h * *captured + *x), captured);
  };
  const auto first = std::make_shared<Tensor>(start), xs = std::make_shared<Tensor>(rows(4));
  const auto [last, ys] =
      written_out([](const Tensor& h, const Tensor& x) { return Pair(h * weight + x, weight); }, start, rows(4), false);
  for (const ScanOptions& options : {ScanOptions{}, ScanOptions{.snapshots = 2}})
    for (const auto& found : {scan(f, options)(first, xs), compile(scan(f, options))(first, xs)}) {
      EXPECT_THAT(*found.first, Is(last));
      EXPECT_THAT(*found.second, Is(ys));
      EXPECT_THAT(*captured, Is(weight));
      EXPECT_THAT(*first, Is(start));
      EXPECT_THAT(*xs, Is(rows(4)));
    }
  EXPECT_THAT(*scan(f)(first, std::make_shared<Tensor>(rows(0))).first, Is(start));
  EXPECT_THAT(*captured, Is(weight));
}

TEST(Scan, RowsMayBeOmitted) {
  const auto f = [](const Tensor& y) { return Pair(y * 0.5 + 1., y); };
  Tensor y = start;
  std::vector<Tensor> ys;
  for (int i = 0; i < 6; ++i) ys.push_back(y), y = y * 0.5 + 1.;
  const auto [last, all] = scan(f, {.length = 6})(start);
  EXPECT_THAT(last, Is(y));
  EXPECT_THAT(all, Is(stack(ys)));
  EXPECT_THAT(compile(scan(f, {.length = 6}))(start).second, Is(stack(ys)));
  // Without results either, and without a carry.
  const auto plain = [](const Tensor& z) { return std::pair(z + 1., std::tuple<>()); };
  EXPECT_THAT(compile(scan(plain, {.length = 4}))(start).first, Is(start + 1. + 1. + 1. + 1.));
  const auto map = [](std::tuple<> nothing, const Tensor& x) { return std::pair(nothing, sin(x)); };
  EXPECT_THAT(scan(map)(std::tuple<>(), rows(5)).second, Is(sin(rows(5))));
  const auto program = trace([&](const Tensor& xs) { return scan(map)(std::tuple<>(), xs).second; })(rows(5));
  EXPECT_EQ(count_loops(program), 1u);
  EXPECT_THAT(program(rows(5)), Is(sin(rows(5))));
}

TEST(Scan, ZeroRowsGiveTheStartAndAnEmptyResult) {
  for (const ScanOptions& options : all_options) {
    const auto f = [&](const Tensor& h, const Tensor& xs) { return scan(filter(weight), options)(h, xs); };
    for (const auto& [last, ys] : {f(start, rows(0)), compile(f)(start, rows(0))}) {
      EXPECT_THAT(last, Is(start));
      EXPECT_EQ(ys.shape(), (Shape{0, 3}));
      EXPECT_EQ(ys.dtype(), float64);
    }
    const auto [by_start, by_rows] = grad<0, 1>([&](const Tensor& h, const Tensor& xs) {
      const auto [last, ys] = f(h, xs);
      return sum(last * 3.) + sum(ys);
    })(start, rows(0));
    EXPECT_THAT(by_start, Is(full({3}, 3., float64)));
    EXPECT_EQ(by_rows.shape(), (Shape{0, 3}));
  }
}

// Control flow on values unrolls the loop, and custom rules as well.
TEST(Scan, StepsThatDifferAreUnrolled) {
  const auto branch = [](const Tensor& h, const Tensor& x) {
    return bool(sum(x) > 0.) ? Pair(h * 0.5 + x, h) : Pair(h - x, x);
  };
  const auto rule =
      custom_vjp([](const Tensor& v) { return sin(v); }, [](const Tensor& v) { return std::pair(sin(v), v); },
                 [](const Tensor& v, const Tensor& ct) { return std::tuple(ct * cos(v) * 3.); });
  const auto custom = [&](const Tensor& h, const Tensor& x) { return Pair(rule(h) + x, h); };
  const auto check = [&](auto step, bool reverse, Index snapshots) {
    const auto loss = [=](const Tensor& h, const Tensor& xs) {
      const auto [last, ys] = scan(step, {.reverse = reverse, .snapshots = snapshots})(h, xs);
      return sum(last) + sum(ys * xs);
    };
    const auto expected = grad<0, 1>([=](const Tensor& h, const Tensor& xs) {
      const auto [last, ys] = written_out(step, h, xs, reverse);
      return sum(last) + sum(ys * xs);
    })(start, rows(7));
    for (const auto& found : {grad<0, 1>(loss)(start, rows(7)), compile(grad<0, 1>(loss))(start, rows(7))}) {
      EXPECT_THAT(std::get<0>(found), Is(std::get<0>(expected)));
      EXPECT_THAT(std::get<1>(found), Is(std::get<1>(expected)));
    }
  };
  for (const bool reverse : {false, true})
    for (const Index snapshots : {0, 2}) {
      check(branch, reverse, snapshots);
      check(custom, reverse, snapshots);
    }
}

TEST(Scan, InvalidArgumentsAreErrors) {
  const auto f = filter(weight);
  EXPECT_THAT(message_of<ShapeError>([&] { scan(f)(start, tensor(1.)); }),
              AllOf(HasSubstr("scan"), HasSubstr("rank 0")));
  const auto two = [](const Tensor& h, const Pair& x) { return Pair(h + x.first + x.second, h); };
  EXPECT_THAT(message_of<ShapeError>([&] { scan(two)(start, Pair(rows(3), rows(4))); }),
              HasSubstr("of 3 and of 4 rows"));
  EXPECT_THAT(message_of<ShapeError>([&] { scan(f, {.length = 5})(start, rows(4)); }),
              HasSubstr("length is 5, but xs holds tensors of 4 rows"));
  EXPECT_THAT(message_of<TransformError>([&] { scan(f, {.length = -1}); }), HasSubstr("-1"));
  EXPECT_THAT(message_of<TransformError>([&] { scan(f, {.snapshots = -2}); }), HasSubstr("snapshots is -2"));
  EXPECT_THAT(message_of<TransformError>([&] { scan([](const Tensor& h) { return Pair(h, h); })(start); }),
              HasSubstr("{.length = n}"));
  const auto grows = [](const Tensor& h, const Tensor& x) { return Pair(concat({h, x}), h); };
  EXPECT_THAT(message_of<ShapeError>([&] { scan(grows)(start, rows(3)); }),
              AllOf(HasSubstr("scan: result 0"), HasSubstr("[3]"), HasSubstr("[6]")));
  EXPECT_THAT(message_of<ShapeError>([&] { compile(scan(grows))(start, rows(3)); }), HasSubstr("scan: result 0"));
  int count = 0;
  const auto counts = [&](const Tensor& h, const Tensor& x) { return std::pair(h + x, std::pair(x, count++)); };
  EXPECT_THAT(message_of<TransformError>([&] { scan(counts)(start, rows(3)); }), HasSubstr("cannot be stacked"));
}

// A carry whose type, shape or number of tensors changes is a carry of each step as it is.
TEST(Scan, CarryMayChangeItsShape) {
  const auto grows = [](const Tensor& h, const Tensor& x) { return Pair(concat({h, x}), sum(h)); };
  const auto [last, sums] = written_out(grows, start, rows(4), false);
  for (const auto& found : {scan(grows)(start, rows(4)), compile(scan(grows))(start, rows(4))}) {
    EXPECT_THAT(found.first, Is(last));
    EXPECT_THAT(found.second, Is(sums));
  }
}

}  // namespace
