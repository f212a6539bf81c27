"""CLIP and SigLIP written anew in plain NumPy float64, with loops where loops are the definition."""

import math

import numpy as np
from flax import nnx


def parameters(tower):
    """Every parameter by its path, as float64."""
    state = nnx.to_flat_state(nnx.state(tower))
    return {"/".join(map(str, path)): np.asarray(v[...], np.float64) for path, v in state}


def quick_gelu(x):
    return x / (1 + np.exp(-1.702 * x))


def tanh_gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def exact_gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


ACTIVATIONS = {"quick_gelu": quick_gelu, "gelu_pytorch_tanh": tanh_gelu, "gelu": exact_gelu}


def norm(p, name, x, epsilon):
    centred = x - x.mean(-1, keepdims=True)
    spread = np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    return centred / spread * p[f"{name}/scale"] + p[f"{name}/bias"]


def dense(p, name, x):
    return x @ p[f"{name}/kernel"] + p.get(f"{name}/bias", 0.0)


def attend(queries, keys, values, heads, seen):
    """``seen(i, j)``: whether query i may look at key j; one head and one query at a time."""
    width = queries.shape[-1] // heads
    out = np.zeros_like(queries)
    for head in range(heads):
        part = slice(head * width, (head + 1) * width)
        for i, query in enumerate(queries):
            scores = np.array(
                [
                    query[part] @ key[part] / math.sqrt(width) if seen(i, j) else -np.inf
                    for j, key in enumerate(keys)
                ]
            )
            weights = np.exp(scores - scores.max())
            out[i, part] = (weights / weights.sum()) @ values[:, part]
    return out


def feed_forward(p, name, x, config):
    act = ACTIVATIONS[config.hidden_act]
    return dense(p, f"{name}/down", act(dense(p, f"{name}/up", x)))


def layers(p, x, config, seen):
    """The input and every layer's output, for one row."""
    states = [x]
    for number in range(config.num_hidden_layers):
        name, epsilon = f"layers/{number}", config.layer_norm_eps
        y = norm(p, f"{name}/attention_norm", x, epsilon)
        parts = (dense(p, f"{name}/attention/{part}", y) for part in ("query", "key", "value"))
        mixed = attend(*parts, config.num_attention_heads, seen)
        x = x + dense(p, f"{name}/attention/output", mixed)
        y = norm(p, f"{name}/feed_forward_norm", x, epsilon)
        x = x + feed_forward(p, f"{name}/feed_forward", y, config)
        states.append(x)
    return states


def text_states(p, ids, config, causal):
    table = p["embeddings/word/embedding"]
    x = table[ids] + p["embeddings/position/embedding"][: len(ids)]
    return layers(p, x, config, lambda i, j: j <= i if causal else True)


def text_embedding(p, state, config):
    return dense(p, "projection", norm(p, "final_norm", state, config.layer_norm_eps))


def patches(image, size):
    rows, columns = image.shape[0] // size, image.shape[1] // size
    return np.array(
        [
            image[r * size : (r + 1) * size, c * size : (c + 1) * size].ravel()
            for r in range(rows)
            for c in range(columns)
        ],
        np.float64,
    )


def vision_states(p, image, config, positions=None):
    x = dense(p, "embeddings/patch", patches(image, config.patch_size))
    if "embeddings/class_token" in p:
        x = np.concatenate([p["embeddings/class_token"][None], x])
    x = x + (p["embeddings/position/embedding"] if positions is None else positions)
    if "first_norm/scale" in p:
        x = norm(p, "first_norm", x, config.layer_norm_eps)
    return layers(p, x, config, lambda i, j: True)


def vision_embedding(p, states, config):
    states = norm(p, "final_norm", states, config.layer_norm_eps)
    if "head/probe" in p:
        width = states.shape[-1]
        both = states @ p["head/inputs/kernel"] + p["head/inputs/bias"]
        query = p["head/probe"][0] @ p["head/inputs/kernel"] + p["head/inputs/bias"]
        mixed = attend(
            query[:, :width],
            both[:, width : 2 * width],
            both[:, 2 * width :],
            config.num_attention_heads,
            lambda i, j: True,
        )
        x = dense(p, "head/output", mixed)
        y = norm(p, "head/norm", x, config.layer_norm_eps)
        return (x + feed_forward(p, "head/feed_forward", y, config))[0]
    pooled = states[0]
    return dense(p, "projection", pooled) if "projection/kernel" in p else pooled


def cubic(x, a=-0.75):
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def resize(grid, height, width):
    """Bicubic without antialiasing, corners not aligned, the edge repeated: one pixel at a time."""
    side = grid.shape[0]
    out = np.zeros((height, width, grid.shape[2]))
    for i in range(height):
        for j in range(width):
            y, x = (i + 0.5) * side / height - 0.5, (j + 0.5) * side / width - 0.5
            for row in range(math.floor(y) - 1, math.floor(y) + 3):
                for column in range(math.floor(x) - 1, math.floor(x) + 3):
                    value = grid[min(max(row, 0), side - 1), min(max(column, 0), side - 1)]
                    out[i, j] += cubic(y - row) * cubic(x - column) * value
    return out
