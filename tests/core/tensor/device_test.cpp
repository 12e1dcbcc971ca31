// Tensors on devices: `to`, the values that follow a tensor to its device, and the values that the
// host sees. The backends need no GPU, but their memory cannot be touched by the host
// (separate_backend.h), so that the tests run everywhere and find every such access.
#include <cmath>
#include <map>
#include <sstream>

#include <stave/handlers/observe/whos.h>
#include <stave/stave.h>

#include "files.h"
#include "matchers.h"
#include "separate_backend.h"

namespace {

using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// Returns the message if f throws a DeviceError.
std::string refusal(auto f) { return message_of<DeviceError>(f); }

class Devices : public testing::Test {
 protected:
  SeparateBackend first{0}, second{7};
  const Device gpu = cuda(0), other = cuda(7);
};

constexpr Dtype dtypes[] = {bool_, uint8, uint32, int32, int64, float32, float64};

TEST_F(Devices, CotangentOfAnUnusedOutputIsOnTheDeviceOfTheOutput) {
  const auto f = custom_vjp([](const Tensor& x) { return std::tuple(sin(x), cos(x)); },
                            [](const Tensor& x) { return std::pair(std::tuple(sin(x), cos(x)), x); },
                            [](const Tensor& x, const std::tuple<Tensor, Tensor>& cts) {
                              EXPECT_EQ(std::get<1>(cts).device(), x.device());
                              return std::get<0>(cts) * cos(x) - std::get<1>(cts) * sin(x);
                            });
  const Tensor x = to(tensor({0.f, 1.f}), gpu), dx = grad([&](const Tensor& at) { return sum(std::get<0>(f(at))); })(x);
  EXPECT_EQ(dx.device(), gpu);
  EXPECT_TRUE(allclose(dx, cos(x)));
}

// ---- to -----------------------------------------------------------------------------------------

TEST_F(Devices, ToMovesEveryDtypeThereAndBack) {
  for (Dtype dtype : dtypes) {
    const Tensor x = astype(tensor({{1, 0, 3}, {4, 5, 0}}), dtype), there = to(x, gpu), back = to(there, cpu);
    EXPECT_EQ(there.device(), gpu);
    EXPECT_EQ(there.dtype(), dtype);
    EXPECT_EQ(back.device(), cpu);
    EXPECT_THAT(back, Equals(x)) << name_of(dtype);
  }
}

TEST_F(Devices, ToMovesEveryLayout) {
  const Tensor x = reshape(arange(24), {2, 3, 4});
  const Tensor views[] = {x,
                          transpose(x),
                          flip(x, 1),
                          x(ellipsis, slice(none, none, 2)),
                          x(1, 2, 3),
                          broadcast_to(x(0, 0), {5, 2, 4}),
                          broadcast_to(x(slice(0, 1)), {2, 3, 4}),
                          broadcast_to(tensor(7), {3, 2}),
                          x(slice(0, 0)),
                          zeros({0})};
  for (const Tensor& view : views) {
    const Tensor there = to(view, gpu);
    EXPECT_EQ(there.shape(), view.shape());
    EXPECT_THAT(to(there, cpu), Equals(contiguous(view))) << view.str();
    EXPECT_THAT(to(contiguous(there), cpu), Equals(contiguous(view))) << view.str();
    EXPECT_THAT(to(flip(transpose(there)), cpu), Equals(contiguous(flip(transpose(view))))) << view.str();
  }
}

TEST_F(Devices, BroadcastAxesAreTransferredOnce) {
  const Tensor there = to(broadcast_to(tensor({1., 2., 3.}), {1000, 3}), gpu);
  EXPECT_EQ(there.strides(), Strides({0, 1}));
  EXPECT_EQ(memory_stats(gpu).live_bytes, 12u);
}

TEST_F(Devices, ToTheSameDeviceIsAView) {
  const Tensor x = to(tensor({1., 2.}), gpu);
  const int writes = first.writes, reads = first.reads, runs = first.runs;
  const Tensor y = to(x, gpu);
  EXPECT_EQ(y.node().storage.get(), x.node().storage.get());
  EXPECT_EQ(first.writes + first.reads + first.runs, writes + reads + runs);
  const Tensor host = tensor({1., 2.});
  EXPECT_EQ(to(host, cpu).data<float>().data(), host.data<float>().data());
}

TEST_F(Devices, ToCopiesBetweenDevicesThroughTheHost) {
  const Tensor x = arange(10), there = to(to(x, gpu), other);
  EXPECT_EQ(there.device(), other);
  EXPECT_THAT(to(there, cpu), Equals(x));
  const Tensor large = to(ones({(20 << 20) / 4 + 3}), gpu);  // more than one buffer
  EXPECT_THAT(sum(to(large, other)), IsNumber((20 << 20) / 4 + 3));
}

TEST_F(Devices, OperationRunsOnTheDeviceOfItsInputs) {
  const Tensor x = to(tensor({1., 2.}), gpu);
  const int runs = first.runs;
  const Tensor y = matmul(expand_dims(sin(x), 0), expand_dims(x, 1));
  EXPECT_EQ(y.device(), gpu);
  EXPECT_EQ(first.runs, runs + 2);
  EXPECT_EQ(first.reads, 0);
  EXPECT_THAT(to(y, cpu), IsNear(tensor({{std::sin(1.) + 2 * std::sin(2.)}})));
}

// A number is passed with the call: it takes no memory on the device, and no kernel fills any.
TEST_F(Devices, NumberOperandTakesNoDeviceMemory) {
  const Tensor x = to(tensor({{1., 2.}, {3., 4.}}), gpu), i = to(tensor({1, 2}), gpu);
  const std::size_t before = first.memory_stats().live_bytes;
  const int runs = first.runs, writes = first.writes;
  const Tensor y = 3. - x, z = i * 2;
  EXPECT_EQ(first.runs, runs + 2);
  EXPECT_EQ(first.writes, writes);
  EXPECT_EQ(first.memory_stats().live_bytes, before + 4 * sizeof(float) + 2 * sizeof(int));
  EXPECT_THAT(to(y, cpu), Equals(tensor({{2., 1.}, {0., -1.}})));
  EXPECT_THAT(to(z, cpu), Equals(tensor({2, 4})));
}

// The same holds under handlers, and in operations of three operands.
TEST_F(Devices, ConstantTakesNoDeviceMemoryUntilAKernelReadsIt) {
  const Tensor x = to(tensor({{1., 2.}, {3., -4.}}), gpu);
  const std::size_t before = first.memory_stats().live_bytes, each = 4 * sizeof(float);
  const auto f = [](const Tensor& v) { return 1. / (v * 2. + 10.); };
  const int writes = first.writes;
  const auto [y, dy] = jvp(f, x, x);
  EXPECT_EQ(first.memory_stats().live_bytes, before + 2 * each);
  const Tensor w = where(x > 0., 7., -1.), c = clip(x, -1., 2.5), both = where(true, tensor(2., float32, gpu), x);
  EXPECT_EQ(first.writes, writes);
  EXPECT_EQ(first.filled, 0);
  EXPECT_THAT(to(y, cpu), IsNear(tensor({{1. / 12, 1. / 14}, {1. / 16, 1. / 2}})));
  EXPECT_THAT(to(dy, cpu), IsNear(tensor({{-2. / 144, -4. / 196}, {-6. / 256, 8. / 4}})));
  EXPECT_THAT(to(w, cpu), Equals(tensor({{7., 7.}, {7., -1.}})));
  EXPECT_THAT(to(c, cpu), Equals(tensor({{1., 2.}, {2.5, -1.}})));
  EXPECT_THAT(to(both, cpu), Equals(tensor({{2., 2.}, {2., 2.}})));
  const Tensor rate = tensor(0.5, float64, gpu), row = broadcast_to(rate, {3});
  EXPECT_EQ(rate.item<double>() + to(rate, cpu).item<double>() + to(rate, other).item<double>(), 1.5);
  EXPECT_EQ(first.filled, 0);
  EXPECT_EQ(row.to_vector<double>(), (std::vector{0.5, 0.5, 0.5}));
  EXPECT_EQ(first.filled, 1);
  EXPECT_THAT(to(row, cpu), Equals(tensor({0.5, 0.5, 0.5}, float64)));
  EXPECT_THAT(to(contiguous(row), cpu), Equals(tensor({0.5, 0.5, 0.5}, float64)));
  EXPECT_THAT(to(sum(row) + rate * rate, cpu), Equals(tensor(1.75, float64)));
  EXPECT_THAT(to(matmul(row, row), cpu), Equals(tensor(0.75, float64)));
  EXPECT_THAT(to(concat({row, expand_dims(rate, 0)}), cpu), Equals(tensor({0.5, 0.5, 0.5, 0.5}, float64)));
  EXPECT_THAT(to(take(row, to(tensor({1, 2}), gpu)), cpu), Equals(tensor({0.5, 0.5}, float64)));
  EXPECT_EQ(first.writes, writes + 1);  // the indices
  std::ostringstream text;
  text << rate;
  EXPECT_EQ(text.str(), "0.5");
}

// ---- derivatives and batching across the boundary -----------------------------------------------

TEST_F(Devices, CotangentsOfToReturnToTheSourceDevice) {
  const auto f = [&](const Tensor& x) { return sum(to(to(x, gpu) * to(x, gpu), cpu) * x); };  // x^3
  const Tensor x = tensor({1., 2., 3.}), g = grad(f)(x);
  EXPECT_EQ(g.device(), cpu);
  EXPECT_THAT(g, IsNear(tensor({3., 12., 27.})));
  const Tensor on_device = grad([&](const Tensor& y) { return sum(square(to(y, cpu))); })(to(x, gpu));
  EXPECT_EQ(on_device.device(), gpu);
  EXPECT_THAT(to(on_device, cpu), IsNear(tensor({2., 4., 6.})));
  const Tensor loss_there = grad([&](const Tensor& y) { return sum(square(to(y, other))); })(to(x, gpu));
  EXPECT_EQ(loss_there.device(), gpu);
  EXPECT_THAT(to(loss_there, cpu), IsNear(tensor({2., 4., 6.})));
}

TEST_F(Devices, ZeroCotangentsAreOnTheDevicesOfTheirInputs) {
  const auto [gx, gy] = grad<0, 1>([](const Tensor& x, const Tensor&) { return sum(x); })(to(tensor({1., 2.}), gpu),
                                                                                          to(tensor({3.}), other));
  EXPECT_EQ(gx.device(), gpu);
  EXPECT_EQ(gy.device(), other);
  EXPECT_THAT(to(gy, cpu), IsNear(tensor({0.})));
}

TEST_F(Devices, CotangentsMustBeOnTheDeviceOfTheOutput) {
  const auto [y, pullback] = vjp([](const Tensor& x) { return sin(x); }, to(tensor({1.}), gpu));
  EXPECT_EQ(refusal([&, pull = pullback] { pull(tensor({1.})); }),
            "vjp: the cotangent of output 0 lives on cpu, the output on cuda:0: move one with to(x, device)");
}

TEST_F(Devices, ToMovesTangentsToo) {
  const auto f = [&](const Tensor& x) { return square(to(x, gpu)); };
  const auto [y, dy] = jvp(f, tensor({1., 2.}), tensor({1., 10.}));
  EXPECT_EQ(dy.device(), gpu);
  EXPECT_THAT(to(dy, cpu), IsNear(tensor({2., 40.})));
}

TEST_F(Devices, LanesAreTransferredTogether) {
  const int writes = first.writes;
  const Tensor y = vmap([&](const Tensor& x) { return sum(square(to(x, gpu))); })(tensor({{1., 2.}, {3., 4.}}));
  EXPECT_EQ(y.device(), gpu);
  EXPECT_EQ(first.writes, writes + 1);
  EXPECT_THAT(to(y, cpu), IsNear(tensor({5., 25.})));
}

TEST_F(Devices, NestedTransformsWorkAcrossDevices) {
  const auto f = [&](const Tensor& x) { return to(sum(to(x, gpu) * square(to(x, gpu))), cpu); };
  const Tensor xs = tensor({{1., 2.}, {3., 4.}});
  EXPECT_THAT(vmap(grad(f))(xs), IsNear(tensor({{3., 12.}, {27., 48.}})));
  EXPECT_THAT(hvp(f, xs[0], tensor({1., 1.})), IsNear(tensor({6., 12.})));
  EXPECT_THAT(hessian(f)(xs[0]), IsNear(tensor({{6., 0.}, {0., 12.}})));
  EXPECT_THAT(grad([&](const Tensor& x) { return sum(vmap(grad(f))(x)); })(xs),
              IsNear(tensor({{6., 12.}, {18., 24.}})));
}

TEST_F(Devices, TransformsOfDeviceTensorsEqualThoseOnTheHost) {
  const auto f = [](const Tensor& x) { return sum(tanh(2 * x + 1) * where(x > 0, x, 0.5) / (1 - x)); };
  const Tensor x = tensor({0.25, -0.5}, float64), there = to(x, gpu);
  for (const Tensor& result : {grad(f)(there), hessian(f)(there), jacrev(tanh)(there), jacfwd(tanh)(there)})
    EXPECT_EQ(result.device(), gpu);
  EXPECT_THAT(to(grad(f)(there), cpu), Equals(grad(f)(x)));
  EXPECT_THAT(to(hessian(f)(there), cpu), Equals(hessian(f)(x)));
  EXPECT_THAT(to(jacfwd(tanh)(there), cpu), Equals(jacfwd(tanh)(x)));
  check_grads(f, there);
  check_grads([&](const Tensor& y) { return to(f(to(y, other)), gpu); }, there);
}

TEST_F(Devices, TangentsMustBeOnTheDeviceOfThePrimal) {
  EXPECT_EQ(refusal([&] { jvp([](const Tensor& x) { return sin(x); }, tensor({1.}), to(tensor({1.}), gpu)); }),
            "jvp: the tangent of argument 0 lives on cuda:0, the input on cpu: move one with to(x, device)");
}

// ---- values that follow a tensor to its device --------------------------------------------------

TEST_F(Devices, CreationTakesADevice) {
  const Tensor host[] = {zeros({2}, int32),
                         ones({2, 2}, bool_),
                         full({3}, 2.5, float64),
                         eye(3),
                         eye(2, 3, 1, int32),
                         arange(1, 7, 2, int64),
                         arange(0, 3, 1, uint8),
                         linspace(0, 1, 5),
                         linspace(0, 1, 4, float64, cpu, false),
                         tensor({{1, 2}, {3, 4}}, float32),
                         tensor(3, float64),
                         from(std::vector{1.5f, 2.5f}),
                         from(std::vector<bool>{true, false})};
  const Tensor there[] = {zeros({2}, int32, gpu),
                          ones({2, 2}, bool_, gpu),
                          full({3}, 2.5, float64, gpu),
                          eye(3, float32, gpu),
                          eye(2, 3, 1, int32, gpu),
                          arange(1, 7, 2, int64, gpu),
                          arange(0, 3, 1, uint8, gpu),
                          linspace(0, 1, 5, float32, gpu),
                          linspace(0, 1, 4, float64, gpu, false),
                          tensor({{1, 2}, {3, 4}}, float32, gpu),
                          tensor(3, float64, gpu),
                          from(std::vector{1.5f, 2.5f}, gpu),
                          from(std::vector<bool>{true, false}, gpu)};
  for (std::size_t i = 0; i < std::size(host); ++i) {
    EXPECT_EQ(there[i].device(), gpu) << i;
    EXPECT_THAT(to(there[i], cpu), Equals(host[i])) << i;
  }
}

TEST_F(Devices, NumbersAndLikeFunctionsUseTheDeviceOfTheTensor) {
  const Tensor x = to(tensor({{1., -2.}, {3., 4.}}), gpu);
  const Tensor results[] = {x + 1,
                            2.5 * x,
                            -x,
                            x > 0,
                            where(x > 0, x, 0),
                            where(x > 0, 1, 0.5),
                            clip(x, 0, 2),
                            zeros_like(x),
                            ones_like(x),
                            full_like(x, 3),
                            tril(x),
                            triu(x, 1),
                            mean(x),
                            stave::std(x),
                            softmax(x),
                            logsumexp(x),
                            pow(x, 2),
                            one_hot(astype(x, int32)(0, slice(0, 1)), 3),
                            repeat(x, {1, 2}, 0),
                            var(x, 0)};
  for (const Tensor& result : results) EXPECT_EQ(result.device(), gpu);
  EXPECT_THAT(to(where(true, x, 0), cpu), IsNear(tensor({{1., -2.}, {3., 4.}})));
  EXPECT_THAT(to(x + 1, cpu), IsNear(tensor({{2., -1.}, {4., 5.}})));
  EXPECT_THAT(to(logical_and(x > 0, true), cpu), Equals(tensor({{true, false}, {true, true}})));
  EXPECT_THAT(to(astype(x, int32) + 2, cpu), Equals(tensor({{3, 0}, {5, 6}})));
  EXPECT_THAT(to(dynamic_slice(x, {1, 0}, {1, 2}), cpu), IsNear(tensor({{3., 4.}})));
  EXPECT_THAT(to(dynamic_update_slice(x, x(slice(0, 1)), {1, 0}), cpu), IsNear(tensor({{1., -2.}, {1., -2.}})));
}

TEST_F(Devices, KeysGiveTheSameNumbersOnEveryDevice) {
  const Key host(42), there(42, gpu);
  EXPECT_EQ(there.data().device(), gpu);
  EXPECT_THAT(to(uniform(there, {3}), cpu), Equals(uniform(host, {3})));
  EXPECT_THAT(to(normal(split(there)[1], {3}), cpu), Equals(normal(split(host)[1], {3})));
  EXPECT_THAT(to(permutation(fold_in(there, 3), 6), cpu), Equals(permutation(fold_in(host, 3), 6)));
}

// ---- access by the host -------------------------------------------------------------------------

TEST_F(Devices, ReadingCopiesToTheHost) {
  const Tensor x = to(tensor({{1., 2.}, {3., 4.}}), gpu);
  EXPECT_THAT(transpose(x).to_vector<float>(), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT((x > 2.).to_vector<bool>(), ElementsAre(false, false, true, true));
  EXPECT_EQ(x(1, 0).item<int>(), 3);
  EXPECT_EQ(static_cast<double>(sum(x)), 10);
  EXPECT_TRUE(static_cast<bool>(all(x > 0)));
  EXPECT_TRUE(array_equal(x, x + 0));
  EXPECT_TRUE(allclose(x, x + 1e-9));
  EXPECT_EQ(x.str(), "[[1. 2.]\n [3. 4.]]");
  EXPECT_EQ(transpose(x)[0].str(), "[1. 3.]");
  EXPECT_EQ(to(arange(2000), gpu).str(), "[   0    1    2 ... 1997 1998 1999]");
}

TEST_F(Devices, DebugReadsValuesOfLanesOnADevice) {
  std::ostringstream out;
  vmap(debug([](const Tensor& x) { return square(x); }, {.out = &out, .values = true}))(to(tensor({1., 2.}), gpu));
  EXPECT_THAT(out.str(), HasSubstr("square"));
  const auto trapped = debug([](const Tensor& x) { return log(x); }, {.trap_nan = true, .print = false});
  EXPECT_THAT(message_of<Error>([&] { trapped(to(tensor({-1.}), gpu)); }), HasSubstr("log"));
}

TEST_F(Devices, TensorsOnADeviceCanBeSaved) {
  const Folder folder;
  const Tensor x = to(transpose(reshape(arange(6), {2, 3})), gpu);
  save_npz(folder / "x.npz", std::map<std::string, Tensor>{{"x", x}});
  EXPECT_THAT((load_npz<std::map<std::string, Tensor>>(folder / "x.npz")["x"]), Equals(to(x, cpu)));
  save_npy(folder / "x.npy", x);
  EXPECT_THAT(load_npy(folder / "x.npy"), Equals(to(x, cpu)));
}

TEST_F(Devices, DataOfADeviceTensorIsAnError) {
  const Tensor x = to(tensor({1., 2.}), gpu);
  EXPECT_EQ(refusal([&] { static_cast<void>(x.data<float>()); }),
            "data: the tensor lives on cuda:0: use data of to(x, cpu), or to_vector, which copies");
  EXPECT_THAT(to(x, cpu).data<float>(), ElementsAre(1, 2));
}

TEST_F(Devices, MemoryIsCountedByDevice) {
  EXPECT_EQ(memory_stats(gpu).live_bytes, 0u);
  const Tensor x = zeros({100}, float64, gpu);
  EXPECT_EQ(memory_stats(gpu).live_bytes, 800u);
  EXPECT_EQ(memory_stats(other).live_bytes, 0u);
  synchronize(gpu);
  EXPECT_EQ(first.synchronizations, 1);
}

TEST_F(Devices, TransformsDoNotReadOrSynchronize) {
  const Tensor x = to(tensor({{1., 2.}, {3., 4.}}), gpu), w = to(tensor({{.5, 1.}, {2., .25}}), gpu);
  const auto loss = [](const Tensor& v, const Tensor& y) { return mean(square(tanh(matmul(y, v)) - 1)); };
  const Tensor g = vmap(grad(loss), {.in_axes = {unmapped, 0}})(w, expand_dims(x, 1));
  EXPECT_EQ(g.device(), gpu);
  EXPECT_EQ(first.reads + first.synchronizations, 0);
}

// ---- errors -------------------------------------------------------------------------------------

TEST_F(Devices, OperandsOnTwoDevicesAreRefused) {
  const Tensor x = tensor({{1., 2.}, {3., 4.}}), y = to(x, gpu), i = tensor({0, 1}), j = to(i, gpu);
  const Key key(1), there(1, gpu);
  const auto refused = [](const char* operation, auto f) {
    EXPECT_THAT(refusal(f), AllOf(StartsWith(std::string(operation) + ": operands live on "), HasSubstr("cuda:0"),
                                  HasSubstr("cpu"), HasSubstr("move one with to(x, device)")));
  };
  refused("add", [&] { x + y; });
  refused("add", [&] { y + x; });
  refused("add", [&] { y + tensor(1.); });
  refused("where", [&] { where(x > 0, y, y); });
  refused("where", [&] { where(y > 0, y, x); });
  refused("where", [&] { where(x > 0, y, 0); });
  refused("concat", [&] { concat({x, y}); });
  refused("stack", [&] { stack({x, y}); });
  refused("take", [&] { take(y, i); });
  refused("gather", [&] { gather(x, expand_dims(j, -1)); });
  refused("scatter_add", [&] { scatter_add(y, expand_dims(i, -1), y); });
  refused("scatter_add", [&] { scatter_add(y, expand_dims(j, -1), x); });
  refused("dynamic_slice", [&] { dynamic_slice(y, i, {1, 1}); });
  refused("dynamic_update_slice", [&] { dynamic_update_slice(y, x(slice(0, 1)), j); });
  refused("matmul", [&] { matmul(x, y); });
  refused("linear_recurrence", [&] { linear_recurrence(x, y, 0); });
  refused("fold_in", [&] { fold_in(there, astype(tensor(3), uint32)); });
  refused("take", [&] { permutation(there, x); });
  refused("bernoulli", [&] { bernoulli(there, x); });
  refused("array_equal", [&] { array_equal(x, y); });
  refused("add", [&] { vmap([&](const Tensor& a) { return a + y[0]; })(x); });
  refused("multiply", [&] { grad([&](const Tensor& a) { return sum(a * y); })(x); });
  EXPECT_EQ(refusal([&] { y + to(x, other); }), "add: operands live on cuda:0 and cuda:7: move one with to(x, device)");
}

TEST(Device, IndexOutOfRangeIsAnError) {
  EXPECT_EQ(cuda().str(), "cuda:0");
  EXPECT_EQ(cuda(255).str(), "cuda:255");
  EXPECT_EQ(refusal([] { cuda(-1); }), "cuda: -1 is not an index of a device: indices count from 0");
  EXPECT_EQ(refusal([] { cuda(256); }), "cuda: 256 is not an index of a device: indices count from 0");
}

// If the CUDA build or the device is missing, the error says which, and no tensor is made.
TEST(Device, AbsentDevicesAreErrors) {
  const int count = cuda_device_count();
  EXPECT_EQ(cuda_available(), count > 0);
  const Device absent = cuda(count);
  const Tensor x = tensor({1., 2.});
  const auto refused = AllOf(
      HasSubstr(absent.str() + ": "),
      AnyOf(HasSubstr("this library was built without CUDA: build it where nvcc is found"),
            HasSubstr("no CUDA device can be used"), HasSubstr("there is 1 CUDA device"), HasSubstr("CUDA devices")));
  EXPECT_THAT(refusal([&] { to(x, absent); }), refused);
  EXPECT_THAT(refusal([&] { zeros({2}, float32, absent); }), refused);
  EXPECT_THAT(refusal([&] { arange(0, 2, 1, int32, absent); }), refused);
  EXPECT_THAT(refusal([&] { from(std::vector{1.f}, absent); }), refused);
  EXPECT_THAT(refusal([&] { tensor(1, int32, absent); }), refused);
  EXPECT_THAT(refusal([&] { grad([&](const Tensor& y) { return sum(to(y, absent)); })(x); }), refused);
  EXPECT_THAT(refusal([&] { synchronize(absent); }), refused);
}

TEST_F(Devices, HandlerMayNotMoveTheInputOfTo) {
  struct Moves : Handler {
    Device device;
    Outputs handle(Call& call) override { return perform(call.with_inputs({to(call.input(0), device)})); }
  } moves;
  moves.device = other;
  const Tensor x = tensor({1.});
  EXPECT_THAT(refusal([&] { with(moves, [&] { return to(x, gpu); }); }),
              StartsWith("to: the input lives on cuda:7, not on cpu as its attributes say"));
}

}  // namespace
