// The choices that matrix exponentials share on all backends: the approximant, and how often a
// matrix is halved.
//
// Source: N. Higham, "The scaling and squaring method for the matrix exponential revisited", 2005.
// The bounds are those of table 2.3, and of section 5 for single precision; the coefficients of the
// [m/m] approximant are b_j = (2m - j)! / ((m - j)! j!), up to a common factor.
#pragma once

namespace stave_detail {

/// The order of a Pade approximant, and up to which norm of a matrix it is as good as the dtype.
struct Approximant {
  int order;
  double bound;
};
inline constexpr int most_approximants = 5;
/// In ascending order.
struct Approximants {
  int count;
  Approximant all[most_approximants];
};
template <class T>
constexpr Approximants approximants() {
  if (sizeof(T) == 8)
    return {5,
            {{3, 1.495585217958292e-2},
             {5, 2.539398330063230e-1},
             {7, 9.504178996162932e-1},
             {9, 2.097847961257068},
             {13, 5.371920351148152}}};
  return {3, {{3, 4.258730016922831e-1}, {5, 1.880152677804762}, {7, 3.925724783138660}}};
}

/// b_j / b_0, which fall.
constexpr double expm_coefficient(int order, int j) {
  double b = 1;
  for (int i = 0; i < j; ++i) b *= static_cast<double>(order - i) / (static_cast<double>(2 * order - i) * (i + 1));
  return b;
}
/// How many even powers x^2, x^4, ... an approximant is made of.
constexpr int expm_powers(int order) { return order == 13 ? 3 : order / 2; }

/// The bound for sizes that are estimated by powers: theorem 4.2 (a), for the powers 4 and 6, of
/// Al-Mohy and Higham, "A new scaling and squaring algorithm for the matrix exponential", 2009.
constexpr double expm_bound_by_powers(const Approximant& of) { return of.order == 13 ? 4.25 : of.bound; }
/// 1 / ((2m)! / m!^2 (2m + 1)!) in units of rounding, for the two orders after which a matrix is
/// halved: formula (5.1) of that paper.
template <class T>
constexpr double expm_remainder(int order) {
  const double coefficient = order == 13 ? 1 / 113250775606021113483283660800000000. : 1 / 4487938430976000.;
  return coefficient / (sizeof(T) == 8 ? 0x1p-53 : 0x1p-24);
}

}  // namespace stave_detail
