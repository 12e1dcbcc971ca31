// cost: flops and bytes against closed forms and Profile, peak memory against what really happens.
#include <stave/stave.h>

#include <stave/handlers/observe/cost.h>

#include "matchers.h"
#include "storage_peak.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::HasSubstr;

TEST(Cost, FlopsAndBytesOfAProduct) {
  const auto f = [](const Tensor& a, const Tensor& b) { return tanh(matmul(a, b)); };
  const Cost c = cost(f)(abstract({30, 20}), abstract({20, 50}));
  EXPECT_EQ(c.operation("matmul").flops, 2u * 30 * 20 * 50);
  EXPECT_EQ(c.operation("matmul").bytes_read, 4u * (30 * 20 + 20 * 50));
  EXPECT_EQ(c.operation("matmul").bytes_written, 4u * 30 * 50);
  EXPECT_EQ(c.operation("tanh").flops, 30u * 50);
  EXPECT_EQ(c.total().calls, 2u);
  EXPECT_EQ(c.total().bytes_read, 4u * (30 * 20 + 20 * 50 + 30 * 50));
  EXPECT_EQ(c.argument_bytes, 4u * (30 * 20 + 20 * 50));
  EXPECT_EQ(c.result_bytes, 4u * 30 * 50);
  EXPECT_EQ(c.peak_bytes, 4u * 30 * 50);  // tanh writes over the product
  EXPECT_EQ(cost(sin)(abstract({8})).total().flops, 8u);
}

TEST(Cost, ViewsCostNothing) {
  const auto f = [](const Tensor& x) {
    return broadcast_to(matrix_transpose(x)[0], {5, 4}) + reshape(matrix_transpose(x), {-1})[0];
  };
  const Cost c = cost(f)(abstract({4, 3}, float64));
  EXPECT_EQ(c.operation("permute_dims").bytes_read + c.operation("permute_dims").bytes_written, 0u);
  EXPECT_EQ(c.operation("broadcast_to").bytes_written, 0u);
  EXPECT_EQ(c.operation("reshape").bytes_written, 12u * 8);  // a transposed matrix is copied
  EXPECT_EQ(c.operation("add").bytes_written, 20u * 8);
  EXPECT_EQ(c.peak_bytes, (12u + 20) * 8);
}

TEST(Cost, OperationsWithoutAFormula) {
  const Cost c = cost([](const Tensor& a) { return sum(cholesky(a) * 2); })(abstract({5, 5}));
  EXPECT_EQ(c.operation("cholesky").without_flops, 1u);
  EXPECT_EQ(c.total().without_flops, 1u);
  EXPECT_EQ(c.operation("multiply").flops, 25u);
  EXPECT_THAT(c.str(), HasSubstr(" + ?"));
}

TEST(Cost, TablesAndScopes) {
  const auto loss = [](const Tensor& w, const Tensor& x) {
    Tensor h;
    {
      const Scope layer("layer1");
      h = matmul(x, w);
    }
    const Scope layer("layer2");
    return sum(h * h);
  };
  const Cost c = cost(grad(loss))(abstract({100, 50}), abstract({200, 100}));
  EXPECT_EQ(c.scope("layer1").flops, 2u * 200 * 100 * 50);
  EXPECT_EQ(c.scope("backward of grad/layer1").flops, 2u * 200 * 100 * 50);
  // The elements have 4 bytes: w has 5000, x 20000, and h, like its cotangents, 10000.
  EXPECT_EQ(c.str(),
            "operation     calls    flops       read    written\n"
            "matmul            2   4.00 M  214.8 KiB   58.6 KiB\n"
            "scale             2  20.00 k   78.1 KiB   78.1 KiB\n"
            "add               1  10.00 k   78.1 KiB   39.1 KiB\n"
            "multiply          1  10.00 k   78.1 KiB   39.1 KiB\n"
            "sum               1  10.00 k   39.1 KiB        4 B\n"
            "full              1        0        0 B        4 B\n"
            "broadcast_to      1        0        0 B        0 B\n"
            "permute_dims      1        0        0 B        0 B\n"
            "reshape           1        0        0 B        0 B\n"
            "total            11   4.05 M  488.3 KiB  214.9 KiB\n"
            "\n"
            "scope             calls    flops       read    written\n"
            "backward of grad      7   2.03 M  273.4 KiB  136.7 KiB\n"
            "  layer1              2   2.00 M  117.2 KiB   19.5 KiB\n"
            "  layer2              5  30.00 k  156.3 KiB  117.2 KiB\n"
            "layer1                1   2.00 M   97.7 KiB   39.1 KiB\n"
            "layer2                2  20.00 k  117.2 KiB   39.1 KiB\n"
            "(no scope)            1        0        0 B        4 B\n"
            "\n"
            "arguments 97.7 KiB, result 19.5 KiB, peak 117.2 KiB beyond the arguments\n");
}

// ---- against real runs --------------------------------------------------------------------

struct Net {
  Tensor w1, b1, w2, b2;
};

Net net(Index in, Index hidden, Index out) {
  return {full({in, hidden}, 0.01f), zeros({hidden}), full({hidden, out}, 0.01f), zeros({out})};
}
Tensor net_loss(const Net& p, const Tensor& x) {
  const Tensor h = tanh(matmul(x, p.w1) + p.b1);
  return mean(square(matmul(h, p.w2) + p.b2));
}

Tensor attention_loss(const Tensor& w, const Tensor& x) {
  const Tensor q = matmul(x, w), k = matmul(x, matrix_transpose(w));
  const Tensor weights = softmax(matmul(q, matrix_transpose(k)) / 8., -1);
  return mean(square(gelu(matmul(weights, layer_norm(x)))));
}

