#include <stave/handlers/observe/profile.h>

#include <ostream>

#include <fmt/format.h>

#include <stave/core/op/notation.h>

namespace stave {

using namespace stave_detail;

Profile::Totals& Profile::Totals::operator+=(const Totals& other) {
  calls += other.calls;
  time += other.time;
  bytes += other.bytes;
  return *this;
}

Outputs Profile::handle(Call& call) {
  const Op& op = call.op();
  const Place place = place_of_performer();
  const auto stopwatch = stopwatch_of(call);
  Outputs outputs = perform(std::move(call));
  const Totals one{1, stopwatch->elapsed(), bytes_of(outputs)};
  const std::lock_guard<std::mutex> lock(mutex_);
  sums_.add(op.name, place.scopes, one);
  return outputs;
}

Profile::Totals Profile::total() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return sums_.total();
}

Profile::Totals Profile::operation(std::string_view name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return sums_.operation(name);
}

Profile::Totals Profile::scope(std::string_view path) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return sums_.scope(path);
}

void Profile::reset() {
  const std::lock_guard<std::mutex> lock(mutex_);
  sums_ = {};
}

std::string Profile::str() const {
  const auto faster = [](const Totals& a, const Totals& b) { return a.time < b.time; };
  const auto cells = [](const Totals& part, const Totals& total) {
    const double whole = static_cast<double>(total.time.count());
    const double share = whole > 0 ? 100 * static_cast<double>(part.time.count()) / whole : 0;
    return Row{fmt::format("{}", part.calls), duration_text(part.time), fmt::format("{:.1f}%", share),
               size_text(part.bytes)};
  };
  const std::lock_guard<std::mutex> lock(mutex_);
  return sums_.str({"calls", "time", "share", "bytes"}, faster, cells);
}

std::ostream& operator<<(std::ostream& out, const Profile& profile) { return out << profile.str(); }

}  // namespace stave
