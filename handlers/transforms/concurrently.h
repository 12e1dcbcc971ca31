// concurrently: runs several computations on one thread, which take turns.
//
//   const auto [mean, mode] = concurrently([&] { return chain(key, density); },
//                                          [&] { return minimize(loss, start).x; });
//
// Each computation runs on a stack of its own, with handlers of its own, until it has performed
// an operation; then the next one continues. So each can be written as if it were alone,
// and while a device computes for one of them, the others submit more work.
//
//   turns       A turn ends when an operation has left the computation's own handlers
//               and has been performed (unless at_operations is false), and at yield(). A
//               higher-order operation, such as a checkpoint, is one operation, and yield() inside
//               its function does not end the turn. An operation that throws does not either.
//   devices     A read of a value on a device (item, to_vector, bool, `to` the CPU) waits
//               until the device has finished its work. So a read is deferred until each of the
//               other computations waits for a read as well, or has ended, but for at most 64
//               rounds of turns. A read is a turn of its own, so only one computation waits
//               at a time.
//   order       The computations start and take their turns in the order in which they are given.
//               The order does not depend on time: the same functions on the same values
//               take the same turns.
//   handlers    The handlers around concurrently see all operations and effects, one after another,
//               in the order of the turns. So transforms around it differentiate, map and record
//               the computations together. A computation does not see the handlers that another
//               computation installs.
//   exceptions  The first exception that leaves a computation leaves concurrently.
//               The other computations are cancelled (core/effects/controller.h), in order;
//               exceptions that they throw meanwhile are dropped.
//
// A computation may itself call concurrently: an operation of an inner computation then ends its
// turn and the turn of the outer computation. Computations share captured variables without locks,
// but only the code between two operations runs without interruption. So do not hold a mutex during
// an operation, and do not initialise a static local variable by an operation, if another
// computation may reach the same code. A computation's stack has 256 KiB by default (fiber.h).
//
// A function that calls concurrently may be compiled. A function that `compile` returned
// is performed operation by operation inside a computation, as it is under a user's handlers.
#pragma once

#include <array>
#include <concepts>
#include <iterator>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <stave/core/effects/controller.h>
#include <stave/core/effects/function_ref.h>
#include <stave/core/effects/yield.h>
#include <stave/core/tensor/options.h>

namespace stave {

struct ConcurrentlyOptions {
  [[no_unique_address]] ByName by_name{};
  bool at_operations = true;  ///< false: operations do not end turns
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

void run_concurrently(std::span<const FunctionRef<void()>> bodies, const ConcurrentlyOptions& options);

/// A function and a place where its result is stored. F may be a reference.
template <class F>
struct Placing {
  F function;
  std::optional<ResultOf<F>>& place;
  void operator()() {
    if constexpr (std::is_void_v<std::invoke_result_t<F&>>) function(), place.emplace();
    else place.emplace(function());
  }
};

template <class... F>
std::tuple<ResultOf<F>...> results_of(const ConcurrentlyOptions& options, F&... functions) {
  std::tuple<std::optional<ResultOf<F>>...> places;
  return std::apply(
      [&](auto&... place) {
        std::tuple<Placing<F&>...> bodies{Placing<F&>{functions, place}...};
        std::apply(
            [&](auto&... body) {
              run_concurrently(std::array<FunctionRef<void()>, sizeof...(F)>{FunctionRef<void()>(body)...}, options);
            },
            bodies);
        return std::tuple<ResultOf<F>...>(*std::move(place)...);
      },
      places);
}

// These concepts avoid std::ranges, because <ranges> takes long to compile.
template <class R>
using RangeReference = decltype(*std::begin(std::declval<R&>()));
template <class R>
concept RangeOfFunctions = requires(R& range) {
  requires std::forward_iterator<decltype(std::begin(range))>;
  { std::begin(range) != std::end(range) } -> std::convertible_to<bool>;
  requires std::invocable<RangeReference<R>&>;
};

template <class Range>
auto results_of_range(const ConcurrentlyOptions& options, Range& functions) {
  using F = RangeReference<Range>;
  std::size_t count = 0;
  for (auto at = std::begin(functions); at != std::end(functions); ++at) ++count;
  std::vector<std::optional<ResultOf<F>>> places(count);
  std::vector<Placing<F>> bodies;
  bodies.reserve(places.size());
  for (auto&& function : functions) bodies.push_back({static_cast<F>(function), places[bodies.size()]});
  run_concurrently(std::vector<FunctionRef<void()>>(bodies.begin(), bodies.end()), options);
  if constexpr (!std::is_void_v<std::invoke_result_t<F&>>) {
    std::vector<ResultOf<F>> results;
    results.reserve(places.size());
    for (auto& place : places) results.push_back(*std::move(place));
    return results;
  }
}

}  // namespace stave_detail

namespace stave {

/// Returns the results of functions that take turns, as a tuple. The result of a void function
/// is std::monostate; a reference is copied. A single argument may be a range of functions
/// of one type: the results are then a vector, or void if the functions return void.
/// Throws the first exception that leaves a function.
template <class... F>
auto concurrently(ConcurrentlyOptions options, F&&... functions) {
  constexpr bool of_functions = (std::invocable<F&> && ...);
  constexpr bool of_range = sizeof...(F) == 1 && (stave_detail::RangeOfFunctions<F&> && ...);
  static_assert(of_functions || of_range,
                "stave: concurrently: each argument must be a function without parameters, or the only argument a "
                "range of such functions");
  if constexpr (of_functions) return stave_detail::results_of(options, functions...);
  else if constexpr (of_range) return stave_detail::results_of_range(options, functions...);
}
template <class... F>
  requires(!(std::convertible_to<F, ConcurrentlyOptions> || ...))
auto concurrently(F&&... functions) {
  return concurrently(ConcurrentlyOptions{}, std::forward<F>(functions)...);
}

}  // namespace stave
