// The CPU backend. Start with CpuBackend::run. It calls the driver of an operation: the function
// that divides the operation's work into blocks and calls kernels on them.
#include <stave/backends/cpu/cpu_backend.h>

#include <cstring>
#include <string>

#include <stave/backends/attributes.h>
#include <stave/backends/cpu/allocator.h>
#include <stave/backends/cpu/attention.h>
#include <stave/backends/cpu/bfloat_matmul.h>
#include <stave/backends/cpu/complex.h>
#include <stave/backends/cpu/convolution.h>
#include <stave/backends/cpu/dispatch.h>
#include <stave/backends/cpu/elementwise.h>
#include <stave/backends/cpu/fft.h>
#include <stave/backends/cpu/in_floats.h>
#include <stave/backends/cpu/index.h>
#include <stave/backends/cpu/layout.h>
#include <stave/backends/cpu/linalg.h>
#include <stave/backends/cpu/matmul.h>
#include <stave/backends/cpu/native/lane_code.h>
#include <stave/backends/cpu/native/native_code.h>
#include <stave/backends/cpu/normalize.h>
#include <stave/backends/cpu/parallel.h>
#include <stave/backends/cpu/pooling.h>
#include <stave/backends/cpu/quantized_matmul.h>
#include <stave/backends/cpu/random.h>
#include <stave/backends/cpu/reduce.h>
#include <stave/backends/cpu/row_values.h>
#include <stave/backends/cpu/samplers.h>
#include <stave/backends/cpu/scan.h>
#include <stave/backends/cpu/scratch.h>
#include <stave/backends/cpu/select.h>
#include <stave/backends/cpu/softmax.h>
#include <stave/backends/cpu/sort.h>
#include <stave/backends/cpu/special.h>
#include <stave/backends/parts_apart.h>
#include <stave/core/effects/error.h>
#include <stave/core/op/op.h>
#include <stave/core/ops/elementwise_ops.h>
#include <stave/core/program/lanes.h>
#include <stave/core/program/lowered.h>
#include <stave/core/program/native.h>

