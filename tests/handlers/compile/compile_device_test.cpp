// Compiled functions on a device: only its backend accesses its memory, and kernels that run again
// at the same addresses are recorded.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <thread>

#include <stave/stave.h>

#include "matchers.h"
#include "programs.h"
#include "separate_backend.h"

namespace {

using namespace stave;
using namespace stave_test;

TEST(Compile, DeviceMemoryIsAccessedOnlyByItsBackend) {
  SeparateBackend backend(0);
  const auto plain = [](const Tensor& a, const Tensor& b) {
    const Tensor y = tanh(matmul(a, b) * 2. + 1.) * full({3, 3}, 0.5, float32, a.device());
    return std::pair(sum(y, 0), concat({y, reshape(permute_dims(y, {1, 0}), {3, 3}) - 1.}));
  };
  const Tensor a = reshape(arange(9.), {3, 3}), b = a * 0.1;
  const Device gpu = cuda(0);
  const auto f = compile(plain);
  for (int i = 1; i < 4; ++i) {
    const auto [s, y] = f(to(a * i, gpu), to(b, gpu));
    const auto [sum_here, y_here] = plain(a * i, b);
    EXPECT_EQ(y.device(), gpu);
    EXPECT_THAT(to(s, cpu), Is(sum_here));
    EXPECT_THAT(to(y, cpu), Is(y_here));
  }
  EXPECT_EQ(f.recordings(), 1u);
}

// A device that records kernels as a CUDA graph does, with the addresses and numbers of the time of
// recording. Like a caching allocator, it hands out freed memory first.
class RecordingBackend : public SeparateBackend {
 public:
  using SeparateBackend::SeparateBackend;

  void run(const Op& op, const Attributes* attributes, std::span<const View> inputs,
           std::span<const View> outputs) override {
    if (!recording) return SeparateBackend::run(op, attributes, inputs, outputs);
    if (op.name == refused) throw Error("it cannot be recorded");
    Asked& asked = recording->emplace_back(&op, attributes);
    for (const View& view : inputs) asked.keep(view);
    asked.inputs = inputs.size();
    for (const View& view : outputs) asked.keep(view);
  }
  std::unique_ptr<RecordedWork> record(FunctionRef<void()> work) override {
    ++records;
    auto made = std::make_unique<Work>(*this);
    recording = &made->all;
    try {
      work();
    } catch (const Error&) {
      made = nullptr;
    }
    recording = nullptr;
    return made;
  }

  std::atomic<int> records = 0, repeats = 0;
  std::string_view refused = "nothing";
  bool fails = false;  // true: replaying a recording fails

 protected:
  StoragePtr take(std::size_t bytes) override {
    const std::lock_guard lock(mutex);
    const auto found =
        std::find_if(spare.rbegin(), spare.rend(), [&](const StoragePtr& it) { return it->bytes == bytes; });
    if (found == spare.rend()) return SeparateBackend::take(bytes);
    StoragePtr memory = std::move(*found);
    spare.erase(std::next(found).base());
    return memory;
  }
  void give(StoragePtr memory) noexcept override {
    const std::lock_guard lock(mutex);
    spare.push_back(std::move(memory));
  }

 private:
  struct Asked {
    const Op* op;
    const Attributes* attributes;
    std::size_t inputs = 0;
    struct Kept {
      View view;
      std::vector<Index> shape, strides;
      Bytes16 number;
    };
    std::vector<Kept> kept = {};

