// Collectives: operations across a named axis, of which each lane of a vmap, or each process of a cluster, has one place.
//
//   auto step = vmap([](const Tensor& x) { return x / psum(x, "batch"); }, {.axis_name = "batch"});      // lanes
//   with(Ranks("batch"), [&] { return x / psum(x, "batch"); });                                          // processes
//
// The function is the same: whoever stands around it and has the axis answers, the innermost of that name; without one the
// operation throws TransformError. All places of the axis take part in each: lanes that have parted (vmap.h), or processes that
// perform something else, cannot.
//
// Names, meanings and derivatives are those of JAX (jax.lax). Derivatives are those of the places together: the cotangent of x in
// one place is that of the sum of all places' results. So inside of the axis the gradient of psum(loss) is as many times the
// gradient as there are places: take grad of each place's own loss, and psum or pmean what it gives.
//
// Where vmap answers, what is the same in every lane (psum, pmax, all_gather) has no lanes: what is made of it is computed once.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <stave/core/ops/tree.h>
#include <stave/core/tensor/options.h>

namespace stave {

/// The places of the axis. Throws TransformError if nobody around has one of that name.
Index axis_size(const std::string& axis_name);
/// Which place this is: int32, a scalar.
Tensor axis_index(const std::string& axis_name, Device device = cpu);

/// The sum over all places, in each. Keeps the dtype, but bool is summed in int32.
Tensor psum(const Tensor& x, const std::string& axis_name);
/// The mean: integers and bool are averaged in default_dtype().
Tensor pmean(const Tensor& x, const std::string& axis_name);
/// The largest; of bool, whether any is true. NaN wins; places that tie share the derivative equally.
Tensor pmax(const Tensor& x, const std::string& axis_name);
/// The smallest; of bool, whether all are true.
Tensor pmin(const Tensor& x, const std::string& axis_name);

struct GatherOptions {
  [[no_unique_address]] ByName by_name{};
  Index axis = 0;      ///< of the result
  bool tiled = false;  ///< one after the other along an axis of x, instead of along a new one
};
/// x of all places, stacked along a new axis, in each: shape [..., places, ...].
Tensor all_gather(const Tensor& x, const std::string& axis_name, GatherOptions options = {});

struct ScatterOptions {
  [[no_unique_address]] ByName by_name{};
  Index axis = 0;      ///< of x, that is dealt out
  bool tiled = false;  ///< a part of it to each place, instead of one element, without the axis
};
/// The sum over all places, of which each has its part: place i has element i along the axis, which is as long as there are places;
/// or, tiled, a multiple of that. JAX's psum_scatter.
Tensor reduce_scatter(const Tensor& x, const std::string& axis_name, ScatterOptions options = {});

struct ExchangeOptions {
  [[no_unique_address]] ByName by_name{};
  Index split_axis = 0;   ///< of x: element j along it goes to place j
  Index concat_axis = 0;  ///< of the result: what came from place j is its element j
  bool tiled = false;     ///< parts of axes that stay, instead of elements of axes that go and come
};
/// Each place gives a part to each.
Tensor all_to_all(const Tensor& x, const std::string& axis_name, ExchangeOptions options = {});

/// x of another place: for each pair, the first's goes to the second. Who gets none has zeros. No place stands twice on one side.
Tensor ppermute(const Tensor& x, const std::string& axis_name, const std::vector<std::pair<Index, Index>>& pairs);

/// Of all tensors of a tree.
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

/// Asks how many places an axis has, and so for who answers its collectives: there is nobody, unless somebody says so.
struct AxisSize {
  using Result = std::optional<Index>;
  std::string name;
  Result unhandled() const { return std::nullopt; }
};

}  // namespace stave
