// How the special functions call Boost.Math: in double, without exceptions.
#pragma once

#include <boost/math/policies/policy.hpp>

namespace stave_cpu::special {

namespace policies = boost::math::policies;

/// Errors give NaN or infinity.
using Quiet = policies::policy<
    policies::domain_error<policies::ignore_error>, policies::pole_error<policies::ignore_error>,
    policies::overflow_error<policies::ignore_error>, policies::underflow_error<policies::ignore_error>,
    policies::denorm_error<policies::ignore_error>, policies::evaluation_error<policies::ignore_error>,
    policies::rounding_error<policies::ignore_error>, policies::indeterminate_result_error<policies::ignore_error>,
    policies::promote_double<false>, policies::promote_float<false>>;

inline constexpr double nan = __builtin_nan(""), infinity = __builtin_inf();
inline constexpr double pi = 3.141592653589793, root_pi = 1.7724538509055160;

inline bool is_whole(double x) { return x == __builtin_floor(x); }
/// Returns true at the poles of the gamma function.
inline bool is_gamma_pole(double x) { return x <= 0 && is_whole(x); }

}  // namespace stave_cpu::special
