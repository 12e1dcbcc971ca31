"""Writes oracle_linalg.txt: linear algebra, values and gradients. What has signs to choose is compared without them.

    python3 tests/data/oracle_linalg.py
"""

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from oracle import FLOATS, WIDE, File

file = File(__file__, "oracle_linalg.txt", f"NumPy {np.__version__}, SciPy {scipy.__version__}, JAX {jax.__version__}")
check = file.differentiated

square = np.array([[2, 0.5, -1], [1, 3, 0.25], [-0.5, 1.5, 4]])
pivots = np.array([[0, 2, 1], [1.5, 0, -1], [3, 1, 0.5]])
stack = np.stack([square, pivots])
tall, wide = np.array([[1, 2], [-1, 0.5], [3, 1.0], [0.25, -2]]), np.array([[1, -2, 0.5], [2, 1, -1.0]])
definite = np.array([[4, 1, -0.5], [1, 3, 0.75], [-0.5, 0.75, 2]])
rows = np.array([[1, -1], [0.5, 2], [3, 0.25]])
vector = np.array([1, -2, 0.5])
symmetric = lambda a: (a + jnp.swapaxes(a, -1, -2)) / 2

check("solve", jnp.linalg.solve, square, rows, units=32)
check("solve", lambda a, b: jnp.linalg.solve(a, b[..., None])[..., 0], stack, vector, units=64)
check("inv", jnp.linalg.inv, stack, units=64)
check("det", jnp.linalg.det, stack, units=32)
check("slogdet", lambda a: list(jnp.linalg.slogdet(a)), stack, units=32)
check("cholesky", lambda a: jnp.linalg.cholesky(symmetric(a)), definite, units=16)
check("cholesky", lambda a: jnp.swapaxes(jnp.linalg.cholesky(symmetric(a)), -1, -2), definite, units=16, upper=True)
for lower in (False, True):
    for transpose in (False, True):
        options = {k: True for k, v in (("lower", lower), ("transpose", transpose)) if v}
        check("triangular_solve", lambda a, b: jax.scipy.linalg.solve_triangular(a, b, trans=int(transpose), lower=lower), square, rows, units=32, **options)
check("triangular_solve", lambda a, b: jax.scipy.linalg.solve_triangular(a, b, unit_diagonal=True), square, rows, units=32, unit_diagonal=True)
check("lu", lambda a: list(jax.scipy.linalg.lu(a)), square, units=32)
for a in (square, tall):
    check("qr", lambda a: list(jnp.linalg.qr(a)), a, units=32)
check("eigh", lambda a: [(e := jnp.linalg.eigh(symmetric(a)))[0], e[1] ** 2], definite, units=128)
check("eigvalsh", lambda a: jnp.linalg.eigvalsh(symmetric(a)), definite, units=64)
for a in (square, tall, wide):
    check("svd", lambda a: [(p := jnp.linalg.svd(a, full_matrices=False))[0] ** 2, p[1], p[2] ** 2], a, units=128)
    check("svdvals", lambda a: jnp.linalg.svd(a, compute_uv=False), a, units=64)
    check("pinv", jnp.linalg.pinv, a, units=64)
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        check("matrix_norm", lambda a: jnp.linalg.norm(a, ord=order), a, units=32, order=order)
check("lstsq", lambda a, b: jnp.linalg.pinv(a) @ b, tall, np.array([[1.0], [2], [-1], [0.5]]), units=64)
singular = np.array([[1, 2, 3], [2, 4, 6], [1, 0, 1.0]])
file.add("det", [singular], np.linalg.det(singular), dtypes="float64", units=64, either_zero=True)
file.add("pinv", [singular], np.linalg.pinv(singular), dtypes=WIDE, scaled=True, units=64)
file.add("lstsq", [singular, vector], np.linalg.lstsq(singular, vector)[0], dtypes=WIDE, scaled=True, units=64)
for a in (singular, square, np.zeros((2, 2)), tall):
    file.add("matrix_rank", [a], np.asarray(np.linalg.matrix_rank(a), np.int32), dtypes=WIDE)
for a in (square, -4 * square, np.zeros((2, 2)), np.array([[0, 1], [0, 0.0]]), 0.0078125 * pivots):
    check("expm", jax.scipy.linalg.expm, a, units=128)
for n in (-2, 0, 1, 5):
    check("matrix_power", lambda a: jnp.linalg.matrix_power(a, n), square, units=256, n=n)
for order in (1, 2, 3, 0.5, np.inf, -np.inf):
    check("vector_norm", lambda x: jnp.linalg.norm(x, ord=order, axis=1), np.array([[1, -2, 0.5], [3, 1, -4]]), units=16, order=order)
file.add("vector_norm", [np.array([[1, 0, -2], [0, 0, 0.0]])], np.array([2, 0.0]), dtypes=FLOATS, order=0)
check("cross", jnp.cross, rows.T[:, :], np.array([1, -2, 0.5]))
check("vecdot", jnp.vecdot, stack, vector)
check("kron", jnp.kron, rows, wide)
file.write()
