// sample, observe, factor: the sites (named random variables) of probabilistic programs, and
// handlers for sites.
//
//   void model(const Tensor& x, const Tensor& y) {
//     const Tensor slope = sample("slope", Normal{0, 10}), noise = sample("noise", HalfNormal{1});
//     observe("y", Normal{slope * x, noise}, y);
//   }
//   const NamedTensors values{{"slope", tensor(1.)}, {"noise", tensor(0.5)}};
//   // grad, hessian and vmap over values work on it, too
//   Tensor log_p = log_density(model, values)(x, y);
//   auto [drawn, sites] = sites_of(seed(model_with_a_result, Key(0)))(x, y);
//
// The ideas and names are those of Pyro and NumPyro. A site needs a value from a handler such as
// `substitute`, or a draw by `seed`. These functions install handlers that change sites:
//
//   seed(f, key)              draws values for sites that have none, with next_key (keys.h)
//   substitute(f, values)     gives the named sites these values; the sites stay latent
//   condition(f, values)      makes the named sites observed, with these values
//   replay(f, sites)          gives each latent site its value in another run, if it has one there
//   block_sites(f, names)     hides the named sites from outer handlers (by default all sites)
//   sites_of(f)               returns the result of f, and its sites
//   log_density(f, values)    returns the sum of the log densities of all sites
//
// - The name of a site includes the scopes entered since the handler was installed: "group/slope".
//   Each name must belong to one site.
// - A site within a vmap inside of the handler is one site, with a value for each lane: the
//   densities of the lanes are added, and their values are stacked. A value that the handler
//   supplies is the same for all lanes.
// - HMC and similar samplers work in unconstrained space: see unconstrained_log_density,
//   constrain and unconstrain.
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

/// Returns a draw from the distribution, or the value that a handler supplies for this site.
Tensor sample(const std::string& name, const Distribution& distribution);
/// Returns `value`, and marks it as an observed draw from the distribution.
Tensor observe(const std::string& name, const Distribution& distribution, const Tensor& value);

/// Adds a term to the log density: the sum of the elements of `log_density`. The elements are real
/// numbers that may depend on sites and may be -infinity. A factor expresses a density for which
/// the library has no distribution: a constraint, a likelihood up to a constant, or a discrete site
/// that is summed out. Handlers see the factor as an observed site whose value is `log_density`.
/// Throws DtypeError for integers.
///
///   // the side on which the coin fell is unknown, so both cases are summed
///   const Tensor p = sample("p", Beta{2, 2});
///   factor("coin", logsumexp(stack({log(p) + of_heads, log1p(-p) + of_tails})));
void factor(const std::string& name, const Tensor& log_density);

/// The value and log density of one site in one run.
struct SampleSite {
  /// log_prob is the sum over all elements of one lane.
  Tensor value, log_prob;
  bool observed = false;
};
using SampleSites = std::map<std::string, SampleSite>;

}  // namespace stave

