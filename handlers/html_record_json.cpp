// An HtmlRecord as JSON that may stand in a <script> of a page: columns of numbers, which take a fraction of what objects take.
#include <stave/handlers/html_record.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include <fmt/format.h>

#include <stave/core/utf8.h>

namespace stave_detail {

namespace {

// "<" could end the script, or begin a comment in it. U+2028 and U+2029 end lines in older readers.
std::string in_script_quotes(const std::string& text) {
  std::string result;
  const std::string quoted = in_json_quotes(text);
  for (std::size_t i = 0; i < quoted.size(); ++i) {
    const bool ends_line = quoted.compare(i, 3, "\u2028") == 0 || quoted.compare(i, 3, "\u2029") == 0;
    if (quoted[i] == '<') result += "\\u003c";
    else if (ends_line) result += quoted[i + 2] == '\xa8' ? "\\u2028" : "\\u2029";
    else result += quoted[i];
    if (ends_line) i += 2;
  }
  return result;
}

// JSON has no NaN; what is too large for a double is read as infinite.
std::string in_json(double number) {
  if (std::isnan(number)) return "null";
  if (std::isinf(number)) return number > 0 ? "1e999" : "-1e999";
  return fmt::format("{}", number);
}
std::string in_json(std::int64_t number) { return fmt::format("{}", number); }
std::string in_json(std::uint64_t number) { return fmt::format("{}", number); }
std::string in_json(int number) { return fmt::format("{}", number); }
std::string in_json(const std::string& text) { return in_script_quotes(text); }

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

// Times in order, each as what it is after the one before.
template <class Rows, class Of>
void write_increasing(std::ostream& out, const char* name, const Rows& rows, Of of) {
  std::int64_t last = 0;
  write_column(out, name, rows, [&](const auto& row) {
    const std::int64_t time = of(row);
    return time - std::exchange(last, time);
  });
}

}  // namespace

void HtmlRecord::write_json(std::ostream& out) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  out << fmt::format("{{\"version\":1,\"end\":{},\n", now());
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
  out << "}\n";
}

void HtmlRecord::write_operations(std::ostream& out) const {
  std::vector<const Operation*> rows;
  for (const Operation& operation : operations_) rows.push_back(&operation);
  std::stable_sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) { return a->start < b->start || (a->start == b->start && a->time > b->time); });
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
  std::vector<Point> ranges;  // of those that are no single number
  for (const Point& point : points_)
    if (point.elements != 1) ranges.push_back(point);
  out << ',';
  write_column(out, "least", ranges, [](const Point& point) { return point.least; });
  out << ',';
  write_column(out, "greatest", ranges, [](const Point& point) { return point.greatest; });
  out << '}';
}

}  // namespace stave_detail
