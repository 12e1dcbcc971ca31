// Log densities against SciPy, and their gradients against JAX.
#include "oracle.h"

namespace oracle_distributions_test {

using namespace oracle;

TEST(Oracle, Distributions) {
  check_oracle("oracle_distributions.txt",
               {{"Normal",
                 [](Given x, const Options&) {
                   return Results{Normal{x[1], x[2]}.log_prob(x[0])};
                 }},
                {"HalfNormal", [](Given x, const Options&) { return Results{HalfNormal{x[1]}.log_prob(x[0])}; }},
                {"Cauchy",
                 [](Given x, const Options&) {
                   return Results{Cauchy{x[1], x[2]}.log_prob(x[0])};
                 }},
                {"HalfCauchy", [](Given x, const Options&) { return Results{HalfCauchy{x[1]}.log_prob(x[0])}; }},
                {"StudentT",
                 [](Given x, const Options&) {
                   return Results{StudentT{x[1], x[2], x[3]}.log_prob(x[0])};
                 }},
                {"LogNormal",
                 [](Given x, const Options&) {
                   return Results{LogNormal{x[1], x[2]}.log_prob(x[0])};
                 }},
                {"Exponential", [](Given x, const Options&) { return Results{Exponential{x[1]}.log_prob(x[0])}; }},
                {"Gamma",
                 [](Given x, const Options&) {
                   return Results{Gamma{x[1], x[2]}.log_prob(x[0])};
                 }},
                {"Beta",
                 [](Given x, const Options&) {
                   return Results{Beta{x[1], x[2]}.log_prob(x[0])};
                 }},
                {"Uniform",
                 [](Given x, const Options&) {
                   return Results{Uniform{x[1], x[2]}.log_prob(x[0])};
                 }},
                {"Bernoulli", [](Given x, const Options&) { return Results{Bernoulli{x[1]}.log_prob(x[0])}; }},
                {"Categorical", [](Given x, const Options&) { return Results{Categorical{x[1]}.log_prob(x[0])}; }},
                {"Poisson", [](Given x, const Options&) { return Results{Poisson{x[1]}.log_prob(x[0])}; }},
                {"MultivariateNormal",
                 [](Given x, const Options&) {
                   return Results{MultivariateNormal{x[1], x[2]}.log_prob(x[0])};
                 }},
                {"Dirichlet", [](Given x, const Options&) { return Results{Dirichlet{x[1]}.log_prob(x[0])}; }}},
               8);
}

}  // namespace oracle_distributions_test
