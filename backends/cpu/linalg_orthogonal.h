// qr, eigh and svd of stacks of matrices that are not empty.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

// T: float or double. `op` names the operation in errors.

/// Computes q and r of each matrix, which has no more columns than rows.
template <class T>
void run_qr(const stave::View& in, std::span<const stave::View> out);
/// Computes w and v, or w alone.
template <class T>
void run_eigh(const char* op, const stave::View& in, std::span<const stave::View> out);
/// Computes u, s and vh, or s alone.
template <class T>
void run_svd(const char* op, const stave::View& in, std::span<const stave::View> out);

}  // namespace stave_cpu
