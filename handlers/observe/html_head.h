// What an HtmlReport says of the process and the machine that it ran on.
#pragma once

#include <string>

#include <stave/core/effects/settings.h>

namespace stave_detail {

struct HtmlHead {
  std::string program;    ///< the command line
  std::string version;    ///< of the library
  std::string system;     ///< "Linux 6.1 x86_64 on HOST"
  std::string processor;  ///< its name, where the system tells it
  int threads = 0;        ///< that may run at once
  std::string date;       ///< of now: "2026-11-27 07:13:10 UTC"
};
HtmlHead html_head();

/// Of the CPU, as the library reaches them: measured once in a process.
struct MeasuredPeaks {
  double flops = 0, flops_float64 = 0;  ///< for each second, by the product of two square matrices
  double bandwidth = 0;  ///< bytes for each second, read and written, by the sum of two arrays larger than caches
  std::string how;
};
const MeasuredPeaks& measured_peaks();

}  // namespace stave_detail
