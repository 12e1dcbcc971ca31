#include <stave/handlers/observe/timeline.h>

#include <algorithm>
#include <ostream>

#include <fmt/format.h>

#include <stave/core/op/notation.h>
#include <stave/core/tensor/note.h>
#include <stave/core/tensor/utf8.h>

namespace stave {

using namespace stave_detail;

namespace {

double microseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

}  // namespace

Outputs Timeline::handle(Call& call) {
  Event event{call.op().name, {}, {}, notation(call.inputs()), "throws", attributes_of(call), {}, 0};
  event.scopes = place_of_performer().scopes;
  std::reverse(event.scopes.begin(), event.scopes.end());
  event.start = Clock::now();
  Outputs outputs;
  try {
    outputs = perform(std::move(call));
  } catch (...) {
    event.end = Clock::now();
    add(std::move(event));
    throw;
  }
  event.end = Clock::now();
  event.outputs = notation(outputs);
  add(std::move(event));
  return outputs;
}

void Timeline::add(Event event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  event.thread = threads_.try_emplace(id_of_this_thread(), static_cast<int>(threads_.size()) + 1).first->second;
  events_.push_back(std::move(event));
}

std::size_t Timeline::operations() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return events_.size();
}

void Timeline::write_json(std::ostream& out) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::map<int, std::vector<const Event*>> by_thread;
  for (const Event& event : events_) by_thread[event.thread].push_back(&event);
  out << "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n"
      << R"({"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": "stave"}})";
  for (auto& [thread, events] : by_thread) {
    std::stable_sort(events.begin(), events.end(), [](const Event* a, const Event* b) { return a->start < b->start; });
    write_scopes(out, events);
    for (const Event* event : events)
      write_event(out, event->name, "operation", event->start, event->end, thread,
                  fmt::format("\"operands\": {}, \"outputs\": {}, \"attributes\": {}", in_json_quotes(event->operands),
                              in_json_quotes(event->outputs), in_json_quotes(event->attributes)));
  }
  out << "\n]}\n";
}

// Writes a bar for each contiguous sequence of operations in one scope. Scopes are compared by
// identity, so two scopes of the same name are two bars.
void Timeline::write_scopes(std::ostream& out, const std::vector<const Event*>& events) const {
  struct Bar {
    NamePtr name;
    Clock::time_point start, end;
  };
  std::vector<Bar> open;
  const auto close_to = [&](std::size_t depth) {
    for (; open.size() > depth; open.pop_back())
      write_event(out, open.back().name->text, "scope", open.back().start, open.back().end, events[0]->thread, "");
  };
  for (const Event* event : events) {
    std::size_t common = 0;
    while (common < open.size() && common < event->scopes.size() && open[common].name == event->scopes[common])
      ++common;
    close_to(common);
    for (std::size_t i = common; i < event->scopes.size(); ++i)
      open.push_back({event->scopes[i], event->start, event->end});
    for (Bar& bar : open) bar.end = std::max(bar.end, event->end);
  }
  close_to(0);
}

void Timeline::write_event(std::ostream& out, const std::string& name, const char* category, Clock::time_point start,
                           Clock::time_point end, int thread, const std::string& arguments) const {
  out << fmt::format(
      ",\n{{\"name\": {}, \"cat\": \"{}\", \"ph\": \"X\", \"ts\": {:.3f}, \"dur\": {:.3f}, \"pid\": 1, \"tid\": {}, "
      "\"args\": {{{}}}}}",
      in_json_quotes(name), category, microseconds(start - origin_), microseconds(end - start), thread, arguments);
}

}  // namespace stave
