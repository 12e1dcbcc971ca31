"""Writes oracle_arrays.txt: reductions, scans, sorting, searching, counting, indexing, rearranging and products.

    python3 tests/data/oracle_arrays.py
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import scipy
import torch

from oracle import FLOATS, WIDE, File, weight

warnings.simplefilter("ignore")
np.seterr(all="ignore")
file = File(__file__, "oracle_arrays.txt", f"NumPy {np.__version__}, SciPy {scipy.__version__}, JAX {jax.__version__}, PyTorch {torch.__version__.split('+')[0]}")
differentiated = file.differentiated
inf, nan = np.inf, np.nan
rng = np.random.default_rng(3)


def eighths(*shape):
    """Numbers that bfloat16 holds, of which some are equal."""
    return rng.integers(-24, 25, shape) / 8.0


# ---- reductions ---------------------------------------------------------------------------------------------------------------

x = eighths(2, 3, 4)
odd = np.array([[1, nan, -2], [inf, 3, -inf], [-0.0, 0, 5], [-inf, -inf, 2], [inf, inf, 1]])
norm = lambda x, axis=None, keepdims=False: np.sqrt(np.sum(np.square(x), axis=axis, keepdims=keepdims))
logsumexp = scipy.special.logsumexp
reductions = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "max": np.max, "min": np.min, "all": np.all, "any": np.any,
              "logsumexp": logsumexp, "norm": norm, "count_nonzero": np.count_nonzero, "var": np.var, "std": np.std}
counted = lambda name, y: np.asarray(y, np.int32) if name == "count_nonzero" else y
for name, f in reductions.items():
    wide = FLOATS if name in ("max", "min", "all", "any", "count_nonzero") else WIDE
    file.add(name, [x], counted(name, f(x)), dtypes=wide, scaled=True)
    for axes in (0, -1, (0, 2), (1,)):
        tuple_of = axes if isinstance(axes, tuple) else (axes,)
        file.add(name, [x], counted(name, f(x, axis=axes)), dtypes=wide, scaled=True, axes=tuple_of)
    file.add(name, [x], counted(name, f(x, axis=(1, 2), keepdims=True)), dtypes=wide, scaled=True, axes=(1, 2), keepdims=True)
    if name not in ("var", "std", "norm", "logsumexp"):
        file.add(name, [odd], counted(name, f(odd, axis=1)), dtypes=wide, scaled=True, axes=(1,))
    if name not in ("max", "min", "logsumexp"):  # of nothing
        file.add(name, [np.zeros((2, 0))], counted(name, f(np.zeros((2, 0)), axis=1)), dtypes=wide, axes=(1,))
    file.add(name, [np.zeros((0, 2))], counted(name, f(np.zeros((0, 2)), axis=1)), dtypes=wide, axes=(1,))
for correction in (1, 2):
    file.add("var", [x], np.var(x, axis=2, ddof=correction), dtypes=WIDE, scaled=True, axes=(2,), correction=correction)
    file.add("std", [x], np.std(x, axis=2, ddof=correction), dtypes=WIDE, scaled=True, axes=(2,), correction=correction)
zeros = np.array([[2, 0, 3], [0, 0, 5], [1, 2, 4.0]])
ties = np.array([[3, 1, 3], [2, 2, 2], [1, 5, 4.0]])
for name, f in {"sum": jnp.sum, "mean": jnp.mean, "prod": jnp.prod, "max": jnp.max, "min": jnp.min, "var": jnp.var, "std": jnp.std,
                "logsumexp": jax.scipy.special.logsumexp, "norm": lambda x, axis: jnp.linalg.norm(x, axis=axis)}.items():
    for values in (x[0], zeros if name == "prod" else ties if name in ("max", "min") else eighths(3, 5)):
        differentiated(name, lambda x: f(x, axis=1), values, axes=(1,))
for dtype in (np.int8, np.uint8, np.int32):
    values = rng.integers(-100 if dtype != np.uint8 else 0, 120, (3, 5)).astype(dtype)
    wide = np.uint32 if dtype == np.uint8 else np.int32
    for name in ("sum", "prod"):
        file.add(name, [values], reductions[name](values, axis=1, dtype=wide), dtypes=dtype.__name__, axes=(1,))
    for name in ("max", "min", "any", "all"):
        file.add(name, [values], reductions[name](values, axis=0), dtypes=dtype.__name__, axes=(0,))

position = lambda y: np.asarray(y, np.int32)
tied = np.array([[1, 3, 3, 0], [nan, 5, nan, 7], [-inf, -inf, -0.0, 0], [2, 2, 1, 1]])
for name, f in {"argmax": np.argmax, "argmin": np.argmin}.items():
    for axis in (0, 1):
        file.add(name, [tied], position(f(tied, axis=axis)), axis=axis)

# ---- scans --------------------------------------------------------------------------------------------------------------------

scans = {"cumulative_sum": np.cumsum, "cumulative_prod": np.cumprod, "cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate,
         "logcumsumexp": np.logaddexp.accumulate}
for name, f in scans.items():
    values = np.minimum(eighths(3, 4), 2)
    for axis in (0, 1):
        file.add(name, [values], f(values, axis=axis), dtypes=WIDE, scaled=True, axis=axis)
        file.add(name, [values], np.flip(f(np.flip(values, axis), axis=axis), axis), dtypes=WIDE, scaled=True, axis=axis, reverse=True)
    start = np.array([[1, 2, nan, 3], [inf, 1, -inf, 0], [-inf, -inf, 1, 2]])
    file.add(name, [start], f(start, axis=1), dtypes=WIDE, either_zero=True, axis=1)
for name in ("cumulative_sum", "cumulative_prod"):
    identity = np.full((3, 1), float(name == "cumulative_prod"))
    file.add(name, [values], np.concatenate([identity, scans[name](values, axis=1)], 1), dtypes=WIDE, scaled=True, axis=1, include_initial=True)
    for dtype, wide in ((np.int8, np.int32), (np.uint8, np.uint32), (np.int32, np.int32)):
        whole = rng.integers(0, 100, (2, 6)).astype(dtype)
        file.add(name, [whole], scans[name](whole, axis=1, dtype=wide), dtypes=dtype.__name__, axis=1)
differentiated("cumulative_sum", lambda x: jnp.cumsum(x, 1), values, axis=1)
differentiated("logcumsumexp", lambda x: jax.lax.cumlogsumexp(x, 1), values, axis=1)
by_torch = torch.tensor(zeros, requires_grad=True)  # JAX's is NaN at zeros
y = torch.cumprod(by_torch, 1)
y.backward(torch.tensor(weight(y.shape)))
file.add("cumulative_prod", [zeros], y.detach().numpy(), [by_torch.grad.numpy()], dtypes=WIDE, scaled=True, axis=1)

# ---- order --------------------------------------------------------------------------------------------------------------------

unordered = np.array([[3, nan, -1, 3, -inf, 0.5], [-0.0, 0, inf, nan, nan, -2]])
for axis in (0, 1):
    file.add("sort", [unordered], np.sort(unordered, axis=axis, stable=True), either_zero=True, axis=axis)
    file.add("argsort", [unordered], position(np.argsort(unordered, axis=axis, stable=True)), axis=axis)
    down = jnp.argsort(jnp.array(unordered), axis=axis, stable=True, descending=True)
    file.add("argsort", [unordered], position(down), axis=axis, descending=True)
    file.add("sort", [unordered], np.take_along_axis(unordered, np.asarray(down), axis), either_zero=True, axis=axis, descending=True)
for dtype in (np.int8, np.uint64):
    whole = rng.integers(0, 120, (2, 5)).astype(dtype)
    file.add("sort", [whole], np.sort(whole, axis=1), dtypes=dtype.__name__, axis=1)
distinct = rng.permutation(12).reshape(3, 4) / 2.0
differentiated("sort", lambda x: jnp.sort(x, axis=0), distinct, axis=0)
differentiated("topk", lambda x: [jax.lax.top_k(x, 3)[0], jax.lax.top_k(x, 3)[1].astype(jnp.int32)], distinct, k=3)
values, places = torch.topk(torch.tensor(np.array([[1, nan, 5, 2, -inf], [7, 3, inf, 4, -1]])), 3)
file.add("topk", [np.array([[1, nan, 5, 2, -inf], [7, 3, inf, 4, -1]])], [values.numpy(), position(places.numpy())], k=3)

ascending = np.array([-inf, -1.5, 0, 0, 0, 2, 2.5, nan])
wanted = np.array([[-inf, -2, -1.5], [0, 1, 2.5], [inf, nan, -0.0]])
for right in (False, True):
    file.add("searchsorted", [ascending, wanted], position(np.searchsorted(ascending, wanted, "right" if right else "left")), **({"right": True} if right else {}))
file.add("isin", [wanted, np.array([0, 2.5, nan, -inf])], np.isin(wanted, np.array([0, 2.5, nan, -inf])))
repeated = np.array([3, nan, -1, 3, -inf, 3, nan, -1, 2])
values, inverse, counts = np.unique(repeated, return_inverse=True, return_counts=True, equal_nan=False)
file.add("unique_counts", [repeated], [values, position(counts)])
file.add("unique_values", [repeated], values)
values, inverse = np.unique(repeated[~np.isnan(repeated)], return_inverse=True)
file.add("unique_inverse", [repeated[~np.isnan(repeated)]], [values, position(inverse)])
whole = np.array([[5, 0, 5], [2, 9, 0]], np.int32)
file.add("bincount", [whole], position(np.bincount(whole.ravel(), minlength=12)), dtypes="int32", length=12)
differentiated("bincount", lambda x, w: jnp.bincount(x.ravel(), w.ravel(), length=12), whole, eighths(2, 3), length=12)
samples, edges = np.array([-1, 0, 0.5, 1, 1, 2, 3, 3.5, inf, -inf]), np.array([0, 0.5, 1, 2, 3.0])
file.add("histogram", [samples, edges], position(np.histogram(samples, edges)[0]))
file.add("nonzero", [np.array([[0, nan, 1], [-0.0, 2, 0]])], [position(p) for p in np.nonzero(np.array([[0, nan, 1], [-0.0, 2, 0]]))])
places, at, means = np.array([-1, 0, 0.5, 2.25, 4, 9.0]), np.array([0, 1, 2.5, 4.0]), np.array([1, -2, 0.5, 3.0])
differentiated("interp", jnp.interp, places, at, means)
differentiated("trapezoid", lambda y, x: jnp.trapezoid(y, x, axis=1), eighths(2, 4), np.array([[0, 1, 2.5, 4], [-1, 0, 1, 5.0]]))
for n in (1, 2):
    differentiated("diff", lambda x: jnp.diff(x, n, axis=1), eighths(2, 5), n=n)

# ---- indices ------------------------------------------------------------------------------------------------------------------

x = eighths(4, 3)
rows = np.array([[3, 0], [-1, 3]], np.int32)
differentiated("take", lambda x, i: jnp.take(x, i, axis=0), x, rows, axis=0)
differentiated("take", lambda x, i: jnp.take(x, i % 3, axis=1), x, np.array([-1, 0, 2, 2], np.int32), axis=1)
along = np.array([[0, 3, -1], [1, 1, 2]], np.int32)
differentiated("take_along_axis", lambda x, i: jnp.take_along_axis(x, i % 4, axis=0), x, along, axis=0)
update = eighths(1, 3)
result = x.copy()
np.put_along_axis(result, np.array([[0, -1, 2]]), update, axis=0)
file.add("put_along_axis", [x, np.array([[0, -1, 2]], np.int32), update], result, axis=0)
ids = np.array([2, 0, 2, 0], np.int32)
for name in ("sum", "max", "min"):
    f = getattr(jax.ops, "segment_" + name)
    differentiated("segment_" + name, lambda x, i: f(x, i, 4), x, ids, count=4)


def multiplied(start, places, x):
    """Rows x[i] multiplied to start[places[i]], and the gradients, by PyTorch."""
    start, x = (torch.tensor(a, requires_grad=True) for a in (start, x))
    y = torch.scatter_reduce(start, 0, torch.tensor(places, dtype=torch.int64)[:, None].expand(x.shape), x, "prod")
    y.backward(torch.tensor(weight(y.shape)))
    return y.detach().numpy(), start.grad.numpy(), x.grad.numpy()


y, _, gradient = multiplied(np.ones((4, 3)), ids, x)
file.add("segment_prod", [x, ids], y, [gradient], dtypes=WIDE, scaled=True, count=4)
y, of_start, of_rows = multiplied(x, np.array([0, 3, 0]), zeros)
file.add("scatter_multiply", [x, np.array([[0], [3], [0]], np.int32), zeros], y, [of_start, of_rows], dtypes=WIDE, scaled=True)
pairs = np.array([[0, 1], [3, 2], [0, 1]], np.int32)
for name, method in {"scatter_add": "add", "scatter_min": "min", "scatter_max": "max"}.items():
    differentiated(name, lambda x, i, u: getattr(x.at[i[:, 0], i[:, 1]], method)(u), x, pairs, np.array([0.5, -1.25, 2]))
differentiated("gather", lambda x, i: x[i[:, 0], i[:, 1]], x, pairs)
file.add("one_hot", [rows % 4], np.eye(5)[rows % 4].astype(np.float32), dtypes="int32", n=5)
differentiated("dynamic_slice", lambda x, i: jax.lax.dynamic_slice(x, i, (2, 2)), x, np.array([1, 1], np.int32), sizes=(2, 2))

# ---- layout -------------------------------------------------------------------------------------------------------------------

cube = np.arange(24.0).reshape(2, 3, 4)
for k in (-1, 0, 2):
    file.add("tril", [cube], np.tril(cube, k), k=k)
    file.add("triu", [cube], np.triu(cube, k), k=k)
    file.add("diagonal", [cube], np.diagonal(cube, k, 1, 2), k=k)
    file.add("trace", [cube], np.trace(cube, k, 1, 2), k=k)
    file.add("diag", [cube[0, :, 0]], np.diag(cube[0, :, 0], k), k=k)
file.add("roll", [cube], np.roll(cube, (1, -2), (0, 2)), shifts=(1, -2), axes=(0, 2))
file.add("flip", [cube], np.flip(cube, (0, 2)), axes=(0, 2))
file.add("tile", [cube[0]], np.tile(cube[0], (2, 1, 3)), counts=(2, 1, 3))
file.add("repeat", [cube], np.repeat(cube, (1, 0, 2), axis=1), counts=(1, 0, 2), axis=1)
file.add("moveaxis", [cube], np.moveaxis(cube, (0, 1), (2, 0)), sources=(0, 1), destinations=(2, 0))
file.add("pad", [cube[0]], np.pad(cube[0], ((1, 0), (2, 1)), constant_values=7), widths=(1, 0, 2, 1))
file.add("meshgrid", [cube[0, 0], cube[0, :, 0]], np.meshgrid(cube[0, 0], cube[0, :, 0]))

# ---- products -----------------------------------------------------------------------------------------------------------------

for a, b in ((( 3, 4), (4, 2)), ((4,), (4, 2)), ((2, 3, 4), (4,)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (4,)), ((3, 0), (0, 2))):
    differentiated("matmul", jnp.matmul, eighths(*a), eighths(*b))
differentiated("tensordot", lambda a, b: jnp.tensordot(a, b, ((0, 2), (1, 0))), eighths(2, 3, 4), eighths(4, 2, 5))
for text, shapes in (("bij,bjk->bik", ((2, 3, 4), (2, 4, 2))), ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 2))), ("ii->i", ((3, 3),)),
                     ("ij->", ((2, 3),)), ("...ij,...kj->...ik", ((2, 2, 3), (4, 3))), ("i,j->ij", ((3,), (2,))), ("iij,j->i", ((3, 3, 2), (2,)))):
    differentiated("einsum", lambda *xs: jnp.einsum(text, *xs), *(eighths(*s) for s in shapes), subscripts=text)
for dtype in (np.int8, np.int32):
    a, b = rng.integers(-90, 90, (3, 5)).astype(dtype), rng.integers(-90, 90, (5, 2)).astype(dtype)
    file.add("matmul", [a, b], a @ b, dtypes=dtype.__name__)
differentiated("outer", jnp.outer, eighths(3), eighths(4))
file.write()
