"""What a study states: a grid of runs, and the claims that it tests."""

from collections.abc import Sequence
from typing import Any

from ml_collections import ConfigDict

__all__ = ["study_claim", "study_config"]


def study_config(base: ConfigDict, *, name: str) -> ConfigDict:
    """What every study states; a file in ``configs/`` changes what differs.

    A study trains each variant from each start on each task with each seed. Tasks, starts and
    trials are changes to ``base``, written as its sections are. Of a variant's trials the one with
    the best development value at the first seed is used for all of its seeds.

    Args:
        base: the config of one run, such as :func:`retrieval_config` or
            :func:`image_text_config`; its variant and seed are those of each run.
        name: lower-case letters, digits and ``_``; names the study's files.

    Returns:
        An unlocked config.

    >>> from magjax.config import retrieval_config
    >>> config = study_config(retrieval_config(variant="cosine", seed=0), name="toy")
    >>> config.starts = {"random": {}, "minilm": {"model": {"init": "models/minilm"}}}
    >>> config.trials = ({"optimizer": {"learning_rate": 1e-3}}, {"optimizer": {"learning_rate": 3e-3}})
    >>> config.variants, config.seeds, config.metrics
    (('cosine', 'dot', 'qnorm', 'dnorm', 'learnable'), (0, 1, 2), ('ndcg@10',))
    """
    config = ConfigDict()
    config.name = name
    config.title = ""  # heads the report; the name where it is empty
    config.question = ""  # what is asked, in words that need no code
    config.setup = ""  # what a reader should know of data and models; sizes are added
    config.base = base
    config.tasks = ConfigDict({"task": {}})  # by name: other data, or settings of it
    config.starts = ConfigDict({"start": {}})  # by name: another start model
    config.variants = ("cosine", "dot", "qnorm", "dnorm", "learnable")
    config.seeds = (0, 1, 2)
    config.trials = ()  # the same for every variant; empty: no choice is made
    config.metrics = ("ndcg@10",)  # kept for every query; the first one is tabled and drawn
    config.evaluations = ("retrieval",)  # keys of magjax.study.EVALUATIONS
    config.in_domain = ()  # names of tests; empty: the first test of each task
    config.untrained = True  # a row for the start model under every score
    config.lexical = True  # a row for BM25
    config.reference = "cosine"  # what every variant is compared with
    config.claims = ()  # each made by study_claim
    config.confidence = 0.95
    config.resamples = 10_000  # of the bootstraps
    return config


def study_claim(
    text: str,
    *,
    better: Sequence[str],
    than: Sequence[str],
    domain: str = "in",
    metric: str = "",
    margin: float = 0.0,
    tasks: Sequence[str] = (),
    starts: Sequence[str] = (),
) -> dict[str, Any]:
    """One claim: the best of ``better`` beats the best of ``than``, and so each of them.

    Args:
        text: the claim in words, as the report prints it.
        better: variants, ``"bm25"``, or ``"untrained SCORE"``; the best of them is compared.
        than: what it must beat; the best of them.
        domain: ``"in"`` (the study's ``in_domain``, by default the first test of each task),
            ``"out"`` (all others), ``"all"``, or the name of a test.
        metric: one of the study's; empty for its first.
        margin: the difference that must be exceeded, in the metric's unit.
        tasks: names of tasks; empty for all. The mean over tasks, starts and domains counts.
        starts: names of starts; empty for all.

    Returns:
        JSON values, checked when the study is read.

    >>> study_claim("One side beats both and neither.", better=["qnorm", "dnorm"],
    ...             than=["cosine", "dot"])["domain"]
    'in'
    """
    return {
        "text": text,
        "better": list(better),
        "than": list(than),
        "domain": domain,
        "metric": metric,
        "margin": margin,
        "tasks": list(tasks),
        "starts": list(starts),
    }
