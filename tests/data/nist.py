"""Writes nist.txt: the nonlinear regression problems of NIST's Statistical Reference Datasets.

    python nist.py FOLDER > nist.txt

FOLDER holds NIST's files, Misra1a.dat and so on, from https://www.itl.nist.gov/div898/strd/nls/nls_main.shtml; they are also in
the folder NIST_STRD of the source package of lmfit on PyPI. They are works of the government of the United States, and in the public
domain. nist.txt has for each problem:

    name parameters observations
    the first start, the second start, the certified values and their standard deviations, a line each
    the certified residual sum of squares
    the observations, a line each: y, and one or two predictors x
"""
import pathlib
import re
import sys


def numbers(line):
    return [repr(float(word)) for word in line.split()]


def problem(path):
    lines = path.read_text().splitlines()
    rows = [re.split(r"=", line)[1].split() for line in lines if re.match(r"\s+b\d+ =(\s+\S+){4}\s*$", line)]
    (sum_of_squares,) = [line.split()[-1] for line in lines if line.startswith("Residual Sum of Squares:")]
    begin = max(i for i, line in enumerate(lines) if line.startswith("Data:")) + 1
    data = [line for line in lines[begin:] if line.strip()]
    yield f"{path.stem} {len(rows)} {len(data)}"
    for column in zip(*rows):
        yield " ".join(numbers(" ".join(column)))
    yield repr(float(sum_of_squares))
    for line in data:
        yield " ".join(numbers(line))


for path in sorted(pathlib.Path(sys.argv[1]).glob("*.dat")):
    print("\n".join(problem(path)))
