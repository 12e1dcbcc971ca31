# Writes at_numpy.txt: what NumPy gives for random indices, read and as targets of updates. python3 at_numpy.py > at_numpy.txt
#
# shape | parts of the index | operation | shape of values | values | shape of the result | its elements
# x is 0, 1, 2, ...; a part is i INTEGER, s START STOP STEP, e (ellipsis), n (newaxis), t SHAPE ELEMENTS, m SHAPE ELEMENTS (a mask).
import random
import numpy as np

random.seed(1)
np.random.seed(1)

joined = lambda xs: ",".join(str(int(x)) for x in xs) or "-"


def tensors(rank_left, shape, common):
    """An integer tensor for the next axis, of a shape that broadcasts to `common`."""
    own = [n if random.random() < 0.7 else 1 for n in common[random.randint(0, len(common)):]]
    return np.random.randint(-shape[0], shape[0], own)


def draw(shape):
    parts, texts, axis = [], [], 0
    common = [random.randint(1, 3) for _ in range(random.randint(0, 2))]
    masked = False
    ellipsis = random.random() < 0.3
    while axis < len(shape) and random.random() < 0.85:
        left, kind = shape[axis:], random.choice("istttnme" if ellipsis else "istttnm")
        if kind == "i":
            parts.append(random.randint(-left[0], left[0] - 1))
            texts.append(f"i {parts[-1]}")
        elif kind == "s":
            bounds = [random.choice([None, random.randint(-left[0] - 1, left[0] + 1)]) for _ in range(2)]
            step = random.choice([None, 1, 2, -1, -2])
            parts.append(slice(*bounds, step))
            texts.append("s " + " ".join(str(b) for b in (*bounds, step)))
        elif kind == "t":
            parts.append(tensors(len(left), left, common))
            texts.append(f"t {joined(parts[-1].shape)} {joined(parts[-1].ravel())}")
        elif kind == "m" and not masked:
            rank = random.randint(0, min(2, len(left)))
            mask = np.random.rand(*left[:rank]) < 0.6
            parts.append(mask)
            texts.append(f"m {joined(np.shape(mask))} {joined(np.ravel(mask))}")
            masked = True
            axis += rank
            continue
        elif kind == "n":
            parts.append(None)
            texts.append("n")
            continue
        elif kind == "e":
            rest = random.randint(axis, len(shape))
            parts.append(Ellipsis)
            texts.append("e")
            axis, ellipsis = rest, False
            # what follows stands for the last axes: all of them
            for length in shape[rest:]:
                parts.append(np.random.randint(-length, length, random.choice([(), (2,), common])))
                texts.append(f"t {joined(parts[-1].shape)} {joined(parts[-1].ravel())}")
            return tuple(parts), texts
        else:
            continue
        axis += 1
    return tuple(parts), texts


written = 0
while written < 600:
    shape = [random.randint(1, 4) for _ in range(random.randint(1, 4))]
    x = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    index, texts = draw(shape)
    try:
        read = x[index]
    except IndexError:
        continue
    if not texts or read.size > 200:
        continue
    operation = random.choice(["get", "set", "add", "multiply", "min", "max"])
    values, result = np.zeros(()), read
    if operation != "get":
        own = read.shape[random.randint(0, read.ndim):]
        own = [n if random.random() < 0.8 else 1 for n in own]
        values = np.random.randint(-3, 9, own)
        result = x.copy()
        if operation == "set":
            result[index] = values
        else:
            {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}[operation].at(result, index, values)
    print(" | ".join([joined(shape), "; ".join(texts), operation, joined(np.shape(values)), joined(np.ravel(values)),
                      joined(result.shape), joined(result.ravel())]))
    written += 1
