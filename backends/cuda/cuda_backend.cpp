#include <stave/backends/cuda/cuda_backend.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include <stave/backends/attributes.h>
#include <stave/backends/cuda/attention.h>
#include <stave/backends/cuda/convolution.h>
#include <stave/backends/cuda/elementwise.h>
#include <stave/backends/cuda/fft.h>
#include <stave/backends/cuda/fused.h>
#include <stave/backends/cuda/graph_recording.h>
#include <stave/backends/cuda/index.h>
#include <stave/backends/cuda/layout.h>
#include <stave/backends/cuda/linalg.h>
#include <stave/backends/cuda/matmul.h>
#include <stave/backends/cuda/random.h>
#include <stave/backends/cuda/reduce.h>
#include <stave/backends/cuda/runtime.h>
#include <stave/backends/cuda/scan.h>
#include <stave/backends/cuda/softmax.h>
#include <stave/backends/cuda/sort.h>
#include <stave/core/op/op.h>
#include <stave/core/program/fused.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/pool.h>

namespace stave_cuda {

using stave::Attributes, stave::OpId, stave::Storage, stave::View;
using stave_detail::as, stave_detail::fail;

namespace {

// ---- drivers ----------------------------------------------------------------------------------

using Inputs = std::span<const View>;

// Makes the driver of an operation: a lambda with the parameters of `Driver` that passes on those
// that the operation's function takes.
#define STAVE_DRIVER(...)                                                                           \
  [](const Launch& launch, [[maybe_unused]] OpId op, [[maybe_unused]] const Attributes* attributes, \
     [[maybe_unused]] Inputs in, std::span<const View> outputs) {                                   \
    [[maybe_unused]] const View& out = outputs[0];                                                  \
    __VA_ARGS__;                                                                                    \
  }

class Table {
 public:
  constexpr Driver operator[](OpId op) const { return drivers_[static_cast<std::size_t>(op)]; }

  constexpr Table() {
    elementwise();
    layout();
    reductions();
    indexing();
#define X(name) OpId::name,
    set({STAVE_LINALG_OPS(X)}, STAVE_DRIVER(run_linalg(launch, op, attributes, in, outputs)));
#undef X
    set({OpId::attention},
        STAVE_DRIVER(run_attention(launch, as<stave::AttentionAttributes>(attributes), in, outputs)));
    set({OpId::attention_gradient},
        STAVE_DRIVER(run_attention_gradient(launch, as<stave::AttentionAttributes>(attributes), in, outputs)));
  }

 private:
  constexpr void set(std::initializer_list<OpId> ops, Driver driver) {
    for (OpId op : ops) drivers_[static_cast<std::size_t>(op)] = driver;
  }
  constexpr void elementwise() {
#define X(name, ...) OpId::name,
    set({STAVE_UNARY_OPS(X) STAVE_BINARY_OPS(X)}, STAVE_DRIVER(run_elementwise(launch, op, in, out)));
#undef X
    set({OpId::complex, OpId::real, OpId::imag, OpId::conj}, STAVE_DRIVER(run_elementwise(launch, op, in, out)));
    set({OpId::where}, STAVE_DRIVER(run_where(launch, in[0], in[1], in[2], out)));
    set({OpId::astype}, STAVE_DRIVER(run_astype(launch, in[0], out)));
  }
  constexpr void layout() {
    set({OpId::full}, STAVE_DRIVER(run_full(launch, as<stave::FullAttributes>(attributes), out)));
    set({OpId::iota}, STAVE_DRIVER(run_iota(launch, as<stave::IotaAttributes>(attributes), out)));
    set({OpId::copy, OpId::stop_gradient, OpId::reshape}, STAVE_DRIVER(run_copy(launch, in[0], out)));
    set({OpId::pad}, STAVE_DRIVER(run_pad(launch, as<stave::PadAttributes>(attributes), in[0], out)));
    set({OpId::concat}, STAVE_DRIVER(run_concat(launch, as<stave::AxisAttributes>(attributes).axis, in, out)));
  }
  constexpr void reductions() {
    set({OpId::sum, OpId::prod, OpId::max, OpId::min, OpId::all, OpId::any},
        STAVE_DRIVER(run_reduce(launch, op, as<stave::ReduceAttributes>(attributes).axes, in[0], out)));
    set({OpId::argmax, OpId::argmin},
        STAVE_DRIVER(run_arg_reduce(launch, op, as<stave::ReduceAttributes>(attributes).axes, in[0], out)));
    set({OpId::softmax, OpId::log_softmax, OpId::logsumexp},
        STAVE_DRIVER(run_softmax(launch, op, as<stave::AxisAttributes>(attributes).axis, in[0], out)));
    set({OpId::cumulative_sum, OpId::cumulative_prod, OpId::cummax, OpId::cummin, OpId::linear_recurrence},
        STAVE_DRIVER(run_scan(launch, op, as<stave::ScanAttributes>(attributes), in, out)));
    set({OpId::sort}, STAVE_DRIVER(run_sort(launch, as<stave::SortAttributes>(attributes), in[0], out)));
    set({OpId::argsort}, STAVE_DRIVER(run_argsort(launch, as<stave::SortAttributes>(attributes), in[0], out)));
    set({OpId::matmul}, STAVE_DRIVER(run_matmul(launch, in[0], in[1], out)));
    set({OpId::fft, OpId::rfft, OpId::irfft},
        STAVE_DRIVER(run_fft(launch, as<stave::FftAttributes>(attributes), in[0], out)));
    set({OpId::convolution},
        STAVE_DRIVER(run_convolution(launch, as<stave::ConvolutionAttributes>(attributes), in[0], in[1], out)));
    set({OpId::argmax_pool}, STAVE_DRIVER(run_argmax_pool(launch, as<stave::PoolAttributes>(attributes), in[0], out)));
  }
  constexpr void indexing() {
    set({OpId::gather}, STAVE_DRIVER(run_gather(launch, as<stave::GatherAttributes>(attributes), in[0], in[1], out)));
    set({OpId::scatter, OpId::scatter_add, OpId::scatter_multiply, OpId::scatter_min, OpId::scatter_max},
        STAVE_DRIVER(run_scatter(launch, op, as<stave::GatherAttributes>(attributes), in[0], in[1], in[2], out)));
    set({OpId::dynamic_slice},
        STAVE_DRIVER(run_dynamic_slice(launch, as<stave::DynamicSliceAttributes>(attributes), in[0], in[1], out)));
    set({OpId::dynamic_update_slice},
        STAVE_DRIVER(
            run_dynamic_update_slice(launch, as<stave::DynamicSliceAttributes>(attributes), in[0], in[1], in[2], out)));
    set({OpId::fold_in}, STAVE_DRIVER(run_fold_in(launch, in[0], in[1], out)));
    set({OpId::random_bits}, STAVE_DRIVER(run_random_bits(launch, in[0], out)));
    set({OpId::random_uniform},
        STAVE_DRIVER(run_random_uniform(launch, as<stave::UniformAttributes>(attributes), in[0], out)));
    set({OpId::random_permutation}, STAVE_DRIVER(run_random_permutation(launch, in[0], out)));
  }

