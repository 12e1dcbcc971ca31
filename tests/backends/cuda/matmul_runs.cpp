// Tests the driver of matrix products over a simulated cuBLASLt. The simulation does not know
// the driver's plans: it multiplies, on the host, matrices that are stored by columns,
// as their descriptors say. Results are compared with the CPU backend's.
#include <gtest/gtest.h>

#include <complex>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include <stave/backends/cuda/cublas.h>
#include <stave/backends/cuda/layout.h>
#include <stave/backends/cuda/matmul.h>
#include <stave/core/op/op.h>
#include <stave/core/ops/complex.h>
#include <stave/core/ops/contract.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/random.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/tensor/backend.h>

#include "cuda/host_runtime.h"
#include "cuda/host_scratch.h"

// ---- the library -------------------------------------------------------------------------------

namespace {

using stave::Index;

struct Layout {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t leading, step = 0;
  std::int32_t batch = 1;
};
struct Product {
  cublasComputeType_t compute;
  cudaDataType scale;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  // The alignments and reduction schemes with which the heuristic was queried.
  std::uint32_t alignment[3] = {};
  std::uint32_t reductions = 0;
};
struct Preference {
  std::uint32_t alignment[4] = {256, 256, 256, 256};
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
};

struct Library {
  int alive = 0, asked = 0, products = 0, tiled = 0;
  bool knows_a_way = true;
  // How many of the next products are refused.
  int refusals = 0;
  cublasStatus_t refusal = CUBLAS_STATUS_NOT_SUPPORTED;
  // The algorithms of products, also of refused ones: the index of each in the heuristic's answer.
  std::vector<int> ways;
  std::set<cublasComputeType_t> computed_in;
} library;

Layout& layout_of(cublasLtMatrixLayout_t layout) { return *reinterpret_cast<Layout*>(layout); }

/// Multiplies matrices with elements of type E; the arithmetic is in T.
template <class E, class T>
void multiply(const Product& product, const void* alpha, const void* a_data, const Layout& a, const void* b_data,
              const Layout& b, const void* beta, void* out_data, const Layout& out) {
  ASSERT_EQ(*static_cast<const T*>(alpha), T(1));
  ASSERT_EQ(*static_cast<const T*>(beta), T(0));
  const auto element = [](const void* data, const Layout& x, cublasOperation_t op, Index i, Index row, Index column) {
    if (op == CUBLAS_OP_T) std::swap(row, column);
    EXPECT_LT(static_cast<std::uint64_t>(row), x.rows);
    EXPECT_LT(static_cast<std::uint64_t>(column), x.columns);
    return static_cast<T>(static_cast<const E*>(data)[i * x.step + column * x.leading + row]);
  };
  const auto k = static_cast<Index>(product.a == CUBLAS_OP_N ? a.columns : a.rows);
  for (const Layout* x : {&a, &b, &out}) ASSERT_GE(x->leading, static_cast<std::int64_t>(x->rows));
  for (Index i = 0; i < out.batch; ++i)
    for (Index column = 0; column < static_cast<Index>(out.columns); ++column)
      for (Index row = 0; row < static_cast<Index>(out.rows); ++row) {
        T sum = 0;
        for (Index q = 0; q < k; ++q)
          sum += element(a_data, a, product.a, i, row, q) * element(b_data, b, product.b, i, q, column);
        static_cast<E*>(out_data)[i * out.step + column * out.leading + row] = static_cast<E>(sum);
      }
}

cublasStatus_t matmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                      cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                      const void* c, cublasLtMatrixLayout_t, void* out, cublasLtMatrixLayout_t out_layout,
                      const cublasLtMatmulAlgo_t* algorithm, void* workspace, std::size_t bytes, cudaStream_t) {
  library.ways.push_back(static_cast<int>(algorithm->data[0]));
  if (library.refusals > 0) return --library.refusals, library.refusal;
  ++library.products;
  EXPECT_EQ(c, out);
  EXPECT_EQ(bytes, 1000u);
  EXPECT_NE(workspace, nullptr);
  const Product& product = *reinterpret_cast<Product*>(desc);
  const void* const pointers[] = {a, b, out};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointers[i]) % product.alignment[i], 0u);
  const auto with = [&]<class E, class T>(E, T) {
    multiply<E, T>(product, alpha, a, layout_of(a_layout), b, layout_of(b_layout), beta, out, layout_of(out_layout));
  };
  library.computed_in.insert(product.compute);
  const cudaDataType type = layout_of(out_layout).type;
  for (cublasLtMatrixLayout_t layout : {a_layout, b_layout}) EXPECT_EQ(layout_of(layout).type, type);
  const bool is_complex = type == CUDA_C_32F || type == CUDA_C_64F;
  EXPECT_EQ(product.scale, is_complex || type == CUDA_R_64F ? type : CUDA_R_32F);
  EXPECT_TRUE(!is_complex || product.compute == (type == CUDA_C_64F ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F));
  switch (type) {
    case CUDA_R_16F: with(stave::Float16{}, float{}); break;
    case CUDA_R_16BF: with(stave::BFloat16{}, float{}); break;
    case CUDA_R_32F: with(float{}, float{}); break;
    case CUDA_R_64F: with(double{}, double{}); break;
    case CUDA_C_32F: with(std::complex<float>{}, std::complex<float>{}); break;
    case CUDA_C_64F: with(std::complex<double>{}, std::complex<double>{}); break;
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  EXPECT_EQ(product.reductions == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, type == CUDA_R_16F || type == CUDA_R_16BF);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T, class Handle, class... A>
cublasStatus_t make(Handle* handle, A... values) {
  ++library.alive;
  *handle = reinterpret_cast<Handle>(new T{values...});
  return CUBLAS_STATUS_SUCCESS;
}
template <class T, class Handle>
cublasStatus_t destroy(Handle handle) {
  --library.alive;
  delete reinterpret_cast<T*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t copy(T& to, const void* from, std::size_t bytes) {
  if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set_layout(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t which, const void* value,
                          std::size_t bytes) {
  Layout& x = layout_of(layout);
  if (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return copy(x.batch, value, bytes);
  if (which == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) return copy(x.step, value, bytes);
  return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t set_product(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t which, const void* value,
                           std::size_t bytes) {
  Product& product = *reinterpret_cast<Product*>(desc);
  if (which == CUBLASLT_MATMUL_DESC_TRANSA) return copy(product.a, value, bytes);
  if (which == CUBLASLT_MATMUL_DESC_TRANSB) return copy(product.b, value, bytes);
  return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t set_preference(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t which,
                              const void* value, std::size_t bytes) {
  auto& [alignment, reductions] = *reinterpret_cast<Preference*>(preference);
  std::uint64_t workspace = 0;
  switch (which) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return copy(workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return copy(reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return copy(alignment[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return copy(alignment[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return copy(alignment[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return copy(alignment[3], value, bytes);
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
}
cublasStatus_t advise(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                      cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t preference, int most,
                      cublasLtMatmulHeuristicResult_t* results, int* found) {
  ++library.asked;
  const auto& wanted = *reinterpret_cast<Preference*>(preference);
  std::copy_n(wanted.alignment, 3, reinterpret_cast<Product*>(desc)->alignment);
  reinterpret_cast<Product*>(desc)->reductions = wanted.reductions;
  *found = library.knows_a_way ? std::min(most, 3) : 0;
  for (int i = 0; i < *found; ++i) {
    results[i].algo.data[0] = static_cast<std::uint64_t>(i);
    results[i].workspaceSize = 1000;
    results[i].state = CUBLAS_STATUS_SUCCESS;
  }
  return library.knows_a_way ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

}  // namespace

namespace stave_cuda {

const CublasLt& cublas() {
  static const CublasLt functions{
      .Create = [](cublasLtHandle_t* handle) { return make<int>(handle, 0); },
      .Matmul = matmul,
      .MatmulAlgoGetHeuristic = advise,
      .MatmulDescCreate = [](cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                             cudaDataType_t scale) { return make<Product>(desc, compute, scale); },
      .MatmulDescDestroy = [](cublasLtMatmulDesc_t desc) { return destroy<Product>(desc); },
      .MatmulDescSetAttribute = set_product,
      .MatrixLayoutCreate = [](cublasLtMatrixLayout_t* layout, cudaDataType type, std::uint64_t rows,
                               std::uint64_t columns,
                               std::int64_t leading) { return make<Layout>(layout, type, rows, columns, leading); },
      .MatrixLayoutDestroy = [](cublasLtMatrixLayout_t layout) { return destroy<Layout>(layout); },
      .MatrixLayoutSetAttribute = set_layout,
      .MatmulPreferenceCreate = [](cublasLtMatmulPreference_t* preference) { return make<Preference>(preference); },
      .MatmulPreferenceDestroy = [](cublasLtMatmulPreference_t preference) { return destroy<Preference>(preference); },
      .MatmulPreferenceSetAttribute = set_preference,
  };
  return functions;
}
void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) throw stave::Error(what);
}

// The CPU's kernels in place of the device's.
void run_copy(const Launch&, const stave::View& in, const stave::View& out) {
  stave::cpu_backend().run(stave::op_copy, nullptr, {&in, 1}, {&out, 1});
}
void run_tiled_matmul(const Launch&, const stave::View& a, const stave::View& b, const stave::View& out) {
  ++library.tiled;
  const stave::View in[] = {a, b};
  stave::cpu_backend().run(stave::op_matmul, nullptr, in, {&out, 1});
}

}  // namespace stave_cuda

// ---- tests -------------------------------------------------------------------------------------

namespace {

using namespace stave;
using stave_test::HostScratch;

Tensor product(const Tensor& a, const Tensor& b) {
  HostScratch scratch;
  const stave_cuda::Launch launch{nullptr, 1, scratch, nullptr, 1};
  Shape shape = a.shape();
  shape.back() = b.shape(-1);
  const Tensor out = astype(full(shape, 99, real_of(a.dtype())), a.dtype());
  stave_cuda::run_matmul(launch, a.node().view(), b.node().view(), out.node().view());
  return out;
}

std::vector<Tensor> layouts(const Tensor& x) {
  const Tensor dense = contiguous(x);
  const std::vector<Tensor> padded = {concat({dense, dense}, -1), concat({dense, dense}, -2)};
  std::vector<Tensor> all = {dense,
                             matrix_transpose(contiguous(matrix_transpose(x))),
                             padded[0](ellipsis, slice(0, x.shape(-1))),
                             padded[1](ellipsis, slice(x.shape(-2), none), slice()),
                             flip(dense, -1),
                             flip(dense, -2),
                             contiguous(repeat(dense, 2, -1))(ellipsis, slice(none, none, 2))};
  if (x.rank() > 2) {
    all.push_back(flip(dense, 0));
    all.push_back(broadcast_to(dense[0], x.shape()));
    all.push_back(moveaxis(contiguous(moveaxis(dense, 0, 1)), 1, 0));
    all.push_back(broadcast_to(dense(slice(0, 1)), x.shape()));
  }
  return all;
}

Tensor numbers(int seed, const Shape& shape, Dtype dtype) {
  if (!is_complex(dtype)) return normal(Key(seed), shape, dtype);
  const Dtype parts = real_of(dtype);
  return stave::complex(normal(Key(seed), shape, parts), normal(Key(seed + 10), shape, parts));
}

void check_products(const Shape& batch, Index m, Index k, Index n, Dtype dtype) {
  Shape a_shape = batch, b_shape = batch;
  for (Index length : {m, k}) a_shape.push_back(length);
  for (Index length : {k, n}) b_shape.push_back(length);
  const Tensor a = numbers(1, a_shape, dtype), b = numbers(2, b_shape, dtype);
  const Dtype parts = real_of(dtype);
  const double tolerance = parts == float64 ? 1e-13 : parts == float32 ? 1e-4 : parts == float16 ? 2e-3 : 2e-2;
  for (const Tensor& x : layouts(a))
    for (const Tensor& y : layouts(b))
      EXPECT_TRUE(allclose(product(x, y), matmul(x, y), tolerance, tolerance))
          << a_shape.str() << x.strides().str() << " by " << b_shape.str() << y.strides().str();
}

TEST(Matmul, EqualsTheCpuInEveryLayout) {
  for (const Dtype dtype : {float16, bfloat16, float32, float64, complex64, complex128}) {
    check_products({}, 3, 4, 5, dtype);
    check_products({}, 1, 7, 6, dtype);
    check_products({}, 7, 1, 6, dtype);
    check_products({}, 7, 6, 1, dtype);
    check_products({3}, 4, 5, 2, dtype);
    check_products({3}, 1, 5, 2, dtype);
    check_products({2, 3}, 4, 5, 3, dtype);
    check_products({5, 2, 2}, 2, 3, 4, dtype);
  }
  EXPECT_EQ(library.tiled, 0);
}

TEST(Matmul, HeuristicIsQueriedOncePerLayout) {
  const Tensor a = normal(Key(1), {30, 40}), b = normal(Key(2), {40, 20});
  const int asked = library.asked;
  for (int i = 0; i < 5; ++i) product(a, b);
  EXPECT_EQ(library.asked, asked + 1);
  product(matrix_transpose(b), matrix_transpose(a));
  EXPECT_EQ(library.asked, asked + 2);
}

TEST(Matmul, UsesFullPrecisionByDefault) {
  product(ones({4, 4}), ones({4, 4}));
  EXPECT_FALSE(library.computed_in.contains(CUBLAS_COMPUTE_32F_FAST_TF32));
}

TEST(Matmul, EmptySumsGiveZeros) {
  EXPECT_TRUE(array_equal(product(zeros({3, 0}), zeros({0, 4})), zeros({3, 4})));
  EXPECT_EQ(product(zeros({0, 3}), zeros({3, 4})).size(), 0);
}

TEST(Matmul, UnsupportedProductsUseTheTiledKernel) {
  const int tiled = library.tiled;
  EXPECT_TRUE(array_equal(product(arange(6)(newaxis), expand_dims(arange(6), 1)), tensor({{55}})));
  EXPECT_EQ(library.tiled, tiled + 1);
  library.knows_a_way = false;
  const Tensor a = normal(Key(1), {31, 40}), b = normal(Key(2), {40, 20});
  EXPECT_TRUE(allclose(product(a, b), matmul(a, b)));
  EXPECT_EQ(library.tiled, tiled + 2);
  library.knows_a_way = true;
}

TEST(Matmul, RefusedAlgorithmsAreReplaced) {
  const auto ways_of = [](const Tensor& a, const Tensor& b, int refusals) {
    library.ways.clear();
    library.refusals = refusals;
    EXPECT_TRUE(allclose(product(a, b), matmul(a, b)));
    library.refusals = 0;
    return library.ways;
  };
  const int tiled = library.tiled;
  const Tensor a = normal(Key(1), {17, 23}), b = normal(Key(2), {23, 19});
  EXPECT_EQ(ways_of(a, b, 1), (std::vector{0, 1}));
  // A refused algorithm is not tried again.
  EXPECT_EQ(ways_of(a, b, 0), (std::vector{1}));
  EXPECT_EQ(library.tiled, tiled);
  library.refusal = CUBLAS_STATUS_INVALID_VALUE;
  // Then the backend's own kernel is used.
  EXPECT_EQ(ways_of(a, b, 9), (std::vector{1, 2}));
  EXPECT_EQ(library.tiled, tiled + 1);
  EXPECT_EQ(ways_of(a, b, 0), (std::vector<int>{}));
  EXPECT_EQ(library.tiled, tiled + 2);
}

TEST(Matmul, ExecutionFailureIsAnError) {
  const Tensor a = normal(Key(1), {18, 23}), b = normal(Key(2), {23, 19});
  library.refusals = 1;
  library.refusal = CUBLAS_STATUS_EXECUTION_FAILED;
  EXPECT_THROW(product(a, b), stave::Error);
  library.refusal = CUBLAS_STATUS_NOT_SUPPORTED;
}

}  // namespace
