// next_key: random keys that come from a handler instead of being passed as arguments.
//
//   Tensor layer(const Tensor& x) { return dropout(next_key(), x, 0.5); }
//   Tensor y = seed(layer, Key(0))(x);
//
// The handler derives new keys from its own key. It counts separately for each path of scopes
// (scope.h), so one more draw in a layer does not change the keys of other layers.
// Outside of all scopes, the keys are the rows of split(key, n). A checkpoint draws its keys once;
// its second run gets the same ones.
//
// If the handler is installed outside of vmap, all lanes get the same keys. To give each lane its
// own keys, install one handler per lane:
//
//   // splits next_key() into one key per lane
//   vmap_with_keys(layer)(xs)
//   // the same, written out
//   vmap([](const Key& key, const Tensor& x) { return seed(layer, key)(x); })(split(key, n), xs)
//
// Lane i gets exactly the result of seed(layer, Key(keys[i]))(xs[i]), bit for bit.
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

/// The effect that next_key() performs: requests a new random key.
struct NextKey {
  using Result = Key;
  [[noreturn]] Key unhandled() const;
};
/// Returns a new key from the innermost Keys handler. Throws Error if none is installed.
Key next_key();

/// Handles NextKey: derives each new key from the key that it was constructed with.
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

/// Returns a callable with the arguments and result of f that runs f under Keys(key).
/// Each call installs a new Keys, so equal calls give equal results.
template <class F>
auto seed(F f, Key key) {
  return stave_detail::Seeded<F>(std::move(f), std::move(key));
}

/// Returns vmap of f in which each lane draws its own keys: lane i runs under Keys of row i
/// of split(next_key(), lanes).
template <class F>
auto vmap_with_keys(F f, VmapOptions options = {}) {
  return stave_detail::VmapWithKeys<F>(std::move(f), std::move(options));
}

}  // namespace stave
