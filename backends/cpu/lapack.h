// LAPACK's functions, overloaded by the type of the numbers. Matrices are column-major.
// Each function returns LAPACK's info: 0, or an error code.
//
// For complex numbers, orgqr is LAPACK's ungqr, syevd its heevd and sytrf its hetrf. Those
// functions that need a buffer of real numbers take it last; the others have no such argument.
#pragma once

#include <complex>

#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#include <lapacke.h>

namespace stave_cpu {

#define STAVE_LAPACK_OF_ALL(T, p)                                                                                 \
  inline lapack_int potrf(char uplo, lapack_int n, T* a, lapack_int lda) {                                        \
    return LAPACKE_##p##potrf_work(LAPACK_COL_MAJOR, uplo, n, a, lda);                                            \
  }                                                                                                               \
  inline lapack_int getrf(lapack_int m, lapack_int n, T* a, lapack_int lda, lapack_int* pivots) {                 \
    return LAPACKE_##p##getrf_work(LAPACK_COL_MAJOR, m, n, a, lda, pivots);                                       \
  }                                                                                                               \
  inline lapack_int gesv(lapack_int n, T* a, lapack_int* pivots, T* b) {                                          \
    return LAPACKE_##p##gesv_work(LAPACK_COL_MAJOR, n, n, a, n, pivots, b, n);                                    \
  }                                                                                                               \
  inline lapack_int geqrf(lapack_int m, lapack_int n, T* a, lapack_int lda, T* tau, T* work, lapack_int count) {  \
    return LAPACKE_##p##geqrf_work(LAPACK_COL_MAJOR, m, n, a, lda, tau, work, count);                             \
  }                                                                                                               \
  inline lapack_int trsyl(char left, char right, lapack_int m, lapack_int n, const T* a, const T* b, T* c,        \
                          decltype(std::abs(T()))* scale) {                                                       \
    return LAPACKE_##p##trsyl_work(LAPACK_COL_MAJOR, left, right, 1, m, n, a, m, b, n, c, m, scale);              \
  }                                                                                                               \
  inline lapack_int gbtrf(lapack_int n, lapack_int lower, lapack_int upper, T* bands, lapack_int* pivots) {       \
    return LAPACKE_##p##gbtrf_work(LAPACK_COL_MAJOR, n, n, lower, upper, bands, 2 * lower + upper + 1, pivots);   \
  }                                                                                                               \
  inline lapack_int gbtrs(char transpose, lapack_int n, lapack_int lower, lapack_int upper, lapack_int k,         \
                          const T* bands, const lapack_int* pivots, T* b) {                                       \
    return LAPACKE_##p##gbtrs_work(LAPACK_COL_MAJOR, transpose, n, lower, upper, k, bands, 2 * lower + upper + 1, \
                                   pivots, b, n);                                                                 \
  }
STAVE_LAPACK_OF_ALL(float, s)
STAVE_LAPACK_OF_ALL(double, d)
STAVE_LAPACK_OF_ALL(std::complex<float>, c)
STAVE_LAPACK_OF_ALL(std::complex<double>, z)
#undef STAVE_LAPACK_OF_ALL

