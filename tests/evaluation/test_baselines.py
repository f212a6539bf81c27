"""all-MiniLM-L6-v2 by cosine against the numbers published with the data sets.

The reference values were made by sentence-transformers and a plain NumPy scorer.
"""

import functools

import jax
import pytest

from magjax import hub
from magjax.data import TextPreprocessor, read_beir
from magjax.evaluation import evaluate_retrieval
from magjax.mesh import data_mesh

METRICS = ("ndcg@10", "recall@100", "mrr@10")
FAST = ("adi", "cranfield")
SLOW = ("scifact", "xquad", "hotpotqa-sample", "npl-vaswani")

SPLITS = {"hotpotqa-sample": "dev"}

load = functools.cache(hub.load)


def baselines(path):
    """``name queries N nDCG@10 X Recall@100 Y MRR@10 Z time``, separated by tabs and spaces."""
    found = {}
    for line in path.read_text().splitlines():
        words = line.split()
        if len(words) > 8 and words[1] == "queries":
            found[words[0]] = (int(words[2]), *(float(words[i]) for i in (4, 6, 8)))
    return found


@pytest.mark.parametrize(
    "name", [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_baseline(name, data_root, minilm):
    queries, *expected = baselines(data_root / "BASELINES.txt")[name]
    model = load(minilm)
    score = model.require_score()
    assert score.variant == "cosine"
    result = evaluate_retrieval(
        model.encoder,
        TextPreprocessor(model.tokenizer, model.text),
        read_beir(data_root / name, split=SPLITS.get(name, "test")),
        score,
        metrics=METRICS,
        # Eight virtual devices on few cores only cost time; test_encode has them.
        mesh=data_mesh(jax.devices()[:1]),
    )
    assert result.evaluation.counts["queries"] == queries
    tolerance = 0.0005 if name == "scifact" else 0.001
    for metric, value in zip(METRICS, expected, strict=True):
        assert result.evaluation.mean[metric] == pytest.approx(value, abs=tolerance), metric
