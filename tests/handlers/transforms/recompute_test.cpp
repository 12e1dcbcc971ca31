// Values that a tape recomputes (handlers/transforms/rematerialization.cpp, fused_backward.h):
// random programs must give the same bits as with a tape that keeps everything, in every nest.
// Also the memory that a tape keeps. recompute_handlers_test.cpp tests which handlers see the
// recomputation.
#include <cstddef>
#include <functional>
#include <random>

#include <stave/stave.h>

#include "bits.h"
#include "matchers.h"

namespace {

using namespace stave;
using enum Recompute;
using namespace stave_test;

using T = const Tensor&;
using Random = std::mt19937_64;
constexpr std::size_t MiB = std::size_t{1} << 20;

std::size_t live() { return memory_stats().live_bytes; }

Index pick(Random& random, Index count) { return std::uniform_int_distribution<Index>(0, count - 1)(random); }

// ---- random programs ----------------------------------------------------------------------------

Tensor step(Random& random, T a, T b, T row, T square_matrix) {
  switch (pick(random, 24)) {
    case 0: return a * b;
    case 1: return a + b;
    case 2: return a - 0.5 * b;
    case 3: return square(a);
    case 4: return -a * a;
    case 5: return maximum(a, b);
    case 6: return minimum(abs(a), 1.5);
    case 7: return where(a > b, a, 0.3 * b);
    case 8: return relu(a) + 0.1 * b;
    case 9: return tanh(a * b);
    case 10: return exp(-square(a)) * b;
    case 11: return sin(a + b);
    case 12: return a / (1 + square(b));
    case 13: return sqrt(square(a) + 0.5);
    case 14: return a * row;
    case 15: return a + row * 2;
    case 16: return matmul(a, square_matrix) * 0.3;
    case 17: return a - mean(b, -1, keepdims);
    case 18: return matrix_transpose(matrix_transpose(a) * matrix_transpose(b));
    case 19: return reshape(flip(reshape(a, {-1}) * 0.7), a.shape());
    case 20: return astype(astype(a, float64) * 1.25 + b, a.dtype());
    case 21: {
      const Dtype less = a.dtype() == float64 ? float32 : float16;
      return astype(astype(a, less) * astype(b, less), a.dtype());
    }
    case 22: return a * stop_gradient(b) + 1;
    default: return concat({a(slice(1, none)) * 2, b(slice(0, 1))}, 0);
  }
}

// The program depends only on the seed.
Tensor random_program(std::uint64_t seed, T x, T row, T square_matrix) {
  Random random(seed);
  std::vector<Tensor> values{x, x * row};
  const Index steps = 4 + pick(random, 30);
  const bool chain = pick(random, 2) == 0;  // otherwise a graph
  for (Index i = 0; i < steps; ++i) {
    const auto last = static_cast<Index>(values.size()) - 1;
    T a = values[static_cast<std::size_t>(chain ? last : pick(random, last + 1))];
    T b = values[static_cast<std::size_t>(last - pick(random, std::min<Index>(last + 1, 3)))];
    Tensor value = step(random, a, b, row, square_matrix);
    values.push_back(clip(value, -3, 3));
    if (pick(random, 4) == 0) values.erase(values.begin() + pick(random, last + 1));
  }
  Tensor total = sum(values.back());
  for (T value : values) total = total + 0.1 * sum(value * value);
  return total;
}

struct Program {
  std::uint64_t seed;
  Recompute when;
  std::tuple<Tensor, Tensor, Tensor> gradients(T x, T row, T matrix) const {
    return grad<0, 1, 2>([&](T a, T b, T c) { return random_program(seed, a, b, c); }, {.recompute = when})(x, row,
                                                                                                            matrix);
  }
  Tensor gradient(T x, T row, T matrix) const {
    const auto [dx, dr, dm] = gradients(x, row, matrix);
    return concat({reshape(dx, {-1}), dr, reshape(dm, {-1})});
  }
};

const Shape shape{6, 5};
Tensor random_x(std::uint64_t seed, Dtype dtype = float32) { return normal(Key(seed), shape, dtype); }
const auto row_of = [](Dtype dtype = float32) { return normal(Key(1000), {5}, dtype); };
const auto matrix_of = [](Dtype dtype = float32) { return normal(Key(1001), {5, 5}, dtype); };

TEST(Recompute, GivesTheBitsOfThePlainTape) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Tensor x = random_x(seed), row = row_of(), matrix = matrix_of();
    const Tensor plain = Program{seed, never}.gradient(x, row, matrix);
    ASSERT_EQ(bytes_of(Program{seed, always}.gradient(x, row, matrix)), bytes_of(plain)) << "seed " << seed;
  }
}

