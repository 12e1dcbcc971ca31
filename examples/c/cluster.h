/* A function as C has it: nothing of it is known but that it works on arrays. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Lennard-Jones' energy of n particles at x [n, 3], in units of the well's depth and of the distance where a pair's energy is 0. */
double cluster_energy(const double* x, long n);
/* What it changes by with each coordinate: into g [n, 3]. */
void cluster_gradient(const double* x, long n, double* g);
/* Its second derivative times v [n, 3]: into hv [n, 3]. */
void cluster_hessian_product(const double* x, const double* v, long n, double* hv);

/* The same two, by Enzyme. */
void cluster_gradient_by_enzyme(const double* x, long n, double* g);
void cluster_hessian_product_by_enzyme(const double* x, const double* v, long n, double* hv);

#ifdef __cplusplus
}
#endif