namespace stave_detail {

using namespace stave;

/// The effect of sample and observe, which describes a site. Handlers may modify it; the innermost
/// handler modifies it first.
struct Sampling {
  struct Result {
    std::optional<Tensor> value;
    // The log determinant of the map from an unconstrained value to `value`; empty if `value` was
    // not computed by such a map.
    std::optional<Tensor> log_det;
    bool observed = false;
  };
  std::string name;
  const Distribution* distribution;
  Result site;
  Result unhandled() { return std::move(site); }
};

class SampleHandler : public Handles<Sampling> {
 public:
  /// Throws Error if this handler has a value for a site that did not occur.
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

// Handler that throws Error for a latent site without a value.
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
  // The names of the hidden sites; empty means all.
  const std::set<std::string> names_;
};

/// Returns a callable that runs f under a new handler for each call; `make` returns the handler.
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
/// Returns f with the given values for its sites. A call throws Error for a latent site without a
/// value.
template <class F>
auto with_all_values(F f, const char* by, NamedTensors values, Substitute::As as) {
  return under_sample_handler(substituted(std::move(f), by, std::move(values), as),
                              [by] { return std::make_shared<NeedsValues>(by); });
}

/// The tags under which each site sows its values (see sow.h).
inline constexpr const char *log_prob_tag = "log_prob", *latent_tag = "latent", *observed_tag = "observed",
                            *unconstrained_tag = "unconstrained";

inline NamedTensors& sown_of(NamedTensors& sown) { return sown; }
template <class R>
NamedTensors& sown_of(std::pair<R, NamedTensors>& harvested) {
  return harvested.second;
}
/// Returns a callable with the arguments of f that returns the values which f sows under this tag.
template <class F>
auto sown_by(F f, const char* tag) {
  return [harvested = harvest(std::move(f), {.tag = tag})]<class... A>(A && ... args)
    requires std::invocable<const F&, A...>
  {
    auto result = harvested(std::forward<A>(args)...);
    return NamedTensors(std::move(sown_of(result)));
  };
}
/// Returns the sum of all elements of all densities; its rank is 0.
Tensor add_densities(const NamedTensors& densities);
SampleSites join_sites(const NamedTensors& latent, const NamedTensors& observed, const NamedTensors& log_probs);
NamedTensors latent_values(const SampleSites& sites);

}  // namespace stave_detail

namespace stave {

/// Returns f with the given values for the sites of these names. The result, like that of
/// condition, replay and block_sites, is a callable with the arguments and result of f. A call
/// throws Error if `values` has a name without a site.
template <class F>
auto substitute(F f, NamedTensors values) {
  return stave_detail::substituted(std::move(f), "substitute", std::move(values), stave_detail::Substitute::As::latent);
}

/// Returns f in which the sites with these names are observed, with the given values. A call throws
/// Error if `values` has a name without a site.
template <class F>
auto condition(F f, NamedTensors values) {
  return stave_detail::substituted(std::move(f), "condition", std::move(values),
                                   stave_detail::Substitute::As::observed);
}

/// Returns f in which latent sites have the values of the sites of the same name in `sites`.
template <class F>
auto replay(F f, const SampleSites& sites) {
  return stave_detail::substituted(std::move(f), "replay", stave_detail::latent_values(sites),
                                   stave_detail::Substitute::As::latent, false);
}

/// Returns f in which the sites with these names, or all sites, are hidden from outer handlers.
template <class F>
auto block_sites(F f, std::set<std::string> names = {}) {
  return stave_detail::under_sample_handler(
      std::move(f), [names = std::move(names)] { return std::make_shared<stave_detail::BlockSites>(names); });
}

/// Returns a callable with the arguments of f that returns the pair of the result of f and its
/// sites, or only the sites if f returns nothing.
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

/// Returns a callable with the arguments of f that returns the logarithm of the joint density of
/// all sites, latent and observed; its rank is 0. A call throws Error for a latent site without a
/// value, and for a value without a site.
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

/// Returns a callable with the arguments of f that returns the log density at the unconstrained
/// `values`, one in R^n for each latent site. The support of a site maps the unconstrained value to
/// the site's value. The log determinants of these maps are included, so the result is the density
/// of the unconstrained values. Gradient-based samplers such as nuts need this density.
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

/// Returns a callable that maps unconstrained values to the values of the latent sites of f:
/// constrain(f, values)(args...), where `args` are the arguments of f.
template <class F>
auto constrain(F f, NamedTensors values) {
  using namespace stave_detail;
  return sown_by(with_all_values(std::move(f), "constrain", std::move(values), Substitute::As::unconstrained),
                 latent_tag);
}

/// Returns a callable that maps values of the latent sites of f to unconstrained values:
/// unconstrain(f, values)(args...), where `args` are the arguments of f.
template <class F>
auto unconstrain(F f, NamedTensors values) {
  using namespace stave_detail;
  return sown_by(with_all_values(std::move(f), "unconstrain", std::move(values), Substitute::As::latent),
                 unconstrained_tag);
}

}  // namespace stave
