// qr, eigh and svd of stacks of matrices with elements.
#pragma once

#include <stave/core/tensor/backend.h>

namespace stave_cpu {

// T: float or double. `op` names the operation in errors.

/// q and r, of matrices with no more columns than rows.
template <class T>
void run_qr(const stave::View& in, std::span<const stave::View> out);
/// w and v, or w alone.
template <class T>
void run_eigh(const char* op, const stave::View& in, std::span<const stave::View> out);
/// u, s and vh, or s alone.
template <class T>
void run_svd(const char* op, const stave::View& in, std::span<const stave::View> out);

}  // namespace stave_cpu
