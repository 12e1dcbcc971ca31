// Exchange of arrays with other libraries (core/io/dlpack.h): import and export, threads and
// devices.
#include <atomic>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>

#include <stave/stave.h>

#include "dlpack_arrays.h"
#include "matchers.h"
#include "separate_backend.h"

namespace {

using namespace dlpack_test;
using namespace stave;
using namespace stave_test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(FromDlpack, SharesMemoryInEveryDtype) {
  EXPECT_EQ(std::size(known), static_cast<std::size_t>(dtype_count));
  for (const auto& [dtype, type] : known) {
    const Tensor values = ones_and_zero(dtype);
    const void* const data = values.node().data();
    std::atomic<int> given_back = 0;
    {
      const Tensor x = from_dlpack(lend(data, type, {2, 2}, {2, 1}, given_back));
      EXPECT_THAT(x, Equals(reshape(values, {2, 2}))) << dtype;
      EXPECT_EQ(x.node().data(), data) << dtype;
      EXPECT_EQ(x.device(), cpu);
      const Tensor y = from_dlpack(lend<DLManagedTensor>(data, type, {4}, {}, given_back));
      EXPECT_THAT(y, Equals(values)) << dtype;
      EXPECT_EQ(y.node().data(), data) << dtype;
      EXPECT_EQ(given_back, 0);
    }
    EXPECT_EQ(given_back, 2) << dtype;
  }
}

TEST(FromDlpack, TakesAnyStrides) {
  std::vector<float> data(24);
  std::iota(data.begin(), data.end(), 0.f);
  std::atomic<int> given_back = 0;
  const auto view = [&](std::size_t first, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
    return from_dlpack(lend(data.data(), float_type, std::move(shape), std::move(strides), given_back, 4 * first))
        .to_vector<float>();
  };
  EXPECT_THAT(view(0, {2, 3}, {}), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(view(0, {2, 3}, {1, 2}), ElementsAre(0, 2, 4, 1, 3, 5));
  EXPECT_THAT(view(20, {3}, {-5}), ElementsAre(20, 15, 10));
  EXPECT_THAT(view(4, {2, 3}, {10, -2}), ElementsAre(4, 2, 0, 14, 12, 10));
  EXPECT_THAT(view(7, {2, 2}, {0, 0}), ElementsAre(7, 7, 7, 7));
  EXPECT_THAT(view(0, {4, 3}, {1, 1}), ElementsAre(0, 1, 2, 1, 2, 3, 2, 3, 4, 3, 4, 5));
  EXPECT_THAT(view(23, {}, {}), ElementsAre(23));
  EXPECT_THAT(view(23, {1, 1}, {1 << 30, -(1 << 30)}), ElementsAre(23));
  EXPECT_EQ(given_back, 8);
  const Tensor x = from_dlpack(lend(data.data(), float_type, {3, 2}, {-4, 1}, given_back, 32));
  EXPECT_THAT(x(slice(1, none), newaxis, 1) * 2, Equals(tensor({{10.}, {2.}})));
  EXPECT_THAT(matmul(x, transpose(x)), Equals(matmul(contiguous(x), contiguous(transpose(x)))));
}

TEST(FromDlpack, EmptyArraysAreReleasedAtOnce) {
  std::atomic<int> given_back = 0;
  const Tensor x = from_dlpack(lend(nullptr, float_type, {3, 0, 2}, {0, 2, 1}, given_back));
  EXPECT_EQ(given_back, 1);
  EXPECT_EQ(x.shape(), Shape({3, 0, 2}));
  EXPECT_EQ(sum(x).item<float>(), 0);
}

TEST(FromDlpack, ViewsKeepTheMemoryAlive) {
  const float data[] = {1, 2, 3, 4};
  std::atomic<int> given_back = 0;
  Tensor x = from_dlpack(lend(data, float_type, {2, 2}, {2, 1}, given_back));
  Tensor row = x[1], sums = sum(x, 0);
  std::optional taped = vjp([&](const Tensor& v) { return v * row; }, ones({2}));
  x = Tensor();
  row = Tensor();
  EXPECT_EQ(given_back, 0);
  EXPECT_THAT(std::get<0>(taped->second(ones({2}))), Equals(tensor({3., 4.})));
  taped.reset();
  EXPECT_EQ(given_back, 1);
  EXPECT_THAT(sums, Equals(tensor({4., 6.})));
}

TEST(FromDlpack, AcceptsAStructureWithoutDeleter) {
  const float data[] = {1, 2};
  std::int64_t shape[] = {2};
  DLManagedTensor managed{{const_cast<float*>(data), {1, 0}, 1, float_type, shape, nullptr, 0}, nullptr, nullptr};
  EXPECT_THAT(from_dlpack(&managed), Equals(tensor({1., 2.})));
  release_dlpack(&managed);
  release_dlpack(static_cast<DLManagedTensor*>(nullptr));
  release_dlpack(static_cast<DLManagedTensorVersioned*>(nullptr));
}

TEST(FromDlpack, PinnedMemoryCountsAsHostMemory) {
  const float data[] = {1, 2};
  std::atomic<int> given_back = 0;
  for (const std::int32_t pinned : {3, 11}) {
    auto* const managed = lend(data, float_type, {2}, {1}, given_back);
    managed->dl_tensor.device = {pinned, 1};
    EXPECT_THAT(from_dlpack(managed), Equals(tensor({1., 2.})));
  }
}

TEST(FromDlpack, AcceptsLaterMinorVersionsButNoOtherMajorVersion) {
  const float data[] = {1, 2};
  std::atomic<int> given_back = 0;
  auto* later = lend(data, float_type, {2}, {1}, given_back);
  later->version = {1, 99};
  EXPECT_THAT(from_dlpack(later), Equals(tensor({1., 2.})));
  EXPECT_EQ(given_back, 1);
  auto* other = lend(data, float_type, {2}, {1}, given_back);
  other->version = {2, 1};
  // A later version may have another layout.
  std::memset(&other->dl_tensor, 0xff, sizeof other->dl_tensor);
  EXPECT_THAT(message_of<Error>([&] { from_dlpack(other); }),
              HasSubstr("from_dlpack: the structure has the version DLPack 2.1, which this library cannot read"));
  EXPECT_EQ(given_back, 2);
}

TEST(FromDlpack, RefusedArraysAreNamedAndReleased) {
  const double data[4] = {};
  std::atomic<int> given_back = 0;
  int calls = 0;
  const auto refused = [&]<class E>(E*, auto change) {
    auto* const managed = lend(data, float_type, {2}, {1}, given_back);
    change(managed->dl_tensor);
    const std::string text = message_of<E>([&] { from_dlpack(managed); });
    EXPECT_EQ(given_back, ++calls) << text;
    return text;
  };
  DtypeError* const dtype = nullptr;
  DeviceError* const device = nullptr;
  ShapeError* const shape = nullptr;
  Error* const other = nullptr;
  const auto type = [&](DLDataType given) { return refused(dtype, [=](DLTensor& x) { x.dtype = given; }); };
  EXPECT_THAT(type({5, 32, 1}), HasSubstr("from_dlpack: the elements are complex32, which Stave does not have"));
  EXPECT_THAT(type({2, 128, 1}), HasSubstr("the elements are float128, which"));
  EXPECT_THAT(type({0, 4, 1}), HasSubstr("the elements are int4, which"));
  EXPECT_THAT(type({6, 1, 1}), HasSubstr("the elements are bool1, which"));
  EXPECT_THAT(type({2, 32, 4}), HasSubstr("the elements are vectors of 4 float32, which"));
  EXPECT_THAT(type({12, 8, 1}), HasSubstr("the elements are float8_e5m2, which"));
  EXPECT_THAT(type({77, 8, 1}), HasSubstr("the elements are the type code 77, which"));
  const auto on = [&](DLDevice where) { return refused(device, [=](DLTensor& x) { x.device = where; }); };
  EXPECT_THAT(on({8, 0}), HasSubstr("from_dlpack: the array is in memory of Metal, where Stave does not compute"));
  EXPECT_THAT(on({10, 0}), HasSubstr("in memory of ROCm, where"));
  EXPECT_THAT(on({44, 0}), HasSubstr("in memory of the device type 44, where"));
  EXPECT_THAT(on({2, -1}), HasSubstr("from_dlpack: -1 is not an index of a device"));
  EXPECT_THAT(on({2, 255}), HasSubstr("cuda:255: "));
  EXPECT_THAT(refused(shape, [](DLTensor& x) { x.ndim = -1; }), HasSubstr("the array has -1 axes"));
  EXPECT_THAT(refused(shape, [](DLTensor& x) { x.shape = nullptr; }),
              HasSubstr("1 axes, but its shape is a null pointer"));
  EXPECT_THAT(refused(shape, [](DLTensor& x) { x.shape[0] = -2; }), HasSubstr("shape [-2] has a negative length"));
  EXPECT_THAT(refused(shape, [](DLTensor& x) { x.shape[0] = INT64_MAX; }), HasSubstr("more elements than any memory"));
  EXPECT_THAT(refused(shape, [](DLTensor& x) { x.strides[0] = INT64_MIN; }),
              HasSubstr("shape [2] with strides [-9223372036854775808] reaches further than any memory"));
  EXPECT_THAT(refused(shape, [](DLTensor& x) { x.strides[0] = std::int64_t{1} << 59; }), HasSubstr("reaches further"));
  EXPECT_THAT(refused(other, [](DLTensor& x) { x.data = nullptr; }), HasSubstr("its data is a null pointer"));
  EXPECT_THAT(refused(other, [](DLTensor& x) { x.byte_offset = 2; }),
              HasSubstr("from_dlpack: elements of float32 begin at an address that is not a multiple of 4"));
  EXPECT_THAT(message_of<Error>([] { from_dlpack(static_cast<DLManagedTensor*>(nullptr)); }),
              HasSubstr("from_dlpack: the structure is a null pointer"));
}

TEST(FromDlpack, IsAConstantToTransforms) {
  const float data[] = {1, 2};
  std::atomic<int> given_back = 0;
  const auto f = [&](const Tensor& v) { return sum(v * from_dlpack(lend(data, float_type, {2}, {1}, given_back))); };
  EXPECT_THAT(grad(f)(ones({2})), Equals(tensor({1., 2.})));
  EXPECT_THAT(vmap(f)(tensor({{1., 0.}, {0., 1.}})), Equals(tensor({1., 2.})));
  EXPECT_EQ(given_back, 2);
}

// ---- export -------------------------------------------------------------------------------------

TEST(ToDlpack, SharesMemoryInEveryDtype) {
  for (const auto& [dtype, type] : known) {
    const Tensor x = reshape(ones_and_zero(dtype), {2, 2});
    const auto versioned = owned(to_dlpack(x));
    const auto unversioned = owned(to_dlpack_unversioned(x));
    EXPECT_EQ(versioned->version.major, 1u);
    EXPECT_EQ(versioned->flags, read_only);
    for (const DLTensor& array : {versioned->dl_tensor, unversioned->dl_tensor}) {
      EXPECT_EQ(array.data, x.node().data());
      EXPECT_EQ(array.byte_offset, 0u);
      EXPECT_EQ(array.device.device_type, 1);
      EXPECT_EQ(array.device.device_id, 0);
      EXPECT_EQ(array.dtype.code, type.code) << dtype;
      EXPECT_EQ(array.dtype.bits, type.bits) << dtype;
      EXPECT_EQ(array.dtype.lanes, 1) << dtype;
      EXPECT_THAT(std::span(array.shape, 2), ElementsAre(2, 2));
      EXPECT_THAT(std::span(array.strides, 2), ElementsAre(2, 1));
    }
  }
}

TEST(ToDlpack, KeepsStridesAndOffsets) {
  const Tensor x = reshape(arange(0, 24, 1, float32), {4, 6});
  const Tensor view = transpose(x(slice(none, none, -2), slice(1, 4)));
  const auto managed = owned(to_dlpack(view));
  const DLTensor& array = managed->dl_tensor;
  EXPECT_EQ(static_cast<const float*>(array.data), x.data<float>().data() + 19);
  EXPECT_THAT(std::span(array.shape, 2), ElementsAre(3, 2));
  EXPECT_THAT(std::span(array.strides, 2), ElementsAre(1, -12));
  const auto constant = owned(to_dlpack(broadcast_to(tensor(2.5f), {5})));
  EXPECT_EQ(constant->dl_tensor.strides[0], 0);
  EXPECT_EQ(*static_cast<const float*>(constant->dl_tensor.data), 2.5f);
  const auto number = owned(to_dlpack(tensor(3)));
  EXPECT_EQ(number->dl_tensor.ndim, 0);
  const auto empty = owned(to_dlpack(zeros({2, 0})));
  EXPECT_EQ(empty->dl_tensor.data, nullptr);
  EXPECT_THAT(std::span(empty->dl_tensor.shape, 2), ElementsAre(2, 0));
}

TEST(ToDlpack, KeepsTheMemoryUntilItsDeleterIsCalled) {
  const std::size_t before = memory_stats().live_bytes;
  Tensor x = from(std::vector<float>(1000, 2), {1000});
  auto managed = owned(to_dlpack(x));
  auto* const data = static_cast<const float*>(managed->dl_tensor.data);
  x = std::move(x) + 1;  // in other memory, because this memory is lent
  EXPECT_EQ(data[999], 2);
  EXPECT_EQ(x(999).item<float>(), 3);
  x = Tensor();
  EXPECT_EQ(memory_stats().live_bytes - before, 4000u);
  managed = nullptr;
  EXPECT_EQ(memory_stats().live_bytes, before);
  release_dlpack(to_dlpack(ones({1000}) + 1));
  release_dlpack(to_dlpack_unversioned(ones({1000}) + 1));
  EXPECT_EQ(memory_stats().live_bytes, before);
}

TEST(ToDlpack, CopyMayBeWrittenByTheConsumer) {
  const Tensor x = transpose(tensor({{1., 2.}, {3., 4.}}));
  const auto managed = owned(to_dlpack(x, {.copy = true}));
  EXPECT_EQ(managed->flags, is_copied);
  auto* const data = static_cast<float*>(managed->dl_tensor.data);
  EXPECT_THAT(std::span(data, 4), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(std::span(managed->dl_tensor.strides, 2), ElementsAre(2, 1));
  data[0] = 9;
  const auto unversioned = owned(to_dlpack_unversioned(x, {.copy = true}));
  static_cast<float*>(unversioned->dl_tensor.data)[0] = 9;
  EXPECT_THAT(x, Equals(tensor({{1., 3.}, {2., 4.}})));
}

TEST(ToDlpack, RoundTripGivesTheSameTensor) {
  const Tensor x = reshape(arange(0, 12, 1, float64), {3, 4})(slice(none, none, -1), slice(1, none));
  EXPECT_THAT(from_dlpack(to_dlpack(x)), Equals(x));
  EXPECT_THAT(from_dlpack(to_dlpack_unversioned(x)), Equals(x));
  Tensor again = from_dlpack(to_dlpack(x));
  EXPECT_EQ(again.node().data(), x.node().data());
  again = std::move(again) + 1;
  EXPECT_THAT(again, Equals(x + 1));
}

TEST(ToDlpack, CountsAsReadingTheValue) {
  const auto exports = [](const Tensor& x) {
    auto managed = owned(to_dlpack(x));
    return sum(x) * static_cast<const float*>(managed->dl_tensor.data)[0];
  };
  EXPECT_THAT(message_of<TransformError>([&] { grad(exports)(ones({2})); }),
              AllOf(HasSubstr("to_dlpack: grad differentiates this value (float32 [2])"),
                    HasSubstr("export stop_gradient(x), which is a constant")));
  EXPECT_THAT(grad([&](const Tensor& x) { return exports(stop_gradient(x)) * sum(x); })(tensor({2., 3.})),
              Equals(tensor({10., 10.})));
  EXPECT_THAT(vmap(exports)(tensor({{2., 3.}, {4., 5.}})), Equals(tensor({10., 36.})));
  const auto compiled = compile(exports);
  for (const float first : {2.f, 2.f, 4.f, 4.f})
    EXPECT_THAT(compiled(tensor({first, 3.f})), IsNumber((first + 3) * first));
  EXPECT_THAT(message_of<TransformError>([] { to_dlpack(Tensor()); }), HasSubstr("to_dlpack"));
}

// ---- threads ------------------------------------------------------------------------------------

TEST(Dlpack, LastTensorMayBeDestroyedOnAnyThread) {
  const float data[] = {1, 2, 3, 4};
  std::atomic<int> given_back = 0;
  constexpr int rounds = 200, threads = 4;
  for (int round = 0; round < rounds; ++round) {
    Tensor x = from_dlpack(lend(data, float_type, {4}, {1}, given_back));
    DLManagedTensorVersioned* const ours = to_dlpack(x + 1);
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i)
      running.emplace_back([x, i, ours]() mutable {
        EXPECT_EQ(sum(std::move(x) * i).item<float>(), static_cast<float>(10 * i));
        if (i == 0) release_dlpack(ours);
      });
    x = Tensor();
    for (std::thread& thread : running) thread.join();
  }
  EXPECT_EQ(given_back, rounds);
}

// ---- devices ------------------------------------------------------------------------------------

/// Records the calls that concern streams.
struct StreamBackend : SeparateBackend {
  using SeparateBackend::SeparateBackend;
  std::intptr_t stream() override { return 77; }
  void make_stream_wait(std::intptr_t stream) override { led.push_back(stream); }
  void drain() noexcept override { ++drains; }
  std::vector<std::intptr_t> led;
  int drains = 0;
};

TEST(DlpackOnDevices, TheConsumersStreamWaitsForTheValue) {
  StreamBackend backend(3);
  const Tensor x = tensor({1., 2.}, float32, cuda(3));
  const auto exported = [&](DlpackOptions options) { return owned(to_dlpack(x, options)); };
  const auto managed = exported({});
  EXPECT_EQ(managed->dl_tensor.device.device_type, 2);
  EXPECT_EQ(managed->dl_tensor.device.device_id, 3);
  EXPECT_EQ(managed->dl_tensor.data, x.node().data());
  exported({.stream = 4096});
  exported({.stream = -1});
  EXPECT_THAT(backend.led, ElementsAre(1, 4096));
  EXPECT_THAT(message_of<DeviceError>([&] { exported({.stream = 0}); }), HasSubstr("to_dlpack: stream 0 is ambiguous"));
  EXPECT_EQ(backend.reads, 0);
  EXPECT_EQ(dlpack_stream(cuda(3)), 77);
  EXPECT_EQ(dlpack_stream(cpu), 0);
}

TEST(DlpackOnDevices, MemoryIsReleasedAfterItsLastReader) {
  StreamBackend backend(3);
  const Tensor values = tensor({1., 2.}, float32, cuda(3));
  std::atomic<int> given_back = 0;
  for (const std::int32_t type : {2, 13}) {
    auto* const managed = lend(values.node().data(), float_type, {2}, {1}, given_back);
    managed->dl_tensor.device = {type, 3};
    Tensor x = from_dlpack(managed);
    EXPECT_EQ(x.device(), cuda(3));
    EXPECT_EQ(x.node().data(), values.node().data());
    const int drains = backend.drains, before = given_back;
    x = std::move(x) + 1;
    EXPECT_EQ(backend.drains, drains + 1);
    EXPECT_EQ(given_back, before + 1);
    EXPECT_THAT(to(x, cpu), Equals(tensor({2., 3.})));
    EXPECT_THAT(to(values, cpu), Equals(tensor({1., 2.})));
  }
}

// A constant has no bytes on the device until a kernel or an export needs them.
TEST(DlpackOnDevices, ConstantsAreWrittenToTheDevice) {
  StreamBackend backend(3);
  const Tensor x = full({2, 2}, 7, float32, cuda(3));
  const Tensor y = from_dlpack(to_dlpack(x));
  EXPECT_FALSE(y.node().storage->is_host_constant);
  EXPECT_THAT(to(y, cpu), Equals(full({2, 2}, 7.f)));
}

}  // namespace
