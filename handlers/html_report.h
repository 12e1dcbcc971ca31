// HtmlReport: what ran, when, in what memory, and what it reported, as one page to look at: no server, nothing to download.
//
//   HtmlReport report;
//   with(report, train);
//   report.write_html("report.html");                  // open it in a browser
//
// - Timeline: a bar for each operation, under bars of the scopes (effect.h) around it; a lane for each thread and device.
// - Memory: bytes of tensors over time, and who holds them at a moment: by scope, operation, label (label.h) or device. The sum is what
//   memory_stats() calls live_bytes. Storage belongs to the operation that asked for it, also where a later one takes it over.
// - Graph: operations and what flows between them, scope by scope, to fold and unfold. Those of one scope, with like operands,
//   attributes and outputs, are one box.
// - Operations: a table, to sort and to search.
// - Curves: what report() (report.h) said, a curve for each name; of several numbers the mean, within the least and the greatest.
//
// Like every handler it sees what reaches it: outside grad the backward pass as well, outside vmap all lanes. Of an operation on a
// device other than the CPU it waits for the end, so as to know its time. An operation that throws is there as well.
//
// It adds up over several uses, and watches memory, of the whole process, from when it was made to its end, but no child of fork(). Several threads may share
// it, and write it meanwhile. An operation takes about 100 bytes in memory and 60 in the file, a text what it takes once.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <memory>
#include <string>

#include <stave/core/op.h>
#include <stave/handlers/sow.h>

namespace stave_detail {

class HtmlRecord;

}  // namespace stave_detail

namespace stave {

class HtmlReport final : public Handles<Call, stave_detail::Sowing> {
 public:
  HtmlReport();
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
  /// How many operations it has seen.
  std::size_t operations() const;

 private:
  void write(std::ostream& out) const;

  const std::unique_ptr<stave_detail::HtmlRecord> record_;
};

}  // namespace stave
