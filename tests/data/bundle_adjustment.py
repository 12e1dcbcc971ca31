"""Prints the least cost of the bundle adjustment of tests/handlers/numerics/bundle_adjustment_test.cpp, by scipy.optimize.least_squares.

    python bundle_adjustment.py [CAMERAS POINTS]

Without arguments the linear problems are solved by SVD, else by LSMR with a sparse Jacobian.
"""
import sys
import time

import numpy as np
from scipy.optimize import least_squares
from scipy.sparse import lil_matrix

cameras, points = (int(word) for word in (sys.argv[1:] or [6, 40]))
i, j = np.arange(cameras), np.arange(points)
true_cameras = np.stack([0.1 * np.sin(i + 1) + 0.05, 0.1 * np.cos(2 * i) + 0.05, 0.05 * np.sin(3 * i) + 0.05,
                         0.3 * np.cos(i), 0.3 * np.sin(2 * i), 0.1 * np.sin(i)], 1)
true_points = np.stack([np.sin(1.3 * j), np.cos(2.1 * j), 4 + np.sin(0.7 * j)], 1)
camera, point = (index.ravel() for index in np.meshgrid(i, j, indexing="ij"))
seen = (camera + point) % 3 != 0
camera, point = camera[seen], point[seen]


def projected(c, p):
    w, t = c[:, :3], c[:, 3:]
    angle = np.linalg.norm(w, axis=1, keepdims=True)
    k = w / angle
    along = np.sum(k * p, 1, keepdims=True)
    q = p * np.cos(angle) + np.cross(k, p) * np.sin(angle) + k * along * (1 - np.cos(angle)) + t
    return 500 * q[:, :2] / q[:, 2:]


phase = 12.9898 * np.arange(camera.size)
observed = projected(true_cameras[camera], true_points[point]) + 0.5 * np.stack([np.sin(phase), np.cos(3 * phase)], 1)


def residual(x):
    c, p = x[:6 * cameras].reshape(-1, 6), x[6 * cameras:].reshape(-1, 3)
    return (projected(c[camera], p[point]) - observed).ravel()


start = np.concatenate([true_cameras.ravel(), true_points.ravel()])
start = start + 0.02 * np.sin(7.7 * np.arange(start.size))
sparsity = lil_matrix((2 * camera.size, start.size), dtype=int)
for row in range(camera.size):
    for axis in range(2):
        sparsity[2 * row + axis, 6 * camera[row]:6 * camera[row] + 6] = 1
        sparsity[2 * row + axis, 6 * cameras + 3 * point[row]:6 * cameras + 3 * point[row] + 3] = 1
begin = time.time()
options = {"jac_sparsity": sparsity} if len(sys.argv) > 1 else {"jac": "3-point"}
found = least_squares(residual, start, x_scale="jac", ftol=1e-13, xtol=1e-13, gtol=1e-13, max_nfev=300, **options)
print(repr(float(np.sum(residual(start) ** 2) / 2)), repr(float(found.cost)), found.nfev, f"{time.time() - begin:.2f} s")
