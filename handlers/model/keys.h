// next_key: keys of random numbers that nobody passes along.
//
//   Tensor layer(const Tensor& x) { return dropout(next_key(), x, 0.5); }
//   Tensor y = seed(layer, Key(0))(x);
//
// Keys come of the handler's key in order, for each path of scopes (scope.h) apart: one draw more in a layer changes no other layer's.
// Outside of scopes they are the rows of split(key, n). A checkpoint draws once.
//
// Where the handler stands outside of vmap, all lanes draw the same. So that each draws its own, let each have a handler:
//
//   vmap_with_keys(layer)(xs)                        // splits next_key(), a key for each lane
//   vmap([](const Key& key, const Tensor& x) { return seed(layer, key)(x); })(split(key, n), xs)      // the same, in the open
//
// Lane i gets what seed(layer, Key(keys[i]))(xs[i]) gives, bit for bit.
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <stave/core/ops/create.h>
#include <stave/core/ops/random.h>
#include <stave/handlers/transforms/vmap.h>

namespace stave {

/// Asks for a key that nobody else has.
struct NextKey {
  using Result = Key;
  [[noreturn]] Key unhandled() const;
};
/// A new key of the innermost Keys. Throws Error where there is none.
Key next_key();

/// Answers NextKey.
class Keys : public Handles<NextKey> {
 public:
  explicit Keys(Key key) : key_(std::move(key)) {}
  Key handle(NextKey&) override;
  std::string describe() const override { return "keys"; }

 private:
  const Key key_;
  struct Path {
    Key key;
    std::uint32_t drawn = 0;
  };
  std::map<std::string, Path> paths_;
};

}  // namespace stave

namespace stave_detail {

template <class F>
class Seeded {
 public:
  Seeded(F f, Key key) : f_(std::move(f)), key_(std::move(key)) {}
  template <class... A>
    requires std::invocable<const F&, A...>
  decltype(auto) operator()(A&&... args) const {
    return with(std::make_shared<Keys>(key_),
                [&]() -> decltype(auto) { return std::invoke(f_, std::forward<A>(args)...); });
  }

 private:
  F f_;
  Key key_;
};

template <class F>
class VmapWithKeys {
 public:
  VmapWithKeys(F f, VmapOptions options) : f_(std::move(f)), options_(std::move(options)) {}
  template <class... A>
  auto operator()(A&&... args) const {
    VmapOptions counted = options_, keyed = options_;
    counted.out_axes = 0;
    const Index lanes = vmap([](const auto&...) { return zeros({}); }, counted)(args...).shape(0);
    keyed.in_axes = MapAxes{0};
    for (std::size_t i = 0; i < sizeof...(A); ++i) keyed.in_axes.list.push_back(options_.in_axes.of(i));
    const auto of_lane = [this]<class... B>(const Key& key, B&&... xs)
      requires std::invocable<const F&, B...>
    {
      return with(std::make_shared<Keys>(key), [&] { return std::invoke(f_, std::forward<B>(xs)...); });
    };
    return vmap(of_lane, keyed)(Key(split(next_key(), lanes)), std::forward<A>(args)...);
  }

 private:
  F f_;
  VmapOptions options_;
};

}  // namespace stave_detail

namespace stave {

/// f under Keys(key), new ones at each call: a callable of f's arguments and result.
template <class F>
auto seed(F f, Key key) {
  return stave_detail::Seeded<F>(std::move(f), std::move(key));
}

/// vmap of f, where each lane draws keys of its own: of row i of split(next_key(), lanes).
template <class F>
auto vmap_with_keys(F f, VmapOptions options = {}) {
  return stave_detail::VmapWithKeys<F>(std::move(f), std::move(options));
}

}  // namespace stave
