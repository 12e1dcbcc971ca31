// Operations that create, move or place elements, on the CPU.
#pragma once

#include <stave/core/op/attributes.h>
#include <stave/core/tensor/backend.h>

namespace stave_cpu {

void run_full(const stave::FullAttributes& attributes, const stave::View& out);
void run_iota(const stave::IotaAttributes& attributes, const stave::View& out);
/// Copies the elements of `in` in row-major order, whatever the shape of `out`.
void run_copy(const stave::View& in, const stave::View& out);
void run_pad(const stave::PadAttributes& attributes, const stave::View& in, const stave::View& out);
void run_concat(int axis, std::span<const stave::View> inputs, const stave::View& out);

}  // namespace stave_cpu
