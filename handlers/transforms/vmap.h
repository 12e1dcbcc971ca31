// vmap: applies a function of one example to a batch.
//
//   auto ys = vmap(f)(xs);  // along axis 0 of every argument
//   auto gs = vmap(grad(loss), {.in_axes = {unmapped, 0, 0}})(w, xs, ys);  // per-example gradients
//
// A lane is one entry of the batch. In place of mapped arguments, f sees tensors that have the
// shape of one lane's value and no storage of their own (except where f runs again for a single
// lane). `unmapped` arguments and captured values are the same in every lane.
// Keys are mapped like tensors: vmap(f)(xs, split(key, n)).
//
// Control flow is C++'s own: `if`, `while`, recursion, item() and to_vector() on a lane's values.
// When f reads a value that differs between lanes, vmap splits the lanes into groups. f runs once
// for each group of lanes that take the same path, on the values of these lanes. Read a bool,
// as in `if (x > 0)`, where a bool decides: a float may have a different value in every lane,
// and then each lane takes a path of its own. The mechanism is in vmap_flat.h and paths.h.
//
// An operation that throws for some lanes, as for an index out of range or a matrix that is not
// positive definite, splits the lanes too. f may catch the error, which only these lanes get.
// Lanes take the same path if their errors have the same type and texts that differ only
// in numbers; `what()` is the text of the first lane's error. An error that f does not catch leaves
// vmap with its type, and names the lanes.
//
// Other side effects of f (counters, printing) happen once for each path. Up to the point where
// lanes split, f must do the same on each run. vmap checks most runs (paths.h), and throws
// TransformError if f performs another operation, or an operation on other values, because f
// changed something outside of itself, such as a key that it advances:
//   vmap([&](Tensor x) { key = fold_in(key, 1); return bool(x > 0) ? x + uniform(key) : x; })
// Map over keys instead, as split(key, n) gives them. A change that f makes after lanes have split
// is not noticed: the lanes that run later see the changed state.
#pragma once

#include <optional>

#include <stave/core/tensor/options.h>
#include <stave/handlers/transforms/across_lanes.h>
#include <stave/handlers/transforms/arguments.h>
#include <stave/handlers/transforms/same_besides_tensors.h>
#include <stave/handlers/transforms/vmap_flat.h>

namespace stave {

/// Axes for a tree: one axis for all its tensors, or a list. A list has an entry for each argument,
/// or for each child of a tree: a struct's members in the order of declaration, a container's
/// elements, or a map's values in the order of their keys. An entry may be a list again. A list
/// with a single entry applies that entry to all.
struct MapAxes {
  MapAxis axis;  // used if the list is empty
  std::vector<MapAxes> list;
  MapAxes(std::initializer_list<MapAxes> axes) : list(axes) {}
  MapAxes(const std::vector<MapAxis>& axes) : list(axes.begin(), axes.end()) {}
  template <std::integral Integer>
  MapAxes(Integer axis_) : axis(axis_) {}
  MapAxes(MapAxis axis_) : axis(axis_) {}
  MapAxes(MapAxis::Unmapped all) : axis(all) {}
  MapAxes(Tensor::NoneType all) : axis(all) {}
  /// Returns the entry for child i; returns this object if there is no list.
  const MapAxes& of(std::size_t i) const { return list.empty() ? *this : list[i < list.size() ? i : 0]; }
};

struct VmapOptions {
  [[no_unique_address]] ByName by_name{};
  /// Axes of the arguments, counted from the end if negative, or `unmapped`: {unmapped, 0},
  /// {0, {unmapped, 1}}.
  MapAxes in_axes = 0;
  /// Axes of the results in the same form: {0, 1} for a tuple (struct, vector) of two.
  MapAxes out_axes = 0;
  /// The name by which collectives inside f, such as psum, refer to these lanes; empty: no name.
  std::string axis_name{};
  /// The number of lanes; required if no argument is mapped, otherwise checked.
  std::optional<Index> axis_size{};
};

}  // namespace stave

