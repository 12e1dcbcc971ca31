"""Writes oracle_network.txt: convolution, pooling, normalisation, losses and attention, values and gradients.

    python3 tests/data/oracle_network.py
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from torch.nn import functional as F

from oracle import File

file = File(__file__, "oracle_network.txt", f"PyTorch {torch.__version__.split('+')[0]}, JAX {jax.__version__}, Optax {optax.__version__}")
check = file.by_torch
rng = np.random.default_rng(5)
halves = lambda *shape: rng.integers(-6, 7, shape) / 2.0

# ---- convolution and pooling --------------------------------------------------------------------------------------------------

convolutions = [((1, 2, 7), (3, 2, 3), {}), ((2, 2, 5), (2, 1, 2), dict(stride=2, padding=1, groups=2)), ((1, 1, 9), (2, 1, 3), dict(dilation=3)),
                ((1, 2, 4, 4), (2, 2, 3, 2), dict(stride=(2, 1), padding=(1, 0))), ((1, 4, 4, 3), (4, 1, 2, 2), dict(groups=4)),
                ((1, 2, 3, 4), (1, 2, 2, 2), dict(padding=(2, 1), dilation=(1, 2))), ((1, 1, 3, 3, 3), (2, 1, 2, 2, 2), dict(stride=(1, 2, 1), padding=1))]
for x, w, options in convolutions:
    f = (F.conv1d, F.conv2d, F.conv3d)[len(x) - 3]
    check("conv", lambda x, w: f(x, w, **options), halves(*x), halves(*w), **options)
transposes = [((1, 2, 4), (2, 3, 3), dict(stride=2, padding=1, output_padding=1)), ((1, 4, 3), (4, 1, 2), dict(groups=2, dilation=2)),
              ((1, 2, 2, 3), (2, 2, 3, 2), dict(stride=(2, 3), padding=(1, 0), output_padding=(1, 2)))]
for x, w, options in transposes:
    f = (F.conv_transpose1d, F.conv_transpose2d)[len(x) - 3]
    check("conv_transpose", lambda x, w: f(x, w, **options), halves(*x), halves(*w), **options)
for dilation in ((1, 1), (2, 3)):  # of x, and uneven zeros: JAX's
    f = lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 2), ((1, 2), (0, 1)), lhs_dilation=dilation)
    file.differentiated("conv", f, halves(1, 2, 3, 3), halves(2, 2, 2, 2), stride=(1, 2), low=(1, 0), high=(2, 1), input_dilation=dilation)
for x, options in (((1, 2, 7), dict(window=3)), ((1, 1, 5, 6), dict(window=(2, 3), stride=(1, 2))), ((2, 1, 4, 4), dict(window=3, stride=2, padding=1)),
                   ((1, 1, 3, 4, 3), dict(window=(2, 2, 2), stride=1))):
    window, others = options["window"], {k: v for k, v in options.items() if k != "window"}
    rank = len(x) - 3
    distinct = rng.permutation(int(np.prod(x))).reshape(x) / 4.0
    check("max_pool", lambda x: (F.max_pool1d, F.max_pool2d, F.max_pool3d)[rank](x, window, **others), distinct, **options)
    check("avg_pool", lambda x: (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[rank](x, window, **others), halves(*x), **options)
check("avg_pool", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), halves(1, 1, 4, 5), window=3, stride=2, padding=1, own=True)
check("max_pool", lambda x: F.max_pool1d(x, 2, 1, 0, 3), rng.permutation(9).reshape(1, 1, 9) / 2.0, window=2, stride=1, dilation=3)

# ---- normalisation ------------------------------------------------------------------------------------------------------------

x, weight, bias = halves(3, 4), halves(4), halves(4)
check("layer_norm", lambda x, w, b: F.layer_norm(x, (4,), w, b), x, weight, bias, units=32)
check("layer_norm", lambda x: F.layer_norm(x, (3, 4), eps=0.5), halves(2, 3, 4), axes=(1, 2), epsilon=0.5, units=32)
check("rms_norm", lambda x, w: F.rms_norm(x, (4,), w, eps=1e-6), x, weight, units=32)
for groups in (1, 2, 4):
    check("group_norm", lambda x, w, b: F.group_norm(x, groups, w, b), halves(2, 4, 3), weight, bias, groups=groups, units=32)
mean, variance = halves(4), np.abs(halves(4)) + 0.5
for shape in ((5, 4), (2, 4, 3)):
    x = halves(*shape)
    trained = [torch.tensor(mean), torch.tensor(variance)]
    F.batch_norm(torch.tensor(x), *trained, training=True, momentum=0.25)
    file.add("batch_statistics", [x, mean, variance], [t.numpy() for t in trained], dtypes="float32 float64", scaled=True, momentum=0.25, units=32)
    check("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), x, weight, bias, units=64)
    y = F.batch_norm(torch.tensor(x), torch.tensor(mean), torch.tensor(variance), torch.tensor(weight), torch.tensor(bias))
    file.add("batch_norm_inference", [x, mean, variance, weight, bias], y.numpy(), dtypes="float32 float64", scaled=True, units=16)
check("normalize", lambda x: F.normalize(x, dim=1), halves(3, 4), units=16)
check("normalize", lambda x: F.normalize(x, dim=0), halves(3, 4), axes=(0,), units=16)
ids = np.array([[1, 0], [3, 1]], np.int64)
check("embedding", lambda t, i: F.embedding(i, t), halves(4, 3), ids)
check("embedding", lambda t, i: F.embedding(i, t, padding_idx=1), halves(4, 3), ids, padding=1)

# ---- losses -------------------------------------------------------------------------------------------------------------------

logits, labels = halves(4, 3), np.array([2, 0, 1, 0], np.int64)
classes = torch.tensor([0.5, 2, 1.5], dtype=torch.float64)
for reduction in ("none", "mean", "sum"):
    check("cross_entropy", lambda x, i: F.cross_entropy(x, i, reduction=reduction), logits, labels, reduction=reduction, units=32)
    check("huber_loss", lambda x, y: F.huber_loss(x, y, delta=1.5, reduction=reduction), halves(6), halves(6), reduction=reduction, delta=1.5)
check("cross_entropy", lambda x, i: F.cross_entropy(x, i, classes, label_smoothing=0.25, ignore_index=0), logits, labels, smoothing=0.25, ignored=0, weighted=True, units=64)
check("nll_loss", lambda x, i: F.nll_loss(x, i, classes), logits, labels, weighted=True, units=32)
check("cross_entropy", lambda x, i: F.cross_entropy(x, i), halves(2, 3, 2), np.array([[0, 2], [1, 1]]), axis=1, units=32)
check("cross_entropy", lambda x, p: F.cross_entropy(x, p), logits, np.array([[0.5, 0.25, 0.25], [1, 0, 0], [0, 0.5, 0.5], [0.25, 0.75, 0]]), units=32)
check("nll_loss", lambda x, i: F.nll_loss(x, i), logits, labels)
for name, f in {"mse_loss": F.mse_loss, "mae_loss": F.l1_loss, "smooth_l1_loss": lambda x, y: F.smooth_l1_loss(x, y, beta=2)}.items():
    check(name, f, halves(2, 5), halves(2, 5) + 0.25, **({"beta": 2} if name == "smooth_l1_loss" else {}))
probabilities, targets = rng.integers(1, 16, (2, 3)) / 16.0, rng.integers(0, 5, (2, 3)) / 4.0
check("binary_cross_entropy", F.binary_cross_entropy, probabilities, targets, units=16)
file.add("binary_cross_entropy", [np.array([0, 1, 0, 1.0]), np.array([0, 1, 1, 0.0])],
         F.binary_cross_entropy(torch.tensor([0, 1, 0, 1.0]), torch.tensor([0, 1, 1, 0.0])).double().numpy(), dtypes="float32 float64")
check("binary_cross_entropy_with_logits", F.binary_cross_entropy_with_logits, 8 * halves(2, 3), targets, units=16)
y = F.binary_cross_entropy_with_logits
check("binary_cross_entropy_with_logits", lambda x, t: y(x, t, weight=torch.tensor([0.5, 2, 1]), pos_weight=torch.tensor([3, 0.25, 1])), halves(2, 3), targets, weighted=True, units=16)
distribution = np.array([[0.5, 0.25, 0.25], [1, 0, 0], [0, 0.5, 0.5], [0.25, 0.75, 0]])
file.add("kl_divergence", [logits, distribution], F.kl_div(torch.tensor(logits), torch.tensor(distribution), reduction="batchmean").numpy(), dtypes="float32 float64", scaled=True, units=16)
check("cosine_similarity", lambda a, b: F.cosine_similarity(a, b), halves(3, 4) + 0.25, halves(3, 4) + 0.25, units=32)
file.differentiated("hinge_loss", lambda x, y: jnp.mean(optax.losses.hinge_loss(x, y)), halves(6) + 0.25, np.array([1, -1, 1, 1, -1, -1.0]))
check("softmax", lambda x: F.softmax(x, -1), halves(2, 4), units=16)
check("log_softmax", lambda x: F.log_softmax(x, 0), halves(2, 4), axis=0, units=16)
masked = np.array([[0, -np.inf, 1, -np.inf], [88, 0, -88, 88]])
file.add("softmax", [masked], F.softmax(torch.tensor(masked), -1).numpy())

# ---- attention ----------------------------------------------------------------------------------------------------------------

attend = F.scaled_dot_product_attention
q, k, v = halves(2, 3, 4), halves(2, 5, 4), halves(2, 5, 2)
check("attention", attend, q, k, v, units=64)
check("attention", lambda q, k, v: attend(q, k, v, is_causal=True, scale=0.25), halves(1, 4, 2), halves(1, 4, 2), halves(1, 4, 3), causal=True, scale=0.25, units=64)
check("attention", lambda q, k, v, m: attend(q, k, v, attn_mask=m), q, k, v, rng.random((2, 3, 5)) < 0.6, units=64, mask=True)
check("attention", lambda q, k, v, m: attend(q, k, v, attn_mask=m), q, k, v, halves(3, 5), units=64, mask=True)
file.write()
