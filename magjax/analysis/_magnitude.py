"""What the norms of a model's embeddings carry on one retrieval test."""

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from magjax.analysis._ablation import Ablation, ablate_norms
from magjax.analysis._hubness import measure_hubness
from magjax.analysis._magnitude_contrast import Contrast, contrast_documents, contrast_pairs
from magjax.analysis._magnitude_negatives import Judgements, choose_negatives
from magjax.analysis._magnitude_queries import choose_candidates, query_losses, temperature_of
from magjax.analysis._magnitude_report import MagnitudeReport, MagnitudeValues
from magjax.analysis._magnitude_settings import MagnitudeSettings
from magjax.analysis._norms import NO_SPREAD, embedding_norms, summarize_norms
from magjax.checks import InputError
from magjax.evaluation import Ranking, search
from magjax.similarity import PRESETS, Score
from magjax.statistics import Interval
from magjax.typing import Array, Float

__all__ = ["measure_magnitude"]


def measure_magnitude(
    queries: Float[Array, "queries dim"],
    documents: Float[Array, "documents dim"],
    qrels: Mapping[str, Mapping[str, int]],
    *,
    query_ids: Sequence[str],
    document_ids: Sequence[str],
    score: Score,
    settings: MagnitudeSettings | None = None,
    lengths: Mapping[str, Array] | None = None,
    exclude: Mapping[str, Collection[str]] | None = None,
    name: str = "data",
    fingerprint: str = "",
) -> MagnitudeReport:
    r"""Relates the norms of embeddings to relevance, text length, hubness, loss and ranking.

    Tests the paper's claims that document norms express relevance (its claim 5: Cohen's d up
    to 1.80) and that query norms sharpen gradients rather than rankings (claim 6):

    1. norms of relevant documents against those of others, pooled over (query, document) pairs,
       inside queries, and over distinct documents; effect sizes with bootstrap intervals in which
       queries are drawn anew, and the AUC of the norm alone as a score of relevance;
    2. Spearman's correlation of document norms with the given text lengths, with in-degree under
       the score and under each preset, and with the number of queries a document answers;
    3. of query norms with the query's InfoNCE at the score's temperature, with the norm of
       that loss's gradient, and with each metric;
    4. rankings with the documents' norms shuffled, inverted and removed.

    Norms are float64. Where those of a side differ by float32's rounding only, they count as
    equal: effects do not exist (NaN) and AUCs are 0.5.

    Args:
        queries: raw embeddings, float32.
        documents: raw embeddings, float32.
        qrels: ``{query id: {document id: grade}}``; grades above 0 are relevant, documents
            without a judgement are not.
        query_ids: one name a query, unique.
        document_ids: one name a document, unique.
        score: the model's; where it states no temperature, one is calibrated.
        settings: what is compared, drawn and ranked by.
        lengths: text lengths by name, ``[documents]`` each, such as ``{"characters": ...}``.
        exclude: documents never to return, per query id; they are no negatives either.
        name: what the report calls the data.
        fingerprint: of the data; reports of different ones are not comparable.

    Raises:
        InputError: ids, shapes or judgements that disagree, no relevant document, an embedding
            that is not finite, or what the settings ask and the data cannot give.

    >>> random = np.random.default_rng(0)
    >>> documents = random.normal(size=(40, 8)).astype("float32")
    >>> documents[:8] *= 3.0  # the answers are long
    >>> ids = [f"d{i}" for i in range(40)]
    >>> report = measure_magnitude(documents[:8] / 3.0, documents, {i: {i: 1} for i in ids[:8]},
    ...     query_ids=ids[:8], document_ids=ids, score=Score.of("qnorm", 1.0),
    ...     settings=MagnitudeSettings(negatives=("all",), metrics=("mrr@10",), resamples=20))
    >>> report.contrasts[0].pooled["norm_auc"].mean > 0.9
    True
    """
    settings = settings or MagnitudeSettings()
    text_lengths = _checked_lengths(lengths or {}, len(document_ids))
    judgements = Judgements.of(qrels, query_ids, document_ids, exclude)
    candidates = choose_candidates(judgements, settings.candidates, settings.seed)

    def ranked(gamma_document: float) -> Ranking:
        return search(
            queries,
            documents,
            score=Score.power(score.gamma_query, gamma_document),
            k=settings.depth,
            query_ids=query_ids,
            document_ids=document_ids,
            exclude=exclude,
        )

    ranking = ranked(score.gamma_document)  # refuses wrong shapes and embeddings not finite
    summaries, norms = {}, {}
    for side, embeddings in (("query", queries), ("document", documents)):
        norms[side] = embedding_norms(embeddings)
        summaries[side] = summarize_norms(norms[side])
        if summaries[side].constant:
            norms[side] = np.full_like(norms[side], summaries[side].mean)

    kinds = {
        kind: choose_negatives(
            kind,
            judgements,
            ranking,
            random=settings.random,
            top_k=settings.top_k,
            seed=settings.seed,
        )
        for kind in settings.negatives
    }
    contrasts, other_means = [], {}
    for kind, chosen in kinds.items():
        found, other_means[kind] = contrast_pairs(norms["document"], judgements, chosen, settings)
        contrasts.append(found)
    contrasts.append(contrast_documents(norms["document"], judgements, settings))

    hubness, in_degree = [], np.empty(0)
    for gamma in dict.fromkeys((score.gamma_document, 0.0, 1.0)):
        names = [preset for preset, powers in PRESETS.items() if powers[1] == gamma]
        own = gamma == score.gamma_document
        shown, degrees = measure_hubness(
            ", ".join(names) or str(score.variant),
            ranking if own else ranked(gamma),
            norms["document"],
            settings,
        )
        hubness.append(shown)
        in_degree = degrees if own else in_degree

    temperature, source = temperature_of(score, queries, documents)
    losses, gradients = query_losses(
        queries, documents, judgements, candidates, score=score, temperature=temperature
    )
    ablation = ablate_norms(
        queries,
        documents,
        qrels,
        query_ids=query_ids,
        document_ids=document_ids,
        score=score,
        settings=settings,
        exclude=exclude,
        document_norms=norms["document"],
        ranking=ranking,
    )
    values = MagnitudeValues(
        query_ids=tuple(query_ids),
        norms=norms,
        lengths=text_lengths,
        in_degree=in_degree,
        relevant_queries=judgements.relevant_queries(),
        pairs={kind: chosen.counts() for kind, chosen in kinds.items()},
        relevant_norms=np.array([_mean(norms["document"][r]) for r in judgements.relevant]),
        other_norms=other_means,
        losses=losses,
        gradients=gradients,
        metrics=_per_query(ablation, query_ids, settings.metrics),
    )
    return MagnitudeReport(
        domain=name,
        fingerprint=fingerprint,
        score=score,
        temperature=temperature,
        temperature_source=source,
        candidates=candidates.size,
        norms=summaries,
        contrasts=tuple(contrast for contrast in contrasts if contrast is not None),
        correlations=_correlations(values, hubness[0].with_norm, settings),
        hubness=tuple(hubness),
        ablation=ablation,
        settings=settings,
        judged=sum(rows.size > 0 for rows in judgements.relevant),
        values=values,
        notes=_notes(score, summaries, contrasts, judgements, settings),
    )


