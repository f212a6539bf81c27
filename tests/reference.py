"""What magjax computes, written again as plain float64 NumPy loops that share no code with it."""

import math

import numpy as np


def norm(x):
    """Euclidean length of one vector."""
    largest = max(abs(float(v)) for v in x)
    if largest == 0.0:
        return 0.0
    return largest * math.sqrt(math.fsum((float(v) / largest) ** 2 for v in x))


def normalize(x, gamma):
    """One vector over its length to the power gamma; a zero vector is left alone."""
    length = norm(x)
    if length == 0.0:
        return np.zeros(len(x))
    return np.array([float(v) / length**gamma for v in x])


def score(query, document, gamma_query, gamma_document):
    """Inner product of one pair after normalization."""
    q, d = normalize(query, gamma_query), normalize(document, gamma_document)
    return math.fsum(float(a) * float(b) for a, b in zip(q, d, strict=True))


def scores(queries, documents, gamma_query, gamma_document):
    """All pairs."""
    return np.array(
        [[score(q, d, gamma_query, gamma_document) for d in documents] for q in queries]
    )


def log_sum_exp(values):
    """log of the sum of exponentials of a list."""
    largest = max(values)
    return largest + math.log(math.fsum(math.exp(v - largest) for v in values))


def softmax_cross_entropy(positives, negatives, smoothing=0.0):
    """Mean over the positive logits of the smoothed cross-entropy against the negative ones."""
    if not positives:
        return 0.0
    values = []
    for p in positives:
        candidates = [p, *negatives]
        log_p = [c - log_sum_exp(candidates) for c in candidates]
        value = -(1.0 - smoothing) * log_p[0]
        values.append(value - smoothing * sum(log_p) / len(candidates))
    return sum(values) / len(values)


def _owned(batch, i):
    """Ids of the documents that query i is known to own, from every real row of the batch."""
    owned = set()
    for j in range(len(batch["queries"])):
        if batch["where"][j] and (
            j == i or (batch["query_ids"] is not None and same(batch["query_ids"], i, j))
        ):
            owned.add(("row", j))
            if batch["document_ids"] is not None and batch["document_ids"][j] >= 0:
                owned.add(("id", int(batch["document_ids"][j])))
    if batch["positive_ids"] is not None:
        owned |= {("id", int(p)) for p in batch["positive_ids"][i] if p >= 0}
    return owned


def same(ids, i, j):
    """Equality of two known ids."""
    return ids[i] >= 0 and ids[i] == ids[j]


def _candidates(batch, i, share):
    """(embedding, is it row i's own document, names it goes by) for each candidate of query i."""
    found = []
    rows = [j for j in range(len(batch["queries"])) if batch["where"][j]]
    for j in rows:
        names = {("row", j)}
        if batch["document_ids"] is not None:
            names.add(("id", int(batch["document_ids"][j])))
        found.append((batch["documents"][j], j == i, names))
    if batch["negatives"] is not None:
        for j in rows if share else [i]:
            for n in range(len(batch["negatives"][j])):
                if batch["negatives_where"] is None or batch["negatives_where"][j][n]:
                    names = set()
                    if batch["negative_ids"] is not None:
                        names.add(("id", int(batch["negative_ids"][j][n])))
                    found.append((batch["negatives"][j][n], False, names))
    return found


def full_batch(queries, documents, negatives=None, **parts):
    """A batch with every optional part named, for the functions below."""
    names = ("query_ids", "document_ids", "negative_ids", "positive_ids", "negatives_where")
    batch = {"queries": queries, "documents": documents, "negatives": negatives}
    batch |= {name: parts.get(name) for name in names}
    where = parts.get("where")
    batch["where"] = [True] * len(queries) if where is None else where
    return batch


def query_logits(batch, i, gammas, temperature, share=True, average=False):
    """Positive and negative logits of query i among documents."""
    positives, negatives = [], []
    owned = _owned(batch, i)
    for embedding, own, names in _candidates(batch, i, share):
        logit = score(batch["queries"][i], embedding, *gammas) / temperature
        if own or (average and names & owned):
            positives.append(logit)
        elif not names & owned:
            negatives.append(logit)
    return positives, negatives


def document_logits(batch, i, gammas, temperature, average=False):
    """Positive and negative logits of document i among queries."""
    positives, negatives = [], []
    for j in range(len(batch["queries"])):
        if not batch["where"][j]:
            continue
        names = {("row", i)}
        if batch["document_ids"] is not None:
            names.add(("id", int(batch["document_ids"][i])))
        linked = bool(names & _owned(batch, j))
        logit = score(batch["queries"][j], batch["documents"][i], *gammas) / temperature
        if i == j or (average and linked):
            positives.append(logit)
        elif not linked:
            negatives.append(logit)
    return positives, negatives


def info_nce(
    batch,
    gammas,
    temperature,
    direction="query_to_document",
    share=True,
    average=False,
    smoothing=0.0,
    weights=None,
):
    """One value per row."""
    values = []
    for i in range(len(batch["queries"])):
        if not batch["where"][i]:
            values.append(0.0)
            continue
        forward = query_logits(batch, i, gammas, temperature, share, average)
        backward = document_logits(batch, i, gammas, temperature, average)
        parts = {
            "query_to_document": softmax_cross_entropy(*forward, smoothing),
            "document_to_query": softmax_cross_entropy(*backward, smoothing),
        }
        parts["both"] = sum(parts.values()) / 2
        values.append(parts[direction] * (1.0 if weights is None else weights[i]))
    return np.array(values)


def log_one_plus_exp(x):
    """log(1 + e^x) without overflow."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def sigmoid_loss(batch, gammas, temperature, bias, share=True, average=False):
    """One value per row."""
    values = []
    for i in range(len(batch["queries"])):
        positives, negatives = [], []
        if batch["where"][i]:
            positives, negatives = query_logits(batch, i, gammas, temperature, share, average)
        values.append(
            math.fsum(log_one_plus_exp(-(p + bias)) for p in positives)
            + math.fsum(log_one_plus_exp(n + bias) for n in negatives)
        )
    return np.array(values)


def margin_mse(logits, teacher, where):
    """One value per row of lists whose first entry is the positive."""
    values = []
    for student_row, teacher_row, present in zip(logits, teacher, where, strict=True):
        errors = [
            ((student_row[0] - student_row[n]) - (teacher_row[0] - teacher_row[n])) ** 2
            for n in range(1, len(student_row))
            if present[n] and present[0]
        ]
        values.append(sum(errors) / len(errors) if errors else 0.0)
    return np.array(values)


def kl_divergence(logits, teacher, where):
    """One value per row: from the teacher's softmax to the student's."""
    values = []
    for student_row, teacher_row, present in zip(logits, teacher, where, strict=True):
        kept = [j for j in range(len(student_row)) if present[j]]
        if not kept:
            values.append(0.0)
            continue
        s = [float(student_row[j]) for j in kept]
        t = [float(teacher_row[j]) for j in kept]
        log_r = [v - log_sum_exp(s) for v in s]
        log_p = [v - log_sum_exp(t) for v in t]
        values.append(math.fsum(math.exp(p) * (p - r) for p, r in zip(log_p, log_r, strict=True)))
    return np.array(values)


def gradient(function, x, step=1e-6):
    """Central differences of a scalar function of one array; about 1e-9 off in float64."""
    x = np.array(x, np.float64)
    result = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        values = []
        for sign in (1.0, -1.0):
            moved = x.copy()
            moved[index] += sign * step
            values.append(function(moved))
        result[index] = (values[0] - values[1]) / (2.0 * step)
    return result
