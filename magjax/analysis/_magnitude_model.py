"""A magnitude analysis of a model: embeds a benchmark, counts its tokens, measures, writes."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from magjax import hub
from magjax.analysis._magnitude import measure_magnitude
from magjax.analysis._magnitude_pictures import (
    ablation_figure,
    document_norms_figure,
    query_norms_figure,
    relevance_figure,
)
from magjax.analysis._magnitude_report import MagnitudeReport
from magjax.analysis._magnitude_settings import MagnitudeSettings
from magjax.analysis._report_files import check_about, report_names
from magjax.analysis._style import save_figure
from magjax.data import Benchmark, TextPreprocessor
from magjax.evaluation import encode, encode_tokens
from magjax.files import write_json, write_text
from magjax.typing import Side

__all__ = ["measure_model_magnitude", "write_magnitude"]

_BLOCK = 16_384  # texts tokenized at a time
_WHOLE = 1_000_000  # tokens: no text is cut


def measure_model_magnitude(
    model: hub.Model,
    benchmark: Benchmark,
    settings: MagnitudeSettings | None = None,
    *,
    ignore_identical_ids: bool = False,
    tokens_per_batch: int = 2048,
    progress: Callable[[Side, int, int], None] | None = None,
) -> MagnitudeReport:
    """Embeds both sides of a benchmark and runs :func:`measure_magnitude` on them.

    Document lengths are ``characters`` and ``tokens`` of the whole text, and ``tokens read``: what
    is left of them at the model's maximum length, all that its embedding can know of.

    Args:
        model: with its score.
        benchmark: queries, documents and judgements.
        settings: what is compared, drawn and ranked by.
        ignore_identical_ids: never return the document whose id is the query's.
        tokens_per_batch: tokens of an encoder batch on each device.
        progress: called with (side, texts done, texts in all).

    Raises:
        InputError: the model states no score, or what :func:`measure_magnitude` refuses.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import DualEncoder, EncoderConfig
    >>> from magjax.similarity import Score
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> config = EncoderConfig(vocab_size=270, hidden_size=16, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=32, max_position_embeddings=8)
    >>> model = hub.Model(DualEncoder.create(config), Score.of("dot", 1.0), tokenizer,
    ...     TextSettings(query_max_length=8, document_max_length=8))
    >>> benchmark = Benchmark("b", ["q"], ["a b"], ["d", "e"], ["b", "a b"], {"q": {"e": 1}})
    >>> settings = MagnitudeSettings(metrics=("mrr@10",), resamples=10)
    >>> report = measure_model_magnitude(model, benchmark, settings)
    >>> report.values.lengths["characters"].tolist()
    [1, 3]
    """
    score = model.require_score()
    preprocessor = TextPreprocessor(model.tokenizer, model.text)

    def told(side: Side) -> Callable[[int, int], None] | None:
        return None if progress is None else lambda done, total: progress(side, done, total)

    queries = encode(
        model.encoder,
        preprocessor,
        benchmark.queries,
        "query",
        ids=benchmark.query_ids,
        tokens_per_batch=tokens_per_batch,
        progress=told("query"),
    )
    texts = benchmark.documents
    read: list[int] = []

    def blocks():
        for start in range(0, len(texts), _BLOCK):
            tokens = preprocessor.tokenize(texts[start : start + _BLOCK], "document")
            read.extend(len(row) for row in tokens)
            yield tokens

    documents = encode_tokens(
        model.encoder,
        preprocessor,
        blocks(),
        "document",
        count=len(texts),
        ids=benchmark.document_ids,
        tokens_per_batch=tokens_per_batch,
        progress=told("document"),
    )
    prompt = preprocessor.settings.prompt("document")
    whole = [
        len(row)
        for start in range(0, len(texts), _BLOCK)
        for row in model.tokenizer.encode(
            [prompt + text for text in texts[start : start + _BLOCK]], _WHOLE
        )
    ]
    report = measure_magnitude(
        queries,
        documents,
        benchmark.qrels,
        query_ids=benchmark.query_ids,
        document_ids=benchmark.document_ids,
        score=score,
        settings=settings,
        lengths={
            "characters": np.array([len(text) for text in texts]),
            "tokens": np.array(whole),
            "tokens read": np.array(read),
        },
        exclude={q: (q,) for q in benchmark.query_ids} if ignore_identical_ids else None,
        name=benchmark.name,
        fingerprint=benchmark.fingerprint,
    )
    limit, share = preprocessor.settings.max_length("document"), np.mean(np.less(read, whole))
    return report.with_notes(
        f"{share:.1%} of the documents are cut at {limit} tokens: 'tokens read' are what is left."
    )


def write_magnitude(
    folder: str | os.PathLike[str],
    reports: Sequence[MagnitudeReport],
    about: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Writes ``magnitude.json``, and per data set its queries as JSONL and its pictures.

    These are ``magnitude/DOMAIN.jsonl`` and ``magnitude/DOMAIN.PICTURE.png`` with the pictures
    ``relevance``, ``documents``, ``queries`` and ``ablation``; characters of ``DOMAIN`` other than
    letters, digits, ``.``, ``_`` and ``-`` become ``_``. Each file is written in one rename,
    ``magnitude.json`` last.

    Args:
        folder: made if it is missing.
        reports: one a data set.
        about: further top-level entries of ``magnitude.json``, such as the checkpoint's name.

    Returns:
        The files written, in order.

    Raises:
        InputError: two reports would write the same files, or ``about`` has an entry ``reports``.

    >>> write_magnitude("/nowhere", [], {"reports": 1})
    Traceback (most recent call last):
        ...
    magjax.checks.InputError: about= may not hold 'reports', which is written from the reports.
    """
    check_about(about, "reports")
    root = Path(folder)
    names = report_names([report.domain for report in reports])
    written = []
    for name, report in zip(names, reports, strict=True):
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in report.per_query()]
        written.append(root / "magnitude" / f"{name}.jsonl")
        write_text(written[-1], "".join(lines))
        for picture, draw in {
            "relevance": relevance_figure,
            "documents": document_norms_figure,
            "queries": query_norms_figure,
            "ablation": ablation_figure,
        }.items():
            written.append(root / "magnitude" / f"{name}.{picture}.png")
            save_figure(written[-1], draw(report))
    written.append(root / "magnitude.json")
    write_json(written[-1], {**(about or {}), "reports": [report.to_json() for report in reports]})
    return written
