// Tensors, operations, handlers and effects, the transforms, and compiled programs: all of <stave/stave.h> but for files, optimizers,
// solvers, samplers, reports and the debugger, in little more than half the time to compile.
#pragma once

#ifdef STAVE_ISA
#error \
    "a file that stave_add_kernels compiles includes <stave/backends/cpu/own_kernels.h> in place of <stave/stave.h>, which does more"
#endif

#include <stave/core/effects/settings.h>

#include <stave/core/default_dtype.h>
#include <stave/core/effects/controller.h>
#include <stave/core/effects/effect.h>
#include <stave/core/effects/error.h>
#include <stave/core/effects/scope.h>
#include <stave/core/effects/yield.h>
#include <stave/core/label.h>
#include <stave/core/note.h>
#include <stave/core/op.h>
#include <stave/core/ops/at.h>
#include <stave/core/ops/attention.h>
#include <stave/core/ops/collective.h>
#include <stave/core/ops/contract.h>
#include <stave/core/ops/convolution.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/define.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/fused.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>
#include <stave/core/ops/losses.h>
#include <stave/core/ops/network.h>
#include <stave/core/ops/normalize.h>
#include <stave/core/ops/pooling.h>
#include <stave/core/ops/random.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/scan.h>
#include <stave/core/ops/search.h>
#include <stave/core/ops/softmax.h>
#include <stave/core/ops/sort.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/read_storage.h>
#include <stave/core/region.h>
#include <stave/core/storage.h>
#include <stave/core/tensor.h>
#include <stave/core/track.h>
#include <stave/core/tree.h>
#include <stave/handlers/check_grads.h>
#include <stave/handlers/checkpoint.h>
#include <stave/handlers/custom.h>
#include <stave/handlers/debug.h>
#include <stave/handlers/elementwise_op.h>
#include <stave/handlers/grad.h>
#include <stave/handlers/host_call.h>
#include <stave/handlers/jacobian.h>
#include <stave/handlers/jvp.h>
#include <stave/handlers/keys.h>
#include <stave/handlers/linearize.h>
#include <stave/handlers/named_tensors.h>
#include <stave/handlers/operations_of.h>
#include <stave/handlers/repeat.h>
#include <stave/handlers/solvers.h>
#include <stave/handlers/sow.h>
#include <stave/handlers/vjp.h>
#include <stave/handlers/vmap.h>
#include <stave/programs/compile.h>
#include <stave/programs/loop.h>
#include <stave/programs/passes/passes.h>
#include <stave/programs/trace.h>