Tensor convolution_loss(const Tensor& kernel, const Tensor& images) {
  return mean(square(max_pool(relu(conv(images, kernel)), {2, 2})));
}

// The peak of a real run without handlers, and the predicted one, agree but for single numbers,
// which cost leaves out.
template <class F, class... A>
void expect_peak(const char* what, F f, const A&... args) {
  SCOPED_TRACE(what);
  std::size_t real = 0;
  {
    const StoragePeak peak;
    const auto result = f(args...);
    real = peak.bytes();
  }
  const Cost predicted = cost(f)(args...);
  EXPECT_NEAR(static_cast<double>(predicted.peak_bytes), static_cast<double>(real), 256) << predicted;
  EXPECT_GT(predicted.peak_bytes, 0u);
}

TEST(Cost, PeakIsThatOfARealRun) {
  const Tensor x = full({256, 64}, 0.5);
  expect_peak(
      "chain", [](const Tensor& v) { return sum(exp(sin(v * 2.) + v)); }, x);
  expect_peak(
      "a value that stays alive",
      [](const Tensor& v) {
        const Tensor kept = sin(v);
        const Tensor a = exp(kept + 1.);
        return matmul(a, matrix_transpose(kept));
      },
      x);
  expect_peak("net", net_loss, net(64, 300, 10), x);
  expect_peak("grad of net", grad(net_loss), net(64, 300, 10), x);
  expect_peak("grad of attention", grad(attention_loss), full({64, 64}, 0.01f), x);
  expect_peak("vmap of grad", vmap(grad(net_loss), {.in_axes = {unmapped, 0}}), net(64, 30, 10), x);
  expect_peak("grad of checkpoint", grad(checkpoint(net_loss)), net(64, 300, 10), x);
  expect_peak("hessian", hessian([](const Tensor& v) { return sum(sin(v) * v); }), ones({40}));
  expect_peak("convolutions", grad(convolution_loss), full({8, 3, 3, 3}, 0.1f), full({4, 3, 20, 20}, 0.5f));
  expect_peak("scan", grad([](const Tensor& rows) {
                const auto step = [](const Tensor& s, const Tensor& row) { return std::pair(tanh(s + row), sin(s)); };
                const auto [last, outputs] = scan(step)(zeros({64}), rows);
                return sum(last) + sum(outputs);
              }),
              x);
  expect_peak("indices", grad([](const Tensor& v) { return sum(square(take(v, arange(100), 0))) + sum(sort(v, 0)); }),
              x);
  expect_peak("solve",
              grad([](const Tensor& v) { return sum(solve(matmul(v, matrix_transpose(v)) + 10. * eye(64), v)); }),
              full({64, 64}, 0.5));
}

// Tapes above 4 MiB drop values that the backward pass computes again, in fused regions.
TEST(Cost, PeakWithRematerialisation) {
  const Tensor x = full({512, 1024}, 0.5);
  const auto f = [](const Tensor& v) {
    Tensor y = v;
    for (int i = 0; i < 6; ++i) y = sin(y) * 1.5 + tanh(y);
    return sum(matmul(y, matrix_transpose(v)));
  };
  expect_peak("grad of a chain", grad(f), x);
  expect_peak("grad of a network", grad(net_loss), net(1024, 2048, 10), x);
}

TEST(Cost, CallsAndBytesAreThoseOfProfile) {
  const auto f = grad(net_loss);
  const Net p = net(64, 300, 10);
  const Tensor x = full({256, 64}, 0.5);
  Profile profile;
  with(profile, [&] { return f(p, x); });
  const Cost c = cost(f)(p, x);
  for (const char* name : {"matmul", "tanh", "add", "multiply", "scale", "sum", "full", "sech_squared"}) {
    EXPECT_EQ(c.operation(name).calls, profile.operation(name).calls) << name;
    EXPECT_EQ(c.operation(name).bytes_written, profile.operation(name).bytes) << name;
  }
  EXPECT_EQ(c.total().calls, profile.total().calls);
  EXPECT_EQ(c.scope("backward of grad").calls, profile.scope("backward of grad").calls);
  // Forward and backward pass of two layers: x w1, h w2, and the three products of their rules.
  EXPECT_EQ(c.operation("matmul").flops, 2u * 256 * 300 * (2 * 64 + 3 * 10));
  // The counter alone, in a real run, gives the same sums.
  Cost counted;
  stave_detail::CostCounter counter(counted);
  with(counter, [&] { return f(p, x); });
  const auto less = [](const Cost::Totals&, const Cost::Totals&) { return false; };
  const auto cells = [](const Cost::Totals& part, const Cost::Totals&) {
    return stave_detail::Row{std::to_string(part.flops), std::to_string(part.bytes_read),
                             std::to_string(part.bytes_written)};
  };
  EXPECT_EQ(counted.sums.str({"", "", ""}, less, cells), c.sums.str({"", "", ""}, less, cells));
}

TEST(Cost, CheckpointsCountTheirSecondRun) {
  const auto f = [](const Tensor& x) { return sum(sin(sin(x))); };
  const Tensor x = abstract({8});
  EXPECT_EQ(cost(grad(f))(x).operation("sin").calls, 2u);
  EXPECT_EQ(cost(grad(checkpoint(f)))(x).operation("sin").calls, 4u);
  EXPECT_EQ(cost(grad(checkpoint(f)))(x).operation("call").calls, 0u);
}

}  // namespace
