// report, progress: what a program says of itself while it runs, to whoever listens; where nobody does, nothing happens.
//
//   report("loss", value);                                          // anywhere inside
//   with(PrintReports(), train);                                     // loss 0.25
//   CsvReports table("run.csv");  with(table, train);                // name,count,index,value: one line for each number
//   with(PrintProgress(), train);                                      // of progress(i, n)
//
// - A report passes the transforms as an operation (sow.h): a listener outside of vmap gets the values of all lanes, outside of grad the
//   primal ones, and those of a checkpoint once. Where lanes have parted, it gets those of each way that they went, apart. Names are
//   joined with the scopes entered since the listener was installed.
// - All listeners around hear it, from inside out.
#pragma once

#include <fstream>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>

#include <stave/core/effects/effect.h>
#include <stave/handlers/sow.h>

namespace stave {

/// Says that this value is met under this name. A number is reported in float64.
void report(const std::string& name, const Tensor& value);
void report(const std::string& name, double value);

/// A handler that listens to reports.
///   struct Last : ReportListener {
///     std::map<std::string, Tensor> values;
///     void reported(const std::string& name, const Tensor& value) override { values[name] = value; }
///   };
class ReportListener : public SownHandler {
 public:
  ReportListener();
  bool only_observes() const noexcept override { return true; }

 protected:
  /// `value` is a constant to the transforms below.
  virtual void reported(const std::string& name, const Tensor& value) = 0;

 private:
  Tensor sown(const SownValue& sown) final;
  bool joins() const final { return false; }
};

/// Prints a line for each report: its name, its value.
class PrintReports final : public ReportListener {
 public:
  PrintReports();  ///< to std::cerr
  explicit PrintReports(std::ostream& out) : out_(out) {}
  std::string describe() const override { return "print reports"; }

 private:
  void reported(const std::string& name, const Tensor& value) override;
  std::ostream& out_;
};

/// Writes a line for each number of a report, below the header "name,count,index,value": `count` is how many reports of that name were
/// before; `index` the number's place, "1 0" in a matrix, empty for a single one. Values read back exactly, infinities and NaN as inf and
/// nan. Text with a comma or quotation mark is quoted.
class CsvReports final : public ReportListener {
 public:
  /// Throws FileError if the file cannot be written.
  explicit CsvReports(const std::string& path);
  explicit CsvReports(std::ostream& out);
  std::string describe() const override { return "CSV reports"; }

 private:
  void reported(const std::string& name, const Tensor& value) override;
  const std::string path_;
  std::ofstream file_;
  std::ostream& out_;
  std::map<std::string, long> counts_;
};

/// `done` of `total` are done.
struct Progress {
  using Result = void;
  long done, total;
  void unhandled() const {}
};
/// Says so. Throws Error unless 0 <= done <= total.
void progress(long done, long total);

/// Draws [#####.....] 50% 5/10 over itself, where the bar or the percentage changes; a new line at the end.
class PrintProgress final : public Handles<Progress> {
 public:
  explicit PrintProgress(int width = 40);  ///< to std::cerr
  explicit PrintProgress(std::ostream& out, int width = 40) : out_(out), width_(width) {}
  void handle(Progress& progress) override;
  bool only_observes() const noexcept override { return true; }
  std::string describe() const override { return "progress bar"; }

 private:
  std::ostream& out_;
  const int width_;
  std::string drawn_;
};

}  // namespace stave