namespace stave_cpu {

using stave::Attributes;
using stave::Op;
using stave::Storage;
using stave::View;
using stave_detail::as;

namespace {

/// The grain of each elementwise operation: the least number of elements for which a second thread
/// pays. It is smaller for an operation whose arithmetic takes several times as long as its memory
/// traffic.
constexpr Index grains[] = {
#define X(name, Struct) stave_detail::Struct::work == stave_detail::Work::arithmetic ? cheap_grain : cheap_grain / 4,
    STAVE_UNARY_OPS(X) STAVE_BINARY_OPS(X)
#undef X
};
constexpr int elementwise_count = static_cast<int>(std::size(grains));
static_assert(static_cast<int>(OpId::full) == elementwise_count, "elementwise operations come first in all_ops.h");

[[noreturn]] void no_kernel(const Op& op, std::string_view why) {
  throw stave::Error(std::string("cpu: ") + op.name + ": " + std::string(why));
}

void run_complex_reduce(OpId op, const stave::ReduceAttributes& attributes, const View& in, const View& out) {
  if (op != OpId::sum) return run_reduce(complex_product(in.dtype), attributes.axes, in, out);
  // A sum of complex numbers is the sums of the parts.
  const stave_detail::PartsApart from(in), to(out);
  run_reduce(kernels().reduce[op][static_cast<int>(from.view.dtype)], attributes.axes, from.view, to.view);
}

void run_complex_scan(OpId op, const stave::ScanAttributes& attributes, std::span<const View> in, const View& out) {
  if (op != OpId::cumulative_sum) return run_scan(complex_scan(op, out.dtype), attributes, in, out);
  const stave_detail::PartsApart from(in[0]), to(out);
  run_scan(kernels().scan[op][static_cast<int>(to.view.dtype)], attributes, {&from.view, 1}, to.view);
}

void run_other(const Op& op, const Attributes* attributes, std::span<const View> in, std::span<const View> outputs) {
  const View& out = outputs[0];
  const Kernels& table = kernels();
  const int dtype = in.empty() ? 0 : static_cast<int>(in[0].dtype);
  switch (op.id) {
    case OpId::full: return run_full(as<stave::FullAttributes>(attributes), out);
    case OpId::iota: return run_iota(as<stave::IotaAttributes>(attributes), out);
    case OpId::astype: return run_elementwise(conversion_kernel(in[0].dtype, out.dtype), in, out, cheap_grain);
    case OpId::where: return run_elementwise(where_kernel(out.dtype), in, out, cheap_grain);
    case OpId::complex: return run_elementwise(parts_kernel(op.id, in[0].dtype), in, out, cheap_grain);
    case OpId::real:
    case OpId::imag: return run_elementwise(parts_kernel(op.id, out.dtype), in, out, cheap_grain);
    case OpId::conj: return run_elementwise(complex_kernel(op.id, out.dtype), in, out, cheap_grain);
    case OpId::copy:
    case OpId::stop_gradient:
    case OpId::reshape: return run_copy(in[0], out);
    case OpId::sum:
    case OpId::prod:
    case OpId::max:
    case OpId::min:
    case OpId::all:
    case OpId::any:
      if (stave::is_complex(out.dtype))
        return run_complex_reduce(op.id, as<stave::ReduceAttributes>(attributes), in[0], out);
      if (!table.reduce[op.id][dtype].row) no_kernel(op, std::string("no kernel for ") + name_of(in[0].dtype));
      return run_reduce(table.reduce[op.id][dtype], as<stave::ReduceAttributes>(attributes).axes, in[0], out);
    case OpId::argmax:
    case OpId::argmin:
      return run_arg_reduce(table.arg_reduce[op.id][dtype], as<stave::ReduceAttributes>(attributes).axes, in[0], out);
    case OpId::softmax:
    case OpId::log_softmax:
    case OpId::logsumexp:
      return in_floats({in[0]}, out, [&](const View(&x)[1], const View& y) {
        run_softmax(table.softmax[op.id][static_cast<int>(y.dtype)], as<stave::AxisAttributes>(attributes).axis, x[0],
                    y);
      });
    case OpId::softmax_gradient:
    case OpId::log_softmax_gradient:
      return in_floats({in[0], in[1]}, out, [&](const View(&x)[2], const View& y) {
        run_softmax_gradient(table.softmax_gradient[op.id][static_cast<int>(y.dtype)], x[0], x[1], y);
      });
    case OpId::cumulative_sum:
    case OpId::cumulative_prod:
    case OpId::cummax:
    case OpId::cummin:
    case OpId::linear_recurrence:
      if (stave::is_complex(out.dtype)) return run_complex_scan(op.id, as<stave::ScanAttributes>(attributes), in, out);
      return run_scan(table.scan[op.id][dtype], as<stave::ScanAttributes>(attributes), in, out);
    case OpId::sort: return run_sort(as<stave::SortAttributes>(attributes), in[0], out);
    case OpId::argsort: return run_argsort(as<stave::SortAttributes>(attributes), in[0], out);
    case OpId::argtopk: return run_argtopk(as<stave::TopkAttributes>(attributes), in[0], out);
    case OpId::searchsorted: return run_searchsorted(as<stave::SearchAttributes>(attributes), in[0], in[1], out);
    case OpId::pad: return run_pad(as<stave::PadAttributes>(attributes), in[0], out);
    case OpId::concat: return run_concat(as<stave::AxisAttributes>(attributes).axis, in, out);
    case OpId::gather: return run_gather(as<stave::GatherAttributes>(attributes), in[0], in[1], out);
    case OpId::scatter:
    case OpId::scatter_min:
    case OpId::scatter_max:
      return run_scatter(op.id, as<stave::GatherAttributes>(attributes), in[0], in[1], in[2], out);
    case OpId::scatter_add:
    case OpId::scatter_multiply:
      return in_floats({in[0], in[2]}, out, [&](const View(&x)[2], const View& y) {
        run_scatter(op.id, as<stave::GatherAttributes>(attributes), x[0], in[1], x[1], y);
      });
    case OpId::dynamic_slice:
      return run_dynamic_slice(as<stave::DynamicSliceAttributes>(attributes), in[0], in[1], out);
    case OpId::dynamic_update_slice:
      return run_dynamic_update_slice(as<stave::DynamicSliceAttributes>(attributes), in[0], in[1], in[2], out);
    case OpId::matmul:
      if (is_bfloat_product(in[0], in[1])) return run_bfloat_matmul(in[0], in[1], out);
      return in_floats({in[0], in[1]}, out, [](const View(&x)[2], const View& y) { run_matmul(x[0], x[1], y); });
    case OpId::convolution:
      return in_floats({in[0], in[1]}, out, [&](const View(&x)[2], const View& y) {
        run_convolution(as<stave::ConvolutionAttributes>(attributes), x[0], x[1], y);
      });
    case OpId::fft:
    case OpId::rfft:
    case OpId::irfft: return run_fft(as<stave::FftAttributes>(attributes), in[0], out);
    case OpId::max_pool: return run_max_pool(as<stave::PoolAttributes>(attributes), in[0], out);
    case OpId::argmax_pool: return run_argmax_pool(as<stave::PoolAttributes>(attributes), in[0], out);
    case OpId::layer_norm: return run_layer_norm(as<stave::NormAttributes>(attributes), in, out);
    case OpId::layer_norm_gradient: return run_layer_norm_gradient(as<stave::NormAttributes>(attributes), in, outputs);
    case OpId::attention: return run_attention(as<stave::AttentionAttributes>(attributes), in, outputs);
    case OpId::attention_gradient:
      return run_attention_gradient(as<stave::AttentionAttributes>(attributes), in, outputs);
    case OpId::quantized_matmul: return run_quantized_matmul(as<stave::QuantizedAttributes>(attributes), in, out);
    case OpId::fold_in: return run_fold_in(in[0], in[1], out);
    case OpId::random_bits: return run_random_bits(in[0], out);
    case OpId::random_uniform: return run_random_uniform(as<stave::UniformAttributes>(attributes), in[0], out);
    case OpId::random_permutation: return run_random_permutation(in[0], out);
    default: no_kernel(op, "a view or an unknown operation has no kernel");
  }
}

}  // namespace

void CpuBackend::run(const Op& op, const Attributes* attributes, std::span<const View> inputs,
                     std::span<const View> outputs) {
  const int id = static_cast<int>(op.id);
  if (id >= elementwise_count) {
    if (stave::is_linalg(op.id)) return run_linalg(op, attributes, inputs, outputs);
    if (stave::is_special(op.id)) return run_special(op.id, inputs, outputs[0]);
    if (stave::is_sampler(op.id)) return run_sampler(op.id, inputs, outputs[0]);
    if (op.id != OpId::own) return run_other(op, attributes, inputs, outputs);
    if (op.cpu) return op.cpu(attributes, inputs, outputs);
    throw stave::DeviceError(std::string(op.name) +
                             ": it has no kernel for the CPU: move its inputs with to(x, cuda())");
  }
  BlockKernel kernel = elementwise_kernel(op.id, inputs[0].dtype);
  if (!kernel) no_kernel(op, std::string("no kernel for ") + name_of(inputs[0].dtype));
  if (outputs[0].shape.empty()) {  // A scalar needs no plan.
    const void* in[] = {inputs[0].data, inputs.back().data};
    return kernel(outputs[0].data, in, 1);
  }
  const Index size = static_cast<Index>(stave::size_of(outputs[0].dtype)), n = element_count(outputs[0].shape);
  if (!streams(n * size, stream_contiguous))
    if (const auto rows = RowValues::of(op.id, inputs, outputs[0])) return rows->run_all(grains[id]);
  run_elementwise(kernel, inputs, outputs[0], grains[id]);
}

namespace {

class CpuMachineCode final : public stave::MachineCode {
 public:
  explicit CpuMachineCode(std::unique_ptr<const NativeCode> code) : code_(std::move(code)) {}

