#include <stave/handlers/inference/sample.h>

#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/frontend.h>
#include <stave/core/ops/reduce.h>
#include <stave/core/ops/scoped_name.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/transforms/answered.h>

namespace stave_detail {
namespace {

Tensor process_site(const std::string& name, const Distribution& distribution, Sampling::Result given) {
  const Sampling::Result site = perform_if_answered(Sampling{name, &distribution, std::move(given)});
  const Tensor value = site.value ? *site.value : distribution.sample(next_key());
  if (const auto wanted = sowing(name, log_prob_tag); !wanted.places.empty()) {
    Tensor density = sum(distribution.log_prob(value));
    if (site.log_det) density = density + sum(*site.log_det);
    sow_at(wanted, name, density, log_prob_tag);
  }
  if (!site.observed)
    if (const auto wanted = sowing(name, unconstrained_tag); !wanted.places.empty())
      sow_at(wanted, name, distribution.support().unconstrain(value), unconstrained_tag);
  return sow(name, value, site.observed ? observed_tag : latent_tag);
}

}  // namespace

Sampling::Result Substitute::handle(Sampling& sampling) {
  const std::string name = scoped_name(sampling.name);
  const auto found = values_.find(name);
  if (found == values_.end() || sampling.site.observed || sampling.site.value) return perform_if_answered(sampling);
  used_.insert(name);
  const Tensor& value = require_defined(found->second, by_);
  if (as_ == As::unconstrained) {
    const Support support = sampling.distribution->support();
    sampling.site.value = support.constrain(value);
    sampling.site.log_det = support.log_det(value);
  } else {
    sampling.site.value = value;
  }
  sampling.site.observed = as_ == As::observed;
  return perform_if_answered(sampling);
}

void Substitute::check_all_used() const {
  for (const auto& [name, value] : values_)
    if (strict_ && !used_.contains(name))
      fail<Error>("{}: there is no latent site \"{}\" without a value here", by_, name);
}

Sampling::Result NeedsValues::handle(Sampling& sampling) {
  if (!sampling.site.value)
    fail<Error>("{}: the site \"{}\" is latent, and is given no value", by_, scoped_name(sampling.name));
  return perform_if_answered(sampling);
}

Sampling::Result BlockSites::handle(Sampling& sampling) {
  return hides(scoped_name(sampling.name)) ? sampling.unhandled() : perform_if_answered(sampling);
}

Sowing::Result BlockSites::handle(Sowing& sowing) {
  const bool of_a_site = sowing.tag == log_prob_tag || sowing.tag == latent_tag || sowing.tag == observed_tag ||
                         sowing.tag == unconstrained_tag;
  return of_a_site && hides(scoped_name(sowing.name)) ? Sowing::Result() : perform_if_answered(sowing);
}

Tensor add_densities(const NamedTensors& densities) {
  Tensor total;
  for (const auto& [name, density] : densities) {
    const Tensor one = sum(density);
    total = total.defined() ? total + one : one;
  }
  return total.defined() ? total : zeros({});
}

SampleSites join_sites(const NamedTensors& latent, const NamedTensors& observed, const NamedTensors& log_probs) {
  SampleSites sites;
  for (const auto& [name, value] : latent) sites[name] = {value, log_probs.at(name), false};
  for (const auto& [name, value] : observed) sites[name] = {value, log_probs.at(name), true};
  return sites;
}

NamedTensors latent_values(const SampleSites& sites) {
  NamedTensors values;
  for (const auto& [name, site] : sites)
    if (!site.observed) values.emplace(name, site.value);
  return values;
}

}  // namespace stave_detail

namespace stave {

Tensor sample(const std::string& name, const Distribution& distribution) {
  return stave_detail::process_site(name, distribution, {});
}

Tensor observe(const std::string& name, const Distribution& distribution, const Tensor& value) {
  return stave_detail::process_site(name, distribution,
                                    {stave_detail::require_defined(value, "observe", 2), std::nullopt, true});
}

void factor(const std::string& name, const Tensor& log_density) {
  using namespace stave_detail;
  const Tensor& term = require_defined(log_density, "factor", 1);
  if (!is_float(term.dtype()))
    fail<DtypeError>("factor: the logarithm of the density at \"{}\" is {} {}; it must be of a floating dtype", name,
                     term.dtype(), term.shape());
  if (const auto wanted = sowing(name, log_prob_tag); !wanted.places.empty())
    sow_at(wanted, name, sum(term), log_prob_tag);
  sow(name, term, observed_tag);
}

}  // namespace stave
