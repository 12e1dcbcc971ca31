// HtmlReport: one HTML page that shows which operations ran, when, in which memory,
// and what the program reported. It needs no server and downloads nothing.
//
//   HtmlReport report({.title = "Training"});
//   with(report, train);
//   report.write_html("report.html");                  // open it in a browser
//
// - Time: for each thread, the time of operations, of the host between them, of waiting,
//   and of this report; they add up to the total. Waiting is the part of a gap of more than 50 us
//   between operations in which the thread used no processor time.
// - Timeline: a bar for each operation below the bars of its scopes (scope.h), in one lane per
//   thread and device. An operation of a backward pass links to the operation whose derivative rule
//   performed it.
// - Flame graph: scopes, as wide as the time of the operations in them.
// - Memory: bytes of tensors over time, and their owners at a moment: by scope, operation,
//   label (label.h) or device. The sum is live_bytes of memory_stats(). Storage belongs
//   to the operation that allocated it, even if a later operation reuses it.
// - Graph: operations and the values between them, by scope. Scopes can be folded and unfolded.
//   Operations of one scope with the same operands, attributes and outputs share one box.
// - Operations: a table that can be sorted and searched, with FLOP/s, bytes per second,
//   and the fraction of the roofline.
// - Chains: draws of Markov chains passed to add_chains(): whether the chains agree,
//   and where trajectories diverged.
// - Comparison: the page reads the file of another report, and shows which operations have become
//   slower.
// - Curves: the values of report() (report.h), one curve for each name. Reports of several numbers
//   show the mean, with a band from the least to the greatest.
//
// The report sees the operations that reach it: outside of grad also those of the backward pass,
// outside of vmap all lanes. It waits for the end of each operation on a device other than the CPU,
// to measure its time. Operations that throw are included.
//
// The fraction of the roofline (Williams, Waterman and Patterson, "Roofline: an insightful visual
// performance model", 2009) is the least time that the device's peaks allow for an operation's
// arithmetic and bytes, divided by the measured time. It exceeds 1 if data was in a cache.
// The peaks of the CPU are measured when a report is first written, which takes 0.2 s,
// unless the options specify them.
//
// A report accumulates over several uses. It records the memory of the whole process,
// but not of children of fork(), from its construction to its destruction. Several threads may
// share a report, and may write it during recording. An operation takes about 80 bytes of memory,
// 80 more if a tape records it, and 40 in the file. Each distinct text is stored once.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include <stave/core/op/op.h>
#include <stave/core/tensor/options.h>
#include <stave/handlers/inference/mcmc.h>
#include <stave/handlers/observe/html_chains.h>
#include <stave/handlers/transforms/sow.h>

namespace stave_detail {

class HtmlRecord;

}  // namespace stave_detail

namespace stave {

/// The peak rates of a device, per second; 0 means that a rate is unknown.
struct DevicePeak {
  Device device;
  /// Floating-point operations for float32 and narrower floats, and for float64.
  double flops = 0, flops_float64 = 0;
  /// Bytes that are read and written.
  double bandwidth = 0;
};

struct HtmlReportOptions {
  [[no_unique_address]] ByName by_name{};
  /// The title of the page; empty means "Stave report".
  std::string title{};
  /// The peaks for rooflines. Without them, only the CPU has a roofline.
  std::vector<DevicePeak> peaks{};
};

class HtmlReport final : public Handles<Call, stave_detail::Sowing> {
 public:
  explicit HtmlReport(HtmlReportOptions options = {});
  ~HtmlReport() override;
  HtmlReport(const HtmlReport&) = delete;
  HtmlReport& operator=(const HtmlReport&) = delete;

  Outputs handle(Call& call) override;
  stave_detail::Sowing::Result handle(stave_detail::Sowing& sowing) override;
  std::string describe() const override { return "HTML report"; }
  HandlerProperties properties() const noexcept override { return {.only_observes = true}; }

  /// Writes the page with everything seen so far. Throws FileError if the file cannot be written.
  void write_html(const std::string& path) const;
  void write_html(std::ostream& out) const;
  /// Adds a section for Markov chains with this title. `draws` are those of `run`, or a function
  /// of them (constrain). The section shows R-hat, effective sample sizes, and the distribution
  /// of ranks over the chains for each number. It shows at most 100 numbers, the ones with the
  /// largest R-hat.
  template <class T>
  void add_chains(const std::string& title, const Sampled<T>& run, const NamedTensors& draws) {
    add(title, draws, {run.accept_rate, run.steps, run.depth, run.diverged, run.step_size});
  }
  void add_chains(const std::string& title, const Sampled<NamedTensors>& run) { add_chains(title, run, run.draws); }
  /// Returns the number of operations that the report has seen.
  std::size_t operations() const;

 private:
  void write(std::ostream& out) const;
  void add(const std::string& title, const NamedTensors& draws, const stave_detail::ChainNotes& notes);

  const HtmlReportOptions options_;
  const std::unique_ptr<stave_detail::HtmlRecord> record_;
};

}  // namespace stave
