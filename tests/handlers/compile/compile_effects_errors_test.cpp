// compile: errors of operations that a function catches happen at each call, and lead to the same
// path as in the function itself.
#include <algorithm>
#include <random>
#include <stdexcept>
#include <string>

#include <stave/stave.h>

#include "compile_effects.h"
#include "matchers.h"
#include "programs.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;

const Tensor x = tensor({1., 2., 3.});
const Tensor lanes = tensor({{1., 2., 3.}, {0.5, -1., 2.}});

TEST(CompileEffects, CaughtErrorLeadsToItsOwnPath) {
  int runs = 0;
  const auto plain = [](const Tensor& a, const Tensor& at) {
    const Tensor y = a * 2.;
    try {
      return take(y, at, 0) + 1.;
    } catch (const IndexError&) {
      return y - 5.;
    }
  };
  const auto f = compile([&](const Tensor& a, const Tensor& at) { return ++runs, plain(a, at); });
  for (int i = 1; i < 5; ++i)
    for (const int at : {0, 7, 2, 9, -8}) EXPECT_THAT(f(x * i, tensor({at})), Is(plain(x * i, tensor({at}))));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(f.recordings(), 2u);
  const auto other = compile(plain);  // the path with the error first
  for (int i = 1; i < 5; ++i)
    for (const int at : {7, 0, 9, 2}) EXPECT_THAT(other(x * i, tensor({at})), Is(plain(x * i, tensor({at}))));
  EXPECT_EQ(other.recordings(), 2u);
}

TEST(CompileEffects, ErrorsAndReadsMayAlternate) {
  int runs = 0;
  const auto plain = [](const Tensor& a, const Tensor& m, const Tensor& at) {
    Tensor y = a;
    for (int i = 0; i < 3; ++i) try {
        y = y + take(a, at[i], 0);
      } catch (const IndexError&) {
        if (sum(y).item<float>() > 100) return y;
        y = y * 0.5;
      }
    Tensor jittered = m;
    for (int tries = 0; tries < 4; ++tries) try {
        return matmul(cholesky(jittered), y);
      } catch (const LinalgError&) {
        jittered = jittered + eye(3);
      }
    return -y;
  };
  const auto f = compile([&](const Tensor& a, const Tensor& m, const Tensor& at) { return ++runs, plain(a, m, at); });
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const Tensor at = tensor({int(random() % 4), int(random() % 4), int(random() % 4)});
    const Tensor m = eye(3) * (1. - static_cast<double>(random() % 6)), a = x * (random() % 3 == 0 ? 100. : 1.);
    EXPECT_THAT(f(a, m, at), Is(plain(a, m, at)));
  }
  // 8 outcomes of three takes, times 5 of four cholesky; and paths that end early
  EXPECT_GE(runs, 20);
  EXPECT_LE(runs, 130);
  EXPECT_EQ(f.recordings(), static_cast<std::size_t>(runs));
}

TEST(CompileEffects, ErrorsAreDistinguishedByType) {
  const auto plain = [](const Tensor& a, const Tensor& at) {
    try {
      return solve(a, take(x, at, 0));
    } catch (const IndexError&) {
      return x;
    } catch (const LinalgError&) {
      return -x;
    }
  };
  const auto f = compile(plain);
  const Tensor good = tensor({0, 1, 2}), bad = tensor({0, 1, 3});
  for (int again = 0; again < 3; ++again)
    for (const Tensor& a : {eye(3), zeros({3, 3})})
      for (const Tensor& at : {good, bad}) EXPECT_THAT(f(a, at), Is(plain(a, at)));
  EXPECT_EQ(f.recordings(), 3u);
}

const Op op_picky =
    define_op({.name = "picky",
               .infer = [](const Call& call, auto& outputs) { outputs.push_back(abstract(call.input(0))); },
               .cpu =
                   [](const Attributes*, std::span<const View> in, std::span<const View> out) {
                     const float first = elements<const float>(in[0])[0];
                     if (first == 2) throw IndexError("2");
                     if (first == 3) throw LinalgError("3");
                     if (first == 4) throw std::runtime_error("4");
                     std::ranges::fill(elements<float>(out[0]), first);
                   }});

TEST(CompileEffects, AnOperationMayThrowErrorsOfSeveralTypes) {
  int runs = 0;
  const auto plain = [&](const Tensor& a) {
    try {
      return apply(op_picky, {a + 1.});
    } catch (const IndexError&) {
      return a * 2.;
    } catch (const LinalgError&) {
      return a * 3.;
    } catch (const std::runtime_error& error) {
      return a * 4.;
    }
  };
  const auto f = compile([&](const Tensor& a) { return ++runs, plain(a); });
  for (int again = 0; again < 3; ++again)
    for (const int i : {0, 1, 2, 5, 1, 2}) EXPECT_THAT(f(x * i), Is(plain(x * i)));
  EXPECT_EQ(runs, 3);
  for (int again = 0; again < 3; ++again) EXPECT_THAT(f(x * 3.), Is(x * 12.));
  // f runs again each time, as this is not an error of the library.
  EXPECT_EQ(runs, 6);
  EXPECT_EQ(f.recordings(), 3u);
}

