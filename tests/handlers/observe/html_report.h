// Reads the data of an HtmlReport from its page, for tests.
#pragma once

#include <cmath>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <stave/stave.h>

#include "json.h"

namespace stave_test {

using namespace stave;

inline std::string page_of(const HtmlReport& report) {
  std::ostringstream out;
  report.write_html(out);
  return out.str();
}

/// Returns the text between the tags of the data's script, as a browser finds it.
inline std::string data_text_of(const std::string& page) {
  const std::string opens = R"(<script type="application/json" id="data">)";
  const std::size_t begin = page.find(opens) + opens.size();
  return page.substr(begin, page.find("</script", begin) - begin);
}

constexpr double infinity = std::numeric_limits<double>::infinity(), largest = std::numeric_limits<double>::max();

/// Reads the data. Their infinity is 1e999, which JavaScript reads as infinity and nlohmann::json
/// refuses: the largest double stands for it.
inline Json data_of(const std::string& page) {
  std::string text = data_text_of(page);
  for (std::size_t at = 0; (at = text.find("1e999", at)) != text.npos;) text.replace(at, 5, "1.7976931348623157e308");
  return parse_json(text);
}

inline double number_of(const Json& item) {
  if (item.is_null()) return std::numeric_limits<double>::quiet_NaN();
  const auto number = item.get<double>();
  return std::abs(number) == largest ? std::copysign(infinity, number) : number;
}

struct ReportData {
  explicit ReportData(const HtmlReport& report) : json(data_of(page_of(report))) {}

  std::vector<double> numbers(const std::string& table, const std::string& column) const {
    std::vector<double> result;
    for (const Json& item : json.at(table).at(column)) result.push_back(number_of(item));
    return result;
  }
  /// Returns the sums of a column whose entries are differences to the entry before.
  std::vector<double> times(const std::string& table, const std::string& column) const {
    std::vector<double> result = numbers(table, column);
    for (std::size_t i = 1; i < result.size(); ++i) result[i] += result[i - 1];
    return result;
  }
  double number(const std::string& table, const std::string& column, double row) const {
    return number_of(json.at(table).at(column).at(static_cast<std::size_t>(row)));
  }
  std::string text(double number) const {
    return number < 0 ? "" : json.at("texts").at(static_cast<std::size_t>(number)).get<std::string>();
  }
  std::string path_of_scope(double scope) const {
    if (scope < 0) return "";
    const std::string outer = path_of_scope(number("scopes", "outer", scope));
    return outer + (outer.empty() ? "" : "/") + text(number("scopes", "name", scope));
  }
  std::string path_of_site(double site) const { return site < 0 ? "" : path_of_scope(number("sites", "scope", site)); }
  std::string operation_of_site(double site) const { return site < 0 ? "" : text(number("sites", "operation", site)); }
  /// Returns the operation's name, such as "sin"; for a value from outside, its notation.
  std::string name_of_kind(double kind) const {
    const double site = number("kinds", "site", kind);
    return site < 0 ? text(number("kinds", "outputs", kind)) : operation_of_site(site);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const double kind : numbers("operations", "kind")) result.push_back(name_of_kind(kind));
    return result;
  }
  std::string path_of_operation(std::size_t i) const {
    return path_of_site(number("kinds", "site", numbers("operations", "kind").at(i)));
  }
  /// Returns the edges as "sin -> sum", each with its count.
  std::map<std::string, double> edges() const {
    std::map<std::string, double> result;
    const auto from = numbers("edges", "from"), to = numbers("edges", "to"), count = numbers("edges", "count");
    for (std::size_t i = 0; i < from.size(); ++i)
      result[name_of_kind(from[i]) + " -> " + name_of_kind(to[i])] += count[i];
    return result;
  }
  /// Returns the bytes of a device that are live at the end, and their maximum over time.
  std::pair<double, double> live_and_peak(double device) const {
    std::multimap<double, double> changes;
    const auto made = times("storages", "made"), lived = numbers("storages", "lived"),
               bytes = numbers("storages", "bytes"), of = numbers("storages", "device"),
               earlier = numbers("storages", "earlier");
    double live = number("devices", "bytes", device);
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (of[i] != device) continue;
      if (!earlier[i]) changes.emplace(made[i], bytes[i]);
      if (lived[i] >= 0) changes.emplace(made[i] + lived[i], -bytes[i]);
    }
    double peak = live;
    for (const auto& [time, change] : changes) peak = std::max(peak, live += change);
    return {live, peak};
  }

  const Json json;
};

}  // namespace stave_test
