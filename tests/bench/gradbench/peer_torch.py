"""GradBench's problems in PyTorch: each function takes an input and returns a function and its derivative, without arguments."""
import math

import torch
from torch.func import grad, jacfwd, jacrev, jvp, vmap

from minors import levels

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
sigmoid, tensor = torch.sigmoid, torch.tensor


def of_one(f, x):
    return lambda: f(x), lambda: grad(f)(x)


def lse(it):
    return of_one(lambda x: torch.logsumexp(x, 0), tensor(it["x"]))


def llsq(it):
    t = torch.linspace(-1, 1, it["n"])
    return of_one(lambda x: ((torch.sign(t) - torch.vander(t, len(x), increasing=True) @ x) ** 2).sum() / 2, tensor(it["x"]))


def ode(it):
    x, h = tensor(it["x"]), 2 / it["s"]

    def f(x):
        y, one = torch.zeros_like(x), torch.ones(1)
        for _ in range(it["s"]):
            k1 = x * torch.cat([one, y[:-1]])
            k2 = x * torch.cat([one, (y + h / 2 * k1)[:-1]])
            k3 = x * torch.cat([one, (y + h / 2 * k2)[:-1]])
            k4 = x * torch.cat([one, (y + h * k3)[:-1]])
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y
    return lambda: f(x), lambda: grad(lambda x: f(x)[-1])(x)


def det(it):
    size, columns = it["ell"], [torch.from_numpy(level) for level in levels(it["ell"])]

    def f(a):
        matrix, dets = a.reshape(size, size), None
        for row, level in reversed(list(enumerate(columns))):
            entries = matrix[row][level]
            signs = (-1.0) ** torch.arange(len(level))[:, None]
            dets = entries[0] if dets is None else (signs * entries * dets.reshape(level.shape)).sum(0)
        return dets[0]
    return of_one(f, tensor(it["A"]))


def gmm(it):
    d, k, n, gamma, m = (it[name] for name in ["d", "k", "n", "gamma", "m"])
    x, parameters = tensor(it["x"]), {name: tensor(it[name]).reshape(k, -1) for name in ["alpha", "mu", "q", "l"]}
    columns, rows = torch.triu_indices(d, d, 1)

    def f(it):
        alpha, mu, q, low = it["alpha"].reshape(k), it["mu"], it["q"], it["l"]
        diagonals, log_dets = q.exp(), q.sum(1)
        factors = torch.zeros(k, d, d).index_put((torch.arange(k)[:, None], rows, columns), low) + torch.diag_embed(diagonals)
        scaled = (x - mu[:, None]) @ factors.transpose(1, 2)
        terms = (alpha + log_dets)[:, None] - (scaled ** 2).sum(2) / 2
        degrees = d + m + 1
        prior = degrees * d * (math.log(gamma) - math.log(2) / 2) - float(torch.mvlgamma(tensor(degrees / 2), d))
        penalty = gamma ** 2 / 2 * ((diagonals ** 2).sum() + (low ** 2).sum()) - m * log_dets.sum()
        return (torch.logsumexp(terms, 0).sum() - n * torch.logsumexp(alpha, 0) - penalty + k * prior
                - n * d / 2 * math.log(2 * math.pi))
    return of_one(f, parameters)


def kmeans(it):
    c, x = tensor(it["centroids"]), tensor(it["points"])

    def f(c):
        return ((x ** 2).sum(1)[:, None] + (c ** 2).sum(1) - 2 * x @ c.T).min(1).values.sum()

    def direction():
        slope, curvature = jvp(grad(f), (c,), (torch.ones_like(c),))
        return slope / curvature
    return lambda: f(c), direction