TEST(Recompute, UnderVmapAndJvpGivesTheBitsOfThePlainTape) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Tensor xs = normal(Key(seed), {3, 6, 5}), row = row_of(), matrix = matrix_of();
    const auto batched = [&](Recompute when) {
      const auto one = [&](T x, T r, T m) { return Program{seed, when}.gradient(x, r, m); };
      return vmap(one, {.in_axes = {0, unmapped, unmapped}})(xs, row, matrix);
    };
    ASSERT_EQ(bytes_of(batched(always)), bytes_of(batched(never))) << "seed " << seed;
    const auto pushed = [&](Recompute when) {
      const auto of_x = [&](T x) { return Program{seed, when}.gradient(x, row, matrix); };
      return jvp(of_x, xs(0), xs(1)).first;
    };
    ASSERT_EQ(bytes_of(pushed(always)), bytes_of(pushed(never))) << "seed " << seed;
  }
}

// Recomputation changes the order in which an outer transform adds,
// so the results agree only up to rounding.
TEST(Recompute, SecondDerivativesEqualThoseOfThePlainTape) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Tensor x = random_x(seed, float64), v = random_x(seed + 500, float64), row = row_of(float64),
                 matrix = matrix_of(float64);
    for (const auto outer : {always, never}) {
      const auto twice = [&](Recompute when) {
        const auto inner = [&](T a) {
          return sum(grad([&](T b) { return random_program(seed, b, row, matrix); }, {.recompute = when})(a) * v);
        };
        return grad(inner, {.recompute = outer})(x);
      };
      const Tensor plain = twice(never), found = twice(always);
      ASSERT_TRUE(allclose(found, plain, 1e-4, 1e-4)) << "seed " << seed << "\n" << found << "\n" << plain;
    }
    const auto forward = [&](Recompute when) {
      return jvp(grad([&](T b) { return random_program(seed, b, row, matrix); }, {.recompute = when}), x, v).second;
    };
    ASSERT_TRUE(allclose(forward(always), forward(never), 1e-4, 1e-4)) << "seed " << seed;
  }
}

// ---- memory -------------------------------------------------------------------------------------

struct Kept {
  std::size_t bytes;
  std::vector<Tensor> cotangents;
};
template <class F>
Kept kept_by_tape(F f, const std::vector<Tensor>& xs, Recompute when) {
  const std::size_t before = live();
  auto [out, pullback] = vjp(f, {.recompute = when}, xs);
  const Tensor ct = ones_like(out);
  out = Tensor();
  const std::size_t bytes = live() - before;
  auto [found] = pullback(ct);
  const auto [again] = pullback(ct);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(bytes_of(found[i]), bytes_of(again[i]));
  return {bytes, found};
}

// Values of 256 KiB and weights of 16 KiB.
Tensor large(std::uint64_t key) { return normal(Key(key), {1024, 64}); }
Tensor weight(std::uint64_t key) { return normal(Key(key), {64, 64}) * 0.1; }
Tensor layer_norm_written_out(T x) {
  const Tensor centred = x - mean(x, -1, keepdims);
  return centred * rsqrt(mean(square(centred), -1, keepdims) + 1e-5);
}

