"""Images with captions: both directions of retrieval, and zero-shot classification."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from magjax import hub
from magjax.checks import InputError
from magjax.data import (
    ImageTextBenchmark,
    TextPreprocessor,
    find_image_text,
    icon_families,
    read_image_classes,
    read_image_text,
)
from magjax.evaluation._chance import chance_level
from magjax.evaluation._image_text import (
    IMAGE_TEXT_METRICS,
    evaluate_image_text,
    other_scores,
)
from magjax.evaluation._image_text_direction import IMAGE_TEXT_DIRECTIONS
from magjax.evaluation._progress import progress_bar
from magjax.evaluation._retrieval import RetrievalResult
from magjax.evaluation._zero_shot import (
    PROMPT_TEMPLATES,
    ZeroShotResult,
    check_templates,
    evaluate_zero_shot,
)
from magjax.evaluation.suites._searching import mean_of_rows, result_row, skipped_notes
from magjax.evaluation.suites._suite import SuiteAverage, SuiteReport, SuiteRow, SuiteSettings
from magjax.similarity import Score

__all__ = ["run_clip"]


def run_clip(model: hub.Model, root: Path, settings: SuiteSettings) -> SuiteReport:
    """Recall at 1, 5 and 10 in both directions of every image-text set at or below ``root``.

    Beside the model's rows stands the level of chance. With several sets each direction has a mean,
    in which every set weighs the same.

    Args:
        model: a side of texts and one of images; which one is the query, it says itself.
        root: a folder with a table or shards of the split, or folders of them.
        settings: ``split`` (default ``test``), ``k``, ``metrics`` and the options of ``CLIP_OPTIONS``.

    Raises:
        InputError: no set, one that cannot be read, or a model without a side of images.
    """
    split = settings.split or "test"
    metrics = tuple(settings.metrics or IMAGE_TEXT_METRICS)
    depth = settings.depth(metrics)
    scores = {"model": model.require_score()}
    if settings.option("all_scores", False):
        scores = other_scores(scores)
    templates = check_templates(settings.option("templates", "|".join(PROMPT_TEMPLATES)).split("|"))
    on_error = settings.option("on_error", "raise")
    if on_error not in ("raise", "skip"):
        raise InputError(f"--option=on_error={on_error} must be raise or skip.")
    text = TextPreprocessor(model.tokenizer, model.text)
    each = settings.option("images_per_batch", 64)
    results: list[RetrievalResult] = []
    notes = []
    for name, place in _sets(root, split).items():
        data = read_image_text(
            place,
            image_field=settings.option("image_field", ""),
            caption_field=settings.option("caption_field", ""),
            on_error=on_error,  # type: ignore[arg-type]
        )
        if data.skipped:
            notes.append(f"{name}: skipped {data.skipped} images that cannot be read.")
        test = ImageTextBenchmark.of(data, f"{name}/{split}")
        with progress_bar(test.name) as progress:
            own = evaluate_image_text(
                model,
                test,
                scores,
                k=depth,
                metrics=metrics,
                text_preprocessor=text,
                tokens_per_batch=settings.tokens_per_batch,
                images_per_batch=each,
                progress=progress,
            )
        results += _by_direction(chance_level(test, metrics=metrics, k=depth), own)
    rows = [result_row(result) for result in results]
    averages = _averages(results, rows)
    classified = _zero_shot(model, settings, scores, templates, each)
    rows += [_class_row(result) for result in classified]
    return SuiteReport(
        suite="clip",
        rows=rows,
        averages=averages,
        notes=[*notes, *skipped_notes(results), *_class_notes(classified), text.describe()],
        retrieval=results,
        per_item={
            f"{result.name}.{result.system}": [
                {"image": image, "class": found} for image, found in result.predictions.items()
            ]
            for result in classified
        },
    )


def _sets(root: Path, split: str) -> dict[str, Path]:
    """Name and table of each set: the root's own, else those of the folders in it."""

    def has(folder: Path) -> bool:
        return any(folder.glob(f"{split}.*")) or any(folder.glob(f"{split}*.tar"))

    folders = [root] if has(root) else sorted(f for f in root.iterdir() if f.is_dir() and has(f))
    if not folders:
        raise InputError(
            f"{root} holds no image-text set: {split}.jsonl, .csv, .tsv or {split}-000.tar, in it or "
            "in a folder of it; name another --root= or --split=."
        )
    return {folder.resolve().name: find_image_text(folder, split) for folder in folders}


def _by_direction(
    chance: Sequence[RetrievalResult], own: Sequence[RetrievalResult]
) -> list[RetrievalResult]:
    return [
        result
        for direction in IMAGE_TEXT_DIRECTIONS
        for result in (*chance, *own)
        if result.domain.endswith(f":{direction}")
    ]


def _averages(results: Sequence[RetrievalResult], rows: Sequence[SuiteRow]) -> list[SuiteAverage]:
    sets = len({result.domain for result in results}) // len(IMAGE_TEXT_DIRECTIONS)
    if sets < 2:
        return []
    averages = []
    for direction in IMAGE_TEXT_DIRECTIONS:
        own = [row for row in rows if row.name.endswith(f":{direction}")]
        averages += mean_of_rows(own, f"mean of {sets} sets, {direction}")
    return averages


def _zero_shot(
    model: hub.Model,
    settings: SuiteSettings,
    scores: Mapping[str, Score],
    templates: Sequence[str],
    images_per_batch: int,
) -> list[ZeroShotResult]:
    place = settings.option("zero_shot", "")
    if not place:
        return []
    data = icon_families() if place == "icons" else read_image_classes(place)
    name = f"zero-shot {Path(place).name}"
    with progress_bar(name) as progress:
        return evaluate_zero_shot(
            model,
            data,
            name=name,
            templates=templates,
            scores=scores,
            tokens_per_batch=settings.tokens_per_batch,
            images_per_batch=images_per_batch,
            progress=progress,
        )


def _class_row(result: ZeroShotResult) -> SuiteRow:
    return SuiteRow(
        name=result.name,
        system=result.system,
        values=dict(result.accuracy),
        counts={"images": len(result.predictions), "classes": len(result.classes)},
        fingerprint=result.fingerprint,
        score=result.score,
        details=result.to_json(),
    )


def _class_notes(results: Sequence[ZeroShotResult]) -> list[str]:
    return [
        f"{result.name}: the most frequent class alone would reach {result.chance:.4f}; sentences: "
        + " | ".join(result.templates)
        for result in results[:1]
    ]
