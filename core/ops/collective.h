// Collectives: operations across a named axis, each entry of which is called a place. A place is
// one lane of a vmap, or one process of a cluster.
//
//   // lanes
//   auto step = vmap([](const Tensor& x) { return x / psum(x, "batch"); }, {.axis_name = "batch"});
//   // processes
//   with(Ranks("batch"), [&] { return x / psum(x, "batch"); });
//
// The function is the same in both cases: the innermost handler that has an axis
// of that name answers. Without such a handler the operation throws TransformError. All places
// of the axis must take part in each collective. Hence lanes that vmap has split (vmap.h),
// and processes that perform different operations, cannot perform one.
//
// Names, meanings and derivatives are those of JAX (jax.lax). Derivatives treat the places
// as one program: the cotangent of x in one place is that of the sum of all places' results.
// So inside the axis the gradient of psum(loss) is the gradient times the number of places.
// Take grad of each place's own loss instead, and apply psum or pmean to the gradients.
//
// If vmap answers, results that are the same in every lane (psum, pmax, all_gather) have no lanes,
// and values computed from them are computed once.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <stave/core/ops/tree.h>
#include <stave/core/tensor/options.h>

namespace stave {

/// Returns the number of places (lanes or processes) of the axis. Throws TransformError if no
/// installed handler has an axis of that name.
Index axis_size(const std::string& axis_name);
/// Returns the position of this place (lane or process) on the axis: an int32 scalar.
Tensor axis_index(const std::string& axis_name, Device device = cpu);

/// Returns, in every place of the axis, the sum of x over all places (lanes or processes). The
/// dtype stays, except that bools are summed in int32.
Tensor psum(const Tensor& x, const std::string& axis_name);
/// Returns, in every place of the axis, the mean of x over all places (lanes or processes).
/// Integers and bools are averaged in default_dtype().
Tensor pmean(const Tensor& x, const std::string& axis_name);
/// Returns, in every place of the axis, the maximum of x over all places (lanes or processes); for
/// bools, whether any is true. The result is NaN if x is NaN in any place. Places that have the
/// maximum share the derivative equally.
Tensor pmax(const Tensor& x, const std::string& axis_name);
/// Returns, in every place of the axis, the minimum of x over all places (lanes or processes); for
/// bools, whether all are true.
Tensor pmin(const Tensor& x, const std::string& axis_name);

struct GatherOptions {
  [[no_unique_address]] ByName by_name{};
  Index axis = 0;      ///< the axis of the result that has one entry per place
  bool tiled = false;  ///< concatenates along an axis of x instead of stacking along a new one
};
/// Gathers x from all places (lanes or processes) of the axis, and returns in every place the
/// results stacked along a new axis: shape [..., places, ...].
Tensor all_gather(const Tensor& x, const std::string& axis_name, GatherOptions options = {});

struct ScatterOptions {
  [[no_unique_address]] ByName by_name{};
  Index axis = 0;  ///< the axis of x that is distributed over the places
  /// Gives each place a part of the axis that may be longer than 1, and keeps the axis.
  bool tiled = false;
};
/// Sums x over all places (lanes or processes) of the axis, and returns to each place one part of
/// the sum, as JAX's psum_scatter. Place i gets element i along `axis`, whose length is the number
/// of places or, with `tiled`, a multiple of that number.
Tensor reduce_scatter(const Tensor& x, const std::string& axis_name, ScatterOptions options = {});

struct ExchangeOptions {
  [[no_unique_address]] ByName by_name{};
  Index split_axis = 0;   ///< axis of x: element j along it goes to place j
  Index concat_axis = 0;  ///< axis of the result: its element j came from place j
  /// Splits and concatenates along axes that stay. Otherwise split_axis is removed from x, and
  /// concat_axis is a new axis of the result.
  bool tiled = false;
};
/// Sends one part of x from each place (lane or process) of the axis to each place, and returns the
/// parts that this place received.
Tensor all_to_all(const Tensor& x, const std::string& axis_name, ExchangeOptions options = {});

/// Returns the x of another place (lane or process): for each pair {from, to}, x of `from` is sent
/// to `to`. A place that receives nothing gets zeros. Throws IndexError if a place occurs twice as
/// `from` or twice as `to`.
Tensor ppermute(const Tensor& x, const std::string& axis_name, const std::vector<std::pair<Index, Index>>& pairs);

/// Applies the collective to every tensor of a tree.
#define STAVE_COLLECTIVE(name)                                                  \
  template <class Tree>                                                         \
    requires(!std::is_convertible_v<const Tree&, Tensor>)                       \
  auto name(const Tree& tree, const std::string& axis_name) {                   \
    return tree_map([&](const Tensor& x) { return name(x, axis_name); }, tree); \
  }
STAVE_COLLECTIVE(psum)
STAVE_COLLECTIVE(pmean)
STAVE_COLLECTIVE(pmax)
STAVE_COLLECTIVE(pmin)
#undef STAVE_COLLECTIVE

/// The effect that requests the number of places of an axis. The result is nullopt if no installed
/// handler has that axis.
struct AxisSize {
  using Result = std::optional<Index>;
  std::string name;
  Result unhandled() const { return std::nullopt; }
};

}  // namespace stave
