// Profile: how often each operation was performed, how long it took, and what it made; by operation, and by scope.
//
//   Profile profile;
//   with(profile, [&] { return grad(loss)(w, x, y); });
//   std::cout << profile;
//
//   operation         calls     time   share     bytes
//   matmul                3   182 us   71.2%  31.2 KiB
//   tanh                  1  38.2 us   15.0%   7.5 KiB
//   ...
//   total                12   256 us  100.0%  66.1 KiB
//
//   scope             calls     time   share     bytes
//   layer1                2   120 us   46.9%  15.0 KiB
//   backward of grad      7   101 us   39.5%  38.2 KiB
//     layer1              3  80.1 us   31.3%  22.9 KiB
//   (no scope)            3  35.0 us   13.7%  12.9 KiB
//
// Slowest first. Like every handler it sees what reaches it: outside grad the backward pass as well, outside vmap all lanes.
//
// - Time: until the operation was done, with all that handlers below did for it, other observers included.
// - Bytes: what the outputs' elements take, of all lanes; repetitions of a broadcast are counted once, views as what they show.
// - A scope (effect.h) includes the scopes in it. Those of one name in one place are added up. Scopes around the profile itself
//   are left out.
// - What throws is not counted. A profile that is installed twice at once counts twice.
//
// It adds up over several uses until reset(). Several threads may share it, and read it meanwhile.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <stave/core/op/op.h>

namespace stave {

class Profile : public Handler {
 public:
  struct Totals {
    std::uint64_t calls = 0;
    std::chrono::nanoseconds time{};
    std::uint64_t bytes = 0;
  };

  Outputs handle(Call& call) override;
  std::string describe() const override { return "profile"; }
  bool only_observes() const noexcept override { return true; }

  Totals total() const;
  /// Of an operation, by its name: zero if it was not performed.
  Totals operation(std::string_view name) const;
  /// Of a scope, by the names from outside in, a slash between them: "backward of grad/layer1". Zero if there was none.
  Totals scope(std::string_view path) const;
  /// The tables above.
  std::string str() const;
  void reset();

 private:
  struct ScopeTotals {
    std::string path, name;
    std::size_t depth;
    Totals totals;
    std::vector<std::size_t> inner;  // indices of scopes_
  };
  void add(const Op& op, const std::vector<NamePtr>& scopes, const Totals& one);
  std::size_t inner_scope(std::size_t outer, const std::string& name);
  std::string operations_table() const;
  std::string scopes_table() const;

  mutable std::mutex mutex_;
  Totals total_, outside_;  // outside of all scopes
  std::map<std::string_view, Totals> operations_;
  std::vector<ScopeTotals> scopes_{{"", "", 0, {}, {}}};  // the first stands around all
  std::map<std::pair<std::size_t, std::string>, std::size_t> index_;
};

std::ostream& operator<<(std::ostream& out, const Profile& profile);

}  // namespace stave
