// Stave: plain functions of tensors, in which every operation can be intercepted.
//
// This header is all of the library. Start reading at core/effects/effect.h (performing and handling), core/tensor.h (values),
// core/op.h (operations), handlers/vjp_flat.h (a handler).
#pragma once

#include <stave/core/effects/settings.h>

#include <stave/core.h>

#include <stave/core/checkpoints.h>
#include <stave/core/dlpack.h>
#include <stave/core/io.h>
#include <stave/core/optimizers.h>
#include <stave/handlers/check_op.h>
#include <stave/handlers/concurrently.h>
#include <stave/handlers/debugger.h>
#include <stave/handlers/diagnostics.h>
#include <stave/handlers/distributions.h>
#include <stave/handlers/graph.h>
#include <stave/handlers/html_report.h>
#include <stave/handlers/mcmc.h>
#include <stave/handlers/minimize.h>
#include <stave/handlers/odeint.h>
#include <stave/handlers/param.h>
#include <stave/handlers/profile.h>
#include <stave/handlers/report.h>
#include <stave/handlers/sample.h>
#include <stave/handlers/stepper.h>
#include <stave/handlers/stepping.h>
#include <stave/handlers/summary.h>
#include <stave/handlers/timeline.h>
#include <stave/handlers/whos.h>
