"""The report of a study: Markdown, HTML in one file, tables and pictures."""

import os
from collections.abc import Sequence
from pathlib import Path

from magjax.config import differences, to_json
from magjax.files import json_safe, write_bytes, write_json, write_text
from magjax.study._document import (
    Block,
    Code,
    Heading,
    Items,
    Paragraph,
    Picture,
    Table,
    to_html,
    to_latex,
    to_markdown,
)
from magjax.study._grid import StudyGrid, change_config
from magjax.study._report_pictures import curve_pictures, value_picture
from magjax.study._report_tables import (
    comparison_table,
    result_tables,
    trial_table,
    verdict_line,
    verdict_table,
)
from magjax.study._state import StudyState
from magjax.study._tables import TableRow, study_csv, study_rows
from magjax.study._tasks import kind_of
from magjax.study._verdicts import Verdict, verdicts

__all__ = ["write_report"]

_VERDICTS = (
    "A claim compares the mean of the best system on one side with that of the best on the other, "
    "over all seeds and items (such as queries). Two p-values are two-sided against the margin. "
    "That of the items: seeds are drawn anew, then items, the same for all systems, and the "
    "difference is taken again, with its choice of the best. That of the seeds: Student's t over "
    "the difference at each seed. The larger one counts, corrected by Holm over all claims of the "
    "study. Supported: the corrected p is small and the difference above the margin. Not "
    "supported: it is small and the difference below the margin. Undecided: it is not small."
)

_WORDS = {
    "cosine": "cosine divides the embeddings of queries and documents by their lengths",
    "dot": "dot leaves both as they are",
    "qnorm": "qnorm divides only those of queries",
    "dnorm": "dnorm divides only those of documents",
    "learnable": "learnable divides each side by a power of the length that training finds",
}
_METRICS = {
    "ndcg": "1 where the right documents lead the list, less the lower they stand, 0 without any",
    "mrr": "one over the place of the first right document",
    "recall": "the share of the right documents that are found",
    "map": "the mean of the precision at every right document",
    "success": "1 where some right document is found",
}


def write_report(
    grid: StudyGrid, state: StudyState, out: str | os.PathLike[str], *, command: str
) -> list[Verdict]:
    """Writes ``NAME.md``, ``NAME.html`` and, in ``NAME/``, tables, pictures, config and verdicts.

    Only what the cells hold goes in, so that the same cells give the same files.

    Args:
        grid: the study.
        state: its cells; where some are missing the report says so.
        out: folder of all studies.
        command: that runs the study, as the report states it.

    Returns:
        The verdicts, one a claim.

    Raises:
        InputError: a claim names an unknown domain, or cells disagree on a test.

    >>> write_report(grid, state, "docs/studies", command="python launch/study.py")  # doctest: +SKIP
    []
    """
    config, name = grid.config, grid.config["name"]
    confidence, metric = config["confidence"], config["metrics"][0]
    rows = study_rows(
        state.cells,
        metric,
        reference=config["reference"],
        inside=config["in_domain"],
        confidence=confidence,
        resamples=config["resamples"],
    )
    found = verdicts(state.cells, grid.claims, confidence=confidence, resamples=config["resamples"])
    tables = result_tables(rows, metric, confidence)
    blocks: list[Block] = [
        *_opening(grid, state, found),
        *_set_up(grid, state),
        *_judgements(found, confidence),
        *_results(grid, rows, tables),
        *_training(grid, state),
        *_sources(grid, state, command),
    ]
    root = Path(out)
    for block in blocks:
        if isinstance(block, Picture):
            write_bytes(root / block.path, block.content)
    write_text(root / name / "table.csv", study_csv(rows, metric))
    write_text(root / name / "table.tex", to_latex(tables))
    write_json(root / name / "config.json", dict(config))
    write_json(root / name / "verdicts.json", [json_safe(verdict.to_json()) for verdict in found])
    write_text(root / f"{name}.md", to_markdown(blocks))
    write_text(root / f"{name}.html", to_html(blocks, _title(grid)))
    return found


def _title(grid: StudyGrid) -> str:
    return grid.config["title"] or grid.config["name"]


def _opening(grid: StudyGrid, state: StudyState, found: Sequence[Verdict]) -> list[Block]:
    blocks: list[Block] = [Heading(_title(grid), 1)]
    if grid.config["question"]:
        blocks.append(Paragraph(grid.config["question"]))
    if not state.complete:
        total = len(state.missing) + len(state.cells)
        blocks.append(
            Paragraph(
                f"This study is not finished: {len(state.missing)} of {total} cells are missing."
            )
        )
    if found:
        blocks += [Heading("In short"), Items([verdict_line(verdict) for verdict in found])]
    return blocks


