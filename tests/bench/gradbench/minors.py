"""The minors of an expansion along first rows, as in problems.h."""
import numpy as np


def columns_of_minors(columns):
    """The columns of minors, [m, count], of the minors of their first rows, [m - 1, m count]."""
    m = len(columns)
    return np.concatenate([np.delete(columns, j, 0) for j in range(m)], 1)


def levels(size):
    """The columns of the minors of each level, from all columns of a matrix to single ones."""
    columns = np.arange(size)[:, None]
    while len(columns):
        yield columns
        columns = columns_of_minors(columns)
