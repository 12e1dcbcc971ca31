"""Prints the numbers of tests/handlers/numerics/odeint_taylor_test.cpp: solutions of differential equations, with 40 digits by mpmath."""

from mpmath import mp, mpf, nstr, odefun

mp.dps = 40


def lorenz(t, y):
    return [10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - mpf(8) / 3 * y[2]]


print("Lorenz at 1:", *[nstr(c, 20) for c in odefun(lorenz, 0, [mpf(1), mpf(1), mpf(1)])(1)])
print("Riccati at 1:", nstr(odefun(lambda t, y: y**2 + t, 0, mpf("0.5"))(1), 20))
