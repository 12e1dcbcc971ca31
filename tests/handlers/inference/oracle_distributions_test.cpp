// Densities, probabilities and moments against SciPy, their gradients against JAX and NumPyro,
// divergences and bijectors against NumPyro.
#include "oracle.h"

namespace oracle_distributions_test {

using namespace oracle;

// Returns the member of the distribution that the line names, log_prob by default. The first input
// is x, except for moments; `make` makes a distribution of the other inputs.
template <class Make>
Function of(Make make) {
  return [make](Given x, const Options& options) -> Results {
    const std::string member = options.has("member") ? options.word("member") : "log_prob";
    const bool moment = member == "mean" || member == "variance" || member == "entropy";
    const auto d = make(moment ? x : x.subspan(1));
    if (member == "log_prob") return {d.log_prob(x[0])};
    if constexpr (requires { d.mean(); })
      if (member == "mean") return {d.mean()};
    if constexpr (requires { d.variance(); })
      if (member == "variance") return {d.variance()};
    if constexpr (requires { d.entropy(); })
      if (member == "entropy") return {d.entropy()};
    if constexpr (requires { d.cdf(x[0]); }) {
      if (member == "cdf") return {d.cdf(x[0])};
      if (member == "sf") return {d.sf(x[0])};
      if (member == "log_cdf") return {d.log_cdf(x[0])};
    }
    if constexpr (requires { d.quantile(x[0]); })
      if (member == "quantile") return {d.quantile(x[0])};
    throw Error("no member " + member);
  };
}
template <class D>
Function of_one() {
  return of([](Given p) { return D{p[0]}; });
}
template <class D>
Function of_two() {
  return of([](Given p) { return D{p[0], p[1]}; });
}
template <class D>
Function of_three() {
  return of([](Given p) { return D{p[0], p[1], p[2]}; });
}
template <class D>
Function of_four() {
  return of([](Given p) { return D{p[0], p[1], p[2], p[3]}; });
}

TEST(Oracle, Distributions) {
  std::map<std::string, Function> all{
      {"Normal", of_two<Normal>()},
      {"HalfNormal", of_one<HalfNormal>()},
      {"LogNormal", of_two<LogNormal>()},
      {"TruncatedNormal", of_four<TruncatedNormal>()},
      {"GeneralizedNormal", of_three<GeneralizedNormal>()},
      {"Cauchy", of_two<Cauchy>()},
      {"HalfCauchy", of_one<HalfCauchy>()},
      {"TruncatedCauchy", of_four<TruncatedCauchy>()},
      {"StudentT", of_three<StudentT>()},
      {"Laplace", of_two<Laplace>()},
      {"Logistic", of_two<Logistic>()},
      {"Gumbel", of_two<Gumbel>()},
      {"Uniform", of_two<Uniform>()},
      {"VonMises", of_two<VonMises>()},
      {"Exponential", of_one<Exponential>()},
      {"Gamma", of_two<Gamma>()},
      {"InverseGamma", of_two<InverseGamma>()},
      {"ChiSquared", of_one<ChiSquared>()},
      {"Beta", of_two<Beta>()},
      {"FDistribution", of_two<FDistribution>()},
      {"Pareto", of_two<Pareto>()},
      {"Weibull", of_two<Weibull>()},
      {"Bernoulli", of_one<Bernoulli>()},
      {"Categorical", of_one<Categorical>()},
      {"Poisson", of_one<Poisson>()},
      {"Binomial", of_two<Binomial>()},
      {"NegativeBinomial", of_two<NegativeBinomial>()},
      {"Geometric", of_one<Geometric>()},
      {"BetaBinomial", of_three<BetaBinomial>()},
      {"Hypergeometric", of_three<Hypergeometric>()},
      {"Zipf", of_one<Zipf>()},
      {"MultivariateNormal", of_two<MultivariateNormal>()},
      {"MultivariateStudentT", of_three<MultivariateStudentT>()},
      {"Dirichlet", of_one<Dirichlet>()},
      {"Multinomial", of_two<Multinomial>()},
      {"Wishart", of_two<Wishart>()},
      {"LKJCholesky",
       [](Given x, const Options&) {
         return Results{LKJCholesky{x[0].shape(-1), x[1]}.log_prob(x[0])};
       }},
      {"Mixture",
       [](Given x, const Options&) {
         return Results{Mixture{x[1], Normal{x[2], x[3]}}.log_prob(x[0])};
       }},
  };
  const auto divergence_of_two = [&]<class D>(const char* name, std::type_identity<D>) {
    all[std::string("kl ") + name] = [](Given x, const Options&) {
      return Results{kl_divergence(D{x[0], x[1]}, D{x[2], x[3]})};
    };
  };
  const auto divergence_of_one = [&]<class D>(const char* name, std::type_identity<D>) {
    all[std::string("kl ") + name] = [](Given x, const Options&) { return Results{kl_divergence(D{x[0]}, D{x[1]})}; };
  };
  divergence_of_two("Normal", std::type_identity<Normal>());
  divergence_of_two("Laplace", std::type_identity<Laplace>());
  divergence_of_two("Gamma", std::type_identity<Gamma>());
  divergence_of_two("Beta", std::type_identity<Beta>());
  divergence_of_two("MultivariateNormal", std::type_identity<MultivariateNormal>());
  divergence_of_one("Exponential", std::type_identity<Exponential>());
  divergence_of_one("Bernoulli", std::type_identity<Bernoulli>());
  divergence_of_one("Poisson", std::type_identity<Poisson>());
  divergence_of_one("Categorical", std::type_identity<Categorical>());
  divergence_of_one("Dirichlet", std::type_identity<Dirichlet>());
  const auto bijector = [&](const char* name, const Bijector& b) {
    all[std::string("Bijector ") + name] = [b](Given x, const Options&) {
      return Results{b.forward(x[0]), b.log_det(x[0])};
    };
  };
  bijector("exp", Bijector::exp());
  bijector("affine", Bijector::affine(0.5, -2));
  bijector("sigmoid", Bijector::sigmoid());
  bijector("interval", Bijector::interval(-1, 3));
  bijector("softplus", Bijector::softplus());
  bijector("tanh", Bijector::tanh());
  bijector("power", Bijector::power(1.5));
  bijector("stick_breaking", Bijector::stick_breaking());
  bijector("lower_triangular_affine", Bijector::lower_triangular_affine(
                                          tensor({1., 2., -1.}), tensor({{2., 0., 0.}, {1., 0.5, 0.}, {-1., 2., 4.}})));
  bijector("lower_cholesky", Bijector::lower_cholesky());
  bijector("correlation_cholesky", Bijector::correlation_cholesky());
  check_oracle("oracle_distributions.txt", all, 8);
}

}  // namespace oracle_distributions_test
