// sow, harvest, plant: read named values from inside a function, or replace them, without
// changing the function.
//
//   Tensor f(const Tensor& x) {
//     const Tensor h = sow("hidden", tanh(x));                     // is tanh(x)
//     return sum(h * h);
//   }
//   auto [y, sown] = harvest(f)(x);                                  // sown.at("hidden")
//   auto z = plant(f, {{"hidden", zeros({3})}})(x);                  // zeros where tanh(x) was
//
// (The idea is that of JAX's Oryx.) A sown value passes through the transforms as an operation. So
// the position of the harvest among the transforms determines the value that the harvest gets:
//
//   vmap   A harvest outside of vmap gets the values of all lanes, with the lanes as axis 0,
//          whichever path each lane took; each path must sow it. A value that depends on no lane
//          is gathered once, without an axis of lanes.
//          A harvest inside of vmap gets the lane's value.
//   grad   A harvest outside of grad gets real values, which are constants. A harvest inside
//          of grad gets values with their derivatives, also from a checkpoint inside of it.
//   twice  A checkpoint's function runs again in the backward pass; the values that it sows then
//          are not gathered twice.
//
// - Names are joined with the scopes entered since harvest or plant: "layer1/hidden".
//   It is an error to sow a name twice to one harvest.
// - If no handler gathers the tag, sow returns its operand and performs nothing.
//   Inside a checkpoint it still performs its effect, because the effect log of the checkpoint must
//   be complete; so `compile` calls such a function itself instead of replaying a recording.
// - Inside a function with custom rules (custom_vjp and the like), sowing to a harvest outside
//   of that function is an error, except in its backward rule (sow_cotangent uses this).
// - A planted value takes the place of the sown value. It must have the shape and dtype that
//   a harvest at the same place would give. To transforms between plant and sow it is a constant.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <stave/core/op/op.h>
#include <stave/core/ops/named_tensors.h>
#include <stave/core/tensor/options.h>

namespace stave {

/// Returns x, and passes it under a name to the handlers that gather this tag. Tags keep the names
/// of different libraries apart.
Tensor sow(const std::string& name, const Tensor& x, const std::string& tag = "");
/// Returns x, whose cotangent is sown in the backward pass, to a harvest outside of grad.
/// Under nested derivatives it is the cotangent of the innermost one.
Tensor sow_cotangent(const std::string& name, const Tensor& x, const std::string& tag = "");

}  // namespace stave

namespace stave_detail {

/// The effect that finds out whether a handler gathers a value that is about to be sown.
struct Sowing {
  struct Result {
    // Numbers that identify this sowing and stay the same when a function runs again. There is one
    // number; after lanes have split, there is one for each group of lanes; there is none if no
    // handler gathers the value.
    std::vector<std::uint64_t> places{};
    bool planted = false;  // a handler will replace the value
    // True if a handler wants the values that split lanes sow as one joined value of all lanes.
    bool wants_joined_lanes = false;
    // Runs of vmap (paths.h) in which lanes have split, outermost first; only those that join the
    // lanes' values for a handler that wants this.
    std::vector<InstallationId> joined_by{};
  };
  std::string name, tag;
  Result unhandled() const { return {}; }
};
Sowing::Result sowing(const std::string& name, const std::string& tag);
Tensor sow_at(Sowing::Result answer, const std::string& name, const Tensor& x, const std::string& tag);

[[noreturn]] void fail_sown_twice(const std::string& name);

/// The operation that sow performs.
extern const Op op_sow;
struct SowAttributes final : Attributes {
  std::string name, tag;
  Sowing::Result answer;
  SowAttributes(std::string name_, std::string tag_, Sowing::Result answer_)
      : name(std::move(name_)), tag(std::move(tag_)), answer(std::move(answer_)) {}
  std::string str() const override;
};

}  // namespace stave_detail

namespace stave {

/// The information that a handler receives for one sow().
struct SownValue {
  std::string name;  ///< the name with its scopes
  Tensor value;
  /// Numbers that identify the sowing and stay the same when a function runs again; several numbers
  /// if lanes have split.
  std::vector<std::uint64_t> places{};
  bool again = false;  ///< whether this handler has seen the value before
};

/// Base class of the handlers that receive the values sown under a tag.
class SownHandler : public Handles<Call, stave_detail::Sowing> {
 public:
  explicit SownHandler(std::string tag) : tag_(std::move(tag)) {}
  Outputs handle(Call& call) override;
  stave_detail::Sowing::Result handle(stave_detail::Sowing& sowing) override;

