// sample, observe, factor: probabilistic programs, and handlers of their sites.
//
//   void model(const Tensor& x, const Tensor& y) {
//     const Tensor slope = sample("slope", Normal{0, 10}), noise = sample("noise", HalfNormal{1});
//     observe("y", Normal{slope * x, noise}, y);
//   }
//   const NamedTensors values{{"slope", tensor(1.)}, {"noise", tensor(0.5)}};
//   Tensor log_p = log_density(model, values)(x, y);                       // also grad, hessian, vmap of it over values
//   auto [drawn, sites] = sites_of(seed(model_with_a_result, Key(0)))(x, y);
//
// (The ideas and names are those of Pyro and NumPyro.) Handlers change what a site is, each by a function that it is given:
//
//   seed(f, key)              sites without a value are drawn, by next_key (keys.h); without it they need values
//   substitute(f, values)     these sites have these values, and stay latent
//   condition(f, values)      these sites are observed
//   replay(f, sites)          latent sites have the values that they had in another run, where it had them
//   block_sites(f, names)           handlers outside do not see these sites (by default all)
//   sites_of(f)               what f returns, and its sites
//   log_density(f, values)    the sum of the logarithms of the densities of all sites
//
// - Names are joined with the scopes entered since the handler, "group/slope"; a name stands for one site.
// - A site inside a vmap that stands inside of the handler is a site of each lane: its densities are added, its values are stacked. A value
//   that the handler gives is the same for all lanes.
// - HMC and the like run in unconstrained space: unconstrained_log_density, constrain, unconstrain.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <stave/handlers/inference/distributions.h>
#include <stave/handlers/model/keys.h>
#include <stave/handlers/transforms/sow.h>

namespace stave {

/// A draw of the distribution, or what a handler gives for this site.
Tensor sample(const std::string& name, const Distribution& distribution);
/// `value`, which was drawn of the distribution.
Tensor observe(const std::string& name, const Distribution& distribution, const Tensor& value);

/// Adds a term to the logarithm of the density: the sum of the elements of `log_density`, real numbers that may depend on sites and be
/// -infinity. A site without a value to draw, for what is no distribution of the library: a constraint, a likelihood up to a constant, a
/// discrete site that is summed out. To handlers it is an observed site, whose value is `log_density`. Throws DtypeError for integers.
///
///   const Tensor p = sample("p", Beta{2, 2});
///   factor("coin", logsumexp(stack({log(p) + of_heads, log1p(-p) + of_tails})));      // which side came up nobody saw
void factor(const std::string& name, const Tensor& log_density);

/// A site as a run met it.
struct SampleSite {
  Tensor value, log_prob;  ///< log_prob is summed over all elements of one lane
  bool observed = false;
};
using SampleSites = std::map<std::string, SampleSite>;

}  // namespace stave

namespace stave_detail {

using namespace stave;

/// What a site is; handlers change it on its way down.
struct Sampling {
  struct Result {
    std::optional<Tensor> value;
    std::optional<Tensor> log_det;  // of the map that gave the value
    bool observed = false;
  };
  std::string name;
  const Distribution* distribution;
  Result site;
  Result unhandled() { return std::move(site); }
};

class SampleHandler : public Handles<Sampling> {
 public:
  /// Throws Error if a value found no site.
  virtual void check_all_used() const {}
};

class Substitute final : public SampleHandler {
 public:
  enum class As { latent, observed, unconstrained };
  Substitute(const char* by, NamedTensors values, As as, bool strict = true)
      : by_(by), values_(std::move(values)), as_(as), strict_(strict) {}
  Sampling::Result handle(Sampling& sampling) override;
  std::string describe() const override { return by_; }
  void check_all_used() const override;

 private:
  const char* const by_;
  const NamedTensors values_;
  const As as_;
  const bool strict_;
  std::set<std::string> used_;
};

// Throws Error for a site that has no value.
class NeedsValues final : public SampleHandler {
 public:
  explicit NeedsValues(const char* by) : by_(by) {}
  Sampling::Result handle(Sampling& sampling) override;
  std::string describe() const override { return by_; }

 private:
  const char* const by_;
};

class BlockSites final : public Handles<Sampling, Sowing> {
 public:
  explicit BlockSites(std::set<std::string> names) : names_(std::move(names)) {}
  Sampling::Result handle(Sampling& sampling) override;
  Sowing::Result handle(Sowing& sowing) override;
  std::string describe() const override { return "block_sites"; }