  std::array<Driver, static_cast<std::size_t>(stave::op_count)> drivers_{};
};
constexpr Table drivers;

/// Returns the driver of an operation that is not in the table `drivers`. An operation that runs a
/// region may have any name, so its attributes identify it.
Driver driver_by(const Attributes* attributes) {
  if (!dynamic_cast<const stave::FusedAttributes*>(attributes)) return nullptr;
  return STAVE_DRIVER(run_fused(launch, *as<stave::FusedAttributes>(attributes).region, in, outputs));
}
#undef STAVE_DRIVER

/// Returns the shape of the batch axes, which are all axes but the last two.
stave::Shape stack_of(const View& matrices) { return stave::Shape(matrices.shape.first(matrices.shape.size() - 2)); }

// ---- memory -----------------------------------------------------------------------------------

struct DeviceStorage final : Storage, stave_detail::Pooled {};

// The scratch memory of one operation. It goes back to the cache as soon as all kernels are
// launched: the next user of a block launches its kernels later on the same stream.
class OperationScratch final : public Scratch {
 public:
  explicit OperationScratch(MemoryCache& memory) : memory_(memory) {}
  ~OperationScratch() {
    for (const Taken& taken : taken_) memory_.give(taken.block, taken.bytes);
  }
  OperationScratch(const OperationScratch&) = delete;
  void* allocate(std::size_t bytes) override {
    taken_.push_back({nullptr, bytes});
    try {
      return taken_.back().block = memory_.take(bytes);
    } catch (...) {
      taken_.pop_back();
      throw;
    }
  }

 private:
  struct Taken {
    void* block;
    std::size_t bytes;
  };
  MemoryCache& memory_;
  stave::SmallVector<Taken, 4> taken_;
};

// ---- recorded work ----------------------------------------------------------------------------

class RepeatedGraph final : public stave::RecordedWork {
 public:
  RepeatedGraph(DeviceRuntime& runtime, RecordedGraph graph) : runtime_(runtime), graph_(std::move(graph)) {}
  ~RepeatedGraph() override {
    if (is_forked_child()) graph_.abandon();
  }
  void repeat() override {
    const CurrentDevice current(runtime_.index());
    graph_.launch(runtime_.stream());
  }

