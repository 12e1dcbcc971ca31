// Special functions, in double. float32 is computed in double and rounded once. All of them are
// scalar code, compiled once. kernels/special.cpp computes the common ones in vectors, and leaves
// rare arguments to the scalar code.
//
//   special.cpp                  the scalar kernels, and the driver that runs all kernels
//   special_gamma.cpp            gamma, beta and zeta functions, and derivatives with respect to
//                                parameters
//   special_bessel.cpp           Bessel functions
//   special_integrals.cpp        integrals of elementary functions; the normal distribution
//   special_hypergeometric.cpp   hypergeometric functions
//   special_series.h             polynomials that tests/data/special_series.py fits
#pragma once

#include <span>

#include <stave/core/op/op_id.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

/// Computes a special operation. Inputs and output have one shape and dtype, float32 or float64.
void run_special(stave::OpId op, std::span<const stave::View> inputs, const stave::View& out);

}  // namespace stave_cpu
