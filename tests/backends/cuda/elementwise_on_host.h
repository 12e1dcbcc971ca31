// Executes the bodies of elementwise kernels on the host, and the same operations on the CPU.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <stave/core/op/op.h>

#include "cuda/layouts.h"

namespace stave_cuda {

template <class Body>
void execute(const std::vector<Buffer>& in, const Buffer& out) {
  std::vector<View> views;
  std::size_t widest = stave::size_of(out.dtype());
  for (const Buffer& buffer : in) {
    views.push_back(buffer.view());
    widest = std::max(widest, stave::size_of(buffer.dtype()));
  }
  ElementwisePlan<Body::inputs> plan(views.data(), out.view(), lanes_of(widest));
  if (plan.elements() == 0) return;
  auto loop = plan.on_host();
  for_each_thread(plan.blocks(), [&](Position p) { Body::run(loop, p); });
}

inline void run_on_cpu(stave::OpId op, const std::vector<Buffer>& in, const Buffer& out) {
  std::vector<View> views;
  for (const Buffer& buffer : in) views.push_back(buffer.view());
  View view = out.view();
  stave::DtypeAttributes dtype(out.dtype());
  stave::cpu_backend().run(record_of(op), op == stave::OpId::astype ? &dtype : nullptr, views, {&view, 1});
}

/// Calls f with all pairs (or triples) of the layouts of each group.
template <class F>
void for_each_layout(int inputs, F f) {
  for (const auto& group : operand_layouts()) {
    const std::size_t n = group.size();
    for (std::size_t i = 0; i < (inputs == 1 ? n : inputs == 2 ? n * n : n * n * n); ++i) {
      if (inputs == 3 && i % 7 != 0) continue;
      std::vector<Layout> layouts;
      for (std::size_t k = 0, rest = i; k < static_cast<std::size_t>(inputs); ++k, rest /= n)
        layouts.push_back(group[rest % n]);
      f(layouts);
    }
  }
}

}  // namespace stave_cuda
