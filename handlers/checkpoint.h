// checkpoint: less memory for more time.
//
//   auto y = checkpoint(layer)(w, x);
//
// Under grad nothing of what `layer` computes is kept but its arguments; in the backward pass it runs again. It runs exactly
// twice, with bit-equal results, and user effects inside it get the same answers both times. Without a derivative it is
// layer(w, x). Works in any nest, at any order, and for captured values as for arguments.
#pragma once

#include <stave/handlers/carried_trees.h>

namespace stave_detail {

template <class F>
class CheckpointOf {
 public:
  explicit CheckpointOf(F f) : f_(std::make_shared<F>(std::move(f))) {}

  template <class... A>
  auto operator()(A&&... args) const {
    using Called = CarriedCall<const F, A...>;
    static_assert(Called::valid, "stave: checkpoint: the function cannot be called with these arguments");
    if constexpr (Called::valid) {
      using Result = typename Called::Result;
      static_assert(is_tree<Result>,
                    "stave: checkpoint: the function must return a tree of tensors (see stave/core/tree.h)");
      if constexpr (is_tree<Result>) {
        KeptCall<A...> kept(std::forward<A>(args)...);
        Inputs inputs = kept.inputs();
        kept.leaves.clear();
        const ResultStructure<Result> results;
        return results.tree(checkpoint_flat(
            [f = f_, kept, results](std::span<const Tensor> xs) {
              return results.flat(kept.call(std::as_const(*f), xs));
            },
            std::move(inputs)));
      }
    }
  }

 private:
  std::shared_ptr<F> f_;
};

}  // namespace stave_detail

namespace stave {

/// f, of which a derivative remembers the arguments alone. f is called again during the backward pass, so what it captures by
/// reference must live until then. Arguments and the result are trees; other arguments are copied.
template <class F>
auto checkpoint(F f) {
  return stave_detail::CheckpointOf<F>(std::move(f));
}

#define STAVE_NAMES(Name) \
  inline auto checkpoint(stave_detail::Name f) { return stave_detail::CheckpointOf<stave_detail::Name>(f); }
STAVE_OVERLOADED_NAMES(STAVE_NAMES)
#undef STAVE_NAMES

}  // namespace stave