  bool run(std::span<const View> inputs, std::span<const View> outputs) const override {
    stave::SmallVector<const void*, 16> from;
    stave::SmallVector<void*, 16> to;
    for (const View& view : inputs) from.push_back(view.data);
    for (const View& view : outputs) to.push_back(view.data);
    constexpr std::size_t small = 2048;
    if (code_->work_bytes() > small)
      return (*code_)(from.data(), to.data(), scratch<char>(code_->work_bytes()).get()) == 0;
    alignas(64) char work[small];
    return (*code_)(from.data(), to.data(), work) == 0;
  }

 private:
  const std::unique_ptr<const NativeCode> code_;
};

// Compiles the program of one lane. An input that is the same for all lanes is read as it lies.
std::shared_ptr<const stave::MachineCode> compile_lanes(const stave::Program& program,
                                                        const stave_detail::LanesAttributes& lanes,
                                                        std::span<const stave::Strides> strides, std::string& reason) {
  std::vector<bool> is_uniform;
  std::vector<stave::Strides> of_lane;
  LaneLayout layout{lanes.lanes, {}, {}};
  for (std::size_t i = 0; i < strides.size(); ++i) {
    const stave::Program::Variable& variable = program.variable(program.inputs[i]);
    int axis = lanes.input_axes[i];
    const bool is_repeated = axis >= 0 && strides[i][static_cast<std::size_t>(axis)] == 0;
    if (is_repeated) axis = stave_detail::no_axis;
    stave::Strides rest;
    for (std::size_t k = 0; k < strides[i].size(); ++k)
      if (static_cast<int>(k) != lanes.input_axes[i]) rest.push_back(strides[i][k]);
    if (axis >= 0) rest = stave::contiguous_strides(lanes.body.variable(lanes.body.inputs[i]).shape);
    is_uniform.push_back(axis < 0);
    of_lane.push_back(std::move(rest));
    layout.inputs.push_back({variable.dtype, variable.shape, strides[i], axis});
  }
  for (std::size_t k = 0; k < program.outputs.size(); ++k) {
    const stave::Program::Variable& variable = program.variable(program.outputs[k]);
    layout.outputs.push_back(
        {variable.dtype, variable.shape, stave::contiguous_strides(variable.shape), lanes.output_axes[k]});
  }
  const stave_detail::Lowered code = stave_detail::lower(
      lanes.body, {.input_strides = of_lane, .vector_bytes = kernels().vector_bytes, .is_optimized = true});
  std::unique_ptr<const LaneCode> native = LaneCode::compile(code, is_uniform, &reason);
  return native ? machine_code_of_lanes(std::move(native), layout) : nullptr;
}

}  // namespace

std::shared_ptr<const stave::MachineCode> CpuBackend::compile(const stave::Program& program,
                                                              std::span<const stave::Strides> strides,
                                                              std::string& reason) {
  try {
    if (const stave_detail::LanesAttributes* const lanes = stave_detail::lanes_of(program))
      return compile_lanes(program, *lanes, strides, reason);
    const stave_detail::Lowered code = stave_detail::lower(
        program, {.input_strides = strides, .vector_bytes = kernels().vector_bytes, .is_optimized = true});
    if (std::unique_ptr<const NativeCode> native = NativeCode::compile(code, &reason))
      return std::make_shared<const CpuMachineCode>(std::move(native));
  } catch (const stave::Error& error) {
    reason = error.what();
  }
  return nullptr;
}

Storage* CpuBackend::allocate(std::size_t bytes) { return stave_cpu::allocate(this, bytes); }
void CpuBackend::deallocate(Storage* storage) noexcept { stave_cpu::deallocate(storage); }
void CpuBackend::write(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
void CpuBackend::read(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
stave::MemoryStats CpuBackend::memory_stats() const { return stave_cpu::memory_stats(); }
void CpuBackend::reset_peak_memory() { stave_cpu::reset_peak_memory(); }
void CpuBackend::release_cached_memory() { stave_cpu::release_cached_memory(); }

}  // namespace stave_cpu

namespace stave {

namespace {
/// A union whose destructor does not destroy the backend: tensors may be globals, which are freed
/// after everything else.
union Immortal {
  stave_cpu::CpuBackend backend;
  constexpr Immortal() : backend() {}
  ~Immortal() {}
};
constinit Immortal immortal;
}  // namespace

Backend& cpu_backend() { return immortal.backend; }

}  // namespace stave
