// Linear algebra against NumPy, SciPy and JAX. Eigenvectors and singular vectors have free signs,
// so the test compares their squares.
#include "oracle.h"

namespace oracle_linalg_test {

using namespace oracle;

#define OF_ONE(f)                                                       \
  {                                                                     \
    #f, [](Given x, const Options&) { return Results{stave::f(x[0])}; } \
  }
#define OF_TWO(f)                                                             \
  {                                                                           \
    #f, [](Given x, const Options&) { return Results{stave::f(x[0], x[1])}; } \
  }

MatrixOrder matrix_order(const Options& o) {
  const std::string& word = o.word("order");
  return word == "fro" || word == "nuc" ? MatrixOrder(word.c_str()) : MatrixOrder(std::stod(word));
}
Results all_of(const std::tuple<Tensor, Tensor, Tensor>& x) { return {std::get<0>(x), std::get<1>(x), std::get<2>(x)}; }
Results both(const std::pair<Tensor, Tensor>& x) { return {x.first, x.second}; }

TEST(Oracle, Linalg) {
  check_oracle(
      "oracle_linalg.txt",
      {OF_TWO(solve),
       OF_ONE(inv),
       OF_ONE(det),
       OF_ONE(eigvalsh),
       OF_ONE(svdvals),
       OF_ONE(pinv),
       OF_ONE(matrix_rank),
       OF_ONE(expm),
       OF_TWO(lstsq),
       OF_TWO(cross),
       OF_TWO(vecdot),
       OF_TWO(kron),
       {"slogdet", [](Given x, const Options&) { return both(slogdet(x[0])); }},
       {"cholesky", [](Given x, const Options& o) { return Results{cholesky(x[0], {.upper = o.has("upper")})}; }},
       {"triangular_solve",
        [](Given x, const Options& o) {
          return Results{triangular_solve(
              x[0], x[1],
              {.lower = o.has("lower"), .transpose = o.has("transpose"), .unit_diagonal = o.has("unit_diagonal")})};
        }},
       {"lu", [](Given x, const Options&) { return all_of(lu(x[0])); }},
       {"qr", [](Given x, const Options&) { return both(qr(x[0])); }},
       {"eigh",
        [](Given x, const Options&) {
          const auto [values, vectors] = eigh(x[0]);
          return Results{values, square(vectors)};
        }},
       {"svd",
        [](Given x, const Options&) {
          const auto [u, s, vh] = svd(x[0], {.full_matrices = false});
          return Results{square(u), s, square(vh)};
        }},
       {"matrix_norm", [](Given x, const Options& o) { return Results{matrix_norm(x[0], matrix_order(o))}; }},
       {"matrix_power", [](Given x, const Options& o) { return Results{matrix_power(x[0], o.index("n", 1))}; }},
       {"vector_norm", [](Given x, const Options& o) { return Results{vector_norm(x[0], o.number("order", 2), 1)}; }}},
      8);
}

}  // namespace oracle_linalg_test
