// vmap: a function of one example, applied to a batch.
//
//   auto ys = vmap(f)(xs);                                                            // along axis 0 of every argument
//   auto gs = vmap(grad(loss), {.in_axes = {unmapped, 0, 0}})(w, xs, ys);             // per-example gradients
//
// f sees tensors of one example's shape, without storage of their own. `unmapped` arguments, and captured values, are the
// same in every lane. The mechanism is in vmap_flat.h.
#pragma once

#include <optional>

#include <stave/handlers/arguments.h>
#include <stave/handlers/vmap_flat.h>

namespace stave {

/// An axis for each argument (result); one alone serves for all.
struct MapAxes {
  std::vector<MapAxis> list;
  MapAxes(std::initializer_list<MapAxis> axes) : list(axes) {}
  MapAxes(std::vector<MapAxis> axes) : list(std::move(axes)) {}
  template <std::integral I>
  MapAxes(I axis) : list{MapAxis(axis)} {}
  MapAxes(MapAxis::Unmapped all) : list{MapAxis(all)} {}
};

struct VmapOptions {
  MapAxes in_axes = {0};   ///< for each argument: an axis of all its tensors, negative from the end, or `unmapped`
  MapAxes out_axes = {0};  ///< for each result (member of the tuple that f returns), likewise
  std::optional<Index> axis_size{};  ///< the number of lanes; needed if no argument is mapped, else checked
};

}  // namespace stave

namespace stave_detail {

/// The axis for argument `i` of `count`. Throws TransformError if the list has neither one entry nor `count`.
MapAxis axis_of(const MapAxes& axes, std::size_t i, std::size_t count, const char* what);

// How many results a returned tree is, and to which one each tensor belongs.
template <class R>
inline constexpr std::size_t result_count = 1;
template <class... T>
inline constexpr std::size_t result_count<std::tuple<T...>> = sizeof...(T);
template <class A, class B>
inline constexpr std::size_t result_count<std::pair<A, B>> = 2;

template <class F>
class VmapOf {
 public:
  VmapOf(F f, VmapOptions options) : f_(std::move(f)), options_(std::move(options)) {}

  template <class... A>
  auto operator()(A&&... args) const {
    using Selected = SelectTrees<A...>;
    using Called = Calls<const F, Selected, A...>;
    static_assert(Called::valid, "stave: vmap: the function cannot be called with these arguments");
    if constexpr (Called::valid) {
      using Result = typename Called::Result;
      static_assert(is_tree<Result>, "stave: vmap: the function must return a tree of tensors (see stave/core/tree.h)");
      if constexpr (is_tree<Result>) return run<Result>(Selected(), std::forward<A>(args)...);
    }
  }

 private:
  template <class Result, class Selected, class... A>
  Result run(Selected selected, A&&... args) const {
    std::vector<MapAxis> axes;
    std::vector<int> arguments;
    std::size_t argument = 0;
    [[maybe_unused]] const auto add_axes = [&](const auto& arg) {
      const MapAxis axis = axis_of(options_.in_axes, argument, sizeof...(A), "in_axes");
      visit_tensors(arg, [&](const Tensor&) {
        axes.push_back(axis);
        arguments.push_back(static_cast<int>(argument));
      });
      ++argument;
    };
    (add_axes(args), ...);
    std::optional<Result> result;
    const FlatVmap flat = vmap_flat(
        [&](std::span<const Tensor> inputs) {
          result.emplace(call_with_leaves(selected, f_, inputs, std::forward<A>(args)...));
          return flat_outputs(*result);
        },
        selected_leaves(selected, args...), axes, arguments, options_.axis_size);
    place_lanes(*result, flat);
    return std::move(*result);
  }

  template <class Result>
  void place_lanes(Result& result, const FlatVmap& flat) const {
    std::size_t next = 0, index = 0;
    const auto place = [&](auto& member) {
      const MapAxis axis = axis_of(options_.out_axes, index++, result_count<Result>, "out_axes");
      visit_tensors(member, [&](Tensor& leaf) {
        leaf = vmap_output(flat, next, axis);
        ++next;
      });
    };
    if constexpr (result_count<Result> == 1) place(result);
    else std::apply([&](auto&... member) { (place(member), ...); }, result);
  }

  F f_;
  VmapOptions options_;
};

}  // namespace stave_detail

namespace stave {

/// f over a batch: a callable with f's arguments, each with one more axis unless unmapped; the result has the lanes along
/// out_axes. Throws ShapeError where lanes disagree, IndexError for axes out of range.
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
