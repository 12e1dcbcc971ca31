// report, progress: values and progress that a program reports while it runs,
// and handlers that listen to them. Without a listener, both do nothing.
//
//   report("loss", value);                                          // anywhere inside
//   with(PrintReports(), train);                                     // loss 0.25
//   // name,count,index,value: one line for each number
//   CsvReports table("run.csv");  with(table, train);
//   // a bar for each loop that performs progress(i, n, "epoch")
//   with(PrintProgress(), train);
//
// - A report passes through the transforms as an operation (sow.h). A listener outside of vmap gets
//   the values of all lanes, a listener outside of grad gets the primal values,
//   and a checkpoint reports once. Where vmap has split the lanes, the listener gets the values
//   of each path separately. Names are joined with the scopes entered since the listener was
//   installed.
// - All installed listeners receive a report, innermost first.
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

/// Reports a value under a name to all listeners. The second form reports a number, in float64.
void report(const std::string& name, const Tensor& value);
void report(const std::string& name, double value);

/// A handler that receives reports. Example:
///   struct Last : ReportListener {
///     std::map<std::string, Tensor> values;
///     void reported(const std::string& name, const Tensor& value) override {
///       values[name] = value;
///     }
///   };
class ReportListener : public SownHandler {
 public:
  ReportListener();
  HandlerProperties properties() const noexcept override { return {.only_observes = true}; }

 protected:
  /// Receives one report. `value` is a constant to the transforms outside of this handler.
  virtual void reported(const std::string& name, const Tensor& value) = 0;

 private:
  Tensor sown(const SownValue& sown) final;
  bool wants_joined_lanes() const final { return false; }
};

/// Prints one line for each report: the name, and the value if it is one number,
/// otherwise its summary_of (summary.h):
///
///   loss 0.25
///   hidden f32[64,30] min -0.98 max 0.99 mean 0.012 std 0.51 nan 0 inf 0
class PrintReports final : public ReportListener {
 public:
  PrintReports();  ///< Prints to std::cerr.
  explicit PrintReports(std::ostream& out) : out_(out) {}
  std::string describe() const override { return "print reports"; }

 private:
  void reported(const std::string& name, const Tensor& value) override;
  std::ostream& out_;
};

/// Writes a line for each number of a report, below the header "name,count,index,value".
/// `count` is the number of earlier reports of that name. `index` is the position of the number,
/// such as "1 0" in a matrix, and empty for a report of one number. Values read back exactly;
/// infinities and NaN are written as inf and nan. A name with a comma, quotation mark or line break
/// is quoted.
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

/// The effect that progress() performs: `done` of `total` steps are done.
struct Progress {
  using Result = void;
  long done, total;
  std::string name{};
  void unhandled() const {}
};
/// Reports that `done` of `total` steps of a loop are done. All numbers are valid:
/// `done` may exceed `total`. A total of 0 with `done` > 0 means that the total is unknown.
void progress(long done, long total, std::string name = "");

struct ProgressOptions {
  [[no_unique_address]] ByName by_name{};
  /// Whether bars are redrawn in place; by default, if the stream is a terminal with a cursor.
  std::optional<bool> redraw{};
  /// The width of a line; 0 means the terminal's width at each drawing, or 80 without a terminal.
  int columns = 0;
  /// The seconds between two lines, if bars are not redrawn in place.
  double every = 5;
  /// Returns the current time in seconds; empty means a steady clock.
  std::function<double()> seconds{};
};

/// Draws a bar for each loop that reports its progress:
///
///   epoch  33% [########..................]   1/3   9.2 s/step 0:18 left
///   batch  55% [##############............]  11/20 2.17/s      0:04 left
///
/// - A loop is identified by its name, joined with the scopes entered since this handler was
///   installed ("train/batch"). A loop without a name is identified by its total. A nested loop has
///   a line of its own, which restarts whenever the loop does.
/// - Text that the program writes to this stream, std::cout or std::cerr in the meantime appears
///   above the bars, in lines of its own. For this purpose the streams write through buffers
///   of this object while it lives. The message of an exception that ends the program begins a new
///   line.
/// - If bars cannot be redrawn in place, a line is printed every few seconds, and one when all
///   loops have ended.
///
/// A lock serialises the reports of several threads. Other threads may write to the streams,
/// but not while this object is constructed or destroyed.
class PrintProgress final : public Handles<Progress> {
 public:
  explicit PrintProgress(const ProgressOptions& options = {});  ///< Draws to std::cerr.
  explicit PrintProgress(std::ostream& out, const ProgressOptions& options = {});
  ~PrintProgress() override;
  void handle(Progress& progress) override;
  HandlerProperties properties() const noexcept override { return {.only_observes = true}; }
  std::string describe() const override { return "progress bar"; }

 private:
  class Bars;
  const std::unique_ptr<Bars> bars_;
};

}  // namespace stave
