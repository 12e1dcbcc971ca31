// The facts that an HtmlReport shows about the process and the machine.
#pragma once

#include <string>

#include <stave/core/effects/settings.h>

namespace stave_detail {

struct HtmlHead {
  std::string program;    ///< The command line.
  std::string version;    ///< The version of the library.
  std::string system;     ///< The operating system: "Linux 6.1 x86_64 on HOST".
  std::string processor;  ///< The name of the processor; empty if unknown.
  int threads = 0;        ///< The number of threads that can run at the same time.
  std::string date;       ///< The current time: "2026-11-27 07:13:10 UTC".
};
HtmlHead html_head();

/// The peak performance of the CPU that the library reaches; measured once per process.
struct MeasuredPeaks {
  /// Floating-point operations per second of the product of two square matrices.
  double flops = 0, flops_float64 = 0;
  /// Bytes read and written per second by the sum of two arrays that are larger than the caches.
  double bandwidth = 0;
  std::string how;
};
const MeasuredPeaks& measured_peaks();

}  // namespace stave_detail
