// Collectives: operations across a named axis. Each lane of a vmap, or each process of a cluster,
// is one place of the axis.
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

/// The number of places of the axis. Throws TransformError if no installed handler has an axis
/// of that name.
Index axis_size(const std::string& axis_name);
/// The number of this place on the axis: an int32 scalar.
Tensor axis_index(const std::string& axis_name, Device device = cpu);

/// The sum over all places, in each of them. The dtype stays, except that bools are summed
/// in int32.
Tensor psum(const Tensor& x, const std::string& axis_name);
/// The mean over all places, in each of them. Integers and bools are averaged in default_dtype().
Tensor pmean(const Tensor& x, const std::string& axis_name);
/// The maximum over all places, in each of them; for bools, whether any is true. The result is NaN
/// if x is NaN in any place. Places that have the maximum share the derivative equally.
Tensor pmax(const Tensor& x, const std::string& axis_name);
/// The minimum over all places, in each of them; for bools, whether all are true.
Tensor pmin(const Tensor& x, const std::string& axis_name);

struct GatherOptions {
  [[no_unique_address]] ByName by_name{};
  Index axis = 0;      ///< the axis of the result along which the places lie
  bool tiled = false;  ///< concatenates along an axis of x instead of stacking along a new one
};
/// x of all places, stacked along a new axis, in each of them: shape [..., places, ...].
Tensor all_gather(const Tensor& x, const std::string& axis_name, GatherOptions options = {});

struct ScatterOptions {
  [[no_unique_address]] ByName by_name{};
  Index axis = 0;  ///< the axis of x that is distributed over the places
  /// Each place gets a part of the axis, instead of one element without the axis.
  bool tiled = false;
};
/// The sum over all places, of which each place gets its part, as JAX's psum_scatter.
/// Place i gets element i along the axis, whose length is the number of places or, with `tiled`,
/// a multiple of it.
Tensor reduce_scatter(const Tensor& x, const std::string& axis_name, ScatterOptions options = {});

struct ExchangeOptions {
  [[no_unique_address]] ByName by_name{};
  Index split_axis = 0;   ///< axis of x: element j along it goes to place j
  Index concat_axis = 0;  ///< axis of the result: its element j came from place j
  /// Exchanges parts of axes that stay, instead of elements of axes that are removed and added.
  bool tiled = false;
};
/// x exchanged such that each place sends one part of it to each place.
Tensor all_to_all(const Tensor& x, const std::string& axis_name, ExchangeOptions options = {});

/// x of another place: for each pair {from, to}, x of `from` goes to `to`.
/// A place that receives nothing has zeros. A place may occur only once as `from` and once as `to`;
/// otherwise IndexError is thrown.
Tensor ppermute(const Tensor& x, const std::string& axis_name, const std::vector<std::pair<Index, Index>>& pairs);

/// Applies the collective to all tensors of a tree.
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

/// The effect that requests the number of places of an axis, and so finds out whether a handler has
/// that axis. If no handler answers, the result is nullopt.
struct AxisSize {
  using Result = std::optional<Index>;
  std::string name;
  Result unhandled() const { return std::nullopt; }
};

}  // namespace stave
