// Profile: the number of calls, time and output bytes of each operation, and of each scope.
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
// Rows are sorted by time, slowest first. The profile sees the operations that reach it:
// outside of grad also those of the backward pass, outside of vmap all lanes.
//
// - The time of an operation ends when the operation is finished. It includes the work of the
//   handlers outside of the profile, such as other observers.
// - Bytes are those of the outputs' elements, for all lanes. Repetitions of a broadcast count once;
//   views count the elements that they show.
// - A scope (scope.h) includes its inner scopes. Scopes of the same name in the same place
//   are added up. Scopes outside of the profile are left out.
// - Operations that throw are not counted. A profile that is installed twice at the same time
//   counts twice.
//
// A profile accumulates over several uses until reset(). Several threads may share it,
// and may read it during recording.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <mutex>
#include <string>
#include <string_view>

#include <stave/core/op/op.h>
#include <stave/handlers/observe/totals.h>

namespace stave {

class Profile : public Handler {
 public:
  struct Totals {
    std::uint64_t calls = 0;
    std::chrono::nanoseconds time{};
    std::uint64_t bytes = 0;
    Totals& operator+=(const Totals& other);
  };

  Outputs handle(Call& call) override;
  std::string describe() const override { return "profile"; }
  HandlerProperties properties() const noexcept override { return {.only_observes = true}; }

  Totals total() const;
  /// Returns the totals of an operation, by its name; zero if it was not performed.
  Totals operation(std::string_view name) const;
  /// Returns the totals of a scope. `path` joins the names from the outermost scope inward
  /// by slashes: "backward of grad/layer1". Zero if there was no such scope.
  Totals scope(std::string_view path) const;
  /// Returns two tables as text, one of operations and one of scopes, as at the top of this file.
  std::string str() const;
  void reset();

 private:
  mutable std::mutex mutex_;
  stave_detail::TotalsByName<Totals> sums_;
};

std::ostream& operator<<(std::ostream& out, const Profile& profile);

}  // namespace stave
