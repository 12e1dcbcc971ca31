// Timeline: records when each operation ran, for trace viewers such as https://ui.perfetto.dev
// and chrome://tracing.
//
//   Timeline timeline;
//   with(timeline, [&] { return grad(loss)(w, x, y); });
//   timeline.write_json(file);                              // drop the file on the viewer
//
// The file has the Trace Event Format (JSON, complete events). It has a bar for each operation,
// with its operands, outputs and attributes in the notation of debug, in one row per thread.
// Above them is a bar for each scope (scope.h), from the start of its first operation to the end
// of the last one before the thread left it. Times are in microseconds since the construction
// of the Timeline. Operations that throw are included, with "throws" as their outputs.
//
// Several threads may share a Timeline. The format is described
// at https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
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
  HandlerProperties properties() const noexcept override { return {.only_observes = true}; }

  void write_json(std::ostream& out) const;
  /// Returns the number of operations that the timeline has seen.
  std::size_t operations() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Event {
    const char* name;
    Clock::time_point start, end;
    std::string operands, outputs, attributes;
    std::vector<NamePtr> scopes;  // The outermost comes first.
    int thread;
  };
  void add(Event event);
  void write_scopes(std::ostream& out, const std::vector<const Event*>& events) const;
  void write_event(std::ostream& out, const std::string& name, const char* category, Clock::time_point start,
                   Clock::time_point end, int thread, const std::string& arguments) const;

  const Clock::time_point origin_ = Clock::now();
  mutable std::mutex mutex_;
  std::vector<Event> events_;  // In the order in which they ended.
  std::map<const void*, int> threads_;
};

}  // namespace stave
