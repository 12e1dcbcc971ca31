"""Problems of GradBench in JAX that several tables measure: the LSTM of lstm.h and the skin of hand.h."""
import jax
import jax.numpy as jnp
from jax import lax


def lstm_loss(weights, scales, start, characters):
    """weights [2 layers, 4 bits], scales [3, bits], start [2 layers, bits], characters [length, bits]"""
    bits, sigmoid = characters.shape[1], jax.nn.sigmoid

    def step(state, character):
        x, following = character * scales[0], []
        for layer in range(len(weights) // 2):
            w, b = weights[2 * layer].reshape(4, bits), weights[2 * layer + 1].reshape(4, bits)
            hidden, cell = state[2 * layer], state[2 * layer + 1]
            forget, insert = sigmoid(x * w[0] + b[0]), sigmoid(hidden * w[1] + b[1])
            out, change = sigmoid(x * w[2] + b[2]), jnp.tanh(hidden * w[3] + b[3])
            cell = cell * forget + insert * change
            x = out * jnp.tanh(cell)
            following += [x, cell]
        return jnp.stack(following), x * scales[1] + scales[2]
    predicted = lax.scan(step, start, characters[:-1])[1]
    normalizer = jnp.log(jnp.exp(predicted).sum(1, keepdims=True) + 2)
    return -(characters[1:] * (predicted - normalizer)).mean()


def rotations(angles):
    (cx, cy, cz), (sx, sy, sz) = jnp.cos(angles).T, jnp.sin(angles).T
    rows = [cy * cz, -cx * sz + sx * sy * cz, sx * sz + cx * sy * cz, cy * sz, cx * cz + sx * sy * sz,
            -sx * cz + cx * sy * sz, -sy, sx * cy, cx * cy]
    return jnp.stack(rows, 1).reshape(-1, 3, 3)


def rotation_about(turn):
    angle = jnp.linalg.norm(turn)
    x, y, z = turn / angle
    c, s = jnp.cos(angle), jnp.sin(angle)
    cross = jnp.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return c * jnp.eye(3) + s * cross + (1 - c) * jnp.outer(turn, turn) / angle ** 2


def angles_of(theta):
    fingers, zero, still = theta[6:].reshape(5, 4), jnp.zeros((5, 1)), jnp.zeros((1, 3))
    joints = [jnp.zeros((5, 3)), jnp.concatenate([fingers[:, :1], zero, fingers[:, 1:2]], 1),
              jnp.concatenate([fingers[:, 2:3], zero, zero], 1), jnp.concatenate([fingers[:, 3:4], zero, zero], 1)]
    return jnp.concatenate([still, jnp.stack(joints, 1).reshape(20, 3), still])


def hand_skin(theta, relatives, parents, inverses, corners, shares):
    """Vertices, [3, n], for theta [26]: relatives, inverses [bones, ., 4], corners [4, n], shares [bones, n]"""
    moved = jnp.concatenate([relatives[:, :, :3] @ rotations(angles_of(theta)), relatives[:, :, 3:]], 2)
    absolutes = []
    for parent, relative in zip(parents, moved):
        absolutes.append(relative if parent < 0 else absolutes[parent] @ relative)
    transforms = (jnp.stack(absolutes) @ inverses)[:, :3]
    weighted = (corners * shares[:, None]).reshape(-1, corners.shape[1])
    return rotation_about(theta[:3]) @ (transforms.transpose(1, 0, 2).reshape(3, -1) @ weighted) + theta[3:6, None]
