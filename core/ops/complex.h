// Complex numbers: their parts, and tensors made of parts.
//
// The functions of elementwise.h take complex operands where NumPy's do. Branch cuts and special
// values follow the C standard's Annex G; multiplication computes (a + ib) (c + id) as
// (ac - bd) + i (ad + bc), even for infinite parts. Comparisons by order, rounding towards one side
// and sorting throw DtypeError.
//
// Derivatives follow JAX. The gradient of a real loss L with respect to z = x + iy is dL/dx - i
// dL/dy, so a step of gradient descent is z - rate * conj(gradient). A function is linear in its
// tangents over the real numbers, and cotangents are not conjugated.
#pragma once

#include <stave/core/tensor/tensor.h>

namespace stave {

/// re + i im. The operands are promoted to a common floating dtype: float32 gives complex64,
/// float64 complex128. Integers and sixteen-bit floats count as float32. Throws DtypeError for
/// complex operands.
Tensor complex(Operand re, Operand im);
/// The real part, of the dtype of the parts. A real tensor is returned as it is.
Tensor real(const Tensor& z);
/// The imaginary part, of the dtype of the parts; zeros for a real tensor.
Tensor imag(const Tensor& z);
/// The complex conjugate. A real tensor is returned as it is.
Tensor conj(const Tensor& z);
/// The angle of z in [-pi, pi], as atan2(imag(z), real(z)). For a real x it is 0 or pi, or NaN for
/// NaN; integers become default_dtype(). The derivative at 0 is 0.
Tensor angle(const Tensor& z);

}  // namespace stave