 private:
  DeviceRuntime& runtime_;
  RecordedGraph graph_;
};

Driver expect_driver(const stave::Op& op, const Attributes* attributes) {
  const Driver driver = op.id == OpId::own ? driver_by(attributes) : driver_of(op.id);
  if (!driver) fail<stave::DeviceError>("{}: it has no kernel for CUDA: move its inputs with to(x, cpu)", op.name);
  return driver;
}

}  // namespace

Driver driver_of(OpId op) { return drivers[op]; }

CudaBackend::CudaBackend(int index) : runtime_(runtime_of(index)) {}

void CudaBackend::run(const stave::Op& op, const Attributes* attributes, std::span<const View> inputs,
                      std::span<const View> outputs) {
  const CurrentDevice current(runtime_.index());
  if (Recording* const recording = Recording::current())
    return record_operation(*recording, op, attributes, inputs, outputs);
  if (op.cuda) {
    op.cuda(runtime_.stream(), attributes, inputs, outputs);
    return check_launch(op.name);
  }
  const Driver driver = expect_driver(op, attributes);
  OperationScratch scratch(runtime_.memory());
  Faults& faults = runtime_.faults();
  const char* const failure = linalg_failure(op.id);
  const bool may_fail = op.index_name || failure;
  const Launch launch{runtime_.stream(), runtime_.multiprocessors(), scratch, may_fail ? faults.place() : nullptr,
                      failure    ? faults.ticket(op.id, stack_of(inputs[0]), failure)
                      : may_fail ? faults.ticket(op.id)
                                 : 1};
  driver(launch, op.id, attributes, inputs, outputs);
}

void CudaBackend::record_operation(Recording& recording, const stave::Op& op, const Attributes* attributes,
                                   std::span<const View> inputs, std::span<const View> outputs) {
  if (op.cuda || op.index_name || linalg_failure(op.id))
    fail<stave::Error>("{}: the operation cannot be recorded in a graph", op.name);
  const Launch launch{recording.stream(), runtime_.multiprocessors(), recording.scratch(), nullptr, 1};
  expect_driver(op, attributes)(launch, op.id, attributes, inputs, outputs);
  recording.scratch().end_operation();
}

// Returns null on any error. The caller then runs the work without a graph, which either reports
// the same error or is not affected by it.
std::unique_ptr<stave::RecordedWork> CudaBackend::record(stave::FunctionRef<void()> work) {
  try {
    const CurrentDevice current(runtime_.index());
    Recording recording(runtime_.memory());
    work();
    return std::make_unique<RepeatedGraph>(runtime_, recording.end());
  } catch (const std::exception&) {
    // Clears an error, so that the next launch does not report it.
    cudaGetLastError();
    return nullptr;
  }
}

Storage* CudaBackend::allocate(std::size_t bytes) {
  auto storage = std::make_unique<DeviceStorage>();
  storage->owner = this;
  storage->data = runtime_.memory().take(bytes);
  storage->bytes = bytes;
  storage->capacity = SizeClass::of(bytes).bytes;
  return storage.release();
}

void CudaBackend::deallocate(Storage* storage) noexcept {
  // In a child of fork() the block belongs to the parent.
  if (!is_forked_child()) runtime_.memory().give(storage->data, storage->bytes);
  delete static_cast<DeviceStorage*>(storage);
}

void CudaBackend::write(void* to, const void* from, std::size_t bytes) { runtime_.write(to, from, bytes); }
void CudaBackend::read(void* to, const void* from, std::size_t bytes) { runtime_.read(to, from, bytes); }

bool CudaBackend::copy_from(stave::Backend& other, void* to, const void* from, std::size_t bytes) {
  auto* device = dynamic_cast<CudaBackend*>(&other);
  if (device) runtime_.copy_from(device->runtime_, to, from, bytes);
  return device;
}

std::unique_ptr<stave::BackendStopwatch> CudaBackend::stopwatch() { return runtime_.stopwatch(); }
void CudaBackend::synchronize() { runtime_.synchronize(); }
std::intptr_t CudaBackend::stream() { return reinterpret_cast<std::intptr_t>(runtime_.stream()); }
void CudaBackend::make_stream_wait(std::intptr_t stream) {
  runtime_.make_stream_wait(reinterpret_cast<cudaStream_t>(stream));
}
void CudaBackend::drain() noexcept { runtime_.drain(); }
stave::MemoryStats CudaBackend::memory_stats() const { return runtime_.memory().stats(); }
void CudaBackend::reset_peak_memory() { runtime_.memory().reset_peak(); }
void CudaBackend::release_cached_memory() { runtime_.memory().release(); }

}  // namespace stave_cuda

namespace stave {

int cuda_backend_count() { return stave_cuda::device_count(); }

Backend& cuda_backend(int index) {
  using stave_cuda::CudaBackend;
  // The backends are never destroyed, because tensors may be globals.
  static constinit std::array<std::atomic<CudaBackend*>, 256> backends{};
  static constinit std::mutex making;
  std::atomic<CudaBackend*>& place = backends[static_cast<std::size_t>(index)];
  if (CudaBackend* backend = place.load(std::memory_order_acquire)) return *backend;
  const std::lock_guard lock(making);
  if (!place.load(std::memory_order_relaxed)) place.store(new CudaBackend(index), std::memory_order_release);
  return *place.load(std::memory_order_relaxed);
}

}  // namespace stave
