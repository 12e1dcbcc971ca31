"""Loads functions that Stave wrote as C into CasADi, evaluates and differentiates them, and solves
an optimal control problem with them. check.py FOLDER: the folder of the generated .c files."""
import pathlib
import subprocess
import sys
import tempfile

try:
    import casadi as ca
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}; pip install casadi")
    sys.exit(77)

folder = pathlib.Path(sys.argv[1])
compiler = sys.argv[2]
libraries = tempfile.TemporaryDirectory()


def external(name):
    """The function of NAME.c, compiled."""
    library = f"{libraries.name}/{name}.so"
    subprocess.run(
        [compiler, "-O2", "-ffp-contract=off", "-shared", "-fPIC", folder / f"{name}.c", "-o", library, "-lm"],
        check=True,
    )
    return ca.external(name, library)


def difference(found, wanted):
    found, wanted = np.array(ca.DM(found).full()), np.array(ca.DM(wanted).full())
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    return float(np.max(np.abs(found - wanted) / (1 + np.abs(wanted)), initial=0))


def check(what, found, wanted, tolerance):
    found = [found] if isinstance(found, (ca.DM, float)) else found
    wanted = [wanted] if isinstance(wanted, (ca.DM, float)) else wanted
    assert len(found) == len(wanted), what
    worst = max(difference(a, b) for a, b in zip(found, wanted))
    print(f"{what}: differs by {worst:.1e}")
    assert worst <= tolerance, what


rng = np.random.default_rng(1)

# ---- values and derivatives ------------------------------------------------------------------------

f = external("mixed")
a, x, s = ca.SX.sym("a", 2, 3), ca.SX.sym("x", 3), ca.SX.sym("s")
y = s * ca.sin(a @ x)
g = ca.Function(
    "g", [a, x, s], [y, ca.exp(s) * a + y @ x.T, ca.sumsqr(y)], ["a", "x", "s"], ["y", "b", "q"]
)
assert f.name_in() == g.name_in() and f.name_out() == g.name_out()
for i in range(3):
    assert f.size_in(i) == g.size_in(i) and f.size_out(i) == g.size_out(i)
at = [rng.normal(size=(2, 3)), rng.normal(size=3), 0.3]
check("values", f(*at), g(*at), 1e-15)
check("null arguments are zeros", f(a=at[0], s=0.4)["b"], g(a=at[0], s=0.4)["b"], 1e-15)
assert f.jacobian().class_name() == "External"  # the function that Stave wrote
check("Jacobian", f.jacobian()(*at, *f(*at)), g.jacobian()(*at, *g(*at)), 1e-14)
for mode in ("forward", "reverse"):
    for directions in (1, 3):
        df, dg = getattr(f, mode)(directions), getattr(g, mode)(directions)
        seeds = [rng.normal(size=df.size_in(i)) for i in range(6, df.n_in())]
        check(f"{mode} mode", df(*at, *f(*at), *seeds), dg(*at, *g(*at), *seeds), 1e-14)


def hessian(function):
    z = ca.MX.sym("z", 3)
    value = function(at[0], z, at[2])
    total = 2 * ca.sum1(value[0]) + ca.sum1(ca.sum2(value[1] ** 2)) + value[2]
    return ca.Function("h", [z], ca.hessian(total, z))(at[1])


check("Hessian", hessian(f), hessian(g), 1e-13)

# ---- errors ----------------------------------------------------------------------------------------

factor = external("factor")
check("a factor", factor(ca.DM([[4, 2], [2, 5]])), ca.DM([[2, 0], [1, 2]]), 1e-15)
try:
    factor(ca.DM([[1, 2], [2, 1]]))
    raise AssertionError("a matrix that is not positive definite has no factor")
except RuntimeError:
    print("an error of Stave is an error of CasADi")

# ---- minima ----------------------------------------------------------------------------------------

quiet = {"ipopt.print_level": 0, "print_time": False}
z = ca.MX.sym("z", 4)
solver = ca.nlpsol("solver", "ipopt", {"x": z, "f": external("rosenbrock")(z)}, quiet)
check("Rosenbrock's minimum", solver(x0=[0, 0, 0, 0])["x"], ca.DM.ones(4), 1e-6)

# A linear system with a quadratic cost: the best force is -K x, with K from Riccati's equation.
step, cost, n = external("integrator"), external("cost"), 20
A, B = np.array([[1, 0.1], [0, 1]]), np.array([[0], [0.1]])
P = np.zeros((2, 2))
for _ in range(n):
    K = np.linalg.solve(0.1 + B.T @ P @ B, B.T @ P @ A)
    P = np.eye(2) + A.T @ P @ (A - B @ K)
opti = ca.Opti()
states, forces = opti.variable(2, n + 1), opti.variable(1, n)
start = np.array([1.0, -0.5])
opti.subject_to(states[:, 0] == start)
total = 0
for k in range(n):
    opti.subject_to(states[:, k + 1] == step(states[:, k], forces[k]))
    total += cost(states[:, k], forces[k])
opti.minimize(total)
opti.solver("ipopt", quiet)
found = opti.solve()
check("the first force of a controller", float(found.value(forces)[0]), float((-K @ start)[0]), 1e-7)
check("its cost", float(found.value(total)), float(start @ P @ start), 1e-7)
iterations = found.stats()["iter_count"]
assert iterations <= 2, iterations  # Newton's method with exact Hessians needs one step
print("everything agrees")
