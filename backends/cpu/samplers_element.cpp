// Samplers that draw each element from a key of its own.
#include <stave/backends/cpu/sampler_numbers.h>

#include <algorithm>

#include <boost/math/special_functions/gamma.hpp>

#include <stave/backends/cpu/special_policy.h>

namespace stave_cpu {

namespace {

/// A proposal: v = (1 + c x)^3 > 0 for a normal number x, and x^2.
struct GammaProposal {
  double x_squared, v;
};

template <class T>
GammaProposal propose(SamplerKey key, double c) {
  for (;;) {
    const auto [next, drawn] = key.split<2>();
    key = next;
    const double x = normal_of<T>(drawn), root = 1 + x * c;
    if (!(root <= 0)) return {x * x, root * root * root};
  }
}

/// log(n!)
double log_factorial(double n) { return boost::math::lgamma(n + 1, special::Quiet()); }

/// The number of good items among a few that are drawn without replacement, one by one.
double count_drawn(UniformStream& stream, double good, double bad, double drawn) {
  double found = 0;
  for (; drawn > 0; --drawn) {
    const bool is_good = stream.next() * (good + bad) < good;
    (is_good ? good : bad) -= 1;
    found += is_good;
  }
  return found;
}

/// The algorithm HRUA of Stadlober, "The ratio of uniforms approach for generating discrete random
/// variates", 1990: the number of the rarer kind among `drawn`, at most half of all.
double ratio_of_uniforms(UniformStream& stream, double fewer, double more, double drawn) {
  // 2 sqrt(2/e) and 3 - 2 sqrt(3/e)
  constexpr double d1 = 1.7155277699214135, d2 = 0.8989161620588988;
  const double all = fewer + more, p = fewer / all, center = drawn * p + 0.5;
  const double deviation = std::sqrt((all - drawn) * drawn * p * (1 - p) / (all - 1) + 0.5),
               width = d1 * deviation + d2;
  const auto log_weight = [&](double k) {
    return log_factorial(k) + log_factorial(fewer - k) + log_factorial(drawn - k) + log_factorial(more - drawn + k);
  };
  const double at_mode = log_weight(std::floor((drawn + 1) * (fewer + 1) / (all + 2)));
  const double end = std::min(std::min(drawn, fewer) + 1, std::floor(center + 16 * deviation));
  for (;;) {
    const double u = stream.next(), x = center + width * (stream.next() - 0.5) / u;
    if (x < 0 || x >= end) continue;
    const double k = std::floor(x), log_ratio = at_mode - log_weight(k);
    if (u * (4 - u) - 3 <= log_ratio) return k;
    if (u * (u - log_ratio) < 1 && 2 * std::log(u) <= log_ratio) return k;
  }
}

}  // namespace

// The method of Marsaglia and Tsang, "A simple method for generating gamma variables", 2000, with
// the keys and the order of steps of jax.random.gamma. A draw for a < 1 is one for a + 1, times
// u^(1/a).
template <class T>
double gamma_draw(SamplerKey key, double a, bool logarithm) {
  if (!(a >= 0)) return not_a_number;
  const bool is_raised = a < 1;
  const double d = (is_raised ? a + 1 : a) - 1. / 3, c = 1. / 3 / std::sqrt(d);
  auto [next, boost_key] = key.split<2>();
  GammaProposal proposal;
  for (;;) {
    const auto [rest, proposal_key, uniform_key] = next.split<3>();
    next = rest;
    proposal = propose<T>(proposal_key, c);
    const double s = proposal.x_squared, v = proposal.v, u = uniform_of<T>(uniform_key);
    if (u < 1 - 0.0331 * s * s || !(std::log(u) >= 0.5 * s + d * (1 - v + std::log(v)))) break;
  }
  const double u = is_raised ? uniform_of<T>(boost_key) : 0;
  if (!logarithm) return d * proposal.v * (is_raised ? std::pow(1 - u, 1 / a) : 1);
  return std::log(d) + std::log(proposal.v) + (u == 0 ? 0 : std::log1p(-u) / a);
}
template double gamma_draw<float>(SamplerKey, double, bool);
template double gamma_draw<double>(SamplerKey, double, bool);

// The method of Best and Fisher, "Efficient simulation of the von Mises distribution", 1979. With z
// = cos(pi u), the proposal has the cosine f = (1 + s z) / (s + z), where s = (1 + sqrt(1 + 4
// kappa^2)) / (2 kappa). Differences from 1 are computed without cancellation, so any kappa keeps
// its digits.
double von_mises_draw(SamplerKey key, double kappa) {
  if (!(kappa >= 0)) return not_a_number;
  if (std::isinf(kappa)) return 0;
  UniformStream stream(key);
  const bool is_uniform = kappa < 1e-100;
  // s - 1, with the s of the comment above
  const double above_1 = is_uniform ? 1e100 : (1 + 1 / (std::hypot(1, 2 * kappa) + 2 * kappa)) / (2 * kappa);
  for (;;) {
    const double u = 0.5 * special::pi * stream.next(), below = std::sin(u), beside = std::cos(u);
    const double below_1 = above_1 * 2 * below * below / (above_1 + 2 * beside * beside);  // 1 - f
    const double c = kappa * (above_1 + below_1), v = stream.next();
    if (is_uniform || c * (2 - c) > v || std::log(c / v) + 1 - c >= 0) {
      const double angle = 2 * std::asin(std::min(1., std::sqrt(0.5 * below_1)));
      return stream.next() < 0.5 ? -angle : angle;
    }
  }
}

std::int32_t hypergeometric_draw(SamplerKey key, double good, double bad, double drawn) {
  if (!(good >= 0 && bad >= 0 && drawn >= 0 && drawn <= good + bad)) return -1;
  UniformStream stream(key);
  good = std::floor(good), bad = std::floor(bad), drawn = std::floor(drawn);
  // The elements that are not drawn are a sample, too. The smaller sample is drawn.
  const double all = good + bad, sample = std::min(drawn, all - drawn), fewer = std::min(good, bad);
  double found;
  if (sample < 10) {
    found = count_drawn(stream, good, bad, sample);
  } else {
    found = ratio_of_uniforms(stream, fewer, all - fewer, sample);
    if (good > bad) found = sample - found;
  }
  return as_count(sample < drawn ? good - found : found);
}

}  // namespace stave_cpu
