"""The tables of a study's report, as texts."""

from collections.abc import Sequence

from magjax.study._cells import StoredCell
from magjax.study._document import Table
from magjax.study._grid import StudyGrid
from magjax.study._state import Group, StudyState
from magjax.study._tables import Comparison, TableRow
from magjax.study._verdicts import Verdict

__all__ = ["comparison_table", "result_tables", "trial_table", "verdict_line", "verdict_table"]


def result_tables(rows: Sequence[TableRow], metric: str, confidence: float) -> list[Table]:
    """One table a task: a line a start and system, two columns a test.

    >>> result_tables([], "ndcg@10", 0.95)
    []
    """
    tables = []
    for task in dict.fromkeys(row.unit.task for row in rows):
        of_task = [row for row in rows if row.unit.task == task]
        domains = list(dict.fromkeys((row.unit.domain, row.unit.place) for row in of_task))
        found = {(row.unit.start, row.system, row.unit.domain): row for row in of_task}
        header = ["start", "system"]
        for domain, place in domains:
            header += [f"{domain} ({place})", "seeds won"]
        lines = []
        for start, system in dict.fromkeys((row.unit.start, row.system) for row in of_task):
            line = [start, system]
            for domain, _ in domains:
                row = found.get((start, system, domain))
                line += ["", ""] if row is None else [_mean(row), _wins(row)]
            lines.append(line)
        caption = f"{task}: {metric}, mean over seeds ± half of Student's {confidence:.0%} interval"
        tables.append(Table(header, lines, words=2, caption=caption))
    return tables


def _mean(row: TableRow) -> str:
    if row.mean is None:
        return f"all {row.failed} runs failed"
    text = f"{row.mean:.4f}"
    if row.low is not None and row.high is not None:
        text += f" ± {(row.high - row.low) / 2:.4f}"
    return f"{text} ({row.failed} failed)" if row.failed else text


def _wins(row: TableRow) -> str:
    return "" if row.wins is None else f"{row.wins} of {len(row.seeds) + row.failed}"


def comparison_table(rows: Sequence[TableRow], reference: str, confidence: float) -> Table | None:
    """Each variant against the reference and against the best one; None without any.

    >>> comparison_table([], "cosine", 0.95)
    """
    lines = []
    for row in rows:
        pairs: list[tuple[str, Comparison | None]] = [(reference, row.reference)]
        if row.leader is not None and row.leader.other != reference:
            pairs.append((f"{row.leader.other} (best)", row.leader))
        for name, comparison in pairs:
            if comparison is not None:
                lines.append([row.unit.label, row.system, name, *_compared(comparison)])
    if not lines:
        return None
    header = ["test", "variant", "against", "difference", f"{confidence:.0%} interval"]
    header += ["p after Holm", "items won", "items lost"]
    return Table(header, lines, words=3, caption="Paired differences, means over seeds")


def _compared(comparison: Comparison) -> list[str]:
    found = comparison.found
    return [
        f"{found.mean:+.4f}",
        _ends(found.low, found.high),
        _p(comparison.corrected),
        f"{comparison.won:,}",
        f"{comparison.lost:,}",
    ]


def _ends(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:+.4f} to {high:+.4f}"


def _p(value: float | None) -> str:
    if value is None:
        return ""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def verdict_table(verdicts: Sequence[Verdict], confidence: float) -> Table:
    """One line a claim, with all numbers.

    >>> verdict_table([], 0.95).header[:2]
    ['claim', 'verdict']
    """
    header = ["claim", "verdict", "compared", "on", "difference", f"{confidence:.0%} interval"]
    header += ["margin", "p items", "p seeds", "p after Holm", "seeds", "items"]
    lines = []
    for verdict in verdicts:
        compared = f"{verdict.best} against {verdict.rival}" if verdict.best else ""
        where = "; ".join(unit.label for unit in verdict.units)
        line = [verdict.claim.text, verdict.decision, compared, where]
        if verdict.difference is None:
            line += [""] * 8
        else:
            line += [f"{verdict.difference:+.4f}", _ends(verdict.low, verdict.high)]
            line += [f"{verdict.claim.margin:g}", _p(verdict.p_items), _p(verdict.p_seeds)]
            line += [_p(verdict.corrected), f"{verdict.seeds}", f"{verdict.items:,}"]
        lines.append(line)
    return Table(header, lines, words=4)


def verdict_line(verdict: Verdict) -> str:
    """A claim and its verdict in one sentence.

    >>> verdict_line(verdict)  # doctest: +SKIP
    'Supported: one side beats both. dnorm against cosine: +0.012 ndcg@10 ...'
    """
    text = f"{verdict.decision.capitalize()}: {verdict.claim.text}"
    if verdict.difference is not None:
        text += (
            f" {verdict.best} against {verdict.rival}: {verdict.difference:+.4f} "
            f"{verdict.claim.metric} ({_ends(verdict.low, verdict.high)}; p after Holm "
            f"{_p(verdict.corrected)}; {verdict.seeds} seeds, {verdict.items:,} items)."
        )
    return " ".join([text, *verdict.notes])


def trial_table(grid: StudyGrid, state: StudyState) -> Table | None:
    """The development value of every trial, the chosen one marked; None without trials.

    >>> from magjax.config import retrieval_config, study_config, to_json
    >>> config = study_config(retrieval_config(variant="cosine", seed=0), name="toy")
    >>> trial_table(StudyGrid.of(to_json(config)), StudyState([], [], {}, 0))
    """
    trials = [cell for cell in state.cells if cell.role == "trial"]
    if not trials:
        return None
    found: dict[Group, dict[int, StoredCell]] = {}
    for cell in trials:
        assert cell.trial is not None
        found.setdefault(cell.cell().group, {})[cell.trial] = cell
    names = [grid.describe_trial(i) for i in range(len(grid.config["trials"]))]
    lines = []
    for group, cells in found.items():
        line = list(group)
        for i in range(len(names)):
            line.append(_trial(cells.get(i), state.choices.get(group) == i))
        lines.append(line)
    return Table(
        ["task", "start", "variant", *names],
        lines,
        words=3,
        caption="Development value of each trial at the first seed; * is chosen for all seeds",
    )


def _trial(cell: StoredCell | None, chosen: bool) -> str:
    if cell is None:
        return ""
    text = "failed" if cell.result.failure else f"{cell.result.development['value']:.4f}"
    return f"{text} *" if chosen else text