    Asked(const Op* op, const Attributes* attributes) : op(op), attributes(attributes) {}
    void keep(const View& view) {
      Kept& copy = kept.emplace_back(
          Kept{view, {view.shape.begin(), view.shape.end()}, {view.strides.begin(), view.strides.end()}, {}});
      if (view.is_host_constant) std::memcpy(&copy.number, view.data, size_of(view.dtype));
    }
  };
  struct Work final : RecordedWork {
    RecordingBackend& backend;
    std::vector<Asked> all;
    explicit Work(RecordingBackend& backend) : backend(backend) {}
    void repeat() override {
      if (backend.fails) throw Error("of the device");
      ++backend.repeats;
      for (Asked& asked : all) {
        std::vector<View> views;
        for (Asked::Kept& it : asked.kept)
          views.push_back({it.view.is_host_constant ? &it.number : it.view.data, it.view.dtype, it.shape, it.strides,
                           it.view.is_host_constant});
        const std::span<const View> found = views;
        backend.SeparateBackend::run(*asked.op, asked.attributes, found.first(asked.inputs),
                                     found.subspan(asked.inputs));
      }
    }
  };
  static inline thread_local std::vector<Asked>* recording = nullptr;
  std::mutex mutex;
  std::vector<StoragePtr> spare;
};

std::pair<Tensor, Tensor> layer(const Tensor& a, const Tensor& b) {
  const Tensor y = tanh(matmul(a, b) * 2. + 1.) * full({3, 3}, 0.5, float32, a.device());
  return {matmul(y, a) - sum(y, 0), y(slice(1, 3))};
}

// Arguments of `layer`, on the host and on the device.
struct LayerOnADevice {
  RecordingBackend backend{0};
  const Device gpu = cuda(0);
  const Tensor a = reshape(arange(9.), {3, 3}), b = a * 0.1, there_b = to(b, gpu);
};

TEST(Compile, KernelsAreRecordedWhenAddressesRepeat) {
  LayerOnADevice given;
  auto& [backend, gpu, a, b, there_b] = given;
  const auto f = compile(layer);
  f(to(a, gpu), there_b);
  for (int i = 1; i < 30; ++i) {
    const Tensor there = to(a * i, gpu);  // at the address of the previous argument
    const auto [y, part] = f(there, there_b);
    const auto [wanted, wanted_part] = layer(a * i, b);
    EXPECT_THAT(to(y, cpu), Is(wanted));
    EXPECT_THAT(to(part, cpu), Is(wanted_part));
  }
  EXPECT_EQ(f.recordings(), 1u);
  EXPECT_GE(backend.records, 1);
  EXPECT_LE(backend.records, 3);
  EXPECT_GE(backend.repeats, 20);
}

TEST(Compile, KeptResultsAreNotOverwritten) {
  LayerOnADevice given;
  auto& [backend, gpu, a, b, there_b] = given;
  const auto f = compile(layer);
  std::vector<std::pair<Tensor, Tensor>> kept;
  std::vector<Tensor> arguments;
  for (int i = 0; i < 40; ++i) {
    arguments.push_back(to(a * i, gpu));
    kept.push_back(f(arguments.back(), there_b));  // no address occurs twice
  }
  EXPECT_EQ(backend.records, 0);
  for (int round = 0; round < 3; ++round)
    // Three sets of addresses.
    for (int i = 0; i < 3; ++i) f(arguments[static_cast<std::size_t>(i)], there_b);
  EXPECT_LE(backend.records, 6);
  for (int i = 0; i < 40; ++i) EXPECT_THAT(to(kept[static_cast<std::size_t>(i)].first, cpu), Is(layer(a * i, b).first));
}

TEST(Compile, ATrainingLoopUsesAFewSetsOfAddresses) {
  RecordingBackend backend(0);
  const auto step = [](const Tensor& w, const Tensor& data) {
    return w - 0.1 * grad([&](const Tensor& v) { return sum(square(matmul(data, v) - 1.)); })(w);
  };
  const auto f = compile(step);
  const Tensor data = reshape(arange(0., 1.2, 0.1), {4, 3}), there = to(data, cuda(0));
  Tensor w = ones({3, 2}), trained = to(w, cuda(0));
  for (int i = 0; i < 20; ++i) {
    w = step(w, data);
    trained = f(trained, there);
  }
  EXPECT_THAT(to(trained, cpu), Is(w));
  EXPECT_LE(backend.records, 4);
  EXPECT_GE(backend.repeats, 12);
}

TEST(Compile, RecordingIsTriedOnceIfTheBackendCannotRecord) {
  LayerOnADevice given;
  auto& [backend, gpu, a, b, there_b] = given;
  backend.refused = "matmul";
  const auto f = compile(layer);
  for (int i = 0; i < 20; ++i) {
    const Tensor there = to(a * i, gpu);
    EXPECT_THAT(to(f(there, there_b).first, cpu), Is(layer(a * i, b).first));
  }
  EXPECT_EQ(backend.records, 1);
  EXPECT_EQ(backend.repeats, 0);
  EXPECT_EQ(f.recordings(), 1u);
}

TEST(Compile, FunctionStillWorksAfterAFailedRecording) {
  LayerOnADevice given;
  auto& [backend, gpu, a, b, there_b] = given;
  const Tensor there = to(a, gpu);
  const auto f = compile(layer);
  for (int i = 0; i < 6; ++i) f(there, there_b);
  ASSERT_GE(backend.repeats, 1);
  backend.fails = true;
  for (int i = 0; i < 3; ++i) EXPECT_THAT(to(f(there, there_b).first, cpu), Is(layer(a, b).first));
  backend.fails = false;
  for (int i = 0; i < 6; ++i) EXPECT_THAT(to(f(there, there_b).first, cpu), Is(layer(a, b).first));
}

TEST(Compile, ScalarOnADeviceMayBeAnArgument) {
  RecordingBackend backend(0);
  const Device gpu = cuda(0);
  const auto plain = [](const Tensor& a, const Tensor& rate) { return matmul(a, a * rate) + sum(rate * a) - rate; };
  const auto f = compile(plain);
  const Tensor a = reshape(arange(9.), {3, 3}), there = to(a, gpu);
  for (int i = 0; i < 8; ++i) {
    EXPECT_THAT(to(f(there, tensor(0.5 * i, float32, gpu)), cpu), Is(plain(a, tensor(0.5 * i))));
    EXPECT_THAT(to(f(there, to(tensor(0.5 * i), gpu)), cpu), Is(plain(a, tensor(0.5 * i))));
  }
}

TEST(Compile, EachThreadHasItsOwnRecordings) {
  RecordingBackend backend(0);
  const Device gpu = cuda(0);
  const Tensor a = reshape(arange(9.), {3, 3}), b = a * 0.1;
  const auto f = compile(layer);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const Tensor there_b = to(b * (t + 1), gpu);
      for (int i = 0; i < 100; ++i) {
        const Tensor there = to(a * (i % 5), gpu);
        wrong += !stave_detail::same_bits(to(f(there, there_b).first, cpu), layer(a * (i % 5), b * (t + 1)).first);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(backend.records, 64);
}

}  // namespace