def _checked_lengths(lengths: Mapping[str, Array], documents: int) -> dict[str, np.ndarray]:
    found = {name: np.asarray(values) for name, values in lengths.items()}
    for name, values in found.items():
        if values.shape != (documents,):
            raise InputError(
                f"lengths {name!r} have shape {values.shape} for {documents} documents; give one "
                "number each."
            )
    return found


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else math.nan


def _per_query(
    ablation: Ablation, query_ids: Sequence[str], metrics: Sequence[str]
) -> dict[str, np.ndarray]:
    """Each metric by query, NaN for those without a judgement."""
    rows = ablation.evaluation.per_query
    return {
        metric: np.array([rows[q][metric] if q in rows else math.nan for q in query_ids])
        for metric in metrics
    }


def _correlations(
    values: MagnitudeValues, in_degree: Interval, settings: MagnitudeSettings
) -> dict[str, dict[str, Interval]]:
    """Of each side's norms with what may go with them; queries without a value left out."""
    document = values.norms["document"]
    found: dict[str, dict[str, Interval]] = {
        "document": {
            **{
                name: settings.correlation(document, length)
                for name, length in values.lengths.items()
            },
            "in-degree": in_degree,
            "relevant queries": settings.correlation(document, values.relevant_queries),
        },
        "query": {},
    }
    for name, column in values.query_columns().items():
        known = ~np.isnan(column)
        found["query"][name] = settings.correlation(values.norms["query"][known], column[known])
    return found


def _notes(
    score: Score,
    summaries: Mapping,
    contrasts: Sequence[Contrast | None],
    judgements: Judgements,
    settings: MagnitudeSettings,
) -> tuple[str, ...]:
    """What a reader must know before believing a number."""
    notes = [
        f"{side} norms hardly vary (std/mean {found.cv:.2g}, below {NO_SPREAD:g}): the encoder "
        "seems to end in a normalization, and nothing can be read from them."
        for side, found in summaries.items()
        if found.negligible
    ]
    if skipped := sum(not rows.size for rows in judgements.relevant):
        notes.append(f"{skipped} queries have no relevant document and are compared with nothing.")
    notes += [
        f"no query has documents of both kinds: nothing is compared with {kind}."
        for kind, found in zip(settings.negatives, contrasts, strict=False)
        if found is None
    ]
    notes.append("Documents without a judgement count as not relevant.")
    if "top_k" in settings.negatives and score.gamma_document < 1.0:
        notes.append(
            "top_k carries selection bias: this score prefers large norms, so what it retrieves has "
            "them whether relevant or not, and the difference looks smaller, or reversed, beside "
            "it; read random and all first."
        )
    if contrasts[-1] is None:
        notes.append(
            "every document is relevant to some query: no document is nobody's answer, so "
            "relevance as such cannot be told from being in the collection."
        )
    if score.gamma_query > 0.0:
        notes.append(
            f"the gradient at a query scales as norm^-{score.gamma_query:g} at a fixed direction: "
            "part of its negative correlation with the norm is built in; 'norm x gradient' has none "
            "of that."
        )
    return tuple(notes)