def _set_up(grid: StudyGrid, state: StudyState) -> list[Block]:
    config = grid.config
    base = config["base"]
    facts = [
        f"{len(config['variants'])} variants ({', '.join(config['variants'])}), "
        f"{len(config['seeds'])} seeds, starts: {', '.join(config['starts'])}, tasks: "
        f"{', '.join(config['tasks'])}.",
        f"A run takes {base['loop']['steps']} steps of {base['batch_size']} pairs unless a task, "
        f"start or trial below says otherwise; the step with the best {base['loop']['metric']} on "
        "the development split is kept and tested by the score it was trained under.",
    ]
    facts.append(
        f"Variants differ in the score: {'; '.join(_WORDS[name] for name in config['variants'])}."
    )
    metric, _, depth = config["metrics"][0].partition("@")
    if metric in _METRICS:
        among = f" among the first {depth}" if depth else ""
        facts.append(f"{config['metrics'][0]}, per query: {_METRICS[metric]}{among}.")
    if config["trials"]:
        facts.append(
            f"Settings are chosen for each variant alike: {len(config['trials'])} trials at seed "
            f"{config['seeds'][0]}, judged on the development split alone."
        )
    tests: dict[str, str] = {}
    for cell in state.cells:
        for measured in cell.result.measured:
            about = measured.about
            if "queries" in about and "documents" in about:
                tests[measured.domain] = (
                    f"Test {measured.domain}: {about['queries']:,} queries over "
                    f"{about['documents']:,} documents."
                )
    changed = differences(to_json(kind_of(base).default()), base)
    settings = ", ".join(f"{key}={new}" for key, (_, new) in changed.items())
    if settings:
        facts.append(f"The base config differs from the default in {settings}.")
    for axis in ("tasks", "starts"):
        for label, changes in config[axis].items():
            changed = differences(base, change_config(base, changes, f"{axis}.{label}"))
            found = ", ".join(f"{key}={new}" for key, (_, new) in changed.items())
            if found:
                facts.append(f"{axis[:-1].capitalize()} {label}: {found}.")
    blocks: list[Block] = [Heading("Set-up")]
    if config["setup"]:
        blocks.append(Paragraph(config["setup"]))
    return [*blocks, Items([*facts, *tests.values()])]


def _judgements(found: Sequence[Verdict], confidence: float) -> list[Block]:
    if not found:
        return []
    return [Heading("Verdicts"), verdict_table(found, confidence), Paragraph(_VERDICTS)]


def _results(grid: StudyGrid, rows: Sequence[TableRow], tables: Sequence[Table]) -> list[Block]:
    config = grid.config
    confidence, metric = config["confidence"], config["metrics"][0]
    blocks: list[Block] = [Heading("Results")]
    picture = value_picture(rows, metric, confidence, config["name"])
    if picture is not None:
        blocks.append(picture)
    blocks += tables
    if not tables:
        blocks.append(Paragraph("Nothing has been measured yet."))
    blocks.append(
        Paragraph(
            "Each variant is ranked by its own trained score. Seeds won: at how many seeds no other "
            "variant was better; a run that failed has lost. Untrained rows are the start model at "
            "the first seed under each score."
        )
    )
    compared = comparison_table(rows, config["reference"], confidence)
    if compared is not None:
        blocks += [
            compared,
            Paragraph(
                "Paired bootstrap over items of the means over the seeds that both finished; "
                "p-values are corrected by Holm over this table. Training noise is not in these "
                "intervals, and the best variant was found on the same items."
            ),
        ]
    return blocks


def _training(grid: StudyGrid, state: StudyState) -> list[Block]:
    blocks: list[Block] = list(curve_pictures(state.cells, grid.config["name"]))
    chosen = trial_table(grid, state)
    if chosen is not None:
        blocks.append(chosen)
    failed = [f"{cell.id}: {cell.result.failure}" for cell in state.cells if cell.result.failure]
    if failed:
        blocks += [Paragraph("Runs that failed:"), Items(failed)]
    return [Heading("Training"), *blocks] if blocks else []


def _sources(grid: StudyGrid, state: StudyState, command: str) -> list[Block]:
    name = grid.config["name"]
    facts = []
    if state.cells:
        seconds = sum(cell.seconds for cell in state.cells)
        machines = dict.fromkeys(cell.machine for cell in state.cells)
        versions = state.cells[0].versions
        facts = [
            f"{len(state.cells)} cells, {seconds / 60:.1f} minutes of computing in all.",
            f"Machine: {'; '.join(machines)}.",
            f"Versions: {', '.join(f'{key} {value}' for key, value in versions.items())}.",
        ]
    data: dict[str, str] = {}
    for cell in state.cells:
        for part, fingerprint in cell.result.data.items():
            seed = f", seed {cell.seed}" if part in ("train", "development") else ""
            data[f"{cell.task}: {part}{seed}"] = fingerprint
    if data:
        listed = ", ".join(f"{part} {fingerprint}" for part, fingerprint in data.items())
        facts.append(f"Data fingerprints: {listed}.")
    if state.others:
        facts.append(f"{state.others} stored cells are of other settings and left out.")
    rerun = state.cells[-1].id if state.cells else "CELL"
    return [
        Heading("Where the numbers come from"),
        Paragraph(
            f"The first command runs the study, or goes on with it; the second computes one cell "
            f"again and compares it with {name}/cells. {name}/config.json holds every setting, "
            f"{name}/table.csv the table in full, {name}/verdicts.json the verdicts."
        ),
        Code(f"{command}\n{command} --only={rerun}"),
        Items(facts),
    ]
