// qr, eigh and svd of stacks of matrices that are not empty.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

// T is float, double or std::complex of them. `op` names the operation in error messages.

/// Computes q and r of each matrix, which has no more columns than rows.
template <class T>
void run_qr(const stave::View& in, std::span<const stave::View> out);
/// Computes the eigenvalues w and the eigenvectors v, or w alone if there is one output.
template <class T>
void run_eigh(const char* op, const stave::View& in, std::span<const stave::View> out);
/// Computes the factors u, s and vh of the svd, or s alone if there is one output.
template <class T>
void run_svd(const char* op, const stave::View& in, std::span<const stave::View> out);

}  // namespace stave_cpu
