// A simulated CUDA device for tests of the work that is put on its stream. The host cannot use
// its memory (separate_backend.h). Its stream is a queue whose work runs as late as possible, when
// the host reads or waits. NCCL and the CUDA driver are simulated beside it (nccl.cpp, driver.cpp).
#pragma once

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include <stave/core/effects/error.h>
#include <stave/core/program/fused.h>
#include <stave/core/tensor/storage.h>

#include "separate_backend.h"
#include "stream.h"

namespace stave_test {

class LateDevice final : public SeparateBackend {
 public:
  using SeparateBackend::SeparateBackend;
  void run(const stave::Op& op, const stave::Attributes* attributes, std::span<const stave::View> inputs,
           std::span<const stave::View> outputs) override {
    if (op.cuda) {
      if (recording_) throw stave::Error("it cannot be recorded");
      return op.cuda(&queue, attributes, inputs, outputs);
    }
    // The attributes of a region may be on the caller's stack, so they are copied.
    const auto* const region = dynamic_cast<const stave::FusedAttributes*>(attributes);
    const stave::AttributesPtr kept(region ? new stave::FusedAttributes(*region) : attributes);
    (recording_ ? *recording_ : queue.work).push_back([this, &op, kept, in = Views(inputs), out = Views(outputs)] {
      SeparateBackend::run(op, kept.get(), in.views, out.views);
    });
  }
  /// Records work as the CUDA backend does: an operation's own kernels (`cuda`) cannot be recorded.
  std::unique_ptr<stave::RecordedWork> record(stave::FunctionRef<void()> work) override {
    struct Recorded final : stave::RecordedWork {
      explicit Recorded(LateDevice& device) : device(device) {}
      void repeat() override {
        for (const auto& step : steps) device.queue.work.push_back(step);
      }
      LateDevice& device;
      std::deque<std::function<void()>> steps;
    };
    auto recorded = std::make_unique<Recorded>(*this);
    recording_ = &recorded->steps;
    try {
      work();
    } catch (const stave::Error&) {
      recorded = nullptr;
    }
    recording_ = nullptr;
    ++(recorded ? recordings : refusals);
    return recorded;
  }
  void deallocate(stave::Storage* storage) noexcept override {
    queue.work.push_back([this, storage] { SeparateBackend::deallocate(storage); });
  }
  void write(void* to, const void* from, std::size_t bytes) override {
    const char* const first = static_cast<const char*>(from);
    queue.work.push_back([this, to, kept = std::vector<char>(first, first + bytes)] {
      SeparateBackend::write(to, kept.data(), kept.size());
    });
  }
  void read(void* to, const void* from, std::size_t bytes) override {
    queue.finish();
    SeparateBackend::read(to, from, bytes);
  }
  void synchronize() override { queue.finish(); }
  void drain() noexcept override { queue.finish(); }
  std::intptr_t stream() override { return reinterpret_cast<std::intptr_t>(&queue); }

  MadeUpStream queue;
  int recordings = 0, refusals = 0;

 private:
  // Copies of views and of their shapes, strides and host numbers, because the caller's are gone
  // when the work runs.
  struct Views {
    explicit Views(std::span<const stave::View> given) : views(given.begin(), given.end()) {
      for (stave::View& view : views) {
        for (std::span<const stave::Index>* part : {&view.shape, &view.strides}) {
          indices.push_back(std::make_shared<std::vector<stave::Index>>(part->begin(), part->end()));
          *part = *indices.back();
        }
        if (!view.is_host_constant) continue;
        numbers.push_back(std::make_shared<std::array<char, 16>>());
        std::memcpy(numbers.back()->data(), view.data, size_of(view.dtype));
        view.data = numbers.back()->data();
      }
    }
    std::vector<stave::View> views;
    std::vector<std::shared_ptr<std::vector<stave::Index>>> indices;
    std::vector<std::shared_ptr<std::array<char, 16>>> numbers;
  };

  std::deque<std::function<void()>>* recording_ = nullptr;
};

/// The device of the tests' tensors, as STAVE_TEST_DEVICE says: the CPU, `made_up`,
/// or a GPU (`gpu`).
inline LateDevice& late_device() {
  // Never destroyed, because tensors may be globals.
  static auto& device = *new LateDevice(0);
  return device;
}
inline stave::Device device_of_tests() {
  static const stave::Device device = [] {
    const char* const asked = std::getenv("STAVE_TEST_DEVICE");
    if (!asked) return stave::cpu;
    if (std::strcmp(asked, "made_up") == 0) late_device();
    return stave::cuda(0);
  }();
  return device;
}

}  // namespace stave_test
