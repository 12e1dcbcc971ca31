// Writes an HtmlRecord as JSON for a <script> of a page. Tables are written as columns of numbers,
// which take a fraction of the space of one object per row.
#include <stave/handlers/observe/html_record.h>

#include <algorithm>
#include <numeric>
#include <ostream>

#include <fmt/format.h>

#include <stave/handlers/observe/html_head.h>
#include <stave/handlers/observe/html_json.h>
#include <stave/handlers/observe/html_report.h>

namespace stave_detail {

namespace {

template <class Rows, class Of>
void write_column(std::ostream& out, const char* name, const Rows& rows, Of of) {
  std::string text = fmt::format("\"{}\":[", name);
  bool first = true;
  for (const auto& row : rows) {
    if (!std::exchange(first, false)) text += ',';
    text += in_json(of(row));
  }
  out << text << ']';
}

// Writes increasing times, each as the difference from the one before.
template <class Rows, class Of>
void write_increasing(std::ostream& out, const char* name, const Rows& rows, Of of) {
  std::int64_t last = 0;
  write_column(out, name, rows, [&](const auto& row) {
    const std::int64_t time = of(row);
    return time - std::exchange(last, time);
  });
}

bool gives_peak_of_cpu(const HtmlReportOptions& options) {
  return std::any_of(options.peaks.begin(), options.peaks.end(), [](const auto& peak) { return peak.device == cpu; });
}

}  // namespace

void HtmlRecord::write_json(std::ostream& out, const HtmlReportOptions& options) const {
  // The peaks are measured without the mutex, so that no thread waits for this record.
  // The time of the measurement is not counted as the program's, unless operations ran during it.
  const Nanoseconds measurement_start = now();
  if (operations() > 0 && !gives_peak_of_cpu(options)) measured_peaks();
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool ran_meanwhile = !operations_.empty() && operations_.back().start > measurement_start;
  out << fmt::format("{{\"version\":2,\"end\":{},\n", ran_meanwhile ? now() : measurement_start);
  write_head(out, options);
  write_column(out, "texts", texts_.keys, [](const auto* text) { return *text; });
  const auto write_keys = [&](const char* table, const auto& keys, std::initializer_list<const char*> names) {
    out << fmt::format(",\n\"{}\":{{", table);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (i > 0) out << ',';
      write_column(out, names.begin()[i], keys, [&](const auto* key) { return (*key)[i]; });
    }
  };
  write_keys("scopes", scopes_.keys, {"outer", "name"});
  out << ',';
  write_column(out, "backward", backward_, [](int is_backward) { return is_backward; });
  out << '}';
  write_keys("sites", sites_.keys, {"scope", "operation"});
  out << '}';
  write_keys("lanes", lanes_.keys, {"thread", "device"});
  out << '}';
  write_keys("kinds", kinds_.keys, {"site", "attributes", "operands", "outputs", "device"});
  out << ',';
  write_column(out, "bytes", kind_bytes_, [](std::uint64_t bytes) { return bytes; });
  out << ',';
  write_column(out, "moved", kind_moved_, [](std::uint64_t bytes) { return bytes; });
  out << ',';
  write_column(out, "flops", kind_flops_, [](double flops) { return flops; });
  out << "},\n\"instances\":{";
  write_column(out, "outer", instances_, [](const Pair& row) { return row[0]; });
  out << ',';
  write_column(out, "scope", instances_, [](const Pair& row) { return row[1]; });
  out << "},\n";
  write_operations(out);
  out << ",\n";
  write_memory(out);
  out << ",\n";
  write_points(out);
  out << ",\n\"chains\":[";
  for (std::size_t i = 0; i < chains_.size(); ++i) out << (i ? ",\n" : "") << chains_[i];
  out << "]}\n";
}

void HtmlRecord::write_head(std::ostream& out, const HtmlReportOptions& options) const {
  const HtmlHead head = html_head();
  out << fmt::format(
      "\"head\":{{\"title\":{},\"program\":{},\"version\":{},\"system\":{},\"processor\":{},\"threads\":{},\"date\":{}}"
      "},\n",
      in_json(options.title), in_json(head.program), in_json(head.version), in_json(head.system),
      in_json(head.processor), head.threads, in_json(head.date));
  // The page needs no peak rates of the CPU if no operation ran.
  std::vector<DevicePeak> peaks = options.peaks;
  std::string how = "given by the program";
  if (!operations_.empty() && !gives_peak_of_cpu(options)) {
    const MeasuredPeaks& measured = measured_peaks();
    peaks.push_back({cpu, measured.flops, measured.flops_float64, measured.bandwidth});
    how = measured.how;
  }
  out << "\"peaks\":{";
  write_column(out, "device", peaks, [](const DevicePeak& peak) { return peak.device.str(); });
  const auto column = [&](const char* name, double DevicePeak::*member) {
    out << ',';
    write_column(out, name, peaks, [&](const DevicePeak& peak) { return peak.*member; });
  };
  column("flops", &DevicePeak::flops);
  column("flops64", &DevicePeak::flops_float64);
  column("bandwidth", &DevicePeak::bandwidth);
  out << ',';
  write_column(out, "how", peaks,
               [&](const DevicePeak& peak) { return peak.device == cpu ? how : std::string("given by the program"); });
  std::vector<const Thread*> threads(threads_.size());
  for (const auto& [id, thread] : threads_) threads[static_cast<std::size_t>(thread.number)] = &thread;
  out << "},\n\"threads\":{";
  write_column(out, "own", threads, [](const Thread* thread) { return thread->own; });
  out << ',';
  write_column(out, "waited", threads, [](const Thread* thread) { return thread->waited; });
  out << "},\n";
}

