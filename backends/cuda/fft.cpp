// Fourier transforms by cuFFT. One call transforms lines that lie at a constant distance from one
// another. Operands that need more than a few calls are copied, so that the lines follow one
// another. cuFFT knows transforms of real numbers with one sign of the exponent only; for the other
// sign the complex operand is conjugated. Scales are applied by a kernel.
//
// Start with run_fft.
#include <stave/backends/cuda/fft.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include <stave/backends/cuda/cufft.h>
#include <stave/backends/cuda/elementwise.h>
#include <stave/backends/cuda/graph_recording.h>
#include <stave/backends/cuda/index_map.h>
#include <stave/backends/cuda/layout.h>
#include <stave/backends/parts_apart.h>
#include <stave/core/op/all_ops.h>
#include <stave/core/tensor/fail.h>

namespace stave_cuda {

using stave::Dtype, stave::OpId, stave::Shape, stave::Strides, stave::View;

namespace {

// ---- plans of cuFFT ---------------------------------------------------------------------------

/// The layout of lines in memory: the distances, in elements, of neighbours along a line and of
/// neighbouring lines.
struct LineLayout {
  Index stride, step;
  friend bool operator==(const LineLayout&, const LineLayout&) = default;
};
/// Everything that a plan depends on.
struct FftKey {
  int device;
  Dtype from, to;
  Index n, lines;
  LineLayout in, out;
  friend bool operator==(const FftKey&, const FftKey&) = default;
};

cudaDataType type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32: return CUDA_R_32F;
    case Dtype::float64: return CUDA_R_64F;
    case Dtype::complex64: return CUDA_C_32F;
    default: return CUDA_C_64F;
  }
}

class DevicePlan {
 public:
  explicit DevicePlan(const FftKey& key) : key_(key) {
    check(cufft().Create(&handle_), "Create");
    try {
      make();
    } catch (...) {
      cufft().Destroy(handle_);
      throw;
    }
  }
  ~DevicePlan() { cufft().Destroy(handle_); }
  DevicePlan(const DevicePlan&) = delete;

  const FftKey& key() const { return key_; }
  void execute(const Launch& launch, void* in, void* out, int direction) const {
    check(cufft().SetStream(handle_, launch.stream), "SetStream");
    if (work_ > 0) check(cufft().SetWorkArea(handle_, launch.scratch.allocate(work_)), "SetWorkArea");
    check(cufft().XtExec(handle_, in, out, direction), "XtExec");
  }

 private:
  void make() {
    // The work area is scratch memory of each operation.
    check(cufft().SetAutoAllocation(handle_, 0), "SetAutoAllocation");
    const bool halves_in = is_complex(key_.from) && !is_complex(key_.to);
    const bool halves_out = !is_complex(key_.from);
    long long n = key_.n, in_length = halves_in ? n / 2 + 1 : n, out_length = halves_out ? n / 2 + 1 : n;
    check(cufft().XtMakePlanMany(handle_, 1, &n, &in_length, key_.in.stride, key_.in.step, type_of(key_.from),
                                 &out_length, key_.out.stride, key_.out.step, type_of(key_.to), key_.lines, &work_,
                                 type_of(complex_of(key_.from))),
          "XtMakePlanMany");
  }

  FftKey key_;
  cufftHandle handle_{};
  std::size_t work_ = 0;
};

/// The plans that each device used last. It is never destroyed, because tensors may be globals.
class DevicePlanCache {
 public:
  /// Executes a transform. The lock is held meanwhile: a plan has one work area.
  void execute(const Launch& launch, const FftKey& key, void* in, void* out, int direction) {
    const std::lock_guard lock(mutex_);
    plan_of(key).execute(launch, in, out, direction);
  }

 private:
  static constexpr std::ptrdiff_t most_plans = 64;  // of a device

  const DevicePlan& plan_of(const FftKey& key) {
    const auto known = std::find_if(plans_.begin(), plans_.end(), [&](const auto& plan) { return plan->key() == key; });
    if (known != plans_.end()) {
      std::rotate(plans_.begin(), known, known + 1);
    } else {
      plans_.insert(plans_.begin(), std::make_unique<const DevicePlan>(key));
      drop_plan(key.device);
    }
    return *plans_.front();
  }

