// Stave: plain functions of tensors, in which every operation can be intercepted.
//
// This header is all of the library. Start reading at core/effects/effect.h (performing and handling), core/tensor/tensor.h (values),
// core/op/op.h (operations), handlers/transforms/vjp_flat.h (a handler).
#pragma once

#include <stave/core/effects/settings.h>

#include <stave/core.h>

#include <stave/core/io/checkpoints.h>
#include <stave/core/io/dlpack.h>
#include <stave/core/io/io.h>
#include <stave/core/io/programs.h>
#include <stave/handlers/debugger/debugger.h>
#include <stave/handlers/debugger/stepper.h>
#include <stave/handlers/inference/diagnostics.h>
#include <stave/handlers/inference/distributions.h>
#include <stave/handlers/inference/mcmc.h>
#include <stave/handlers/inference/sample.h>
#include <stave/handlers/model/apply.h>
#include <stave/handlers/model/param.h>
#include <stave/handlers/model/report.h>
#include <stave/handlers/model/summary.h>
#include <stave/handlers/numerics/minimize.h>
#include <stave/handlers/numerics/odeint.h>
#include <stave/handlers/numerics/optimizers.h>
#include <stave/handlers/observe/graph.h>
#include <stave/handlers/observe/html_report.h>
#include <stave/handlers/observe/profile.h>
#include <stave/handlers/observe/stepping.h>
#include <stave/handlers/observe/timeline.h>
#include <stave/handlers/observe/whos.h>
#include <stave/handlers/transforms/check_op.h>
#include <stave/handlers/transforms/concurrently.h>
