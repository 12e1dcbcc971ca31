"""A model-predictive controller for a cart with a pole: at each step Ipopt finds the best forces for
the next second. The motion and the cost are C functions that Stave wrote (cart_pole.cpp), with exact
first and second derivatives.

python mpc.py LIBRARY: the library of the functions, libcart_pole.so
"""
import sys

try:
    import casadi as ca
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}; pip install casadi")
    sys.exit(77)

step = ca.external("cart_pole_step", sys.argv[1])
cost = ca.external("cart_pole_cost", sys.argv[1])
print(step)

# The same motion in CasADi's own expressions, to compare.
x, u = ca.SX.sym("x", 4), ca.SX.sym("u")
m, pole, length, gravity, dt = 1, 0.1, 0.5, 9.81, 0.05


def derivative(x, u):
    s, c, rate = ca.sin(x[2]), ca.cos(x[2]), x[3]
    pushed = (u + pole * length * rate**2 * s) / (m + pole)
    turning = (gravity * s - c * pushed) / (length * (4 / 3 - pole * c**2 / (m + pole)))
    return ca.vertcat(x[1], pushed - pole * length * turning * c / (m + pole), rate, turning)


k1 = derivative(x, u)
k2 = derivative(x + dt / 2 * k1, u)
k3 = derivative(x + dt / 2 * k2, u)
k4 = derivative(x + dt * k3, u)
own = ca.Function("own", [x, u], [x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)])
at = [np.array([0.1, -0.2, 0.3, 0.4]), 1.5]
assert np.allclose(step(*at).full(), own(*at).full(), rtol=1e-14, atol=1e-14)
for found, wanted in zip(step.jacobian()(*at, step(*at)), own.jacobian()(*at, own(*at))):
    assert np.allclose(found.full(), wanted.full(), rtol=1e-13, atol=1e-13)

# The optimal control problem: multiple shooting over `n` steps.
n = 20
problem = ca.Opti()
states, forces, start = problem.variable(4, n + 1), problem.variable(1, n), problem.parameter(4)
problem.subject_to(states[:, 0] == start)
total = 0
for k in range(n):
    problem.subject_to(states[:, k + 1] == step(states[:, k], forces[k]))
    problem.subject_to(problem.bounded(-20, forces[k], 20))
    total += cost(states[:, k], forces[k])
problem.minimize(total + 10 * cost(states[:, n], 0))
problem.solver("ipopt", {"ipopt.print_level": 0, "ipopt.sb": "yes", "print_time": False})

state = np.array([0.5, 0, 0.4, 0])
print(f"   0.0 s: position {state[0]:+.3f}, angle {state[2]:+.3f}")
for i in range(80):
    problem.set_value(start, state)
    solution = problem.solve()
    state = step(state, solution.value(forces)[0]).full().ravel()
    problem.set_initial(solution.value_variables())
    if i % 20 == 19:
        print(f"   {dt * (i + 1):.1f} s: position {state[0]:+.3f}, angle {state[2]:+.3f}")
assert np.abs(state).max() < 0.05, state
print("the pole is upright, and the cart in the middle")
