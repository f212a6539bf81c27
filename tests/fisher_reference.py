"""Explicit Fisher matrices in NumPy float64 loops; derivatives by complex steps, exact to roundoff."""

import jax.numpy as jnp
import numpy as np

from magjax.fisher import Embedded

STEP = 1e-30
INPUTS, HIDDEN, DIM = 3, 4, 3
SHAPES = {"down": (HIDDEN, DIM), "up": (INPUTS, HIDDEN)}


class Tiny:
    """``tanh(x up) down`` on both sides: 24 parameters that queries and documents share."""

    def __call__(self, parameters, rows):
        def embed(x):
            # Broadcasting over rows written out: tests raise on rank promotion.
            return jnp.tanh(jnp.asarray(x) @ parameters["up"]) @ parameters["down"]

        return Embedded(
            embed(rows["query"]),
            embed(rows["document"]),
            embed(rows["negatives"]) if "negatives" in rows else None,
        )


def tiny_parameters(rng, dtype=np.float64):
    return {name: rng.normal(size=shape).astype(dtype) for name, shape in SHAPES.items()}


def flat(parameters):
    return np.concatenate([parameters[name].ravel() for name in sorted(parameters)])


def _unflatten(vector):
    sizes = [int(np.prod(SHAPES[name])) for name in sorted(SHAPES)]
    parts = np.split(vector, np.cumsum(sizes)[:-1])
    return {
        name: part.reshape(SHAPES[name]) for name, part in zip(sorted(SHAPES), parts, strict=True)
    }


def embed(vector, x):
    parts = _unflatten(vector)
    return np.tanh(x @ parts["up"]) @ parts["down"]


def normalized(x, gamma):
    length = np.sqrt(np.sum(x * x, axis=-1, keepdims=True))  # analytic: no absolute value
    return x / length**gamma


def set_logits(queries, documents, negatives, gammas, temperature, way, share):
    """Logits of one set: [size, candidates]."""
    q, d = normalized(queries, gammas[0]), normalized(documents, gammas[1])
    if way == "document_to_query":
        return d @ q.T / temperature
    parts = [q @ d.T]
    if negatives is not None:
        n = normalized(negatives, gammas[1])
        if share:
            parts.append(q @ n.reshape(-1, n.shape[-1]).T)
        else:
            parts.append(np.einsum("qd,qhd->qh", q, n))
    return np.concatenate(parts, axis=1) / temperature


def weight_matrix(logits, present, labels):
    """H of one row: diag(p) - pp^T, or the mean outer product of p - y over the labels."""
    weights = np.where(present, np.exp(logits - logits[present].max()), 0.0)
    p = weights / weights.sum()
    if labels is None:
        return np.diag(p) - np.outer(p, p)
    total = np.zeros((len(p), len(p)))
    for label in labels:
        residual = p - np.eye(len(p))[label]
        total += np.outer(residual, residual)
    return total / len(labels)


def derivative(function, x):
    """Jacobian [outputs, inputs] of an analytic function of a flat vector."""
    columns = []
    for k in range(x.size):
        moved = x.astype(complex)
        moved[k] += 1j * STEP
        columns.append(np.imag(function(moved)).ravel() / STEP)
    return np.stack(columns, axis=1)


def parameter_fisher(vector, batch, gammas, temperature, ways, labels, present, share=True):
    """[P, P]. labels and present: one list item a way, [sets, size, ...]; labels may be None."""
    total, count = np.zeros((vector.size, vector.size)), 0
    for s in range(batch["query"].shape[0]):
        hard = batch.get("negatives")
        size = batch["query"].shape[1]
        for place, way in enumerate(ways):

            def logits(theta, s=s, way=way, hard=hard, size=size):
                negatives = None
                if hard is not None:
                    negatives = embed(theta, hard[s].reshape(size, -1, hard.shape[-1]))
                return set_logits(
                    embed(theta, batch["query"][s]),
                    embed(theta, batch["document"][s]),
                    negatives,
                    gammas,
                    temperature,
                    way,
                    share,
                )

            values = logits(vector)
            jacobian = derivative(logits, vector).reshape(*values.shape, -1)
            for i in range(size):
                if not present[place][s, i].any():
                    continue
                drawn = None if labels is None else labels[place][s, i]
                weight = weight_matrix(values[i], present[place][s, i], drawn)
                total += jacobian[i].T @ weight @ jacobian[i]
                count += 1
    return total / count


def embedding_fisher(queries, documents, gammas, temperature, side, way, labels=None):
    """[dim, dim] of one set without masks."""
    dim = queries.shape[1]
    total = np.zeros((dim, dim))
    values = set_logits(queries, documents, None, gammas, temperature, way, True)
    everyone = np.ones(values.shape[1], bool)
    own = (way == "query_to_document") == (side == "query")
    for i in range(len(values)):
        drawn = None if labels is None else labels[i]
        weight = weight_matrix(values[i], everyone, drawn)

        def logits(x, place, i=i):
            q, d = queries.astype(complex), documents.astype(complex)
            (q if side == "query" else d)[place] = x
            return set_logits(q, d, None, gammas, temperature, way, True)[i]

        if own:
            x = queries[i] if side == "query" else documents[i]
            jacobian = derivative(lambda x, i=i: logits(x, i), x)
            total += jacobian.T @ weight @ jacobian
        else:
            for j in range(values.shape[1]):
                x = queries[j] if side == "query" else documents[j]
                u = derivative(lambda x, j=j: logits(x, j)[j : j + 1], x)[0]
                total += weight[j, j] * np.outer(u, u)
    return total / len(values)
