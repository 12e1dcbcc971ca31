"""Writes oracle_elementwise.txt: elementwise functions at ordinary numbers and where they have cases; gradients by JAX and PyTorch.

    python3 tests/data/oracle_elementwise.py
"""

import warnings

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import scipy
import scipy.special as sp
import torch
from torch.nn import functional as F

from oracle import WIDE, File, weight

warnings.simplefilter("ignore")
np.seterr(all="ignore")
file = File(__file__, "oracle_elementwise.txt", f"NumPy {np.__version__}, SciPy {scipy.__version__}, JAX {jax.__version__}, PyTorch {torch.__version__.split('+')[0]}")
inf, nan = np.inf, np.nan

# bfloat16 and float16 hold these.
special = np.array([0.0, -0.0, inf, -inf, nan, 0.5, -0.5, 1, -1, 1.5, -1.5, 2.5, -2.5, 3, -3, 0.0078125, -0.0078125, 10, -10, 88, -88, 7936, -7936])
of_torch = lambda f: lambda x: f(torch.tensor(x)).numpy()


def exactly(f):
    """By mpmath, where theirs lose digits."""
    mpmath.mp.dps = 40
    return np.vectorize(lambda x: float(f(mpmath.mpf(float(x)))) if np.isfinite(x) and x != 0 else x, otypes=[float])


unary = {
    "abs": np.abs, "negative": np.negative, "sign": np.sign, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "square": np.square,
    "reciprocal": np.reciprocal, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "sigmoid": sp.expit, "logit": sp.logit, "erf": sp.erf, "erfc": sp.erfc, "erfinv": sp.erfinv, "lgamma": sp.gammaln,
    "digamma": sp.digamma, "relu": of_torch(F.relu), "softplus": lambda x: np.logaddexp(x, 0), "silu": of_torch(F.silu),
    "gelu": exactly(lambda x: x * mpmath.ncdf(x)),
    "gelu_tanh": exactly(lambda x: x / (1 + mpmath.exp(-2 * mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)))), "floor": np.floor, "ceil": np.ceil,
    "round": np.rint, "trunc": np.trunc, "leaky_relu": of_torch(F.leaky_relu), "elu": of_torch(F.elu), "selu": of_torch(F.selu),
    "celu": of_torch(lambda x: F.celu(x, 2.0)), "hardtanh": of_torch(F.hardtanh), "hardsigmoid": of_torch(F.hardsigmoid),
    "hardswish": of_torch(F.hardswish), "mish": of_torch(F.mish), "log_sigmoid": sp.log_expit, "entr": sp.entr,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "signbit": np.signbit, "logical_not": np.logical_not,
}
# What theirs do not give: the limit at -inf, where it is inf * 0; and lgamma at poles, which differ by convention.
left_out = {"silu": [-inf], "gelu": [-inf], "gelu_tanh": [-inf], "mish": [-inf], "hardswish": [-inf], "lgamma": [-inf],
            "digamma": [-inf], "entr": [-inf]}
either_zero = ("erfinv", "hardswish", "mish", "entr", "log_sigmoid", "selu", "elu", "celu", "leaky_relu", "relu")
for name, f in unary.items():
    x = special
    for value in left_out.get(name, []):
        x = x[~(x == value)]
    options = {"scaled": True} if name in ("lgamma", "digamma") else {"either_zero": True} if name in either_zero else {"units": 64} if name == "gelu_tanh" else {}
    file.add(name, [x], f(x), **options)

of_jax = {
    "sqrt": jnp.sqrt, "rsqrt": jax.lax.rsqrt, "square": jnp.square, "exp": jnp.exp, "exp2": jnp.exp2, "expm1": jnp.expm1, "log": jnp.log,
    "log2": jnp.log2, "log10": jnp.log10, "log1p": jnp.log1p, "sin": jnp.sin, "cos": jnp.cos, "tan": jnp.tan, "asin": jnp.arcsin,
    "acos": jnp.arccos, "atan": jnp.arctan, "sinh": jnp.sinh, "cosh": jnp.cosh, "tanh": jnp.tanh, "asinh": jnp.arcsinh,
    "acosh": jnp.arccosh, "atanh": jnp.arctanh, "sigmoid": jax.nn.sigmoid, "logit": jax.scipy.special.logit, "erf": jax.scipy.special.erf,
    "erfc": jax.scipy.special.erfc, "erfinv": jax.scipy.special.erfinv, "lgamma": jax.scipy.special.gammaln,
    "digamma": jax.scipy.special.digamma, "softplus": jax.nn.softplus, "silu": jax.nn.silu, "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "gelu_tanh": jax.nn.gelu, "mish": jax.nn.mish, "log_sigmoid": jax.nn.log_sigmoid, "elu": jax.nn.elu, "selu": jax.nn.selu,
    "leaky_relu": jax.nn.leaky_relu, "hardswish": jax.nn.hard_swish, "relu": jax.nn.relu, "abs": jnp.abs, "reciprocal": jnp.reciprocal,
    "entr": jax.scipy.special.entr,
}
everywhere = np.array([-40, -10, -3.5, -1.25, -0.75, -0.25, 0.25, 0.75, 1.25, 3.5, 10, 40])
domains = {"sqrt": (0.1, inf), "rsqrt": (0.1, inf), "log": (0.1, inf), "log2": (0.1, inf), "log10": (0.1, inf), "log1p": (-0.9, inf),
           "asin": (-1, 1), "acos": (-1, 1), "acosh": (1, inf), "atanh": (-1, 1), "logit": (0, 1), "erfinv": (-1, 1), "lgamma": (0, inf),
           "digamma": (0, inf), "entr": (0, inf)}
