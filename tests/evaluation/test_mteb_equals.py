"""Clustering and pair classification as mteb measures them."""

import dataclasses
import importlib
import importlib.util

import numpy as np
import pytest
from mteb_cases import describe

from magjax.data import LabelledTexts, TextPairs
from magjax.evaluation import evaluate_clustering, evaluate_pair_classification
from magjax.evaluation.mteb import MtebEncoder
from magjax.similarity import Score

if importlib.util.find_spec("mteb") is None:
    pytest.skip("the mteb extra is not installed", allow_module_level=True)

WORDS = ("adds", "sorts", "sum of", "multiplies", "a list", "all numbers", "two numbers", "how to")


@pytest.fixture(scope="module")
def mteb():
    return importlib.import_module("mteb")


@pytest.fixture(scope="module")
def pairs():
    """Thirty pairs of one to four phrases, with the number of phrases in common."""
    rng = np.random.default_rng(1)
    drawn = [[set(rng.choice(WORDS, rng.integers(1, 5))) for _ in range(2)] for _ in range(30)]
    return [(" ".join(sorted(a)), " ".join(sorted(b)), float(len(a & b))) for a, b in drawn]


def labelled_task(mteb, pairs, labels):
    """The first texts to be clustered, and the pairs with a phrase in common to be found."""
    from datasets import Dataset
    from mteb.abstasks.clustering_legacy import AbsTaskClusteringLegacy
    from mteb.abstasks.pair_classification import AbsTaskPairClassification

    def tiny(base, name, kind, main_score, columns):
        class Tiny(base):
            metadata = describe(mteb, name, kind, main_score)

            def load_data(self, num_proc=None, **_):
                self.dataset = {"test": Dataset.from_dict(columns)}
                self.data_loaded = True

        return Tiny()

    first, second, grades = (list(column) for column in zip(*pairs, strict=True))
    return (
        tiny(
            AbsTaskClusteringLegacy,
            "TinyClustering",
            "Clustering",
            "v_measure",
            {"sentences": [first], "labels": [labels]},
        ),
        tiny(
            AbsTaskPairClassification,
            "TinyPairs",
            "PairClassification",
            "max_ap",
            {"sentence1": first, "sentence2": second, "labels": [int(g > 0) for g in grades]},
        ),
    )


@pytest.mark.parametrize("name", ["cosine", "dot"])
def test_clusters_and_labelled_pairs_score_as_ours_do(mteb, small_model, pairs, name):
    model = dataclasses.replace(small_model, score=Score.of(name))
    labels = [str(i % 3) for i in range(len(pairs))]
    clustering, classification = labelled_task(mteb, pairs, labels)
    encoder = MtebEncoder(model)

    def figures(task):
        result = mteb.evaluate(encoder, task, cache=None, show_progress_bar=False)
        return result.task_results[0].scores["test"][0]

    first, second, grades = zip(*pairs, strict=True)
    ours = evaluate_clustering(
        model, LabelledTexts("tiny", [(first, labels)]), runs=1, seed=clustering.seed
    )
    assert figures(clustering)["v_measure"] == pytest.approx(ours.forms["both"].runs[0], abs=1e-9)
    tagged = TextPairs("tiny", first, second, [float(grade > 0) for grade in grades])
    found = evaluate_pair_classification(model, tagged, resamples=2).orders["score"]
    theirs = figures(classification)
    assert theirs["similarity_ap"] == pytest.approx(found.average_precision.mean, abs=1e-6)
    # mteb's thresholds lie between two scores: it never takes all pairs, or none.
    assert 0.0 < theirs["similarity_f1"] <= found.f1 + 1e-6
    assert 0.5 < theirs["similarity_accuracy"] <= found.accuracy + 1e-6
