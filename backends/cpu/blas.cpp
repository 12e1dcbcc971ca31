// The calls to CBLAS.
#include <stave/backends/cpu/blas.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <string_view>

#include <cblas.h>

#include <stave/backends/cpu/dispatch.h>
#include <stave/core/effects/fork.h>

// OpenBLAS has these functions; other implementations of CBLAS do not.
extern "C" {
__attribute__((weak)) void openblas_set_num_threads(int count);
__attribute__((weak)) int openblas_get_num_threads();
__attribute__((weak)) char* openblas_get_corename();
}

namespace stave_cpu {

namespace {

constinit std::mutex blas_mutex;
const stave_detail::HeldOverFork<blas_mutex> blas_over_fork;
constinit int guards = 0, threads_before = 1;

constexpr Index most_int = std::numeric_limits<int>::max();

/// The arguments of a BLAS call that describe one matrix.
struct BlasMatrix {
  CBLAS_TRANSPOSE transpose = CblasNoTrans;
  int leading = 0;
};

/// Describes x for BLAS. Returns false if neither its rows nor its columns are dense, if they
/// overlap, or if a size exceeds `most`.
bool describe(const Matrix& x, BlasMatrix& blas, Index most = most_int) {
  if (std::max(x.rows, x.columns) > most) return false;
  auto fits = [most](Index leading, Index least) { return leading >= std::max<Index>(1, least) && leading <= most; };
  // The step along an axis of length 1 does not matter, so it is set to one that BLAS accepts.
  Index row_step = x.rows == 1 ? std::max<Index>(1, x.columns) : x.row_step;
  Index column_step = x.columns == 1 ? 1 : x.column_step;
  if (column_step == 1 && fits(row_step, x.columns)) {
    blas = {CblasNoTrans, static_cast<int>(row_step)};
    return true;
  }
  row_step = x.rows == 1 ? 1 : x.row_step;
  column_step = x.columns == 1 ? std::max<Index>(1, x.rows) : x.column_step;
  if (row_step != 1 || !fits(column_step, x.rows)) return false;
  blas = {CblasTrans, static_cast<int>(column_step)};
  return true;
}

void gemm(float* out, int out_step, const Matrix& a, BlasMatrix la, const Matrix& b, BlasMatrix lb) {
  cblas_sgemm(CblasRowMajor, la.transpose, lb.transpose, static_cast<int>(a.rows), static_cast<int>(b.columns),
              static_cast<int>(a.columns), 1, reinterpret_cast<const float*>(a.data), la.leading,
              reinterpret_cast<const float*>(b.data), lb.leading, 0, out, out_step);
}
void gemm(double* out, int out_step, const Matrix& a, BlasMatrix la, const Matrix& b, BlasMatrix lb) {
  cblas_dgemm(CblasRowMajor, la.transpose, lb.transpose, static_cast<int>(a.rows), static_cast<int>(b.columns),
              static_cast<int>(a.columns), 1, reinterpret_cast<const double*>(a.data), la.leading,
              reinterpret_cast<const double*>(b.data), lb.leading, 0, out, out_step);
}
using stave::ComplexElement;

template <class T>
constexpr ComplexElement<T> one{1, 0};
template <class T>
constexpr ComplexElement<T> zero{0, 0};

void gemm(ComplexElement<float>* out, int out_step, const Matrix& a, BlasMatrix la, const Matrix& b, BlasMatrix lb) {
  cblas_cgemm(CblasRowMajor, la.transpose, lb.transpose, static_cast<int>(a.rows), static_cast<int>(b.columns),
              static_cast<int>(a.columns), &one<float>, a.data, la.leading, b.data, lb.leading, &zero<float>, out,
              out_step);
}
void gemm(ComplexElement<double>* out, int out_step, const Matrix& a, BlasMatrix la, const Matrix& b, BlasMatrix lb) {
  cblas_zgemm(CblasRowMajor, la.transpose, lb.transpose, static_cast<int>(a.rows), static_cast<int>(b.columns),
              static_cast<int>(a.columns), &one<double>, a.data, la.leading, b.data, lb.leading, &zero<double>, out,
              out_step);
}
void gemv(ComplexElement<float>* out, int out_step, CBLAS_TRANSPOSE transpose, int rows, int columns, const char* a,
          int leading, const char* x, int step) {
  cblas_cgemv(CblasRowMajor, transpose, rows, columns, &one<float>, a, leading, x, step, &zero<float>, out, out_step);
}
void gemv(ComplexElement<double>* out, int out_step, CBLAS_TRANSPOSE transpose, int rows, int columns, const char* a,
          int leading, const char* x, int step) {
  cblas_zgemv(CblasRowMajor, transpose, rows, columns, &one<double>, a, leading, x, step, &zero<double>, out, out_step);
}
void gemv(float* out, int out_step, CBLAS_TRANSPOSE transpose, int rows, int columns, const char* a, int leading,
          const char* x, int step) {
  cblas_sgemv(CblasRowMajor, transpose, rows, columns, 1, reinterpret_cast<const float*>(a), leading,
              reinterpret_cast<const float*>(x), step, 0, out, out_step);
}
void gemv(double* out, int out_step, CBLAS_TRANSPOSE transpose, int rows, int columns, const char* a, int leading,
          const char* x, int step) {
  cblas_dgemv(CblasRowMajor, transpose, rows, columns, 1, reinterpret_cast<const double*>(a), leading,
              reinterpret_cast<const double*>(x), step, 0, out, out_step);
}

/// Computes the product of a matrix and a vector: out = x v, or out = x^T v.
template <class T>
void times_vector(T* out, Index out_step, const Matrix& x, bool transposed, const char* v, Index step) {
  BlasMatrix blas;
  describe(x, blas);
  bool column_major = blas.transpose == CblasTrans;
  Index rows = column_major ? x.columns : x.rows, columns = column_major ? x.rows : x.columns;
  gemv(out, static_cast<int>(out_step), column_major != transposed ? CblasTrans : CblasNoTrans, static_cast<int>(rows),
       static_cast<int>(columns), x.data, blas.leading, v, static_cast<int>(step));
}

}  // namespace

SingleThreadedBlas::SingleThreadedBlas() {
  if (!openblas_set_num_threads) return;
  std::lock_guard lock(blas_mutex);
  if (guards++ > 0) return;
  threads_before = openblas_get_num_threads();
  openblas_set_num_threads(1);
}
SingleThreadedBlas::~SingleThreadedBlas() {
  if (!openblas_set_num_threads) return;
  std::lock_guard lock(blas_mutex);
  if (--guards == 0) openblas_set_num_threads(threads_before);
}

bool blas_knows_processor() {
  if (!openblas_get_corename || std::string_view(kernels().isa) != "avx512") return true;
  static const bool uses_avx512 = [] {
    const std::string_view core = openblas_get_corename();
    constexpr std::string_view with_avx512[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
    return std::find(std::begin(with_avx512), std::end(with_avx512), core) != std::end(with_avx512);
  }();
  return uses_avx512;
}

bool blas_reads(const Matrix& x) {
  BlasMatrix blas;
  return describe(x, blas);
}
bool blas_reads_parts(const Matrix& x) {
  BlasMatrix blas;
  return describe(x, blas, std::numeric_limits<Index>::max());
}

template <class T>
void multiply_floats(T* out, Index out_step, const Matrix& a, const Matrix& b) {
  Index vector_step = b.columns == 1 ? (b.rows == 1 ? 1 : b.row_step) : (a.columns == 1 ? 1 : a.column_step);
  bool steps_fit = vector_step > 0 && vector_step <= most_int && out_step <= most_int;
  if (b.columns == 1 && steps_fit) return times_vector(out, out_step, a, false, b.data, vector_step);
  if (a.rows == 1 && b.columns > 1 && steps_fit) return times_vector(out, 1, b, true, a.data, vector_step);
  BlasMatrix la, lb;
  describe(a, la);
  describe(b, lb);
  gemm(out, static_cast<int>(std::max(out_step, b.columns)), a, la, b, lb);
}
template void multiply_floats<float>(float* out, Index out_step, const Matrix& a, const Matrix& b);
template void multiply_floats<double>(double* out, Index out_step, const Matrix& a, const Matrix& b);
template void multiply_floats<ComplexElement<float>>(ComplexElement<float>* out, Index out_step, const Matrix& a,
                                                     const Matrix& b);
template void multiply_floats<ComplexElement<double>>(ComplexElement<double>* out, Index out_step, const Matrix& a,
                                                      const Matrix& b);

}  // namespace stave_cpu
