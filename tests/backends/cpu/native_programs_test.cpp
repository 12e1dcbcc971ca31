// Native code of programs, against the interpreter of lowered code, bit for bit.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "native.h"

namespace native {
namespace {

NATIVE_FIXTURE(NativePrograms);

Tensor draw(std::uint32_t seed, Shape shape, Dtype dtype = float64) {
  return normal(fold_in(Key(7), seed), std::move(shape), dtype);
}

// One step of a Runge-Kutta method for the equations of Lorenz.
Tensor lorenz_step(const Tensor& v) {
  const auto slope = [](const Tensor& s) {
    const Tensor x = s(0), y = s(1), z = s(2);
    return stack({10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3 * z});
  };
  const double h = 0.01;
  const Tensor k1 = slope(v), k2 = slope(v + h / 2 * k1), k3 = slope(v + h / 2 * k2), k4 = slope(v + h * k3);
  return v + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
}
Tensor lorenz(Tensor y) { return loop(50, lorenz_step)(y); }
Tensor sum_of_lorenz(Tensor y) { return sum(square(lorenz(y))); }

// A step of a Kalman filter: prediction by a matrix, and correction by two observations.
Tensor filter_step(Tensor state, Tensor p, Tensor observed) {
  const Tensor angle = state(2), turn = stack({cos(angle), sin(angle)});
  const Tensor moved = concat({state(slice(0, 2)) + 0.1 * state(3) * turn, state(slice(2, 4)) * 0.99});
  const Tensor f = eye(4, float64) + 0.1 * matmul(reshape(moved, {4, 1}), reshape(state, {1, 4}));
  const Tensor predicted = matmul(matmul(f, p), transpose(f)) + 0.01 * eye(4, float64);
  const Tensor h = eye(4, float64)(slice(0, 2));
  const Tensor s = matmul(matmul(h, predicted), transpose(h)) + 0.1 * eye(2, float64);
  const Tensor gain = transpose(solve(s, matmul(h, predicted)));
  const Tensor corrected = moved + matmul(gain, observed - matmul(h, moved));
  const Tensor root = cholesky(predicted + eye(4, float64));
  return sum(corrected) + sum(log(abs(root) + 1.0));
}

TEST_P(NativePrograms, ScalarProgramsEqualTheInterpreter) {
  const Tensor x3 = draw(1, {3}), m = draw(3, {3, 4}), a4 = draw(4, {4, 4});
  expect_same_program(
      "sin", [](Tensor x) { return sin(x) * exp(-x); }, x3);
  expect_same_program(
      "prod", [](Tensor x) { return prod(x, 1); }, m);
  expect_same_program(
      "max", [](Tensor x) { return max(x, 1); }, m);
  expect_same_program(
      "matmul", [](Tensor a) { return matmul(a, a); }, a4);
  expect_same_program(
      "log_softmax", [](Tensor a) { return log_softmax(a); }, m);
  expect_same_program("gradient of log_softmax", grad([](Tensor a) { return sum(square(log_softmax(a))); }), m);
  expect_same_program("gradient of softmax", grad([](Tensor a) { return sum(square(softmax(a))); }), m);
  expect_same_program(
      "stack",
      [](Tensor a) {
        return stack({a, a * 2}, 1);
      },
      m);
  expect_same_program(
      "argsort", [](Tensor a) { return argsort(a); }, m);
  expect_same_program(
      "cholesky", [](Tensor a) { return cholesky(matmul(a, transpose(a)) + eye(4, float64)); }, a4);
  expect_same_program(
      "solve", [](Tensor a) { return solve(a, a(0)); }, a4);
  expect_same_program(
      "inv", [](Tensor a) { return inv(a); }, a4);
  expect_same_program(
      "det", [](Tensor a) { return det(a); }, a4);
  expect_same_program("gradient of det", grad([](Tensor a) { return det(a); }), a4);
  expect_same_program("gradient of solve", grad([](Tensor a) { return sum(solve(a, a(0))); }), a4);
  expect_same_program(
      "normal", [](Tensor a) { return a + normal(Key(3), {3}, float64); }, x3);
  expect_same_program("filter", filter_step, draw(5, {4}), matmul(a4, transpose(a4)), draw(6, {2}));
  expect_same_program("gradient of filter", grad(filter_step), draw(5, {4}), matmul(a4, transpose(a4)), draw(6, {2}));
}

// Independent calls of a function become calls on vectors.
TEST_P(NativePrograms, CallsOfOneFunction) {
  for (const Dtype dtype : {float64, float32}) {
    const Tensor x = draw(5, {21}, dtype), y = draw(6, {21}, dtype), w = draw(7, {5, 5}, dtype);
    expect_same_program(
        "tanh", [](Tensor a) { return tanh(a); }, x);
    expect_same_program(
        "pow and sin", [](Tensor a, Tensor b) { return pow(abs(a), b) + sin(a * b); }, x, y);
    expect_same_program(
        "exp of exp", [](Tensor a) { return exp(-exp(a) * sum(exp(a))); }, x(slice(0, 5)));
    const auto recurrent = [](Tensor h, Tensor m) {
      return loop(7, [m](Tensor s) { return tanh(matmul(m, s)) + 0.1 * s; })(h);
    };
    expect_same_program("recurrent", recurrent, x(slice(0, 5)), w);
    expect_same_program("gradient", grad<0, 1>([=](Tensor h, Tensor m) { return sum(square(recurrent(h, m))); }),
                        x(slice(0, 5)), w);
  }
}

TEST_P(NativePrograms, GroupsCallsAcrossMemory) {
  const Lowered code = stave_test::code_with({{float32, {4}}}, {{float32, {4}}}, [](Lowered&, LoweredBuilder& b) {
    for (Index i = 0; i < 4; ++i) {
      const int x = b.load(0, -1, i);
      b.store(1, -1, i, b.add(ScalarOp::tanh, b.add(ScalarOp::add, x, x)));
    }
  });
  const Lowered grouped = stave_cpu::group_calls(code);
  stave_detail::verify(grouped);
  std::size_t first = 0;
  while (grouped.instructions[first].op != ScalarOp::tanh) ++first;
  for (std::size_t k = first; k < first + 4; ++k)
    EXPECT_EQ(grouped.instructions[k].op, ScalarOp::tanh) << grouped.str();
  expect_same("four calls", code, {draw(8, {4}, float32)});
}

TEST_P(NativePrograms, ProgramsWithManyLiveValuesEqualTheInterpreter) {
  const auto f = [](Tensor x) {
    return sum(square(sin(x) * roll(x, 1)) + exp(-x * x)) + prod(1.0 + 0.1 * x) + sum(x) * sum(x * x);
  };
  expect_same_program("hessian", hessian(f), draw(1, {12}));
  expect_same_program("jacobian", jacrev([](Tensor x) { return cumulative_prod(1.0 + x * roll(x, 1), 0); }),
                      draw(2, {12}));
}

TEST_P(NativePrograms, LoopsEqualTheInterpreter) {
  const Tensor x3 = draw(1, {3}), x100 = draw(2, {100}), sequence = draw(3, {40, 3});
  expect_same_program("lorenz", lorenz, x3);
  expect_same_program("gradient of lorenz", grad(sum_of_lorenz), x3);
  expect_same_program("jacobian of lorenz", jacrev(lorenz), x3);
  expect_same_program("hessian of lorenz", hessian(sum_of_lorenz), x3);
  const auto rolls = [](Tensor y) { return loop(5, [](Tensor v) { return v + sin(roll(v, 1)) * 0.5; })(y); };
  expect_same_program("loop of arrays", rolls, x100);
  expect_same_program("its gradient", grad([=](Tensor y) { return sum(square(rolls(y))); }), x100);
  const auto filter = [](Tensor xs) {
    const auto [last, ys] = scan([](Tensor c, Tensor x) {
      const Tensor n = 0.9 * c + x;
      return std::pair(n, n * n);
    })(zeros({3}, float64), xs);
    return sum(ys) + sum(last);
  };
  expect_same_program("scan", filter, sequence);
  expect_same_program("gradient of scan", grad(filter), sequence);
  const auto nested = [](Tensor y) {
    return loop(4, [](Tensor v) { return loop(3, [](Tensor w) { return w * 0.5 + roll(w, 1); })(v) + v; })(y);
  };
  expect_same_program("nested loops", nested, draw(4, {5}));
  expect_same_program("gradient of nested loops", grad([=](Tensor y) { return sum(nested(y)); }), draw(4, {5}));
  expect_same_program(
      "no steps", [](Tensor y) { return loop(0, [](Tensor v) { return v * 2; })(y); }, x3);
  // A loop that carries more than there are registers.
  expect_same_program(
      "many carried", [](Tensor y) { return loop(7, [](Tensor v) { return roll(v, 1) * 1.5 - v; })(y); },
      draw(5, {30}));
}

TEST_P(NativePrograms, ArrayProgramsEqualTheInterpreter) {
  const Tensor x = draw(1, {100}), m = draw(2, {20, 12}), b = draw(3, {12, 9}), a8 = draw(4, {8, 8});
  expect_same_program(
      "square", [](Tensor v) { return v * v + 1; }, x);
  expect_same_program(
      "sum", [](Tensor v) { return sum(v * v); }, x);
  expect_same_program(
      "sum of columns", [](Tensor v) { return sum(v, 0); }, m);
  expect_same_program(
      "sum of rows", [](Tensor v) { return sum(v, 1); }, m);
  expect_same_program(
      "max", [](Tensor v) { return max(v, 1); }, m);
  expect_same_program(
      "argmax", [](Tensor v) { return argmax(v, 1); }, m);
  expect_same_program(
      "matmul", [](Tensor v, Tensor w) { return matmul(v, w); }, m, b);
  expect_same_program(
      "softmax", [](Tensor v) { return softmax(v); }, m);
  expect_same_program(
      "cumulative_sum", [](Tensor v) { return cumulative_sum(v, 1); }, m);
  expect_same_program(
      "concat",
      [](Tensor v) {
        return concat({v, v * 2}, 1);
      },
      m);
  expect_same_program(
      "pad",
      [](Tensor v) {
        return pad(v, {{1, 2}, {0, 1}}, 7);
      },
      m);
  expect_same_program(
      "slice", [](Tensor v) { return v(slice(1, 10, 2), slice(none, none, -1)); }, m);
  expect_same_program(
      "transpose", [](Tensor v) { return reshape(transpose(v), {-1}); }, m);
  expect_same_program(
      "take",
      [](Tensor v) {
        return take(v, tensor({3, 1, -1}), 0);
      },
      m);
  expect_same_program("gradient of take", grad([](Tensor v) { return sum(square(take(v, tensor({3, 1, 1}), 0))); }), m);
  expect_same_program(
      "sort", [](Tensor v) { return sort(v); }, m);
  expect_same_program(
      "cholesky", [](Tensor v) { return cholesky(matmul(v, transpose(v)) + eye(8, float64)); }, a8);
  expect_same_program(
      "solve", [](Tensor v) { return solve(v, v); }, a8);
  expect_same_program(
      "slogdet", [](Tensor v) { return slogdet(v).second; }, a8);
  expect_same_program(
      "uniform", [](Tensor v) { return v + uniform(Key(3), {100}, float64); }, x);
  expect_same_program(
      "silu", [](Tensor v) { return silu(v); }, x);
  expect_same_program(
      "where", [](Tensor v) { return where(v > 0, sqrt(abs(v)), 0); }, x);
  expect_same_program(
      "convolution", [](Tensor v, Tensor w) { return conv(v, w); }, draw(5, {1, 2, 6, 6}), draw(6, {3, 2, 3, 3}));
  expect_same_program(
      "layer_norm", [](Tensor v) { return layer_norm(v); }, m);
  expect_same_program(
      "var", [](Tensor v) { return var(v, 0); }, m);
  expect_same_program(
      "empty",
      [](Tensor v) {
        return sum(v) + concat({v, v});
      },
      zeros({0}, float64));
}

TEST_P(NativePrograms, OtherDtypesEqualTheInterpreter) {
  const Tensor x = draw(1, {100}), f = draw(2, {100}, float32);
  expect_same_program(
      "float32", [](Tensor v) { return exp(v) * 2.5f + maximum(v, 0.5f) - floor(v); }, f);
  expect_same_program(
      "sum of float32", [](Tensor v) { return sum(v * v); }, f);
  expect_same_program(
      "float64 to float32", [](Tensor v) { return astype(v, float32) * 2.5f; }, x);
  expect_same_program(
      "int32", [](Tensor v) { return astype(v * 10, int32) % 3 + bitwise_left_shift(astype(v, int32), 2); }, x);
  for (const Dtype dtype : {uint8, int8, uint16, int16, uint32, int32, uint64, int64})
    expect_same_program(
        "integers",
        [=](Tensor v) {
          const Tensor i = astype(v * 100, dtype);
          return where(i > 7, i * i - 3, floor_divide(i, abs(i) + 1)) + maximum(i, roll(i, 1));
        },
        x);
  expect_same_program(
      "bools", [](Tensor v) { return logical_and(v > 0.1, logical_not(v > 0.5)) | (v < -1); }, x);
}

TEST_P(NativePrograms, FailedChecksGiveTheirErrors) {
  const Tensor m = draw(1, {20, 12});
  const auto rows = [](Tensor v, Tensor i) { return take(v, i, 0); };
  const Lowered code = stave_detail::lower(trace(rows)(m, tensor({1, 2})));
  expect_same("in range", code, {m, tensor({19, -20})});
  expect_same("out of range", code, {m, tensor({3, 20})});
  expect_same("below", code, {m, tensor({-21, 0})});
  const std::unique_ptr<const NativeCode> native = compiled(code);
  EXPECT_NE(run(*native, code, {m, tensor({3, 20})}).error, "");
  EXPECT_EQ(run(*native, code, {m, tensor({3, 2})}).error, "");
}

TEST_P(NativePrograms, RunOnThreadsAndInForks) {
  const Lowered code = stave_detail::lower(trace(grad(sum_of_lorenz))(draw(1, {3})));
  const std::unique_ptr<const NativeCode> native = compiled(code);
  std::vector<Tensor> inputs, expected;
  for (std::uint32_t k = 0; k < 4; ++k) {
    inputs.push_back(draw(k, {3}));
    expected.push_back(stave_test::LoweredRun(code)({inputs.back()})[0]);
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < 4; ++k)
    threads.emplace_back([&, k] {
      for (int i = 0; i < 200; ++i) {
        const std::unique_ptr<const NativeCode> own = i % 50 == 0 ? NativeCode::compile(code) : nullptr;
        const Result result = run(own ? *own : *native, code, {inputs[k]});
        wrong += !same_numbers(result.outputs[0], expected[k]);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);

  // The child runs the code of its parent, on memory that was prepared before.
  const void* const in[] = {inputs[0].node().data()};
  std::vector<double> out(3), work(native->work_bytes() / 8 + 2);
  void* const outs[] = {out.data()};
  const pid_t child = fork();
  if (child == 0) {
    const bool is_equal = (*native)(in, outs, work.data()) == 0 &&
                          std::memcmp(out.data(), expected[0].node().data(), 3 * sizeof(double)) == 0;
    _exit(is_equal ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace native
