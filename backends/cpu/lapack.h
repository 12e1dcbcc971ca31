// LAPACK's functions, overloaded by the type of the numbers. Matrices are column-major.
// Each function returns LAPACK's info: 0, or an error code.
#pragma once

#include <lapacke.h>

namespace stave_cpu {

#define STAVE_LAPACK(T, p)                                                                                           \
  inline lapack_int potrf(char uplo, lapack_int n, T* a, lapack_int lda) {                                           \
    return LAPACKE_##p##potrf_work(LAPACK_COL_MAJOR, uplo, n, a, lda);                                               \
  }                                                                                                                  \
  inline lapack_int getrf(lapack_int m, lapack_int n, T* a, lapack_int lda, lapack_int* pivots) {                    \
    return LAPACKE_##p##getrf_work(LAPACK_COL_MAJOR, m, n, a, lda, pivots);                                          \
  }                                                                                                                  \
  inline lapack_int geqrf(lapack_int m, lapack_int n, T* a, lapack_int lda, T* tau, T* work, lapack_int count) {     \
    return LAPACKE_##p##geqrf_work(LAPACK_COL_MAJOR, m, n, a, lda, tau, work, count);                                \
  }                                                                                                                  \
  inline lapack_int orgqr(lapack_int m, lapack_int n, lapack_int k, T* a, lapack_int lda, const T* tau, T* work,     \
                          lapack_int count) {                                                                        \
    return LAPACKE_##p##orgqr_work(LAPACK_COL_MAJOR, m, n, k, a, lda, tau, work, count);                             \
  }                                                                                                                  \
  inline lapack_int syevd(char job, lapack_int n, T* a, lapack_int lda, T* w, T* work, lapack_int count,             \
                          lapack_int* integers, lapack_int integer_count) {                                          \
    return LAPACKE_##p##syevd_work(LAPACK_COL_MAJOR, job, 'L', n, a, lda, w, work, count, integers, integer_count);  \
  }                                                                                                                  \
  inline lapack_int gesdd(char job, lapack_int m, lapack_int n, T* a, lapack_int lda, T* s, T* u, lapack_int ldu,    \
                          T* vt, lapack_int ldvt, T* work, lapack_int count, lapack_int* integers) {                 \
    return LAPACKE_##p##gesdd_work(LAPACK_COL_MAJOR, job, m, n, a, lda, s, u, ldu, vt, ldvt, work, count, integers); \
  }
STAVE_LAPACK(float, s)
STAVE_LAPACK(double, d)
#undef STAVE_LAPACK

}  // namespace stave_cpu
