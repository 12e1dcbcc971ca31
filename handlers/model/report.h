// report, progress: what a program says of itself while it runs, to whoever listens; where nobody does, nothing happens.
//
//   report("loss", value);                                          // anywhere inside
//   with(PrintReports(), train);                                     // loss 0.25
//   CsvReports table("run.csv");  with(table, train);                // name,count,index,value: one line for each number
//   with(PrintProgress(), train);                                   // a bar for each loop that performs progress(i, n, "epoch")
//
// - A report passes the transforms as an operation (sow.h): a listener outside of vmap gets the values of all lanes, outside of grad the
//   primal ones, and those of a checkpoint once. Where lanes have parted, it gets those of each way that they went, apart. Names are
//   joined with the scopes entered since the listener was installed.
// - All listeners around hear it, from inside out.
#pragma once

#include <fstream>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <stave/core/effects/effect.h>
#include <stave/core/tensor/options.h>
#include <stave/handlers/transforms/sow.h>

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

/// Prints a line for each report: its name, and its value if that is one number, else what summary_of (summary.h) tells of it:
///
///   loss 0.25
///   hidden f32[64,30] min -0.98 max 0.99 mean 0.012 std 0.51 nan 0 inf 0
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

/// `done` of `total` steps are done.
struct Progress {
  using Result = void;
  long done, total;
  std::string name{};
  void unhandled() const {}
};
/// Says so. Any numbers will do: it is no error if more are done than there should be. A total of 0 is one that is not known, if
/// any are done.
void progress(long done, long total, std::string name = "");

struct ProgressOptions {
  [[no_unique_address]] ByName by_name{};
  /// Whether bars are drawn over themselves; by default they are where the stream is a terminal's.
  std::optional<bool> redraw{};
  int columns = 0;                    ///< of a line; 0: as many as the terminal has when a bar is drawn, or 80
  double every = 5;                   ///< seconds between two lines where nothing is drawn over
  std::function<double()> seconds{};  ///< what time it is; empty: the time of a steady clock
};

/// Draws a bar for each loop that says its progress:
///
///   epoch  33% [########..................]   1/3   9.2 s/step 0:18 left
///   batch  55% [##############............]  11/20 2.17/s      0:04 left
///
/// - A loop is known by the name that it gives, joined with the scopes entered since this handler, "train/batch"; without a name by its
///   total. A loop inside another has a line of its own, and begins again there.
/// - What the program writes to std::cout and std::cerr in the meantime, or to the stream, stands above the bars, in lines of its own:
///   while this object lives, these streams write through buffers of its. An exception that ends the program is told in a new line.
/// - Where there is no terminal, there is a line every few seconds, and one when all loops have ended.
///
/// It answers one thread at a time; others may write to the streams, but not while it is made or destroyed.
class PrintProgress final : public Handles<Progress> {
 public:
  explicit PrintProgress(const ProgressOptions& options = {});  ///< to std::cerr
  explicit PrintProgress(std::ostream& out, const ProgressOptions& options = {});
  ~PrintProgress() override;
  void handle(Progress& progress) override;
  bool only_observes() const noexcept override { return true; }
  std::string describe() const override { return "progress bar"; }

 private:
  class Bars;
  const std::unique_ptr<Bars> bars_;
};

}  // namespace stave
