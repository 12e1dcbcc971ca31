// sow, harvest, plant: values from inside a function, by name, and into it, while it stays as it is.
//
//   Tensor f(const Tensor& x) {
//     const Tensor h = sow("hidden", tanh(x));                     // is tanh(x)
//     return sum(h * h);
//   }
//   auto [y, sown] = harvest(f)(x);                                  // sown.at("hidden")
//   auto z = plant(f, {{"hidden", zeros({3})}})(x);                  // zeros where tanh(x) was
//
// (The idea is that of JAX's Oryx.) What is sown passes the transforms as an operation, so a harvest gets it as it is where the
// harvest stands:
//
//   vmap    outside: of all lanes, as axis 0 (once, if no lane has part in it), whichever way each went; inside: the lane's
//   grad    outside: real values, constants; inside: values with their derivatives, those of a checkpoint inside it, too
//   twice   a checkpoint's function runs again in the backward pass: what it sows then is not gathered twice
//
// - Names are joined with the scopes entered since harvest or plant, "layer1/hidden". A name that is sown twice is an error.
// - Where nobody gathers, sow is its operand, and performs nothing; inside a checkpoint it asks all the same, as the log of that must be
//   complete, so `compile` of such a function calls it itself.
// - Inside a function with rules of its own (custom_vjp and the like) nothing is sown to a harvest outside of it: an error.
// - What is planted has the place of what was sown: of its shape and dtype, as a harvest there would give it. To transforms between
//   plant and sow it is a constant.
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

/// x, under a name for whoever gathers what is sown under this tag. Tags keep the names of libraries apart.
Tensor sow(const std::string& name, const Tensor& x, const std::string& tag = "");
/// x, whose cotangent is sown in the backward pass: to a harvest outside of grad. Of nested derivatives it is that of the innermost.
Tensor sow_cotangent(const std::string& name, const Tensor& x, const std::string& tag = "");

}  // namespace stave

namespace stave_detail {

/// Asks who gathers what is about to be sown.
struct Sowing {
  struct Result {
    // Names this sowing, when it runs again, too; of lanes that parted, each. Empty: nobody gathers.
    std::vector<std::uint64_t> places{};
    bool planted = false;                     // something else will stand there
    bool joins = false;                       // what lanes that parted sow is to be one value, of all
    std::vector<InstallationId> joined_by{};  // runs of vmap (paths.h), from outside in, in which lanes have parted
  };
  std::string name, tag;
  Result unhandled() const { return {}; }
};
Sowing::Result sowing(const std::string& name, const std::string& tag);
Tensor sow_at(Sowing::Result answer, const std::string& name, const Tensor& x, const std::string& tag);

[[noreturn]] void fail_sown_twice(const std::string& name);

/// The operation that it performs.
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

/// What a handler sees of a sow().
struct SownValue {
  std::string name;  ///< scopes included
  Tensor value;
  std::vector<std::uint64_t> places{};  ///< where: the same when a function runs again; several, of lanes that parted
  bool again = false;                   ///< whether this handler has seen it already
};

/// A handler of what is sown under a tag.
class SownHandler : public Handles<Call, stave_detail::Sowing> {
 public:
  explicit SownHandler(std::string tag) : tag_(std::move(tag)) {}
  Outputs handle(Call& call) override;
  stave_detail::Sowing::Result handle(stave_detail::Sowing& sowing) override;

 protected:
  /// What is given stands in the value's place.
  virtual Tensor sown(const SownValue& sown) = 0;
  /// Whether sown() will give something else in the place of this name.
  virtual bool plants(const std::string&) const { return false; }
  /// An operation that carries functions; by default it is passed on.
  virtual Outputs handle_carrying(Call& call) { return perform(std::move(call)); }
  const std::string& tag() const noexcept { return tag_; }
  /// Whether it wants one value of all lanes of a vmap inside where these have parted; else it gets one for each way that they went.
  virtual bool joins() const { return true; }
  /// Whether this is the first time that it is asked for any of these places.
  bool are_new(const std::vector<std::uint64_t>& places) {
    const bool none_known =
        std::none_of(places.begin(), places.end(), [&](auto place) { return seen_.contains(place); });
    seen_.insert(places.begin(), places.end());
    return none_known;
  }

 private:
  std::string tag_;
  std::set<std::uint64_t> seen_, own_;  // places: that were sown; that nobody below knows
};

struct HarvestOptions {
  [[no_unique_address]] ByName by_name{};
  std::string tag = "";  ///< of what is gathered
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

  /// What was sown, in the order of names. Afterwards it gathers no more, wherever it stands up again.
  NamedTensors take();
  /// In the order in which it was sown.
  const std::vector<SownValue>& gathered() const noexcept { return gathered_; }

 private:
  Tensor sown(const SownValue& sown) override;
  Outputs handle_carrying(Call& call) override;
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

/// f, with what it sows: a callable of f's arguments that returns std::pair of f's result and the sown values by name (of a function that
/// returns nothing, these alone). Such a pair is a loss with an aux, so value_and_grad(harvest(f)) gives what was sown as `aux`.
template <class F>
auto harvest(F f, HarvestOptions options = {}) {
  return stave_detail::Harvested<F>(std::move(f), std::move(options));
}

/// f, with these values in the places of what it sows: a callable of f's arguments and result. A harvest outside of it gathers what was
/// planted. Throws ShapeError or DtypeError for a value that does not fit, and Error for one that has no place.
template <class F>
auto plant(F f, NamedTensors values, HarvestOptions options = {}) {
  return stave_detail::Planted<F>(std::move(f), std::move(values), std::move(options));
}

}  // namespace stave
