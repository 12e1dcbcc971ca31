#include <stave/handlers/observe/profile.h>

#include <algorithm>
#include <ostream>

#include <fmt/format.h>

#include <stave/core/op/notation.h>

namespace stave {

using namespace stave_detail;

namespace {

void add_to(Profile::Totals& sum, const Profile::Totals& one) {
  sum.calls += one.calls;
  sum.time += one.time;
  sum.bytes += one.bytes;
}

Row heading(const char* first) { return {first, "calls", "time", "share", "bytes"}; }

Row row(std::string name, const Profile::Totals& part, const Profile::Totals& total) {
  const double whole = static_cast<double>(total.time.count());
  const double share = whole > 0 ? 100 * static_cast<double>(part.time.count()) / whole : 0;
  return {std::move(name), fmt::format("{}", part.calls), duration_text(part.time), fmt::format("{:.1f}%", share),
          size_text(part.bytes)};
}

}  // namespace

Outputs Profile::handle(Call& call) {
  const Op& op = call.op();
  const Place place = place_of_performer();
  const auto stopwatch = stopwatch_of(call);
  Outputs outputs = perform(std::move(call));
  const Clock::duration time = stopwatch->elapsed();
  add(op, place.scopes, {1, time, bytes_of(outputs)});
  return outputs;
}

void Profile::add(const Op& op, const std::vector<NamePtr>& scopes, const Totals& one) {
  const std::lock_guard<std::mutex> lock(mutex_);
  add_to(total_, one);
  add_to(operations_[op.name], one);
  if (scopes.empty()) add_to(outside_, one);
  std::size_t scope = 0;
  for (auto name = scopes.rbegin(); name != scopes.rend(); ++name) {
    scope = inner_scope(scope, (*name)->text);
    add_to(scopes_[scope].totals, one);
  }
}

std::size_t Profile::inner_scope(std::size_t outer, const std::string& name) {
  const auto [found, is_new] = index_.try_emplace({outer, name}, scopes_.size());
  if (is_new) {
    const ScopeTotals& around = scopes_[outer];
    const std::string path = outer == 0 ? name : around.path + "/" + name;
    const std::size_t depth = outer == 0 ? 0 : around.depth + 1;
    scopes_.push_back({path, name, depth, {}, {}});
    scopes_[outer].inner.push_back(found->second);
  }
  return found->second;
}

Profile::Totals Profile::total() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return total_;
}

Profile::Totals Profile::operation(std::string_view name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = operations_.find(name);
  return found == operations_.end() ? Totals() : found->second;
}

Profile::Totals Profile::scope(std::string_view path) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  // Several scopes have the same path if a name contains a slash, so their totals are added.
  Totals sum;
  for (std::size_t i = 1; i < scopes_.size(); ++i)
    if (scopes_[i].path == path) add_to(sum, scopes_[i].totals);
  return sum;
}

void Profile::reset() {
  const std::lock_guard<std::mutex> lock(mutex_);
  total_ = outside_ = Totals();
  operations_.clear();
  index_.clear();
  scopes_.resize(1, {"", "", 0, {}, {}});
  scopes_[0].inner.clear();
}

std::string Profile::operations_table() const {
  std::vector<std::pair<std::string_view, Totals>> slowest(operations_.begin(), operations_.end());
  std::stable_sort(slowest.begin(), slowest.end(),
                   [](const auto& a, const auto& b) { return a.second.time > b.second.time; });
  std::vector<Row> rows{heading("operation")};
  for (const auto& [name, totals] : slowest) rows.push_back(row(std::string(name), totals, total_));
  rows.push_back(row("total", total_, total_));
  return table(rows);
}

std::string Profile::scopes_table() const {
  const auto faster = [&](std::size_t a, std::size_t b) { return scopes_[a].totals.time < scopes_[b].totals.time; };
  std::vector<Row> rows{heading("scope")};
  std::vector<std::size_t> waiting{0};  // A stack of scopes; the last one is shown next.
  while (!waiting.empty()) {
    const ScopeTotals& scope = scopes_[waiting.back()];
    if (waiting.back() != 0) rows.push_back(row(std::string(2 * scope.depth, ' ') + scope.name, scope.totals, total_));
    waiting.pop_back();
    const std::size_t first = waiting.size();
    waiting.insert(waiting.end(), scope.inner.begin(), scope.inner.end());
    std::stable_sort(waiting.begin() + static_cast<std::ptrdiff_t>(first), waiting.end(), faster);
  }
  if (outside_.calls) rows.push_back(row("(no scope)", outside_, total_));
  return table(rows);
}

std::string Profile::str() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string text = operations_table();
  if (scopes_.size() > 1) text += "\n" + scopes_table();
  return text;
}

std::ostream& operator<<(std::ostream& out, const Profile& profile) { return out << profile.str(); }

}  // namespace stave