def lstm(it):
    weights, scales, start, characters = (tensor(it[name], dtype=torch.float64) for name in
                                          ["main_params", "extra_params", "state", "sequence"])

    def f(weights, scales):
        state, predicted = list(start), []
        for character in characters[:-1]:
            x = character * scales[0]
            for layer in range(len(weights) // 2):
                w, b = weights[2 * layer].reshape(4, -1), weights[2 * layer + 1].reshape(4, -1)
                hidden, cell = state[2 * layer], state[2 * layer + 1]
                forget, insert = sigmoid(x * w[0] + b[0]), sigmoid(hidden * w[1] + b[1])
                out, change = sigmoid(x * w[2] + b[2]), torch.tanh(hidden * w[3] + b[3])
                cell = cell * forget + insert * change
                x = out * torch.tanh(cell)
                state[2 * layer], state[2 * layer + 1] = x, cell
            predicted.append(x * scales[1] + scales[2])
        predicted = torch.stack(predicted)
        return -(characters[1:] * (predicted - torch.log(torch.exp(predicted).sum(1, keepdim=True) + 2))).mean()
    return (lambda: f(weights, scales),
            lambda: torch.cat([it.ravel() for it in grad(f, (0, 1))(weights, scales)]))


def ba(it):
    n, m, p = it["n"], it["m"], it["p"]
    cameras, points = tensor(it["cam"]).repeat(n, 1), tensor(it["x"]).repeat(m, 1)
    weights, seen = torch.full((p,), it["w"]), tensor(it["feat"]).repeat(p, 1)
    order = torch.arange(2 * p + 1, dtype=torch.int32)
    camera_of, point_of = order[:p] % n, order[:p] % m

    def reprojection(camera, point, weight, seen):
        square = (camera[:3] ** 2).sum()
        angle = torch.where(square == 0, 1, square).sqrt()
        axis, x = camera[:3] / angle, point - camera[3:6]
        turned = (x * angle.cos() + torch.linalg.cross(axis, x) * angle.sin() + axis * (axis @ x) * (1 - angle.cos()))
        moved = torch.where(square == 0, x + torch.linalg.cross(camera[:3], x), turned)
        flat = moved[:2] / moved[2]
        r = (flat ** 2).sum()
        return weight * (flat * (1 + camera[9] * r + camera[10] * r ** 2) * camera[6] + camera[7:9] - seen)

    def jacobian():
        by_camera, by_point, by_weight = vmap(jacrev(reprojection, (0, 1, 2)))(cameras[camera_of], points[point_of], weights,
                                                                              seen)
        columns = torch.cat([11 * camera_of[:, None] + order[:11], 11 * n + 3 * point_of[:, None] + order[:3],
                             11 * n + 3 * m + order[:p, None]], 1)
        blocks = torch.cat([by_camera, by_point, by_weight[:, :, None]], 2)
        return (torch.cat([15 * order, 30 * p + 1 + order[:p]]),
                torch.cat([torch.stack([columns, columns], 1).ravel(), 11 * n + 3 * m + order[:p]]),
                torch.cat([blocks.ravel(), -2 * weights]))
    return lambda: (vmap(reprojection)(cameras[camera_of], points[point_of], weights, seen), 1 - weights ** 2), jacobian


def ht(it):
    model, numbers = it["data"]["model"], torch.tensor(it["data"]["correspondences"])
    relatives, inverses, corners, shares = (tensor(model[name]) for name in
                                            ["base_relatives", "inverse_base_absolutes", "base_positions", "weights"])
    points, theta = tensor(it["data"]["points"]), tensor(it["theta"])
    weighted = (corners[numbers].T * shares[numbers].T[:, None]).reshape(-1, len(numbers))

    def rotations(angles):
        (cx, cy, cz), (sx, sy, sz) = angles.cos().T, angles.sin().T
        rows = [cy * cz, -cx * sz + sx * sy * cz, sx * sz + cx * sy * cz, cy * sz, cx * cz + sx * sy * sz,
                -sx * cz + cx * sy * sz, -sy, sx * cy, cx * cy]
        return torch.stack(rows, 1).reshape(-1, 3, 3)

    def rotation_about(turn):
        angle = (turn ** 2).sum().sqrt()
        x, y, z = turn / angle
        zero, c, s = torch.zeros(()), angle.cos(), angle.sin()
        cross = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero]).reshape(3, 3)
        return c * torch.eye(3) + s * cross + (1 - c) * torch.outer(turn, turn) / angle ** 2

    def f(theta):
        fingers, zero, still = theta[6:].reshape(5, 4), torch.zeros(5, 1), torch.zeros(1, 3)
        joints = [torch.zeros(5, 3), torch.cat([fingers[:, :1], zero, fingers[:, 1:2]], 1),
                  torch.cat([fingers[:, 2:3], zero, zero], 1), torch.cat([fingers[:, 3:4], zero, zero], 1)]
        angles = torch.cat([still, torch.stack(joints, 1).reshape(20, 3), still])
        moved = torch.cat([relatives[:, :, :3] @ rotations(angles), relatives[:, :, 3:]], 2)
        absolutes = []
        for parent, relative in zip(model["parents"], moved):
            absolutes.append(relative if parent < 0 else absolutes[parent] @ relative)
        transforms = (torch.stack(absolutes) @ inverses)[:, :3]
        skin = rotation_about(theta[:3]) @ (transforms.transpose(0, 1).reshape(3, -1) @ weighted) + theta[3:6, None]
        return (points - skin.T).ravel()
    return lambda: f(theta), lambda: jacfwd(f)(theta)
