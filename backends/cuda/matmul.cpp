// Products by cuBLASLt, which reads matrices in column-major order. A row-major matrix read that
// way is its transpose. So cuBLASLt computes out^T = b^T a^T: its first factor is b, and a
// row-major operand needs no transpose.
#include <stave/backends/cuda/matmul.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include <stave/backends/cuda/cublas.h>
#include <stave/backends/cuda/layout.h>
#include <stave/backends/cuda/matmul_plan.h>
#include <stave/core/tensor/fail.h>

namespace stave_cuda {

using stave::Dtype, stave::View;

namespace {

// ---- descriptors for cuBLASLt -----------------------------------------------------------------

/// Everything that the choice of algorithm depends on. Keys are compared as
/// bytes, so there is no padding.
struct Key {
  Index m, n, k, a_leading, b_leading, a_step, b_step, out_step, batch;
  // The alignment in bytes of every matrix of the batch.
  std::uint32_t a_alignment, b_alignment, out_alignment;
  std::int32_t device;
  std::uint8_t dtype, a_by_columns, b_by_columns, tf32;
  std::uint32_t unused = 0;

  friend bool operator==(const Key& x, const Key& y) { return std::memcmp(&x, &y, sizeof(Key)) == 0; }
};
static_assert(std::has_unique_object_representations_v<Key>);

struct KeyHash {
  std::size_t operator()(const Key& key) const {  // FNV-1a
    unsigned char bytes[sizeof(Key)];
    std::memcpy(bytes, &key, sizeof key);
    std::uint64_t hash = 14695981039346656037u;
    for (unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211u;
    return hash;
  }
};

/// The reply of cuBLASLt's heuristic for a product: the descriptors of the product, and the
/// suggested algorithms, best first. The list is empty if cuBLASLt does not support the product.
struct Heuristic {
  struct Candidate {
    cublasLtMatmulAlgo_t algorithm;
    std::size_t workspace;
  };
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, out = nullptr;
  std::vector<Candidate> candidates;
  // How many of the first algorithms failed when they were tried.
  mutable std::atomic<std::size_t> refused = 0;

  Heuristic() = default;
  Heuristic(const Heuristic&) = delete;
  ~Heuristic() {
    if (product) cublas().MatmulDescDestroy(product);
    for (cublasLtMatrixLayout_t layout : {a, b, out})
      if (layout) cublas().MatrixLayoutDestroy(layout);
  }
};
using HeuristicPtr = std::shared_ptr<const Heuristic>;

constexpr std::size_t most_candidates = 4;
// The size of the workspace in bytes that NVIDIA recommends for Hopper.
constexpr std::size_t most_workspace = std::size_t{32} << 20;

cudaDataType_t type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float16: return CUDA_R_16F;
    case Dtype::bfloat16: return CUDA_R_16BF;
    case Dtype::float64: return CUDA_R_64F;
    case Dtype::complex64: return CUDA_C_32F;
    case Dtype::complex128: return CUDA_C_64F;
    default: return CUDA_R_32F;
  }
}

cublasLtMatrixLayout_t layout_of(const Key& key, Index rows, Index columns, Index leading, Index step) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublas().MatrixLayoutCreate(&layout, type_of(static_cast<Dtype>(key.dtype)), static_cast<std::uint64_t>(rows),
                                    static_cast<std::uint64_t>(columns), leading),
        "MatrixLayoutCreate");
  const auto batch = static_cast<std::int32_t>(key.batch);
  const std::int64_t stride = step;
  const auto set = [&](cublasLtMatrixLayoutAttribute_t which, const auto& value) {
    check(cublas().MatrixLayoutSetAttribute(layout, which, &value, sizeof value), "MatrixLayoutSetAttribute");
  };
  try {
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch);
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  } catch (...) {
    cublas().MatrixLayoutDestroy(layout);
    throw;
  }
  return layout;
}

void describe(const Key& key, Heuristic& heuristic) {
  const auto dtype = static_cast<Dtype>(key.dtype);
  const bool doubles = real_of(dtype) == Dtype::float64;
  const cublasComputeType_t compute = doubles    ? CUBLAS_COMPUTE_64F
                                      : key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                 : CUBLAS_COMPUTE_32F;
  // The type of alpha and beta.
  const cudaDataType_t scale = is_complex(dtype) ? type_of(dtype) : doubles ? CUDA_R_64F : CUDA_R_32F;
  check(cublas().MatmulDescCreate(&heuristic.product, compute, scale), "MatmulDescCreate");
  const auto transpose = [&](cublasLtMatmulDescAttributes_t which, bool by_columns) {
    const cublasOperation_t operation = by_columns ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublas().MatmulDescSetAttribute(heuristic.product, which, &operation, sizeof operation),
          "MatmulDescSetAttribute");
  };
  transpose(CUBLASLT_MATMUL_DESC_TRANSA, key.b_by_columns);
  transpose(CUBLASLT_MATMUL_DESC_TRANSB, key.a_by_columns);
  // The layouts of the operands as they are stored, where a row is a column of cuBLASLt.
  heuristic.a = key.a_by_columns ? layout_of(key, key.m, key.k, key.a_leading, key.a_step)
                                 : layout_of(key, key.k, key.m, key.a_leading, key.a_step);
  heuristic.b = key.b_by_columns ? layout_of(key, key.k, key.n, key.b_leading, key.b_step)
                                 : layout_of(key, key.n, key.k, key.b_leading, key.b_step);
  heuristic.out = layout_of(key, key.n, key.m, key.n, key.out_step);
}

