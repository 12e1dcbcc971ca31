// The special functions of numbers, in double. special.h says which file has which of them.
//
// Functions with orders take them first, as whole numbers. Outside their domain functions return
// NaN; none throws.
#pragma once

namespace stave_cpu::special {

double gammainc(double n, double a, double x);
double gammaincc(double a, double x);
double gamma_density(double n, double a, double x);
double betainc(double m, double n, double a, double b, double x);
double beta_density(double m, double n, double a, double b, double x);
double betaln(double a, double b);
double poch(double a, double m);
double zeta_derivative(double n, double s, double q);

double bessel_j(double n, double x);
double bessel_y(double n, double x);
double bessel_i(double n, double x);
double bessel_ie(double n, double x);
double bessel_k(double n, double x);
double bessel_ke(double n, double x);

double ndtri(double p);
double log_ndtr(double x);
double erfcx(double n, double x);
double erfcinv(double x);
double expi(double x);
double expn(double n, double x);
double spence(double n, double z);
double sine_integral(double x);
double cosine_integral(double x);
double fresnel_s(double x);
double fresnel_c(double x);
double dawsn(double n, double x);
double sinc(double n, double x);
double rel_entr(double x, double y);
double kl_div(double x, double y);
double lambertw(double k, double x);

double hyp1f1(double a, double b, double x);
double hyp2f1(double a, double b, double c, double x);

/// sin(pi x), accurate for all x.
double sin_pi(double x);
/// exp(factor x^2) for a factor that is 1, -1, 1/2 or -1/2, without the rounding error of the
/// square.
double exp_of_square(double factor, double x);

}  // namespace stave_cpu::special
