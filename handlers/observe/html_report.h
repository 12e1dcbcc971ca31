// HtmlReport: what ran, when, in what memory, and what it reported, as one page to look at: no server, nothing to download.
//
//   HtmlReport report({.title = "Training"});
//   with(report, train);
//   report.write_html("report.html");                  // open it in a browser
//
// - Where the time went: of each thread, operations, the host's work between them, waiting, and this report itself; all of it adds up.
//   A thread waits where it needs less of the processor than a time of more than 50 us between operations.
// - Timeline: a bar for each operation, under bars of the scopes (effect.h) around it; a lane for each thread and device. An operation of a
//   backward pass leads to the operation whose rule performed it.
// - Flame graph: scopes, as wide as the time of the operations in them.
// - Memory: bytes of tensors over time, and who holds them at a moment: by scope, operation, label (label.h) or device. The sum is what
//   memory_stats() calls live_bytes. Storage belongs to the operation that asked for it, also where a later one takes it over.
// - Graph: operations and what flows between them, scope by scope, to fold and unfold. Those of one scope, with like operands,
//   attributes and outputs, are one box.
// - Operations: a table, to sort and to search, with arithmetic and bytes for each second, and the share of the roofline.
// - Chains: draws of Markov chains that add_chains() is given: whether the chains agree, and where trajectories diverged.
// - Comparison: the page reads the file of another report, and shows which operations take longer than they did there.
// - Curves: what report() (report.h) said, a curve for each name; of several numbers the mean, within the least and the greatest.
//
// Like every handler it sees what reaches it: outside grad the backward pass as well, outside vmap all lanes. Of an operation on a
// device other than the CPU it waits for the end, so as to know its time. An operation that throws is there as well.
//
// The share of the roofline (Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009) is the least time
// that the device's peaks allow for an operation's arithmetic and bytes, in parts of the time that it took: more than 1 where data lay in
// a cache. The peaks of the CPU are measured when a report is first written, which takes a fifth of a second, unless options give them.
//
// It adds up over several uses, and watches memory, of the whole process, from when it was made to its end, but no child of fork().
// Several threads may share it, and write it meanwhile. An operation takes about 80 bytes in memory, 80 more where a
// tape records it, and 40 in the file; a text takes what it takes once.
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

/// What a device can do, for each second. 0: unknown.
struct DevicePeak {
  Device device;
  double flops = 0, flops_float64 = 0;  ///< of float32, and of narrower floats; of float64
  double bandwidth = 0;                 ///< bytes read and written
};

struct HtmlReportOptions {
  [[no_unique_address]] ByName by_name{};
  std::string title{};              ///< of the page; "Stave report" if empty
  std::vector<DevicePeak> peaks{};  ///< for rooflines; for other devices than the CPU there is none without
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
  bool only_observes() const noexcept override { return true; }

  /// The page, of what was seen so far. Throws FileError if the file cannot be written.
  void write_html(const std::string& path) const;
  void write_html(std::ostream& out) const;
  /// Shows these draws under a title. `draws` are those of `run`, or what a function made of them (constrain): of each number R-hat,
  /// effective sample sizes, and how its ranks are spread over the chains; those of very many whose R-hat is the smallest are left out.
  template <class T>
  void add_chains(const std::string& title, const Sampled<T>& run, const NamedTensors& draws) {
    add(title, draws, {run.accept_rate, run.steps, run.depth, run.diverged, run.step_size});
  }
  void add_chains(const std::string& title, const Sampled<NamedTensors>& run) { add_chains(title, run, run.draws); }
  /// How many operations it has seen.
  std::size_t operations() const;

 private:
  void write(std::ostream& out) const;
  void add(const std::string& title, const NamedTensors& draws, const stave_detail::ChainNotes& notes);

  const HtmlReportOptions options_;
  const std::unique_ptr<stave_detail::HtmlRecord> record_;
};

}  // namespace stave
