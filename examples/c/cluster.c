/* The energy, with derivatives by hand. For s = 1 / r^2 a pair's energy is 4 (s^6 - s^3). */
#include "cluster.h"

static double dot(const double* a, const double* b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

double cluster_energy(const double* x, long n) {
  double energy = 0;
  for (long i = 0; i < n; ++i)
    for (long j = 0; j < i; ++j) {
      const double d[3] = {x[3 * i] - x[3 * j], x[3 * i + 1] - x[3 * j + 1], x[3 * i + 2] - x[3 * j + 2]};
      const double s = 1 / dot(d, d), s3 = s * s * s;
      energy += 4 * (s3 * s3 - s3);
    }
  return energy;
}

/* A pair's energy is u(r^2) for the difference d of its positions. The gradient is 2 u' d, and the
 * Hessian times w is 2 u' w + 4 u'' d (d w). */
void cluster_gradient(const double* x, long n, double* g) {
  for (long k = 0; k < 3 * n; ++k) g[k] = 0;
  for (long i = 0; i < n; ++i)
    for (long j = 0; j < i; ++j) {
      const double d[3] = {x[3 * i] - x[3 * j], x[3 * i + 1] - x[3 * j + 1], x[3 * i + 2] - x[3 * j + 2]};
      const double s = 1 / dot(d, d), s3 = s * s * s;
      const double slope = 4 * s * (3 * s3 - 6 * s3 * s3);
      for (int k = 0; k < 3; ++k) {
        g[3 * i + k] += 2 * slope * d[k];
        g[3 * j + k] -= 2 * slope * d[k];
      }
    }
}

void cluster_hessian_product(const double* x, const double* v, long n, double* hv) {
  for (long k = 0; k < 3 * n; ++k) hv[k] = 0;
  for (long i = 0; i < n; ++i)
    for (long j = 0; j < i; ++j) {
      const double d[3] = {x[3 * i] - x[3 * j], x[3 * i + 1] - x[3 * j + 1], x[3 * i + 2] - x[3 * j + 2]};
      const double w[3] = {v[3 * i] - v[3 * j], v[3 * i + 1] - v[3 * j + 1], v[3 * i + 2] - v[3 * j + 2]};
      const double s = 1 / dot(d, d), s3 = s * s * s;
      const double slope = 4 * s * (3 * s3 - 6 * s3 * s3), bend = 4 * s * s * (42 * s3 * s3 - 12 * s3);
      for (int k = 0; k < 3; ++k) {
        const double part = 2 * slope * w[k] + 4 * bend * dot(d, w) * d[k];
        hv[3 * i + k] += part;
        hv[3 * j + k] -= part;
      }
    }
}
