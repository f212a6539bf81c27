"""A small study that runs in minutes: does normalizing one side pay on code search?

    python launch/study.py --config=configs/study_toy.py

It shows what a study is (docs/studies.md) and is too small to say anything of the paper: one layer
of width 64, 60 steps, two variants, two seeds.
"""

from magjax.config import parse_arguments, retrieval_config, study_claim, study_config


def get_config(arguments=None):
    """Code search from a random start, cosine against dnorm, two trials of the learning rate."""
    parse_arguments(arguments)
    base = retrieval_config(variant="cosine", seed=0)
    base.model.update(layers=1, width=64, heads=2)
    base.loop.update(steps=60, evaluate_every=20, save_every=20)
    config = study_config(base, name="toy")
    config.title = "A toy study: code search with a very small model"
    config.question = (
        "Is a retriever better when only its documents are normalized than when both sides are? "
        "This study is too small to answer; it shows how studies work."
    )
    config.setup = (
        "A query is the first sentence of a Python function's docstring, its answer the function's "
        "source without it. Functions of some packages are trained on and, held out, searched in "
        "domain; those of other packages are searched out of domain."
    )
    config.tasks = {"code": {}}
    config.starts = {"random": {}}
    config.variants = ("cosine", "dnorm")
    config.seeds = (0, 1)
    config.trials = (
        {"optimizer": {"learning_rate": 1e-3}},
        {"optimizer": {"learning_rate": 3e-3}},
    )
    one_sided = {"better": ("dnorm",), "than": ("cosine",)}
    config.claims = (
        study_claim("Normalizing only documents beats both sides in domain.", **one_sided),
        study_claim(
            "Normalizing only documents beats both sides out of domain.", domain="out", **one_sided
        ),
        study_claim(
            "Training helps: the better variant beats the better untrained score in domain.",
            better=("cosine", "dnorm"),
            than=("untrained cosine", "untrained dot"),
        ),
    )
    return config
