// Several computations on one thread, which take turns:
//
//   const auto [mean, mode] = concurrently([&] { return chain(key, density); }, [&] { return minimize(loss, start).x; });
//
// Each runs on a stack of its own, with handlers of its own, until it has performed an operation; then the next one goes on. So
// they are written as if each were alone, and while a device computes for one, the others ask it for more.
//
//   turns          A turn ends with an operation that leaves the computation's own handlers, and was performed; and with yield(). An operation
//                  that carries functions, such as a checkpoint, is one operation. One that throws ends no turn.
//   devices        A read of what lives on a device (item, to_vector, bool, `to` the CPU) waits until the device has done what it was asked
//                  for. So it is put off until all others read as well, or have ended, but for 64 turns at most; and it is a turn of
//                  its own: of computations that read at the same time one waits.
//   order          The computations begin, and take their turns, in the order in which they are given. Nothing of it depends on time:
//                  the same functions of the same values take the same turns.
//   handlers       Those around see all operations and effects, one after another, in the order of the turns. So transforms around
//                  differentiate, map and record the computations together. Of what one computation installs the others see nothing.
//   exceptions     The first that leaves a computation comes out. The others are cancelled (core/effects/controller.h), in order: what they
//                  throw meanwhile is lost.
//
// Computations may themselves call concurrently: an operation then ends a turn of the inner one, and of the outer. They share what
// they capture like functions that call one another: no locks are needed, but what a function does between two turns alone is
// undivided. So no mutex may be held over an operation, nor a static local variable be initialised by one, where another computation
// comes by. A computation's stack has 256 KiB.
//
// A function that calls concurrently may be compiled. What `compile` gave is, inside, performed operation by operation, as it is under
// other handlers.
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
  bool at_operations = true;  ///< false: operations end no turns
};

}  // namespace stave

namespace stave_detail {

using namespace stave;

void run_concurrently(std::span<const FunctionRef<void()>> bodies, const ConcurrentlyOptions& options);

/// A function, and where its result goes. F may be a reference.
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

// Without std::ranges, since <ranges> takes long to compile.
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

/// The results of functions that take turns, as a tuple: of void std::monostate, of a reference a copy. Or of one argument that is
/// a range of functions of one type, as a vector; of void nothing. Throws the first exception that leaves one.
template <class... F>
auto concurrently(ConcurrentlyOptions options, F&&... functions) {
  constexpr bool of_functions = (std::invocable<F&> && ...);
  constexpr bool of_range = sizeof...(F) == 1 && (stave_detail::RangeOfFunctions<F&> && ...);
  static_assert(
      of_functions || of_range,
      "stave: concurrently: each argument must be a function without parameters, or the only one a range of such");
  if constexpr (of_functions) return stave_detail::results_of(options, functions...);
  else if constexpr (of_range) return stave_detail::results_of_range(options, functions...);
}
template <class... F>
  requires(!(std::convertible_to<F, ConcurrentlyOptions> || ...))
auto concurrently(F&&... functions) {
  return concurrently(ConcurrentlyOptions{}, std::forward<F>(functions)...);
}

}  // namespace stave
