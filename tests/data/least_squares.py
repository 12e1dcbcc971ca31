"""Writes least_squares.csv: minima of robust losses, with and without bounds, by scipy.optimize.least_squares.

    python least_squares.py > least_squares.csv

Each row is the name of the loss, f_scale, 1 if there are bounds, the three unknowns, and the cost. The problem is that of
tests/handlers/numerics/least_squares_test.cpp: an exponential with outliers.
"""
import numpy as np
from scipy.optimize import least_squares

t = np.arange(24) / 8
y = 3 * np.exp(-1.3 * t) + 0.5 + 0.05 * np.sin(9 * t)
y[[3, 11, 17]] += [1.5, -2, 1]


def residual(p):
    return p[0] * np.exp(-p[1] * t) + p[2] - y


bounds = ([0, 0, 0.55], [2.5, 10, 10])
for loss in ("linear", "soft_l1", "huber", "cauchy", "arctan"):
    for f_scale in (1, 0.1):
        for bounded in (False, True):
            found = least_squares(residual, [2, 1, 0.7], loss=loss, f_scale=f_scale, ftol=1e-15, xtol=1e-15, gtol=1e-15,
                                  max_nfev=10000, **({"bounds": bounds} if bounded else {}))
            print(",".join([loss, str(f_scale), str(int(bounded)), *(repr(float(v)) for v in [*found.x, found.cost])]))