#define STAVE_LAPACK(T, p)                                                                                            \
  inline lapack_int orgqr(lapack_int m, lapack_int n, lapack_int k, T* a, lapack_int lda, const T* tau, T* work,      \
                          lapack_int count) {                                                                         \
    return LAPACKE_##p##orgqr_work(LAPACK_COL_MAJOR, m, n, k, a, lda, tau, work, count);                              \
  }                                                                                                                   \
  inline lapack_int syevd(char job, lapack_int n, T* a, lapack_int lda, T* w, T* work, lapack_int count,              \
                          lapack_int* integers, lapack_int integer_count) {                                           \
    return LAPACKE_##p##syevd_work(LAPACK_COL_MAJOR, job, 'L', n, a, lda, w, work, count, integers, integer_count);   \
  }                                                                                                                   \
  inline lapack_int gesdd(char job, lapack_int m, lapack_int n, T* a, lapack_int lda, T* s, T* u, lapack_int ldu,     \
                          T* vt, lapack_int ldvt, T* work, lapack_int count, lapack_int* integers) {                  \
    return LAPACKE_##p##gesdd_work(LAPACK_COL_MAJOR, job, m, n, a, lda, s, u, ldu, vt, ldvt, work, count, integers);  \
  }                                                                                                                   \
  inline lapack_int geev(char job, lapack_int n, T* a, T* re, T* im, T* v, T* work, lapack_int count) {               \
    return LAPACKE_##p##geev_work(LAPACK_COL_MAJOR, 'N', job, n, a, n, re, im, nullptr, 1, v, n, work, count);        \
  }                                                                                                                   \
  inline lapack_int gees(lapack_int n, T* a, T* re, T* im, T* v, T* work, lapack_int count) {                         \
    lapack_int selected;                                                                                              \
    return LAPACKE_##p##gees_work(LAPACK_COL_MAJOR, 'V', 'N', nullptr, n, a, n, &selected, re, im, v, n, work, count, \
                                  nullptr);                                                                           \
  }                                                                                                                   \
  inline lapack_int sytrf(lapack_int n, T* a, lapack_int* pivots, T* work, lapack_int count) {                        \
    return LAPACKE_##p##sytrf_work(LAPACK_COL_MAJOR, 'L', n, a, n, pivots, work, count);                              \
  }
STAVE_LAPACK(float, s)
STAVE_LAPACK(double, d)
#undef STAVE_LAPACK

#define STAVE_LAPACK(R, p)                                                                                             \
  inline lapack_int orgqr(lapack_int m, lapack_int n, lapack_int k, std::complex<R>* a, lapack_int lda,                \
                          const std::complex<R>* tau, std::complex<R>* work, lapack_int count) {                       \
    return LAPACKE_##p##ungqr_work(LAPACK_COL_MAJOR, m, n, k, a, lda, tau, work, count);                               \
  }                                                                                                                    \
  inline lapack_int syevd(char job, lapack_int n, std::complex<R>* a, lapack_int lda, R* w, std::complex<R>* work,     \
                          lapack_int count, lapack_int* integers, lapack_int integer_count, R* reals,                  \
                          lapack_int real_count) {                                                                     \
    return LAPACKE_##p##heevd_work(LAPACK_COL_MAJOR, job, 'L', n, a, lda, w, work, count, reals, real_count, integers, \
                                   integer_count);                                                                     \
  }                                                                                                                    \
  inline lapack_int gesdd(char job, lapack_int m, lapack_int n, std::complex<R>* a, lapack_int lda, R* s,              \
                          std::complex<R>* u, lapack_int ldu, std::complex<R>* vt, lapack_int ldvt,                    \
                          std::complex<R>* work, lapack_int count, lapack_int* integers, R* reals) {                   \
    return LAPACKE_##p##gesdd_work(LAPACK_COL_MAJOR, job, m, n, a, lda, s, u, ldu, vt, ldvt, work, count, reals,       \
                                   integers);                                                                          \
  }                                                                                                                    \
  inline lapack_int geev(char job, lapack_int n, std::complex<R>* a, std::complex<R>* w, std::complex<R>* v,           \
                         std::complex<R>* work, lapack_int count, R* reals) {                                          \
    return LAPACKE_##p##geev_work(LAPACK_COL_MAJOR, 'N', job, n, a, n, w, nullptr, 1, v, n, work, count, reals);       \
  }                                                                                                                    \
  inline lapack_int gees(lapack_int n, std::complex<R>* a, std::complex<R>* w, std::complex<R>* v,                     \
                         std::complex<R>* work, lapack_int count, R* reals) {                                          \
    lapack_int selected;                                                                                               \
    return LAPACKE_##p##gees_work(LAPACK_COL_MAJOR, 'V', 'N', nullptr, n, a, n, &selected, w, v, n, work, count,       \
                                  reals, nullptr);                                                                     \
  }                                                                                                                    \
  inline lapack_int sytrf(lapack_int n, std::complex<R>* a, lapack_int* pivots, std::complex<R>* work,                 \
                          lapack_int count) {                                                                          \
    return LAPACKE_##p##hetrf_work(LAPACK_COL_MAJOR, 'L', n, a, n, pivots, work, count);                               \
  }
STAVE_LAPACK(float, c)
STAVE_LAPACK(double, z)
#undef STAVE_LAPACK

}  // namespace stave_cpu
