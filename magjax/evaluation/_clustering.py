"""Clustering: does k-means on the embeddings find the groups that people made."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from magjax.checks import positive_integer
from magjax.data import SIDES, LabelledTexts
from magjax.evaluation._labelled_embeddings import TextEmbeddings, embed_labelled_texts
from magjax.evaluation._symmetric import asymmetries, check_equals, encoder_asymmetries
from magjax.hub import Model
from magjax.similarity import Score
from magjax.statistics import Interval, mean_interval
from magjax.typing import Float, Side

__all__ = [
    "ClusteringResult",
    "VMeasure",
    "cluster_texts",
    "evaluate_clustering",
]

_BATCH = 500  # texts a step of k-means, as in MTEB's ClusteringEvaluator


@dataclasses.dataclass(frozen=True)
class VMeasure:
    """How k-means' clusters agree with the labels, over runs of k-means with other seeds.

    Attributes:
        v_measure: harmonic mean of the next two; its interval covers the seeds of k-means only.
        homogeneity: 1 when each cluster holds one label; mean over runs.
        completeness: 1 when each label lies in one cluster; mean over runs.
        runs: the V-measure of each run.

    >>> VMeasure(mean_interval([0.5, 0.5]), 0.5, 0.5, (0.5, 0.5)).to_json()["runs"]
    [0.5, 0.5]
    """

    v_measure: Interval
    homogeneity: float
    completeness: float
    runs: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "v_measure": self.v_measure.to_json(),
            "homogeneity": self.homogeneity,
            "completeness": self.completeness,
            "runs": list(self.runs),
        }


@dataclasses.dataclass(frozen=True, eq=False)
class ClusteringResult:
    """What one score's embeddings did on one set of labelled texts.

    Attributes:
        name: the set.
        score: whose powers normalized the embeddings.
        forms: by form of the embeddings, the figures: ``"both"`` where both sides normalize and
            embed alike, else ``"query"`` and ``"document"``.
        texts: number of texts.
        labels: number of different labels.
        asymmetries: why the sides' embeddings differ; empty where they do not.
        fingerprint: of the set.

    >>> measure = VMeasure(mean_interval([0.5]), 0.5, 0.5, (0.5,))
    >>> ClusteringResult("s", Score.of("dot"), {"both": measure}, 9, 3, (), "").to_json()["labels"]
    3
    """

    name: str
    score: Score
    forms: Mapping[str, VMeasure]
    texts: int
    labels: int
    asymmetries: tuple[str, ...]
    fingerprint: str

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "name": self.name,
            "score": self.score.to_json(),
            "forms": {form: found.to_json() for form, found in self.forms.items()},
            "texts": self.texts,
            "labels": self.labels,
            "asymmetries": list(self.asymmetries),
            "fingerprint": self.fingerprint,
        }


def evaluate_clustering(
    model: Model,
    data: LabelledTexts,
    *,
    score: Score | None = None,
    allow_asymmetric: bool = False,
    runs: int = 10,
    seed: int = 0,
    mesh: Mesh | None = None,
    tokens_per_batch: int = 2048,
    progress: Callable[[Side, int, int], None] | None = None,
) -> ClusteringResult:
    """Embeds the texts of a set, clusters them and compares the clusters with the labels.

    For many scores of one encoder call :func:`embed_labelled_texts` once, then
    :func:`cluster_texts` for each.

    Args:
        model: embeds the texts.
        data: from :func:`magjax.data.find_labelled_texts`.
        score: normalizes the embeddings; default: the model's own.
        allow_asymmetric: cluster by a score or an encoder that tells queries from documents, in
            both forms.
        runs: of k-means.
        seed: of the first run; the others count up from it.
        mesh: devices to use; default: all of this process.
        tokens_per_batch: tokens of an encoder batch on each device.
        progress: called with (side, texts done, texts in all).

    Raises:
        InputError: the model has sides (refused before anything is embedded), or an embedding is
            not finite.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import DualEncoder, EncoderConfig
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> config = EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=8,
    ...     num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> text = TextSettings(query_max_length=8, document_max_length=16)
    >>> model = Model(DualEncoder.create(config), Score.of("cosine"), tokenizer, text)
    >>> data = LabelledTexts("s", [(["a b", "a b", "b", "b"], ["x", "x", "y", "y"])])
    >>> evaluate_clustering(model, data, runs=2).forms["both"].runs
    (1.0, 1.0)
    """
    chosen = score or model.require_score()
    check_equals(data.name, chosen, encoder_asymmetries(model), allow_asymmetric=allow_asymmetric)
    embeddings = embed_labelled_texts(
        model, data, mesh=mesh, tokens_per_batch=tokens_per_batch, progress=progress
    )
    return cluster_texts(
        embeddings, chosen, allow_asymmetric=allow_asymmetric, runs=runs, seed=seed
    )


def cluster_texts(
    embeddings: TextEmbeddings,
    score: Score,
    *,
    allow_asymmetric: bool = False,
    runs: int = 10,
    seed: int = 0,
) -> ClusteringResult:
    r"""The V-measure of k-means on the normalized embeddings (Rosenberg and Hirschberg 2007).

    .. math:: V = \frac{2hc}{h + c}, \quad h = 1 - \frac{H(\text{label} \mid \text{cluster})}
        {H(\text{label})}, \quad c = 1 - \frac{H(\text{cluster} \mid \text{label})}
        {H(\text{cluster})}

    Clusters are scikit-learn's ``MiniBatchKMeans`` as MTEB sets it (as many clusters as labels,
    batches of 500, ``n_init="auto"``), over several seeds. K-means has no second side: it runs on
    :math:`x \lVert x \rVert^{-\gamma}`, unit vectors for cosine and raw ones for dot. A score or an
    encoder with two sides has two such forms; both are reported, if that was asked for. Batches of
    a set are clustered apart, and each run's figure is their plain mean.

    Args:
        embeddings: from :func:`embed_labelled_texts`.
        score: normalizes them.
        allow_asymmetric: cluster by a score or an encoder that tells queries from documents.
        runs: of k-means.
        seed: of the first run; the others count up from it.

    Raises:
        InputError: the sides differ and ``allow_asymmetric`` is not set, or a count is below 1.

    >>> from magjax.evaluation import EqualTexts
    >>> data = LabelledTexts("s", [(["a", "b", "c", "d"], ["x", "x", "y", "y"])])
    >>> x = np.array([[1, 0], [9, 1], [0, 1], [1, 9]], np.float32)
    >>> embeddings = TextEmbeddings(data, EqualTexts(x, x), (np.arange(4),))
    >>> cluster_texts(embeddings, Score.of("cosine"), runs=2).forms["both"].v_measure.mean
    1.0
    """
    count = positive_integer("runs", runs)
    data, texts = embeddings.data, embeddings.texts
    reasons = check_equals(data.name, score, texts.asymmetries, allow_asymmetric=allow_asymmetric)
    sides: tuple[Side, ...] = SIDES if reasons else ("query",)
    forms: dict[str, VMeasure] = {}
    for side in sides:
        x = np.asarray(score.normalize(getattr(texts, side), side))
        found = np.array(
            [
                np.mean(
                    [
                        _agreement(x[rows], labels, seed + run)
                        for rows, (_, labels) in zip(embeddings.rows, data.batches, strict=True)
                    ],
                    axis=0,
                )
                for run in range(count)
            ]
        )
        homogeneity, completeness, _ = found.mean(axis=0)
        measured = tuple(found[:, 2].tolist())
        forms[side if reasons else "both"] = VMeasure(
            mean_interval(measured), float(homogeneity), float(completeness), measured
        )
    return ClusteringResult(
        name=data.name,
        score=score,
        forms=forms,
        texts=len(data),
        labels=data.labels,
        asymmetries=asymmetries(score, texts.asymmetries),
        fingerprint=data.fingerprint,
    )


def _agreement(
    x: Float[np.ndarray, "texts dim"], labels: Sequence[str], seed: int
) -> tuple[float, float, float]:
    """Homogeneity, completeness and V-measure of one run of k-means."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.metrics import homogeneity_completeness_v_measure
    from threadpoolctl import threadpool_limits

    kmeans = MiniBatchKMeans(
        n_clusters=len(set(labels)), batch_size=_BATCH, n_init="auto", random_state=seed
    )
    # One thread: sums over several come in any order, and the figure would depend on the machine.
    with threadpool_limits(1):
        clusters = kmeans.fit(x).labels_
    return homogeneity_completeness_v_measure(labels, clusters)
