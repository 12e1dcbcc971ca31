// Draws against jax.random with the same keys: numbers of float32 and float64, counts, and
// gradients. Input 0 of a line is the key.
#include <stave/core/ops/random_samplers.h>

#include "oracle.h"

namespace oracle_random_test {

using namespace oracle;

Shape shape_of(const Options& o) { return Shape(o.list("shape")); }

// A line without parameters names the dtype of its floats.
Dtype dtype_of(const Options& o) { return dtype_named(o.word("of")); }

#define PLAIN(f)                                                                                         \
  {                                                                                                      \
    #f, [](Given x, const Options& o) { return Results{stave::f(Key(x[0]), shape_of(o), dtype_of(o))}; } \
  }
#define OF_ONE(f)                                                                                 \
  {                                                                                               \
    #f, [](Given x, const Options& o) { return Results{stave::f(Key(x[0]), x[1], shape_of(o))}; } \
  }
#define OF_TWO(f)                                                                                       \
  {                                                                                                     \
    #f, [](Given x, const Options& o) { return Results{stave::f(Key(x[0]), x[1], x[2], shape_of(o))}; } \
  }

ChoiceOptions choice_of(const Options& o) { return {.replace = !o.has("once"), .axis = o.index("axis", 0)}; }

std::map<std::string, Function> functions() {
  return {
      PLAIN(exponential),
      PLAIN(laplace),
      PLAIN(logistic),
      PLAIN(cauchy),
      PLAIN(maxwell),
      PLAIN(rademacher),
      OF_ONE(lognormal),
      OF_ONE(rayleigh),
      OF_ONE(pareto),
      OF_ONE(wald),
      OF_ONE(generalized_normal),
      OF_ONE(gamma),
      OF_ONE(loggamma),
      OF_ONE(chisquare),
      OF_ONE(student_t),
      OF_ONE(dirichlet),
      OF_ONE(geometric),
      OF_ONE(poisson),
      OF_TWO(weibull_min),
      OF_TWO(double_sided_maxwell),
      OF_TWO(truncated_normal),
      OF_TWO(beta),
      OF_TWO(f_distribution),
      OF_TWO(multivariate_normal),
      OF_TWO(binomial),
      OF_TWO(multinomial),
      {"gamma_by_quantile", [](Given x, const Options&) { return Results{gamma(Key(x[0]), x[1])}; }},
      {"triangular",
       [](Given x, const Options& o) { return Results{triangular(Key(x[0]), x[1], x[2], x[3], shape_of(o))}; }},
      {"rademacher_int", [](Given x, const Options& o) { return Results{rademacher(Key(x[0]), shape_of(o))}; }},
      {"ball",
       [](Given x, const Options& o) {
         return Results{ball(Key(x[0]), o.index("d", 1), o.number("p", 2), shape_of(o), dtype_of(o))};
       }},
      {"orthogonal",
       [](Given x, const Options& o) {
         const Index n = o.index("n", 1), m = o.index("m", 1);
         return Results{n == m ? orthogonal(Key(x[0]), n, shape_of(o), dtype_of(o))
                               : orthogonal(Key(x[0]), n, m, shape_of(o), dtype_of(o))};
       }},
      {"randint",
       [](Given x, const Options& o) {
         return Results{
             randint(Key(x[0]), shape_of(o), o.index("low", 0), o.index("high", 0), dtype_named(o.word("of")))};
       }},
      {"randint_of", [](Given x, const Options& o) { return Results{randint(Key(x[0]), shape_of(o), x[1], x[2])}; }},
      {"choice_of_numbers",
       [](Given x, const Options& o) {
         return Results{choice(Key(x[0]), o.index("n", 1), shape_of(o), choice_of(o))};
       }},
      {"choice_by",
       [](Given x, const Options& o) {
         ChoiceOptions options = choice_of(o);
         options.p = x[1];
         return Results{choice(Key(x[0]), x[1].size(), shape_of(o), options)};
       }},
      {"choice", [](Given x, const Options& o) { return Results{choice(Key(x[0]), x[1], shape_of(o), choice_of(o))}; }},
      {"shuffle", [](Given x, const Options& o) { return Results{shuffle(Key(x[0]), x[1], o.index("axis", 0))}; }},
      {"categorical_without_replacement",
       [](Given x, const Options& o) {
         return Results{categorical_without_replacement(Key(x[0]), x[1], o.index("k", 1), o.index("axis", -1))};
       }},
  };
}

TEST(Oracle, Random) { check_oracle("oracle_random.txt", functions(), 16); }

}  // namespace oracle_random_test