void ask(cublasLtHandle_t handle, const Key& key, Heuristic& heuristic) {
  cublasLtMatmulPreference_t made = nullptr;
  check(cublas().MatmulPreferenceCreate(&made), "MatmulPreferenceCreate");
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, void (*)(cublasLtMatmulPreference_t)>
      preference(made, [](cublasLtMatmulPreference_t p) { cublas().MatmulPreferenceDestroy(p); });
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, const auto& value) {
    check(cublas().MatmulPreferenceSetAttribute(made, which, &value, sizeof value), "MatmulPreferenceSetAttribute");
  };
  const std::uint64_t workspace = most_workspace;
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  // Partial sums of a product are not rounded to the dtype before they are added.
  const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  if (is_half_float(static_cast<Dtype>(key.dtype))) set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b_alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a_alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.out_alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.out_alignment);
  std::array<cublasLtMatmulHeuristicResult_t, most_candidates> results{};
  int found = 0;
  const cublasStatus_t status =
      cublas().MatmulAlgoGetHeuristic(handle, heuristic.product, heuristic.b, heuristic.a, heuristic.out, heuristic.out,
                                      made, static_cast<int>(results.size()), results.data(), &found);
  if (status != CUBLAS_STATUS_SUCCESS) return;
  for (const auto& result : std::span(results).first(static_cast<std::size_t>(found)))
    if (result.state == CUBLAS_STATUS_SUCCESS) heuristic.candidates.push_back({result.algo, result.workspaceSize});
}

// ---- caches -----------------------------------------------------------------------------------

/// Caches handles by device, and heuristic results by product. It is never destroyed.
class HeuristicCache {
 public:
  HeuristicPtr advice_on(const Key& key) {
    const std::lock_guard lock(mutex_);
    if (const auto known = advice_.find(key); known != advice_.end()) return known->second;
    const auto made = std::make_shared<Heuristic>();
    describe(key, *made);
    ask(handle(key.device), key, *made);
    if (advice_.size() >= most_remembered) advice_.clear();
    advice_.emplace(key, made);
    return made;
  }
  cublasLtHandle_t handle_of(int device) {
    const std::lock_guard lock(mutex_);
    return handle(device);
  }

 private:
  static constexpr std::size_t most_remembered = 4096;

  cublasLtHandle_t handle(int device) {
    cublasLtHandle_t& known = handles_[device];
    if (!known) check(cublas().Create(&known), "Create");
    return known;
  }

  std::mutex mutex_;
  std::unordered_map<int, cublasLtHandle_t> handles_;
  std::unordered_map<Key, HeuristicPtr, KeyHash> advice_;
};

HeuristicCache& heuristic_cache() {
  static auto* const made = new HeuristicCache;
  return *made;
}

bool allows_tf32() {
  static const bool allowed = [] {
    const char* text = std::getenv("STAVE_TF32");
    return text && std::strcmp(text, "1") == 0;
  }();
  return allowed;
}

// ---- one product ------------------------------------------------------------------------------

struct Pointers {
  char *a, *b, *out;
};

/// Returns the largest power of two, up to 256, that divides the pointer and all steps from it.
std::uint32_t alignment_of(const void* pointer, std::initializer_list<Index> steps_in_bytes) {
  auto all = reinterpret_cast<std::uintptr_t>(pointer) | 256;
  for (Index step : steps_in_bytes) all |= static_cast<std::uintptr_t>(step);
  return static_cast<std::uint32_t>(std::uintptr_t{1} << std::countr_zero(all));
}

Key key_of(const MatmulPlan& plan, Dtype dtype, const Pointers& at, Index batch) {
  const auto size = static_cast<Index>(stave::size_of(dtype));
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  Key key{};
  key.m = plan.m;
  key.n = plan.n;
  key.k = plan.k;
  key.a_leading = plan.a.leading;
  key.b_leading = plan.b.leading;
  key.a_step = plan.a.batch_step;
  key.b_step = plan.b.batch_step;
  key.out_step = plan.out_step;
  key.batch = batch;
  key.a_alignment = alignment_of(at.a, {plan.a.batch_step * size});
  key.b_alignment = alignment_of(at.b, {plan.b.batch_step * size});
  key.out_alignment = alignment_of(at.out, {plan.out_step * size});
  key.device = device;
  key.dtype = static_cast<std::uint8_t>(dtype);
  key.a_by_columns = plan.a.by_columns;
  key.b_by_columns = plan.b.by_columns;
  key.tf32 = dtype == Dtype::float32 && allows_tf32();
  return key;
}

