// Functions under vmap that do not repeat what they did when they run again for lanes of another
// path: they are refused.
#include <stave/stave.h>

#include "lanes.h"
#include "matchers.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using T = const Tensor&;

template <class F>
void expect_refused(F f, T xs = tensor({0.5, -3., 1., -4., 2.}, float64)) {
  EXPECT_THAT([&] { vmap(f)(xs); },
              ThrowsMessage<TransformError>(AllOf(HasSubstr("the function ran again for lanes that take another path"),
                                                  HasSubstr("must do the same in each run"))));
}
template <class F>
void expect_refused_everywhere(F f) {
  expect_refused(f);
  expect_refused(f, tensor({0.5, -3.}, float64));  // each path has one lane
  expect_refused(f, tensor({0.5, 1., -3.}, float64));
}

TEST(PathsRepeat, AdvancingACapturedKeyIsAnError) {
  Key key(1);
  expect_refused_everywhere([&](T x) {
    key = fold_in(key, 1);
    return bool(x > 0) ? x + uniform(key, {}, float64) : x - uniform(key, {}, float64);
  });
  expect_refused_everywhere([&](T x) {
    const auto [now, next] = split<2>(key);
    key = next;
    const Tensor y = x + uniform(now, {}, float64);
    return bool(y > 0) ? y : -y;
  });
  // The key is used for the first time after the lanes have split.
  expect_refused_everywhere([&](T x) {
    key = fold_in(key, 1);
    const bool positive(x > 0);
    return x + uniform(key, {}, float64) * (positive ? 1. : 2.);
  });
}

TEST(PathsRepeat, ChangingCapturedValuesIsAnError) {
  int count = 0;
  expect_refused_everywhere([&](T x) {
    const Tensor y = x * (1.0 + ++count);
    return bool(x > 0) ? y : -y;
  });
  Tensor total = zeros({40, 50}, float64);
  expect_refused_everywhere([&](T x) {
    total = total + 1.;
    const Tensor y = sum(total * x);
    return bool(x > 0) ? y : -y;
  });
  expect_refused_everywhere([&](T x) {
    const Tensor row = arange(8.)[++count % 8];
    return bool(x > 0) ? x + row : x - row;
  });
  expect_refused_everywhere([&](T x) {
    const Tensor y = x + sum(from(std::vector<double>(100, ++count)));
    return bool(x > 0) ? y : -y;
  });
}

TEST(PathsRepeat, ChangesInsideCheckpointsAreErrors) {
  Key key(1);
  expect_refused([&](T x) {
    return checkpoint([&](T y) {
      key = fold_in(key, 1);
      return bool(y > 0) ? y + uniform(key, {}, float64) : y - uniform(key, {}, float64);
    })(x);
  });
}

TEST(PathsRepeat, TensorsThatEachRunCreatesAreEqual) {
  const auto f = [](T x) {
    const Key key(3);
    const Tensor weights = from(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    const Tensor y = sum(weights * x) + uniform(fold_in(key, 2), {}, float64) * 0.5 + tensor(2., float64);
    const Tensor z = stack({y, x, y})(slice(0, 2));
    return bool(x > 0) ? sum(z) : bool(x > -2) ? z(0) * z(1) : z(0);
  };
  const Tensor xs = tensor({0.5, -3., 1., -4., 2., -1.}, float64);
  for (const Tensor& all : {xs, xs(slice(0, 2)), xs(slice(3, 6))}) {
    EXPECT_THAT(vmap(f)(all), IsNear(lane_by_lane(f, all)));
    EXPECT_THAT(vmap(grad(f))(all), IsNear(lane_by_lane(grad(f), all)));
    EXPECT_THAT(vmap([&](T x) { return jvp(f, x, 2. * x).second; })(all),
                IsNear(lane_by_lane([&](T x) { return jvp(f, x, 2. * x).second; }, all)));
  }
}

}  // namespace