using Leaves = std::vector<Tensor>;
struct Row {
  const char* name;
  std::function<Tensor(const Leaves&)> f;
  bool less;  // true if the tape must drop some values
};
const std::vector<Row>& rows() {
  static const std::vector<Row> all{{"products added, then exp",
                                     [](const Leaves& p) {
                                       Tensor total = p[0] * p[1];
                                       for (int i = 0; i < 5; ++i) total = total + p[0] * p[1] * static_cast<double>(i);
                                       return sum(exp(total * 0.01));
                                     },
                                     false},
                                    {"residual tanh",
                                     [](const Leaves& p) {
                                       Tensor h = p[0];
                                       for (int i = 0; i < 20; ++i) h = h + tanh(h);
                                       return sum(h);
                                     },
                                     false},
                                    {"LSTM",
                                     [](const Leaves& p) {
                                       Tensor h = p[0], c = p[1];
                                       for (int i = 0; i < 10; ++i) {
                                         const Tensor input = sigmoid(matmul(h, p[2])),
                                                      forget = sigmoid(matmul(h, p[3])),
                                                      output = sigmoid(matmul(h, p[4])),
                                                      candidate = tanh(matmul(h, p[5]));
                                         c = forget * c + input * candidate;
                                         h = output * tanh(c);
                                       }
                                       return sum(h);
                                     },
                                     true},
                                    {"MLP of tanh",
                                     [](const Leaves& p) {
                                       Tensor h = p[0];
                                       for (int i = 0; i < 20; ++i) h = tanh(matmul(h, p[2 + i % 4]) + p[6]);
                                       return sum(h);
                                     },
                                     false},
                                    {"MLP of relu",
                                     [](const Leaves& p) {
                                       Tensor h = p[0];
                                       for (int i = 0; i < 20; ++i) h = relu(matmul(h, p[2 + i % 4]) + p[6]);
                                       return sum(h);
                                     },
                                     true},
                                    {"MLP of gelu, written out",
                                     [](const Leaves& p) {
                                       Tensor h = p[0];
                                       for (int i = 0; i < 20; ++i) {
                                         const Tensor z = matmul(h, p[2 + i % 4]) + p[6];
                                         h = 0.5 * z * (1 + tanh(0.7978845608 * (z + 0.044715 * z * z * z)));
                                       }
                                       return sum(h);
                                     },
                                     true},
                                    {"layer norm, written out",
                                     [](const Leaves& p) {
                                       Tensor h = p[0];
                                       for (int i = 0; i < 20; ++i) h = layer_norm_written_out(h) * p[6] + p[7];
                                       return sum(h);
                                     },
                                     true},
                                    {"squares again and again",
                                     [](const Leaves& p) {
                                       Tensor h = p[0] * 0.5;
                                       for (int i = 0; i < 600; ++i) h = h * h * 0.9 + 0.1;
                                       return sum(h);
                                     },
                                     true}};
  return all;
}

TEST(TapeMemory, IsAtMostThatOfThePlainTape) {
  const Leaves p{
      large(1), large(2), weight(3), weight(4), weight(5), weight(6), normal(Key(7), {64}), normal(Key(8), {64})};
  for (const Row& row : rows()) {
    const auto [plain, expected] = kept_by_tape(row.f, p, never);
    for (const Recompute when : {automatic, always}) {
      const auto [bytes, found] = kept_by_tape(row.f, p, when);
      EXPECT_LE(bytes, plain) << row.name;
      EXPECT_TRUE(!row.less || bytes < plain * (std::string_view(row.name).ends_with("again") ? 2 : 9) / 10)
          << row.name << ": " << bytes << " of " << plain;
      for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(bytes_of(found[i]), bytes_of(expected[i])) << row.name;
    }
  }
}

TEST(TapeMemory, OfRandomProgramsIsAtMostThatOfThePlainTape) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<Tensor> xs{random_x(seed), row_of(), matrix_of()};
    const auto f = [&](const Leaves& p) { return random_program(seed, p[0], p[1], p[2]); };
    const std::size_t plain = kept_by_tape(f, xs, never).bytes;
    // The tape may hold a number that an operation reads again, which takes a few bytes.
    EXPECT_LE(kept_by_tape(f, xs, always).bytes, plain) << "seed " << seed;
  }
}

TEST(TapeMemory, OfALongChainIsBounded) {
  const Tensor x = full({1 << 18}, 0.99) * 1;  // 1 MiB
  const auto f = [](T t) {
    Tensor b = t;
    for (int i = 0; i < 2000; ++i) b = b * b;
    return sum(b);
  };
  reset_peak_memory();
  const std::size_t before = live();
  const Tensor found = grad(f)(x);
  // Recomputation begins when the tape keeps 4 MiB.
  EXPECT_LE(memory_stats().peak_bytes - before, 11 * MiB);
  EXPECT_EQ(bytes_of(found), bytes_of(grad(f, {.recompute = never})(x)));
}

}  // namespace
