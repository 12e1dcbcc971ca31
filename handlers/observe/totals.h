// Sums of figures by operation and by scope, which Profile and cost print as tables.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stave/core/effects/name.h>
#include <stave/core/op/notation.h>

namespace stave_detail {

/// Totals: the figures, with += and a member `calls`.
template <class Totals>
class TotalsByName {
 public:
  /// Adds the figures of one operation. `scopes`: innermost first.
  void add(const char* operation, const std::vector<NamePtr>& scopes, const Totals& one) {
    total_ += one;
    operations_[operation] += one;
    if (scopes.empty()) outside_ += one;
    std::size_t scope = 0;
    for (auto name = scopes.rbegin(); name != scopes.rend(); ++name) {
      scope = inner_scope(scope, (*name)->text);
      scopes_[scope].totals += one;
    }
  }

  const Totals& total() const { return total_; }
  /// Returns the totals of an operation; zero if it was not performed.
  Totals operation(std::string_view name) const {
    const auto found = operations_.find(name);
    return found == operations_.end() ? Totals() : found->second;
  }
  /// Returns the totals of a scope. `path` joins the names from the outermost scope inward
  /// by slashes. Zero if there was no such scope.
  Totals scope(std::string_view path) const {
    // Several scopes have the same path if a name contains a slash, so their totals are added.
    Totals sum;
    for (std::size_t i = 1; i < scopes_.size(); ++i)
      if (scopes_[i].path == path) sum += scopes_[i].totals;
    return sum;
  }

  /// Returns a table of operations and, if there are scopes, one of scopes. `columns` names the
  /// figures, `less` orders rows from the smallest to the largest, and the largest is shown first.
  /// `cells` formats the figures of a part, given the total.
  std::string str(const Row& columns, std::function<bool(const Totals&, const Totals&)> less,
                  std::function<Row(const Totals&, const Totals&)> cells) const {
    const auto row = [&](const std::string& name, const Row& figures) {
      Row all{name};
      all.insert(all.end(), figures.begin(), figures.end());
      return all;
    };
    std::vector<std::pair<std::string_view, Totals>> largest(operations_.begin(), operations_.end());
    std::stable_sort(largest.begin(), largest.end(),
                     [&](const auto& a, const auto& b) { return less(b.second, a.second); });
    std::vector<Row> rows{row("operation", columns)};
    for (const auto& [name, totals] : largest) rows.push_back(row(std::string(name), cells(totals, total_)));
    rows.push_back(row("total", cells(total_, total_)));
    std::string text = table(rows);
    if (scopes_.size() == 1) return text;
    rows = {row("scope", columns)};
    std::vector<std::size_t> waiting{0};  // A stack of scopes; the last one is shown next.
    while (!waiting.empty()) {
      const Scope& scope = scopes_[waiting.back()];
      if (waiting.back() != 0)
        rows.push_back(row(std::string(2 * scope.depth, ' ') + scope.name, cells(scope.totals, total_)));
      waiting.pop_back();
      const std::size_t first = waiting.size();
      waiting.insert(waiting.end(), scope.inner.begin(), scope.inner.end());
      std::stable_sort(waiting.begin() + static_cast<std::ptrdiff_t>(first), waiting.end(),
                       [&](std::size_t a, std::size_t b) { return less(scopes_[a].totals, scopes_[b].totals); });
    }
    if (outside_.calls) rows.push_back(row("(no scope)", cells(outside_, total_)));
    return text + "\n" + table(rows);
  }

 private:
  struct Scope {
    std::string path, name;
    std::size_t depth = 0;
    Totals totals = {};
    std::vector<std::size_t> inner = {};  // Indices of scopes_.
  };

  std::size_t inner_scope(std::size_t outer, const std::string& name) {
    const auto [found, is_new] = index_.try_emplace({outer, name}, scopes_.size());
    if (is_new) {
      const Scope& around = scopes_[outer];
      scopes_.push_back({outer == 0 ? name : around.path + "/" + name, name, outer == 0 ? 0 : around.depth + 1});
      scopes_[outer].inner.push_back(found->second);
    }
    return found->second;
  }

  Totals total_ = {}, outside_ = {};  // outside_: outside of all scopes.
  std::map<std::string_view, Totals> operations_;
  // scopes_[0] is the root, which encloses all scopes.
  std::vector<Scope> scopes_{{"", ""}};
  std::map<std::pair<std::size_t, std::string>, std::size_t> index_;
};

}  // namespace stave_detail