  /// Drops the plan that was used least recently, if the device, which is current, has too many.
  void drop_plan(int device) {
    const auto is_there = [&](const auto& plan) { return plan->key().device == device; };
    if (std::count_if(plans_.begin(), plans_.end(), is_there) <= most_plans) return;
    plans_.erase(std::find_if(plans_.rbegin(), plans_.rend(), is_there).base() - 1);
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<const DevicePlan>> plans_;  // the last used one comes first
};

DevicePlanCache& plan_cache() {
  static auto* const cache = new DevicePlanCache;
  return *cache;
}

// ---- the transform of an array ----------------------------------------------------------------

// Up to this number of calls cost less than a copy of an operand.
constexpr Index most_calls = 16;

/// An operand with the axis of the transform moved to the end.
struct Lines {
  void* data;
  Shape shape;
  Strides strides;

  Lines(const View& view, std::size_t axis) : data(view.data), shape(view.shape), strides(view.strides) {
    std::rotate(shape.begin() + axis, shape.begin() + axis + 1, shape.end());
    std::rotate(strides.begin() + axis, strides.begin() + axis + 1, strides.end());
  }
  /// Lines that follow one another, in new memory.
  Lines(const Launch& launch, Shape shape_, Dtype dtype) : shape(std::move(shape_)) {
    strides = stave::contiguous_strides(shape);
    data = launch.scratch.allocate(static_cast<std::size_t>(shape.elements()) * stave::size_of(dtype));
  }
  View view(Dtype dtype) const { return {data, dtype, shape, strides}; }
  std::span<const Index> leading_strides() const { return std::span<const Index>(strides).first(strides.size() - 1); }
};

class DeviceTransform {
 public:
  DeviceTransform(const Launch& launch, const stave::FftAttributes& attributes, const View& in, const View& out)
      : launch_(launch), attributes_(attributes), in_(in), out_(out) {}

  void run() const {
    if (attributes_.length == 1) run_single();
    else run_lines();
    // cuFFT's exponent is negative for real inputs.
    if (!is_complex(in_.dtype) && attributes_.inverse) run_elementwise(launch_, OpId::conj, {&out_, 1}, out_);
    if (attributes_.scale != 1) multiply_by_scale();
  }

 private:
  std::size_t axis() const { return static_cast<std::size_t>(attributes_.axis); }
  bool is_to_real() const { return !is_complex(out_.dtype); }

  /// A transform of length 1 is a copy.
  void run_single() const {
    if (is_to_real()) run_elementwise(launch_, OpId::real, {&in_, 1}, out_);
    else if (!is_complex(in_.dtype)) run_astype(launch_, in_, out_);
    else if (in_.data != out_.data) run_copy(launch_, in_, out_);
  }

  void run_lines() const {
    const Lines given(in_, axis()), wanted(out_, axis());
    const auto calls_of = [](const Lines& from, const Lines& to) {
      const LoopAxes<2> axes = axes_of(from, to);
      Index calls = 1, longest = 1;
      for (const LoopAxis<2>& axis : axes) {
        if (axis.step[0] <= 0) return most_calls + 1;  // cuFFT reads lines forwards
        calls *= axis.length;
        longest = std::max(longest, axis.length);
      }
      return from.strides.back() > 0 ? calls / longest : most_calls + 1;
    };
    if (!is_to_real() && calls_of(given, wanted) <= most_calls) return transform(given, wanted);
    const Lines from = copied(given);
    if (calls_of(from, wanted) <= most_calls) return transform(from, wanted);
    const Lines to(launch_, wanted.shape, out_.dtype);
    transform(from, to);
    copy_strided(launch_, {wanted.data, wanted.strides}, {to.data, to.strides}, to.shape,
                 static_cast<Index>(stave::size_of(out_.dtype)));
  }

