// A C program, without Stave, that uses functions which Stave wrote.
#include <math.h>
#include <stdio.h>

#include "norm.h"
#include "norm_gradient.h"

int main(void) {
  const double x[norm_in0_size] = {3, 4};
  double size, gradient[norm_gradient_gradient_size];
  const int errors = norm(x, &size, NULL) | norm_gradient(x, gradient, NULL);
  const int right = !errors && size == 5 && fabs(gradient[0] - 0.6) < 1e-15 && fabs(gradient[1] - 0.8) < 1e-15;
  puts(right ? "the gradient is right" : "the gradient is wrong");
  return right ? 0 : 1;
}
