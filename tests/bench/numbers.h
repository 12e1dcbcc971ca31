// Fourier transforms, which are compared with PyTorch, JAX and SciPy, and special functions, which
// are compared with SciPy on one thread. numbers.cpp implements Stave's side, peer_numbers.py the
// peers' side, and bars.cpp has a bar for each. peer_numbers.py reads the ranges from this file.
#pragma once

// clang-format off
#define STAVE_COMPARED_TRANSFORMS(X)                                                                               \
  X(fft_1m) X(fft_1m_real) X(fft_rows) X(fft_rows_real) X(fft_prime) X(fft_prime_real) X(fft_3d) X(fft_3d_real)

// X(name, low, high, ...): a function, and the range of each of its arguments.
#define STAVE_COMPARED_SPECIAL_FUNCTIONS(X)                                                                        \
  X(gammainc, 0.1, 50, 0.1, 50)                                                                                    \
  X(gammaincc, 0.1, 50, 0.1, 50)                                                                                   \
  X(betainc, 0.1, 50, 0.1, 50, 0, 1)                                                                               \
  X(betaln, 0.1, 50, 0.1, 50)                                                                                      \
  X(poch, 0.1, 50, 0.1, 50)                                                                                        \
  X(multigammaln, 1.1, 50)                                                                                         \
  X(gammasgn, -50, 50)                                                                                             \
  X(ndtri, 0, 1)                                                                                                   \
  X(log_ndtr, -20, 5)                                                                                              \
  X(erfcx, -5, 20)                                                                                                 \
  X(erfcinv, 0, 2)                                                                                                 \
  X(dawsn, -10, 10)                                                                                                \
  X(fresnel, -10, 10)                                                                                              \
  X(bessel_j0, -50, 50)                                                                                            \
  X(bessel_j1, -50, 50)                                                                                            \
  X(bessel_y0, 0, 50)                                                                                              \
  X(bessel_y1, 0, 50)                                                                                              \
  X(bessel_i0, -50, 50)                                                                                            \
  X(bessel_i0e, -50, 50)                                                                                           \
  X(bessel_i1, -50, 50)                                                                                            \
  X(bessel_i1e, -50, 50)                                                                                           \
  X(bessel_k0, 0, 50)                                                                                              \
  X(bessel_k0e, 0, 50)                                                                                             \
  X(bessel_k1, 0, 50)                                                                                              \
  X(bessel_k1e, 0, 50)                                                                                             \
  X(bessel_jn, -50, 50)                                                                                            \
  X(expi, -20, 20)                                                                                                 \
  X(exp1, 0, 20)                                                                                                   \
  X(expn, 0, 20)                                                                                                   \
  X(spence, 0, 10)                                                                                                 \
  X(sici, 0, 50)                                                                                                   \
  X(hyp1f1, 0.1, 10, 0.1, 10, -10, 10)                                                                             \
  X(hyp2f1, 0.1, 5, 0.1, 5, 0.1, 10, -1, 1)                                                                        \
  X(rel_entr, 0, 1, 0, 1)                                                                                          \
  X(kl_div, 0, 1, 0, 1)                                                                                            \
  X(sinc, -10, 10)                                                                                                 \
  X(lambertw, -0.35, 20)                                                                                           \
  X(weighted_logsumexp, -20, 20, 0, 1)
// clang-format on