// Returns, for each operation of a backward pass, the row of the operation whose derivative rule
// performed it, and `none` for other operations. Empty if no operation belongs to a backward pass.
std::vector<int> HtmlRecord::forward_rows(const std::vector<const Operation*>& rows) const {
  std::vector<std::pair<std::uint64_t, int>> numbers;
  bool any = false;
  for (const Operation* row : rows) {
    numbers.emplace_back(row->number, static_cast<int>(numbers.size()));
    any |= row->forward != 0;
  }
  if (!any) return {};
  std::sort(numbers.begin(), numbers.end());
  std::vector<int> found;
  for (const Operation* row : rows) {
    const auto at = std::lower_bound(numbers.begin(), numbers.end(), std::pair{row->forward, 0});
    found.push_back(row->forward != 0 && at != numbers.end() && at->first == row->forward ? at->second : none);
  }
  return found;
}

void HtmlRecord::write_operations(std::ostream& out) const {
  std::vector<const Operation*> rows;
  for (const Operation& operation : operations_) rows.push_back(&operation);
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) {
    return a->start < b->start || (a->start == b->start && a->time > b->time);
  });
  out << "\"operations\":{";
  write_increasing(out, "start", rows, [](const auto* row) { return row->start; });
  const auto column = [&](const char* name, auto Operation::*member) {
    out << ',';
    write_column(out, name, rows, [&](const auto* row) { return row->*member; });
  };
  column("time", &Operation::time);
  column("kind", &Operation::kind);
  column("instance", &Operation::instance);
  column("lane", &Operation::lane);
  out << ',';
  write_column(out, "forward", forward_rows(rows), [](int row) { return row; });
  out << "},\n\"edges\":{";
  constexpr const char* names[] = {"from", "output", "to", "operand"};
  for (std::size_t i = 0; i < std::size(names); ++i) {
    write_column(out, names[i], edges_, [&](const auto& edge) { return edge.first[i]; });
    out << ',';
  }
  write_column(out, "count", edges_, [](const auto& edge) { return edge.second; });
  out << '}';
}

void HtmlRecord::write_memory(std::ostream& out) const {
  out << "\"devices\":{";
  write_column(out, "name", devices_, [](const DeviceRow& row) { return row.device.str(); });
  out << ',';
  write_column(out, "bytes", devices_, [](const DeviceRow& row) { return static_cast<std::uint64_t>(row.bytes); });
  out << "},\n\"storages\":{";
  write_increasing(out, "made", storages_, [](const StorageRow& row) { return row.made; });
  out << ',';
  write_column(out, "lived", storages_,
               [](const StorageRow& row) { return row.freed < 0 ? -1 : row.freed - row.made; });
  out << ',';
  write_column(out, "bytes", storages_, [](const StorageRow& row) { return static_cast<std::uint64_t>(row.bytes); });
  const auto column = [&](const char* name, int StorageRow::*member) {
    out << ',';
    write_column(out, name, storages_, [&](const StorageRow& row) { return row.*member; });
  };
  column("device", &StorageRow::device);
  column("site", &StorageRow::site);
  column("label", &StorageRow::label);
  out << ',';
  write_column(out, "earlier", storages_, [](const StorageRow& row) { return static_cast<int>(row.earlier); });
  out << '}';
}

void HtmlRecord::write_points(std::ostream& out) const {
  out << "\"points\":{";
  write_increasing(out, "when", points_, [](const Point& point) { return point.when; });
  out << ',';
  write_column(out, "name", points_, [](const Point& point) { return point.name; });
  out << ',';
  write_column(out, "elements", points_, [](const Point& point) { return point.elements; });
  out << ',';
  write_column(out, "mean", points_, [](const Point& point) { return point.mean; });
  // The points that have a range because the reported value was not a single number.
  std::vector<Point> ranges;
  for (const Point& point : points_)
    if (point.elements != 1) ranges.push_back(point);
  out << ',';
  write_column(out, "least", ranges, [](const Point& point) { return point.least; });
  out << ',';
  write_column(out, "greatest", ranges, [](const Point& point) { return point.greatest; });
  out << '}';
}

}  // namespace stave_detail
