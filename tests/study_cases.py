"""Tiny studies, and cells whose numbers are made up: no training."""

import numpy as np

from magjax.config import retrieval_config, study_claim, study_config, to_json
from magjax.study import CellResult, Measured, StudyGrid

DOMAINS = ("home", "away")
DATA = {"train": "t{seed}", "development": "d{seed}", "home": "h", "away": "a"}


def study(**changes):
    """JSON of a study of two variants and two seeds; ``base__loop__steps=5`` changes the base."""
    base = retrieval_config(variant="cosine", seed=0)
    config = study_config(base, name="tiny")
    config.tasks = {"code": {}}
    config.starts = {"random": {}}
    config.variants = ("cosine", "dnorm")
    config.seeds = (0, 1)
    config.resamples = 200
    config.claims = (study_claim("One side wins.", better=["dnorm"], than=["cosine"]),)
    for key, value in changes.items():
        *sections, name = key.split("__")
        target = config
        for section in sections:
            target = target[section]
        target[name] = value
    return to_json(config)


def grid(**changes):
    return StudyGrid.of(study(**changes))


def fingerprints(seed):
    return {part: text.format(seed=seed) for part, text in DATA.items()}


def values_of(system, seed, domain, items=40):
    """Values that depend on nothing but the arguments; dnorm is best by 0.1."""
    random = np.random.default_rng([seed, DOMAINS.index(domain)])
    lift = {"dnorm": 0.1, "cosine": 0.0, "qnorm": -0.05}.get(system, -0.2)
    own = np.random.default_rng([seed, sum(map(ord, system))]).normal(0, 0.02, items)
    return np.clip(random.uniform(0.3, 0.8, items) + lift + own, 0, 1).tolist()


def measured(system, name, seed, items=40, metric="ndcg@10"):
    found = []
    for domain in DOMAINS:
        values = values_of(system, seed, domain, items)
        about = {"queries": items, "documents": 100}
        mean = float(np.mean(values))
        test = fingerprints(seed)[domain]
        found.append(Measured(domain, name, {metric: mean}, {metric: values}, test, about))
    return found


def fake_compute(cell, run, check):
    """What a cell would find; ``run`` is used as a run folder is."""
    check(fingerprints(cell.seed))
    if cell.role == "bm25":
        return CellResult(fingerprints(cell.seed), measured("bm25", "bm25", cell.seed), {}, {})
    if cell.role == "untrained":
        rows = [
            row
            for score in ("cosine", "dot", "qnorm", "dnorm")
            for row in measured(f"untrained {score}", f"untrained {score}", cell.seed)
        ]
        return CellResult(fingerprints(cell.seed), rows, {}, {})
    run.mkdir(parents=True, exist_ok=True)
    (run / "model").write_text(cell.id)
    rate = cell.config["optimizer"]["learning_rate"]
    development = {"metric": "ndcg@10", "value": 1.0 - rate, "best_step": 10, "steps": 20}
    curve = {
        "loss": [[10, 2.0], [20, 1.0 + rate]],
        "development ndcg@10": [[0, 0.1], [20, 1.0 - rate]],
    }
    rows = measured(cell.variant, "model", cell.seed) if cell.role == "trained" else []
    return CellResult(fingerprints(cell.seed), rows, development, curve)
