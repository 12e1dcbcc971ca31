// Executes the bodies of scan kernels on the host.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <stave/backends/cuda/scan_plan.h>
#include <stave/backends/cuda/kernels/scan.cuh>

namespace stave_test {

/// Executes the stages of a plan. run(tasks, body) calls the body for the blocks of one launch.
template <class Step, class Run>
void scan_on_host(const stave_cuda::ScanPlan& plan, Run run) {
  using stave_cuda::ScanStage;
  stave_cuda::ScanArgs args = plan.on_host();
  std::vector<typename Step::Map> summaries(static_cast<std::size_t>(plan.partials()));
  std::vector<typename Step::State> carries(summaries.size());
  const auto shared = std::make_unique<stave_cuda::ScanShared<Step>>();
  args.summaries = summaries.data();
  args.carries = carries.data();
  for (const ScanStage stage : {ScanStage::summaries, ScanStage::carries, ScanStage::scan}) {
    if (plan.partials() == 0 && stage != ScanStage::scan) continue;
    run(plan.tasks(stage), [&](const auto& block) {
      if (args.tiles) scan_tiles_body<Step>(block, args, stage, *shared);
      else scan_rows_body<Step>(block, args, stage);
    });
  }
}

}  // namespace stave_test
