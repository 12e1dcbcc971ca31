// Results of products as soon as they are complete.
#pragma once

#include <stave/core/effects/function_ref.h>
#include <stave/core/tensor/shape.h>

namespace stave_cpu {

using stave::Index;

/// Receives complete results of a product while a cache holds them: `rows` rows of `columns`
/// adjacent elements. `first` is the position of the first one in the row-major output, and rows
/// are `step` elements apart. Several threads call it.
using Finished = stave::FunctionRef<void(Index first, Index rows, Index step, Index columns)>;

}  // namespace stave_cpu
