"""Writes special.csv: functions without a reference in the C++ library, by mpmath, at floats that are given exactly.

    python3 tests/data/special.py
"""

import pathlib
import random

from mpmath import digamma, mp, mpf, nstr, zeta

mp.dps = 200  # of zeta they are digits behind the point
random.seed(1)
rows = []


def add(name, value, *arguments):
    if mp.isfinite(value) and abs(value) < 1e300:
        rows.append([name, *(float(a).hex() for a in arguments), nstr(value, 25)])


# digamma: its positive root and around it, small and large x, and left of 0, where the zeros are apart from the poles.
for x in [2.0**-1000, 2.0**-30, 0.25, 0.5, 1, 1.25, 1.46163214496836, 1.4616321449683625, 1.4616, 1.5, 2, 3, 9.75, 10, 10.5, 1e5, 1e300]:
    add("digamma", digamma(mpf(x)), x)
for _ in range(40):
    x = random.uniform(0.01, 14)
    add("digamma", digamma(mpf(x)), x)
for _ in range(40):
    x = random.uniform(-30, 0)
    add("digamma", digamma(mpf(x)), x)


def hurwitz(s, q):
    """Left of 0 by its terms there, as the series is defined: mpmath continues otherwise."""
    s, q = mpf(s), mpf(q)
    total = mpf(0)
    while q < 1:
        total += 1 / q**s
        q += 1
    return total + zeta(s, q)


for s in [1.0078125, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 20]:
    for q in [0.0009765625, 0.25, 0.5, 1, 1.5, 2, 3.25, 9.5, 10, 30.5, 1000, 123456.5]:
        add("zeta", hurwitz(s, q), s, q)
for s in [2, 3, 4, 5]:
    for q in [-0.0009765625, -0.25, -0.75, -1.125, -2.375, -10.5, -31.0625]:
        add("zeta", hurwitz(s, q), s, q)

text = "# By tests/data/special.py: a function, its arguments, its value.\n" + "".join(",".join(row) + "\n" for row in rows)
(pathlib.Path(__file__).parent / "special.csv").write_text(text)