TEST(CompileEffects, TextOfACaughtErrorIsThatOfTheCurrentCall) {
  const auto plain = [](const Tensor& a, const Tensor& at) {
    try {
      return std::pair(take(a, at, 0), std::string());
    } catch (const IndexError& error) {
      return std::pair(a, std::string(error.what()));
    }
  };
  const auto f = compile(plain);
  for (int at = 0; at < 12; ++at) {
    const auto [found, text] = f(x, tensor({at}));
    EXPECT_THAT(found, Is(at < 3 ? x(slice(at, at + 1)) : x));
    if (at < 3) EXPECT_EQ(text, "");
    else EXPECT_THAT(text, HasSubstr("index " + std::to_string(at) + " is out of range"));
  }
}

TEST(CompileEffects, UncaughtErrorReachesTheCaller) {
  const auto f = compile([](const Tensor& a, const Tensor& at) {
    const Scope model("model");
    try {
      return take(a, at, 0);
    } catch (const LinalgError&) {
      return a;
    }
  });
  for (int again = 0; again < 3; ++again) {
    EXPECT_THAT(f(x, tensor({1})), Is(tensor({2.})));
    EXPECT_EQ(message_of<IndexError>([&] { f(x, tensor({5})); }),
              "take: index 5 is out of range for axis 0 with size 3\n  inside model, inside compile");
  }
  // The first error is caught, the second one leaves the function.
  const auto g = compile([](const Tensor& a, const Tensor& at) {
    try {
      return take(a, at, 0);
    } catch (const IndexError&) {
      if (sum(a).item<float>() > 10) throw;
      return a;
    }
  });
  for (int again = 0; again < 3; ++again) {
    EXPECT_THAT(g(x, tensor({5})), Is(x));
    EXPECT_THAT(message_of<IndexError>([&] { g(x * 2., tensor({5})); }), HasSubstr("take: index 5 is out of range"));
    EXPECT_THAT(g(x * 2., tensor({1})), Is(tensor({4.})));
  }
}

TEST(CompileEffects, ErrorsAreCaughtUnderTransforms) {
  const auto take_or = [](const Tensor& a, const Tensor& at) {
    try {
      return sum(take(sin(a), at, 0));
    } catch (const IndexError&) {
      return sum(a * a);
    }
  };
  const auto in_checkpoint = [](const Tensor& a, const Tensor& at) {
    try {
      return sum(checkpoint([at](const Tensor& b) { return take(sin(b), at, 0); })(a));
    } catch (const IndexError&) {
      return sum(a * a);
    }
  };
  const auto check = [](const auto& plain) {
    const auto f = compile(plain);
    for (int again = 1; again < 4; ++again)
      for (const int at : {7, 1, 9, 2}) {
        const auto bind = [&](const auto& g) { return [&g, at](const Tensor& a) { return g(a, tensor({at})); }; };
        EXPECT_THAT(grad(bind(f))(x * again), IsNear(grad(bind(plain))(x * again)));
        EXPECT_THAT(vmap(grad(bind(f)))(lanes * again), IsNear(vmap(grad(bind(plain)))(lanes * again)));
        EXPECT_THAT(bind(f)(x * again), Is(bind(plain)(x * again)));
        EXPECT_THAT(compile(grad(bind(f)))(x * again), Is(grad(bind(plain))(x * again)));
      }
  };
  check(take_or);
  check(in_checkpoint);
}

TEST(CompileEffects, ErrorInALoopStepMayBeCaught) {
  const auto outside = [](const Tensor& a, const Tensor& at) {
    try {
      return loop(5, [&](const Tensor& b) { return b * 0.5 + take(b, at, 0); })(a);
    } catch (const IndexError&) {
      return a;
    }
  };
  const auto inside = [](const Tensor& a, const Tensor& at) {
    return loop(5, [&](const Tensor& b) {
      try {
        return b * 0.5 + take(b, at, 0);
      } catch (const IndexError&) {
        return b + 1.;
      }
    })(a);
  };
  const auto f = compile(outside);
  const auto g = compile(inside);
  for (int again = 1; again < 4; ++again)
    for (const int at : {1, 7, 2, 8}) {
      EXPECT_THAT(f(x * again, tensor({at})), Is(outside(x * again, tensor({at}))));
      EXPECT_THAT(g(x * again, tensor({at})), Is(inside(x * again, tensor({at}))));
    }
}

TEST(CompileEffects, LaterLoopStepMayCatchAnError) {
  struct State {
    Tensor y, at;
  };
  const auto plain = [](const Tensor& a) {
    return loop(6,
                [](const State& s) {
                  try {
                    return State{s.y * 0.5 + take(s.y, s.at, 0), s.at + 1};
                  } catch (const IndexError&) {
                    return State{s.y - 1., s.at + 1};
                  }
                })(State{a, tensor(0)})
        .y;
  };
  const auto f = compile(plain);
  for (int i = 1; i < 4; ++i) {
    EXPECT_THAT(f(x * i), Is(plain(x * i)));
    EXPECT_THAT(f(arange(6.) * i), Is(plain(arange(6.) * i)));  // no operation throws here
    EXPECT_THAT(trace(plain)(x)(x * i), Is(plain(x * i)));
  }
}

}  // namespace