  /// Copies the input, so that lines follow one another. A transform to real numbers may write over
  /// its input, and gets a copy of its own. There, cuFFT's exponent is positive, and the imaginary
  /// parts that do not count are set to 0.
  Lines copied(const Lines& given) const {
    const Lines copy(launch_, given.shape, in_.dtype);
    const View from = given.view(in_.dtype), to = copy.view(in_.dtype);
    if (is_to_real() && !attributes_.inverse) run_elementwise(launch_, OpId::conj, {&from, 1}, to);
    else run_copy(launch_, from, to);
    if (is_to_real()) {
      clear_imaginary(copy, 0);
      if (attributes_.length % 2 == 0) clear_imaginary(copy, attributes_.length / 2);
    }
    return copy;
  }
  void clear_imaginary(const Lines& lines, Index element) const {
    const std::size_t size = stave::size_of(in_.dtype), part = size / 2;
    const auto length = static_cast<std::size_t>(lines.shape.back());
    const auto count = static_cast<std::size_t>(lines.shape.elements()) / length;
    char* const first = static_cast<char*>(lines.data) + static_cast<std::size_t>(element) * size + part;
    if (count == 1) return check(cudaMemsetAsync(first, 0, part, launch_.stream), "irfft");
    check(cudaMemset2DAsync(first, length * size, 0, part, count, launch_.stream), "irfft");
  }

  static LoopAxes<2> axes_of(const Lines& from, const Lines& to) {
    return merged_axes<2>(std::span<const Index>(from.shape).first(from.shape.size() - 1),
                          {from.leading_strides(), to.leading_strides()});
  }

  /// Transforms the lines along the longest of the other axes together, and loops over the rest.
  void transform(const Lines& from, const Lines& to) const {
    LoopAxes<2> axes = axes_of(from, to);
    LoopAxis<2> together{1, {from.shape.back(), to.shape.back()}};
    if (!axes.empty()) {
      auto* const longest =
          std::max_element(axes.begin(), axes.end(), [](const auto& x, const auto& y) { return x.length < y.length; });
      together = *longest;
      axes.erase(longest);
    }
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    const FftKey key{device,
                     in_.dtype,
                     out_.dtype,
                     attributes_.length,
                     together.length,
                     {from.strides.back(), together.step[0]},
                     {to.strides.back(), together.step[1]}};
    transform_at(key, axes, 0, static_cast<char*>(from.data), static_cast<char*>(to.data));
  }
  void transform_at(const FftKey& key, const LoopAxes<2>& axes, std::size_t loop, char* from, char* to) const {
    const bool forward = is_complex(in_.dtype) ? !attributes_.inverse && !is_to_real() : true;
    if (loop == axes.size())
      return plan_cache().execute(launch_, key, from, to, forward ? CUFFT_FORWARD : CUFFT_INVERSE);
    for (Index i = 0; i < axes[loop].length; ++i)
      transform_at(key, axes, loop + 1, from + i * axes[loop].step[0] * static_cast<Index>(stave::size_of(in_.dtype)),
                   to + i * axes[loop].step[1] * static_cast<Index>(stave::size_of(out_.dtype)));
  }

  void multiply_by_scale() const {
    if (is_to_real()) return multiply_by_scale(out_);
    multiply_by_scale(stave_detail::PartsApart(out_).view);
  }
  void multiply_by_scale(const View& numbers) const {
    const auto single = static_cast<float>(attributes_.scale);
    const void* const number = numbers.dtype == Dtype::float32 ? static_cast<const void*>(&single) : &attributes_.scale;
    Strides still(numbers.strides);
    std::fill(still.begin(), still.end(), 0);
    const View inputs[] = {numbers, {const_cast<void*>(number), numbers.dtype, numbers.shape, still, true}};
    run_elementwise(launch_, OpId::multiply, inputs, numbers);
  }

  const Launch& launch_;
  const stave::FftAttributes& attributes_;
  const View& in_;
  const View& out_;
};

}  // namespace

void run_fft(const Launch& launch, const stave::FftAttributes& attributes, const View& in, const View& out) {
  if (Recording::current()) stave_detail::fail<stave::Error>("fft: operations of cuFFT cannot be recorded in a graph");
  if (Shape(out.shape).elements() > 0) DeviceTransform(launch, attributes, in, out).run();
}

}  // namespace stave_cuda