by_value = ("expm1", "tanh", "sigmoid", "gelu", "gelu_tanh", "elu", "selu")  # their derivatives come of values that saturate, as JAX's do
for name, f in of_jax.items():
    low, high = domains.get(name, (-inf, inf))
    x = everywhere[(everywhere > low) & (everywhere < high)]
    y, pullback = jax.vjp(f, jnp.array(x))
    file.add(name, [x], unary[name](x), [np.array(pullback(jnp.array(weight(y.shape)))[0])], dtypes=WIDE, either_zero=True, **({"units": 64} if name == "gelu_tanh" else {} if name in by_value else {"each": True}))
for n in (1, 2, 3):
    x = np.array([0.25, 0.75, 1.5, 3.5, 12])
    file.add("polygamma", [x], sp.polygamma(n, x), [sp.polygamma(n + 1, x) * weight(x.shape)], dtypes=WIDE, n=n)

# ---- of two operands: all pairs -----------------------------------------------------------------------------------------------

pairs = np.array([0.0, -0.0, 1, -1, 2.5, -2.5, 3, inf, -inf, nan])
column = pairs[:, None]

binary = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "remainder": np.remainder, "pow": np.power,
    "atan2": np.arctan2, "hypot": np.hypot, "logaddexp": np.logaddexp, "copysign": np.copysign, "maximum": np.maximum,
    "minimum": np.minimum, "xlogy": sp.xlogy, "xlog1py": sp.xlog1py, "equal": np.equal, "not_equal": np.not_equal, "less": np.less,
    "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor, "floor_divide": np.floor_divide,
}
for name, f in binary.items():
    either = name in ("maximum", "minimum")  # of zeros of both signs
    file.add(name, [column, pairs], f(column, pairs), **({"either_zero": True} if either else {}))
# Of digits behind the point, and far apart in size.
a, b = np.array([[7936.0], [0.75], [-0.3125], [5.5]]), np.array([0.375, -2.25, 17, 3.5])
for name in ("remainder", "pow", "atan2", "hypot", "logaddexp", "floor_divide"):
    if name == "pow":
        a = np.abs(a)
    file.add(name, [a, b], binary[name](a, b))
for dtype in (np.float32, np.float64):
    x = pairs.astype(dtype)
    file.add("nextafter", [x[:, None].astype(np.float64), x.astype(np.float64)], np.nextafter(x[:, None], x).astype(np.float64), dtypes=dtype.__name__)
s, q = np.array([[1.5], [2], [3], [7]]), np.array([0.25, 1, 2.5, 40])
file.add("zeta", [s, q], sp.zeta(s, q), dtypes=WIDE)

gradients = {"remainder": jnp.remainder, "pow": jnp.power, "atan2": jnp.arctan2, "hypot": jnp.hypot, "logaddexp": jnp.logaddexp,
             "xlogy": jax.scipy.special.xlogy, "xlog1py": jax.scipy.special.xlog1py, "maximum": jnp.maximum, "minimum": jnp.minimum,
             "divide": jnp.divide, "multiply": jnp.multiply}
a, b = np.array([[0.5], [2.5], [12]]), np.array([0.5, 1.75, 3, 9])  # 0.5 ties with 0.5
for name, f in gradients.items():
    y, pullback = jax.vjp(f, jnp.array(a), jnp.array(b))
    file.add(name, [a, b], np.array(y), [np.array(g) for g in pullback(jnp.array(weight(y.shape)))], dtypes=WIDE, scaled=True)

# ---- integers: what wraps, what is divided by zero ----------------------------------------------------------------------------

for dtype in (np.int8, np.int32, np.uint8, np.uint64):
    limits = np.iinfo(dtype)
    x = np.array([limits.min, 0, 1, 7, limits.max] + ([-1, -3] if limits.min < 0 else [100]), dtype)
    for name, f in {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "floor_divide": np.floor_divide,
                    "remainder": np.remainder, "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
                    "maximum": np.maximum, "minimum": np.minimum, "less": np.less, "equal": np.equal}.items():
        file.add(name, [x[:, None], x], f(x[:, None], x), dtypes=dtype.__name__)
    places = np.arange(limits.bits, dtype=dtype)[[0, 1, 3, limits.bits - 1]]
    file.add("bitwise_left_shift", [x[:, None], places], np.left_shift(x[:, None], places), dtypes=dtype.__name__)
    file.add("bitwise_right_shift", [x[:, None], places], np.right_shift(x[:, None], places), dtypes=dtype.__name__)
    powers = np.array([0, 1, 2, 3, 5], dtype)
    file.add("pow", [x[:, None], powers], np.power(x[:, None], powers), dtypes=dtype.__name__)
    for name, f in {"abs": np.abs, "negative": np.negative, "sign": np.sign, "square": np.square, "bitwise_invert": np.invert,
                    "logical_not": np.logical_not}.items():
        file.add(name, [x], f(x), dtypes=dtype.__name__)

condition = np.array([[True], [False]])
x = np.array([nan, inf, -0.0, 1.5])
file.add("where", [condition, x, -x], np.where(condition, x, -x))
file.add("clip", [special, np.array(-1.5), np.array(2.5)], np.clip(special, -1.5, 2.5))
file.write()
