// How vmap treats an effect that its function performs. The effect's type declares it in a member
// `across_lanes`. The effect and its answer must then be recordable (core/effects/recordable.h).
//
//   struct Measure {
//     static constexpr AcrossLanes across_lanes = AcrossLanes::each;
//     using Result = Tensor;
//     Tensor where;
//   };
#pragma once

#include <stave/core/effects/effect.h>

namespace stave {

/// "The lanes" are those that run together: after lanes have split, each group performs the effect.
enum class AcrossLanes : std::uint8_t {
  /// The default: the effect happens once for the lanes, and its answer is passed to all of them.
  /// Its tensors pass unchanged, so the handler sees them as vmap's function does.
  shared,
  /// The effect happens once per lane, in lane order, with that lane's tensors. The answers may
  /// differ only in the elements of their tensors; other differences throw TransformError.
  each,
  /// The effect happens once; its tensors and those of the answer carry the lanes as axis 0.
  together,
};

template <class E>
  requires(requires { AcrossLanes(E::across_lanes); })
struct EffectTraits<E> {
  static_assert(stave_detail::is_recordable_effect<E>(),
                "stave: an effect that says what it is across lanes, and its answer, must be what can be "
                "copied and compared (stave/core/effects/recordable.h)");
  static constexpr std::uint8_t value = static_cast<std::uint8_t>(E::across_lanes);
};

}  // namespace stave

namespace stave_detail {

inline AcrossLanes across_lanes(const EffectType& effect) noexcept { return AcrossLanes(effect.traits); }

}  // namespace stave_detail
