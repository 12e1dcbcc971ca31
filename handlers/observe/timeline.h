// Timeline: when each operation ran, for the viewers of traces: https://ui.perfetto.dev, chrome://tracing.
//
//   Timeline timeline;
//   with(timeline, [&] { return grad(loss)(w, x, y); });
//   timeline.write_json(file);                              // drop the file on the viewer
//
// The file is of the Trace Event Format (JSON, complete events): a bar for each operation, with its operands, outputs and
// attributes as debug writes them, one row of bars for each thread; above them a bar for each scope (effect.h), from the
// beginning of the first operation in it to the end of the last before the thread was elsewhere. Times are in microseconds,
// from when the Timeline was made. An operation that throws is there as well, with "throws" for its outputs.
//
// Several threads may share it. https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
#pragma once

#include <chrono>
#include <iosfwd>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <stave/core/op/op.h>

namespace stave {

class Timeline : public Handler {
 public:
  Outputs handle(Call& call) override;
  std::string describe() const override { return "timeline"; }
  bool only_observes() const noexcept override { return true; }

  void write_json(std::ostream& out) const;
  /// How many operations it has seen.
  std::size_t operations() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Event {
    const char* name;
    Clock::time_point start, end;
    std::string operands, outputs, attributes;
    std::vector<NamePtr> scopes;  // outermost first
    int thread;
  };
  void add(Event event);
  void write_scopes(std::ostream& out, const std::vector<const Event*>& events) const;
  void write_event(std::ostream& out, const std::string& name, const char* category, Clock::time_point start,
                   Clock::time_point end, int thread, const std::string& arguments) const;

  const Clock::time_point origin_ = Clock::now();
  mutable std::mutex mutex_;
  std::vector<Event> events_;  // in the order in which they ended
  std::map<const void*, int> threads_;
};

}  // namespace stave
