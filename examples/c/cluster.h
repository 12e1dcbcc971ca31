/* C functions on arrays. Stave knows nothing else about them. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the Lennard-Jones energy of n particles at x [n, 3]. The units are the depth of the well
 * and the distance at which a pair's energy is 0. */
double cluster_energy(const double* x, long n);
/* Writes the gradient of the energy to g [n, 3]. */
void cluster_gradient(const double* x, long n, double* g);
/* Writes the Hessian of the energy times v [n, 3] to hv [n, 3]. */
void cluster_hessian_product(const double* x, const double* v, long n, double* hv);

/* The same two functions, made by Enzyme. */
void cluster_gradient_by_enzyme(const double* x, long n, double* g);
void cluster_hessian_product_by_enzyme(const double* x, const double* v, long n, double* hv);

#ifdef __cplusplus
}
#endif