/// Returns true if cuBLASLt rejected the algorithm. A suggested algorithm may still be rejected.
/// Then no work was done, and another algorithm may succeed.
bool is_refusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}

/// Multiplies one batch. Returns false if cuBLASLt has no algorithm, or rejects all of them.
bool multiply(const Launch& launch, const MatmulPlan& plan, Dtype dtype, const Pointers& at, Index batch) {
  const Key key = key_of(plan, dtype, at, batch);
  const HeuristicPtr heuristic = heuristic_cache().advice_on(key);
  // alpha and beta. A real one is the real part of the complex one.
  const double one[] = {1, 0}, zero[] = {0, 0};
  const float single_one[] = {1, 0}, single_zero[] = {0, 0};
  const bool doubles = real_of(dtype) == Dtype::float64;
  for (std::size_t i = heuristic->refused; i < heuristic->candidates.size(); ++i) {
    const Heuristic::Candidate& candidate = heuristic->candidates[i];
    void* const workspace = candidate.workspace ? launch.scratch.allocate(candidate.workspace) : nullptr;
    const cublasStatus_t status =
        cublas().Matmul(heuristic_cache().handle_of(key.device), heuristic->product,
                        doubles ? static_cast<const void*>(one) : single_one, at.b, heuristic->b, at.a, heuristic->a,
                        doubles ? static_cast<const void*>(zero) : single_zero, at.out, heuristic->out, at.out,
                        heuristic->out, &candidate.algorithm, workspace, candidate.workspace, launch.stream);
    if (!is_refusal(status)) return check(status, "Matmul"), true;
    // Clears an error of this attempt, so that the next launch does not report it.
    cudaGetLastError();
    heuristic->refused = i + 1;  // It is not tried again.
  }
  return false;
}

/// Splits the batch into parts, because cuBLASLt counts the matrices of a batch in 32 bits.
bool multiply_batch(const Launch& launch, const MatmulPlan& plan, Dtype dtype, Pointers at) {
  constexpr Index most = std::numeric_limits<std::int32_t>::max();
  const auto size = static_cast<Index>(stave::size_of(dtype));
  for (Index done = 0; done < plan.batch; done += most) {
    const Index part = std::min(most, plan.batch - done);
    if (!multiply(launch, plan, dtype, at, part)) return false;
    at.a += part * plan.a.batch_step * size;
    at.b += part * plan.b.batch_step * size;
    at.out += part * plan.out_step * size;
  }
  return true;
}

bool multiply_loops(const Launch& launch, const MatmulPlan& plan, Dtype dtype, const Pointers& at, std::size_t loop) {
  if (loop == plan.loops.size()) return multiply_batch(launch, plan, dtype, at);
  const LoopAxis<3>& axis = plan.loops[loop];
  const auto size = static_cast<Index>(stave::size_of(dtype));
  for (Index i = 0; i < axis.length; ++i) {
    const Pointers there{at.a + i * axis.step[1] * size, at.b + i * axis.step[2] * size,
                         at.out + i * axis.step[0] * size};
    if (!multiply_loops(launch, plan, dtype, there, loop + 1)) return false;
  }
  return true;
}

// ---- operands ---------------------------------------------------------------------------------

/// Returns the operand's data for BLAS: in place, or copied into scratch memory.
char* placed(const Launch& launch, const View& x, Packed packed) {
  if (packed == Packed::no) return static_cast<char*>(x.data);
  const PackedLayout layout = packed_layout(x, packed);
  const stave::Strides dense = stave::contiguous_strides(layout.shape);
  void* const copy =
      launch.scratch.allocate(static_cast<std::size_t>(layout.shape.elements()) * stave::size_of(x.dtype));
  run_copy(launch, {x.data, x.dtype, layout.shape, x.strides}, {copy, x.dtype, layout.shape, dense});
  return static_cast<char*>(copy);
}

}  // namespace

void run_matmul(const Launch& launch, const View& a, const View& b, const View& out) {
  const Index elements = stave::Shape(out.shape).elements();
  if (elements == 0) return;
  if (a.shape.back() == 0)
    return check(
        cudaMemsetAsync(out.data, 0, static_cast<std::size_t>(elements) * stave::size_of(out.dtype), launch.stream),
        "matmul");
  if (!is_inexact(out.dtype)) return run_tiled_matmul(launch, a, b, out);
  const MatmulPlan plan = plan_matmul(a, b, out);
  const Pointers at{placed(launch, a, plan.a.packed), placed(launch, b, plan.b.packed), static_cast<char*>(out.data)};
  if (!multiply_loops(launch, plan, out.dtype, at, 0)) run_tiled_matmul(launch, a, b, out);
}

}  // namespace stave_cuda
