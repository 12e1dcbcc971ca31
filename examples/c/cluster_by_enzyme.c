/* Derivatives by Enzyme (https://enzyme.mit.edu), which differentiates the compiler's intermediate
 * code. This file needs clang with Enzyme's plugin. The gradient is reverse mode, and the Hessian
 * product is forward mode over it. */
#include "cluster.c"

extern int enzyme_dup, enzyme_const;
extern double __enzyme_autodiff(void*, ...);
extern void __enzyme_fwddiff(void*, ...);

void cluster_gradient_by_enzyme(const double* x, long n, double* g) {
  for (long k = 0; k < 3 * n; ++k) g[k] = 0;
  __enzyme_autodiff((void*)cluster_energy, enzyme_dup, x, g, enzyme_const, n);
}

void cluster_hessian_product_by_enzyme(const double* x, const double* v, long n, double* hv) {
  double g[3 * n];
  __enzyme_fwddiff((void*)cluster_gradient_by_enzyme, enzyme_dup, x, v, enzyme_const, n, enzyme_dup, g, hv);
}