 protected:
  /// Receives a sown value, and returns the value that takes its place.
  virtual Tensor sown(const SownValue& sown) = 0;
  /// Returns true if sown() will replace the value of this name.
  virtual bool plants(const std::string&) const { return false; }
  /// Handles a higher-order operation; by default the operation is passed on.
  virtual Outputs handle_higher_order(Call& call) { return perform(std::move(call)); }
  const std::string& tag() const noexcept { return tag_; }
  /// Returns true if the handler wants one value for all lanes of an inner vmap even after these
  /// have split. Otherwise it gets one value for each path.
  virtual bool wants_joined_lanes() const { return true; }
  /// Returns true if none of these places was passed to this function before.
  bool mark_seen(const std::vector<std::uint64_t>& places) {
    const bool none_known =
        std::none_of(places.begin(), places.end(), [&](auto place) { return seen_.contains(place); });
    seen_.insert(places.begin(), places.end());
    return none_known;
  }

 private:
  std::string tag_;
  // `seen_`: places of values that were sown; `own_`: places that this handler created, which outer
  // handlers do not know.
  std::set<std::uint64_t> seen_, own_;
};

struct HarvestOptions {
  [[no_unique_address]] ByName by_name{};
  std::string tag = "";  ///< the tag whose values are gathered
};

}  // namespace stave

namespace stave_detail {

class Harvest final : public SownHandler {
 public:
  explicit Harvest(const std::string& tag) : SownHandler(tag) {}
  using SownHandler::handle;
  Outputs handle(Call& call) override { return open_ ? SownHandler::handle(call) : perform(std::move(call)); }
  Sowing::Result handle(Sowing& sowing) override;
  std::string describe() const override { return "harvest"; }

  /// Returns the gathered values in the order of their names. Afterwards this handler gathers
  /// nothing more, even if it is installed again.
  NamedTensors take();
  /// Returns the gathered values in the order in which they were sown.
  const std::vector<SownValue>& gathered() const noexcept { return gathered_; }

 private:
  Tensor sown(const SownValue& sown) override;
  Outputs handle_higher_order(Call& call) override;
  Outputs handle_with_rules(const Call& call);
  void add(SownValue sown);

  std::vector<SownValue> gathered_;
  std::set<std::string> names_;
  bool open_ = true;
};

class Plant final : public SownHandler {
 public:
  Plant(NamedTensors values, const std::string& tag) : SownHandler(tag), values_(std::move(values)) {}
  std::string describe() const override { return "plant"; }
  void check_all_used() const;

 private:
  Tensor sown(const SownValue& sown) override;
  bool plants(const std::string& name) const override { return values_.contains(name); }

  NamedTensors values_;
  mutable std::set<std::string> used_;
};

template <class F>
class Harvested {
 public:
  Harvested(F f, HarvestOptions options) : f_(std::move(f)), options_(std::move(options)) {}

  template <class... A>
    requires std::invocable<const F&, A...>
  auto operator()(A&&... args) const {
    using Result = std::remove_cvref_t<std::invoke_result_t<const F&, A...>>;
    const auto handler = std::make_shared<Harvest>(options_.tag);
    const auto body = [&]() -> decltype(auto) { return std::invoke(f_, std::forward<A>(args)...); };
    if constexpr (std::is_void_v<Result>) {
      with(handler, body);
      return handler->take();
    } else {
      Result result = with(handler, body);
      return std::pair<Result, NamedTensors>(std::move(result), handler->take());
    }
  }

 private:
  F f_;
  HarvestOptions options_;
};

template <class F>
class Planted {
 public:
  Planted(F f, NamedTensors values, HarvestOptions options)
      : f_(std::move(f)), values_(std::move(values)), options_(std::move(options)) {}

  template <class... A>
    requires std::invocable<const F&, A...>
  auto operator()(A&&... args) const {
    const auto handler = std::make_shared<Plant>(values_, options_.tag);
    const auto body = [&]() -> decltype(auto) { return std::invoke(f_, std::forward<A>(args)...); };
    if constexpr (std::is_void_v<std::invoke_result_t<const F&, A...>>) {
      with(handler, body);
      handler->check_all_used();
    } else {
      std::remove_cvref_t<std::invoke_result_t<const F&, A...>> result = with(handler, body);
      handler->check_all_used();
      return result;
    }
  }

 private:
  F f_;
  NamedTensors values_;
  HarvestOptions options_;
};

}  // namespace stave_detail

namespace stave {

/// Returns f together with the values that it sows: a callable with f's arguments that returns
/// std::pair of f's result and the sown values by name. If f returns void, it returns the sown
/// values alone. Such a pair is a loss with an aux, so value_and_grad(harvest(f)) gives
/// the sown values as `aux`.
template <class F>
auto harvest(F f, HarvestOptions options = {}) {
  return stave_detail::Harvested<F>(std::move(f), std::move(options));
}

/// Returns f with these values in place of those that it sows: a callable with f's arguments
/// and result. A harvest outside of it gathers the planted values. Throws ShapeError or DtypeError
/// for a value that does not fit, Error if nothing is sown under its name, and TransformError if it
/// is sown inside of vmap after lanes have split.
template <class F>
auto plant(F f, NamedTensors values, HarvestOptions options = {}) {
  return stave_detail::Planted<F>(std::move(f), std::move(values), std::move(options));
}

}  // namespace stave
