// Tensors, operations, handlers and effects, the transforms, and compiled programs: all of <stave/stave.h> but for files, optimizers,
// solvers, samplers, reports and the debugger, in little more than half the time to compile.
#pragma once

#ifdef STAVE_ISA
#error \
    "a file that stave_add_kernels compiles includes <stave/backends/cpu/own_kernels.h> in place of <stave/stave.h>, which does more"
#endif

#include <stave/core/effects/settings.h>

#include <stave/core/effects/controller.h>
#include <stave/core/effects/effect.h>
#include <stave/core/effects/error.h>
#include <stave/core/effects/scope.h>
#include <stave/core/effects/yield.h>
#include <stave/core/op/define.h>
#include <stave/core/op/op.h>
#include <stave/core/ops/at.h>
#include <stave/core/ops/attention.h>
#include <stave/core/ops/collective.h>
#include <stave/core/ops/complex.h>
#include <stave/core/ops/contract.h>
#include <stave/core/ops/convolution.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/fft.h>
#include <stave/core/ops/index.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/linalg.h>
#include <stave/core/ops/losses.h>
#include <stave/core/ops/named_tensors.h>
#include <stave/core/ops/network.h>
#include <stave/core/ops/normalize.h>
#include <stave/core/ops/pooling.h>
#include <stave/core/ops/random.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/scan.h>
#include <stave/core/ops/search.h>
#include <stave/core/ops/signal.h>
#include <stave/core/ops/softmax.h>
#include <stave/core/ops/sort.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/ops/tree.h>
#include <stave/core/program/fused.h>
#include <stave/core/program/loop.h>
#include <stave/core/program/passes/passes.h>
#include <stave/core/program/region.h>
#include <stave/core/tensor/default_dtype.h>
#include <stave/core/tensor/label.h>
#include <stave/core/tensor/note.h>
#include <stave/core/tensor/read_storage.h>
#include <stave/core/tensor/storage.h>
#include <stave/core/tensor/tensor.h>
#include <stave/core/tensor/tensor_register.h>
#include <stave/handlers/compile/compile.h>
#include <stave/handlers/compile/elementwise_op.h>
#include <stave/handlers/compile/trace.h>
#include <stave/handlers/model/keys.h>
#include <stave/handlers/numerics/solvers.h>
#include <stave/handlers/observe/debug.h>
#include <stave/handlers/transforms/check_grads.h>
#include <stave/handlers/transforms/checkpoint.h>
#include <stave/handlers/transforms/custom.h>
#include <stave/handlers/transforms/grad.h>
#include <stave/handlers/transforms/host_call.h>
#include <stave/handlers/transforms/jacobian.h>
#include <stave/handlers/transforms/jvp.h>
#include <stave/handlers/transforms/linearize.h>
#include <stave/handlers/transforms/loop.h>
#include <stave/handlers/transforms/operations_of.h>
#include <stave/handlers/transforms/repeat.h>
#include <stave/handlers/transforms/sow.h>
#include <stave/handlers/transforms/vjp.h>
#include <stave/handlers/transforms/vmap.h>