 private:
  bool hides(const std::string& name) const { return names_.empty() || names_.contains(name); }
  const std::set<std::string> names_;  // empty: all
};

/// f under a handler that `make` makes for each call.
template <class F, class Make>
auto under_sample_handler(F f, Make make) {
  return [ f = std::move(f), make = std::move(make) ]<class... A>(A && ... args)
    requires std::invocable<const F&, A...>
  {
    const auto handler = make();
    const auto body = [&]() -> decltype(auto) { return std::invoke(f, std::forward<A>(args)...); };
    constexpr bool checks = requires { handler->check_all_used(); };
    if constexpr (std::is_void_v<std::invoke_result_t<const F&, A...>>) {
      with(handler, body);
      if constexpr (checks) handler->check_all_used();
    } else {
      std::remove_cvref_t<std::invoke_result_t<const F&, A...>> result = with(handler, body);
      if constexpr (checks) handler->check_all_used();
      return result;
    }
  };
}
template <class F>
auto substituted(F f, const char* by, NamedTensors values, Substitute::As as, bool strict = true) {
  return under_sample_handler(std::move(f), [by, values = std::move(values), as, strict] {
    return std::make_shared<Substitute>(by, values, as, strict);
  });
}
/// The same, where each latent site must have a value.
template <class F>
auto with_all_values(F f, const char* by, NamedTensors values, Substitute::As as) {
  return under_sample_handler(substituted(std::move(f), by, std::move(values), as),
                              [by] { return std::make_shared<NeedsValues>(by); });
}

/// What is sown of a site.
inline constexpr const char *log_prob_tag = "log_prob", *latent_tag = "latent", *observed_tag = "observed",
                            *unconstrained_tag = "unconstrained";

inline NamedTensors& sown_of(NamedTensors& sown) { return sown; }
template <class R>
NamedTensors& sown_of(std::pair<R, NamedTensors>& harvested) {
  return harvested.second;
}
/// What f sows under this tag: a callable of f's arguments.
template <class F>
auto sown_by(F f, const char* tag) {
  return [harvested = harvest(std::move(f), {.tag = tag})]<class... A>(A && ... args)
    requires std::invocable<const F&, A...>
  {
    auto result = harvested(std::forward<A>(args)...);
    return NamedTensors(std::move(sown_of(result)));
  };
}
/// Their sum.
Tensor add_densities(const NamedTensors& densities);
SampleSites join_sites(const NamedTensors& latent, const NamedTensors& observed, const NamedTensors& log_probs);
NamedTensors latent_values(const SampleSites& sites);

}  // namespace stave_detail

namespace stave {

/// f whose sites of these names have these values: a callable of f's arguments and result, as all that follow. Throws Error for a value
/// that finds no site.
template <class F>
auto substitute(F f, NamedTensors values) {
  return stave_detail::substituted(std::move(f), "substitute", std::move(values), stave_detail::Substitute::As::latent);
}

/// f whose sites of these names are observed. Throws Error for a value that finds no site.
template <class F>
auto condition(F f, NamedTensors values) {
  return stave_detail::substituted(std::move(f), "condition", std::move(values),
                                   stave_detail::Substitute::As::observed);
}

/// f whose latent sites have the values of `sites`, those of the same name.
template <class F>
auto replay(F f, const SampleSites& sites) {
  return stave_detail::substituted(std::move(f), "replay", stave_detail::latent_values(sites),
                                   stave_detail::Substitute::As::latent, false);
}

/// f whose sites of these names, or all, are its own affair.
template <class F>
auto block_sites(F f, std::set<std::string> names = {}) {
  return stave_detail::under_sample_handler(
      std::move(f), [names = std::move(names)] { return std::make_shared<stave_detail::BlockSites>(names); });
}

/// std::pair of what f returns and its sites; of a function that returns nothing, the sites.
template <class F>
auto sites_of(F f) {
  using namespace stave_detail;
  auto harvested =
      harvest(harvest(harvest(std::move(f), {.tag = log_prob_tag}), {.tag = observed_tag}), {.tag = latent_tag});
  return [harvested = std::move(harvested)]<class... A>(A && ... args)
    requires std::invocable<const F&, A...>
  {
    const auto [inner, latent] = harvested(std::forward<A>(args)...);
    const auto& [innermost, observed] = inner;
    if constexpr (std::is_void_v<std::invoke_result_t<const F&, A...>>) {
      return join_sites(latent, observed, innermost);
    } else {
      return std::pair(innermost.first, join_sites(latent, observed, innermost.second));
    }
  };
}

/// The logarithm of the joint density of all sites, latent and observed, of rank 0. Throws Error for a latent site without a value, and
/// for a value without a site.
template <class F>
auto log_density(F f, NamedTensors values) {
  using namespace stave_detail;
  auto densities =
      sown_by(with_all_values(std::move(f), "log_density", std::move(values), Substitute::As::latent), log_prob_tag);
  return [densities = std::move(densities)]<class... A>(A && ... args)
    requires std::invocable<const F&, A...>
  {
    return add_densities(densities(std::forward<A>(args)...));
  };
}

/// The same as a function of values in R^n, one for each latent site, which its support maps there: with the logarithms of the maps'
/// determinants, so it is a density by these values. What gradient-based samplers take.
template <class F>
auto unconstrained_log_density(F f, NamedTensors values) {
  using namespace stave_detail;
  auto densities = sown_by(
      with_all_values(std::move(f), "unconstrained_log_density", std::move(values), Substitute::As::unconstrained),
      log_prob_tag);
  return [densities = std::move(densities)]<class... A>(A && ... args)
    requires std::invocable<const F&, A...>
  {
    return add_densities(densities(std::forward<A>(args)...));
  };
}

/// The values of the latent sites that unconstrained ones stand for: constrain(f, values)(args...).
template <class F>
auto constrain(F f, NamedTensors values) {
  using namespace stave_detail;
  return sown_by(with_all_values(std::move(f), "constrain", std::move(values), Substitute::As::unconstrained),
                 latent_tag);
}

/// The unconstrained values of the latent sites of f, which have values: unconstrain(f, values)(args...).
template <class F>
auto unconstrain(F f, NamedTensors values) {
  using namespace stave_detail;
  return sown_by(with_all_values(std::move(f), "unconstrain", std::move(values), Substitute::As::latent),
                 unconstrained_tag);
}

}  // namespace stave