namespace stave_detail {

/// Throws TransformError unless the list of `axes` is empty, has one entry, or has one
/// for each of `children`.
void check_axes(const MapAxes& axes, std::size_t children, const char* what, const std::string& where);
/// Throws TransformError if a mapped input is the data of a single random-number key.
void check_mapped_keys(std::span<const Tensor> inputs, std::span<const MapAxis> axes, const std::vector<bool>& are_keys,
                       InputNames names);

// The axes that a prefix of a tree assigns to the tensors and keys of the tree.
struct LeafAxes {
  const char* what;
  std::vector<MapAxis> axes;
  std::vector<bool> are_keys;
  void add(const MapAxes& prefix, bool is_key);
};

template <class T>
void add_axes(const T& tree, const MapAxes& prefix, LeafAxes& to) {
  constexpr TreeKind kind = tree_kind<T>;
  if constexpr (kind == TreeKind::tensor || kind == TreeKind::key) to.add(prefix, kind == TreeKind::key);
  else if constexpr (is_transparent(kind)) visit_children(tree, [&](auto& child) { add_axes(child, prefix, to); });
  else if constexpr (is_tree_kind(kind)) {
    std::size_t children = 0;
    visit_children(tree, [&](auto& child) { add_axes(child, prefix.of(children++), to); });
    check_axes(prefix, children, to.what, "members");
  }
}

/// fail_other_lanes throws TransformError, because lanes that took different paths returned results
/// that differ in more than tensors (`comparable`), or that cannot be compared. fail_used_up throws
/// TransformError, because an earlier run consumed an argument that cannot be copied.
[[noreturn]] void fail_other_lanes(bool comparable);
[[noreturn]] void fail_used_up();

// Collects the result of a function that runs once for each path. The parts of the result that are
// not tensors must be the same on every path.
template <class Result>
class ResultOfLanes {
 public:
  void set(Result found) {
    if (!result) return void(result.emplace(std::move(found)));
    constexpr bool comparable = comparable_besides_tensors<Result>();
    if constexpr (comparable) {
      if (same_besides_tensors(*result, found)) return;
    }
    fail_other_lanes(comparable);
  }
  std::optional<Result> result;
};

template <class F>
class VmapOf {
 public:
  VmapOf(F f, VmapOptions options) : f_(std::move(f)), options_(std::move(options)) {}

  template <class... A>
  auto operator()(A&&... args) const {
    using Selected = SelectTrees<A...>;
    if constexpr (can_call<Returns::tree, const F, Selected, A...>)
      return run<typename Calls<const F, Selected, A...>::Result>(Selected(), std::forward<A>(args)...);
    else return Refused();
  }

 private:
  template <class Result, bool... selected, class... A>
  Result run(Selection<selected...> trees, A&&... args) const {
    check_axes(options_.in_axes, sizeof...(A), "in_axes", "arguments");
    LeafAxes in{"in_axes", {}, {}}, out{"out_axes", {}, {}};
    Outputs leaves;
    std::size_t argument = 0;
    [[maybe_unused]] const auto add_argument = [&]<bool s>(std::bool_constant<s>, const auto& arg) {
      const MapAxes& prefix = options_.in_axes.of(argument++);
      if constexpr (s) {
        add_axes(arg, prefix, in);
        for (Tensor& leaf : flat_outputs<true>(arg)) leaves.push_back(std::move(leaf));
      }
    };
    (add_argument(std::bool_constant<selected>(), args), ...);
    const auto name = [&](std::size_t i) { return leaf_name<true>(trees, i, args...); };
    check_mapped_keys(leaves, in.axes, in.are_keys, name);
    ResultOfLanes<Result> of_lanes;
    [[maybe_unused]] bool used = false;
    const auto each_path = [&](std::span<const Tensor> lanes) {
      if (used) fail_used_up();
      Result found = call_with_leaves<true>(trees, f_, lanes, for_a_run<selected, A>(args, used)...);
      Outputs flat = flat_outputs<true>(found);
      of_lanes.set(std::move(found));
      return flat;
    };
    const FlatVmap flat = vmap_flat(each_path, leaves, in.axes, options_.axis_size, name, options_.axis_name);
    std::optional<Result>& result = of_lanes.result;
    add_axes(*result, options_.out_axes, out);
    const Outputs placed = vmap_outputs(flat, out.axes);
    PutLeaves put{placed.data()};
    put_leaves<true>(*result, put);
    return std::move(*result);
  }

  F f_;
  VmapOptions options_;
};

}  // namespace stave_detail

namespace stave {

/// Returns a callable that applies f to each entry of a batch. The callable takes f's arguments,
/// each with one more axis unless it is unmapped; its result has the lanes along out_axes.
/// Its call throws ShapeError if arguments disagree on the number of lanes, if a mapped tensor has
/// rank 0, and if nothing is mapped and there is no axis_size; IndexError for axes out of range;
/// and TransformError for axes whose structure is not that of the arguments or results, for a
/// single random-number key that is mapped, and for a result that is `unmapped` in out_axes but
/// depends on the lane.
template <class F>
auto vmap(F f, VmapOptions options = {}) {
  return stave_detail::VmapOf<F>(std::move(f), std::move(options));
}

#define STAVE_NAMES(Name)                                                   \
  inline auto vmap(stave_detail::Name f, VmapOptions options = {}) {        \
    return stave_detail::VmapOf<stave_detail::Name>(f, std::move(options)); \
  }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
