// Gathering by integer tensors, and its transpose.
#pragma once

#include <stave/core/backend.h>

namespace stave_cpu {

/// As declared in core/ops/attributes.h. Both throw stave::IndexError before anything is written.
void run_gather(const stave::GatherAttributes& attributes, const stave::View& x, const stave::View& indices,
                const stave::View& out);
void run_scatter_add(const stave::GatherAttributes& attributes, const stave::View& x, const stave::View& indices,
                     const stave::View& updates, const stave::View& out);

}  // namespace stave_cpu
