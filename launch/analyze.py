"""Analyses what the lengths of a trained model's embeddings carry.

    python launch/analyze.py magnitude --checkpoint=runs/code --data=code --workdir=runs/code
    python launch/analyze.py magnitude --checkpoint=MODEL_FOLDER --data=BEIR_FOLDER --score=dot
    python launch/analyze.py gradients --checkpoint=runs/code --data=code --workdir=runs/code
    python launch/analyze.py cross --checkpoint=runs/cosine --checkpoint=runs/qnorm --data=code

magnitude compares the lengths of relevant documents with those of others, relates lengths to text
length, hubness, loss and gradients, and ranks again with the documents' lengths shuffled or
removed. gradients makes queries shorter and longer and measures what that does to the gradients of
their losses, under every score, beside the closed forms. cross ranks by every score for every
model, checks the rankings that must coincide, and compares the others. Tables are printed; --workdir= also receives JSON and pictures (docs/analysis.md).
"""

from typing import Any

from absl import flags

from magjax import hub
from magjax.checks import InputError, RunError, choose
from magjax.config import run_main
from magjax.data import Benchmark, read_benchmarks
from magjax.similarity import Score
from magjax.study import restore_step

CHECKPOINT = flags.DEFINE_multi_string("checkpoint", [], "Run folder, model folder or hub id.")
STEP = flags.DEFINE_integer("step", None, "A step of a run folder's checkpoints/, not its best.")
DATA = flags.DEFINE_multi_string("data", [], "BEIR folder, or 'code'; may be repeated.")
SPLIT = flags.DEFINE_string("split", "test", "Judgements of a BEIR folder: qrels/SPLIT.tsv.")
SCORE = flags.DEFINE_string(
    "score", None, "Rank by cosine, dot, qnorm, dnorm or GAMMA_QUERY,GAMMA_DOCUMENT."
)
WORKDIR = flags.DEFINE_string("workdir", None, "Folder for the JSON and the pictures.")
METRICS = flags.DEFINE_list("metrics", [], "Metrics such as ndcg@10; default: the usual ones.")
IGNORE_IDENTICAL_IDS = flags.DEFINE_bool(
    "ignore_identical_ids", False, "Never return the document whose id is the query's (ArguAna)."
)
SEED = flags.DEFINE_integer("seed", 0, "Of everything that is drawn.")
RESAMPLES = flags.DEFINE_integer("resamples", None, "Bootstrap resamples of each interval.")
DTYPE = flags.DEFINE_string("dtype", "float32", "Compute dtype: float32 or bfloat16.")
TOKENS_PER_BATCH = flags.DEFINE_integer("tokens_per_batch", 2048, "Tokens of a device's batch.")

NEGATIVES = flags.DEFINE_list(
    "negatives", ["random", "top_k", "all"], "Documents to compare with: random, top_k, all."
)
RANDOM = flags.DEFINE_integer("random", 100, "Non-relevant documents a query of 'random'.")
TOP_K = flags.DEFINE_integer("top_k", 100, "Documents retrieved a query for 'top_k'.")
SHUFFLES = flags.DEFINE_integer("shuffles", 5, "How often documents' lengths are shuffled.")
CANDIDATES = flags.DEFINE_integer(
    "candidates", 0, "Documents of each query's loss, the relevant ones among them; 0: all."
)

SCORES = flags.DEFINE_multi_string(
    "scores", [], "As --score; may be repeated. Default: the four presets and the model's own."
)
QUERIES = flags.DEFINE_integer("queries", 256, "Queries drawn.")
DOCUMENTS = flags.DEFINE_integer(
    "documents", 256, "Candidates drawn beside the queries' own answers; 0: those alone."
)
LOWEST = flags.DEFINE_float("lowest", 1 / 16, "Smallest factor of a query's length.")
HIGHEST = flags.DEFINE_float("highest", 16.0, "Largest factor of a query's length.")
POINTS = flags.DEFINE_integer("points", 17, "Factors, evenly spaced in their logarithm.")
TEMPERATURE = flags.DEFINE_float(
    "temperature", None, "Of every score; default: the model's, and comparable ones."
)
DIFFICULTY = flags.DEFINE_string("difficulty", "loss", "Easy to hard queries by loss or rank.")
PARAMETERS = flags.DEFINE_string(
    "parameters",
    "last_block",
    "Parameter gradients of: last_block, all, projection, embeddings, a pattern of names, or none.",
)
PARAMETER_QUERIES = flags.DEFINE_integer(
    "parameter_queries", 16, "Queries whose parameter gradients are measured."
)
PARAMETER_POINTS = flags.DEFINE_integer("parameter_points", 5, "Factors of theirs.")

K = flags.DEFINE_integer("k", 100, "Documents a query.")
REVERSE = flags.DEFINE_bool("reverse", False, "Also rank queries for documents.")
BASELINE = flags.DEFINE_string(
    "baseline", None, "Model that gains out of domain are over; default: the first of cosine."
)

_MODEL = (CHECKPOINT, STEP, DTYPE, TOKENS_PER_BATCH)
_TEXTS = (DATA, SPLIT, IGNORE_IDENTICAL_IDS)
_RESULTS = (WORKDIR, SEED, RESAMPLES)
_COMPARED = (NEGATIVES, RANDOM, TOP_K, SHUFFLES, CANDIDATES)
_DRAWN = (QUERIES, DOCUMENTS, LOWEST, HIGHEST, POINTS, TEMPERATURE, DIFFICULTY)
_PARAMETERS = (PARAMETERS, PARAMETER_QUERIES, PARAMETER_POINTS)


def magnitude() -> int:
    """What document and query lengths say on each data set."""
    from magjax.analysis import (
        MagnitudeSettings,
        format_magnitude,
        measure_model_magnitude,
        write_magnitude,
    )
    from magjax.evaluation import progress_bar

    settings = MagnitudeSettings(
        negatives=tuple(NEGATIVES.value),
        random=RANDOM.value,
        top_k=TOP_K.value,
        shuffles=SHUFFLES.value,
        candidates=CANDIDATES.value or None,
        seed=SEED.value,
        **({"metrics": tuple(METRICS.value)} if METRICS.value else {}),
        **({} if RESAMPLES.value is None else {"resamples": RESAMPLES.value}),
    )
    checkpoint = _only(CHECKPOINT, "a run folder or a model folder")
    benchmarks = _benchmarks()
    model = _load(checkpoint, SCORE.value)
    model.require_score()
    reports = []
    for benchmark in benchmarks:
        with progress_bar(benchmark.name) as progress:
            report = measure_model_magnitude(
                model,
                benchmark,
                settings,
                ignore_identical_ids=IGNORE_IDENTICAL_IDS.value,
                tokens_per_batch=TOKENS_PER_BATCH.value,
                progress=progress,
            )
        reports.append(report)
        print(format_magnitude(report), end="\n\n")
    if WORKDIR.value:
        paths = write_magnitude(WORKDIR.value, reports, {"checkpoint": checkpoint})
        print(f"wrote {', '.join(map(str, paths))}.")
    return 0


def gradients() -> int:
    """What the length of queries does to gradients, on each data set."""
    from magjax.analysis import (
        GradientSettings,
        format_gradients,
        measure_gradients,
        write_gradients,
    )
    from magjax.evaluation import progress_bar

    settings = GradientSettings(
        queries=QUERIES.value,
        documents=DOCUMENTS.value,
        lowest=LOWEST.value,
        highest=HIGHEST.value,
        points=POINTS.value,
        difficulty=DIFFICULTY.value,
        parameters=PARAMETERS.value,
        parameter_queries=PARAMETER_QUERIES.value,
        parameter_points=PARAMETER_POINTS.value,
        seed=SEED.value,
    )
    checkpoint = _only(CHECKPOINT, "a run folder or a model folder")
    benchmarks = _benchmarks()
    model = _load(checkpoint)
    scores = [Score.parse(text) for text in SCORES.value] or None
    reports = []
    for benchmark in benchmarks:
        with progress_bar(benchmark.name) as progress:
            report = measure_gradients(
                model,
                benchmark,
                scores,
                settings,
                temperature=TEMPERATURE.value,
                tokens_per_batch=TOKENS_PER_BATCH.value,
                progress=progress,
            )
        reports.append(report)
        print(format_gradients(report), end="\n\n")
    if WORKDIR.value:
        paths = write_gradients(WORKDIR.value, reports, {"checkpoint": checkpoint})
        print(f"wrote {', '.join(map(str, paths))}.")
    return 0


def cross() -> int:
    """Every model under every score, on each data set."""
    from magjax.analysis import (
        all_cross_deltas,
        all_domain_gaps,
        cross_evaluate_models,
        format_cross,
        format_gaps,
        model_names,
        write_cross,
    )
    from magjax.evaluation import progress_bar

    if not CHECKPOINT.value:
        raise InputError(
            "--checkpoint is missing; name run or model folders, each by its own flag."
        )
    scores = [Score.parse(text) for text in SCORES.value] or None
    names = model_names(CHECKPOINT.value)
    benchmarks = _benchmarks()
    models = {
        name: _load(checkpoint) for name, checkpoint in zip(names, CHECKPOINT.value, strict=True)
    }
    if BASELINE.value is not None:
        choose("baseline", BASELINE.value, models)
    settings = {"seed": SEED.value, **_given(resamples=RESAMPLES.value)}
    tables, deltas = [], []
    for table in cross_evaluate_models(
        models,
        benchmarks,
        scores,
        **_given(metrics=METRICS.value or None),
        k=K.value,
        both_directions=REVERSE.value,
        ignore_identical_ids=IGNORE_IDENTICAL_IDS.value,
        tokens_per_batch=TOKENS_PER_BATCH.value,
        progress=progress_bar,
    ):
        tables.append(table)
        deltas.append(all_cross_deltas(table, **settings))
        print(format_cross(table, deltas[-1]), end="\n\n")
    gaps = all_domain_gaps(tables, baseline=BASELINE.value, **settings)
    if gaps:
        print(format_gaps(gaps), end="\n\n")
    if WORKDIR.value:
        about = {"checkpoints": dict(zip(names, CHECKPOINT.value, strict=True))}
        paths = write_cross(WORKDIR.value, tables, deltas, gaps, about)
        print(f"wrote {', '.join(map(str, paths))}.")
    broken = [found.describe() for table in tables for found in table.violations]
    if broken:
        raise RunError(f"rankings that must coincide do not: {'; '.join(broken)}.")
    return 0


COMMANDS = {
    "magnitude": (
        magnitude,
        (*_MODEL, *_TEXTS, *_RESULTS, SCORE, METRICS, *_COMPARED),
    ),
    "gradients": (
        gradients,
        (*_MODEL, DATA, SPLIT, WORKDIR, SEED, SCORES, *_DRAWN, *_PARAMETERS),
    ),
    "cross": (cross, (*_MODEL, *_TEXTS, *_RESULTS, SCORES, METRICS, K, REVERSE, BASELINE)),
}
"""Per command what it runs and the flags that it takes; those of another are refused."""


def main(command: str) -> int:
    """Runs one command."""
    return COMMANDS[command][0]()


def _load(checkpoint: str, score: str | None = None) -> hub.Model:
    """The model; under another score than its own it is a cross-evaluation, and is said to be."""
    model = hub.load(checkpoint, step=STEP.value, restore=restore_step, dtype=DTYPE.value)
    return model.ranked_by(Score.parse(score) if score else None)


def _benchmarks() -> list[Benchmark]:
    """All data sets, read before the first is embedded."""
    if not DATA.value:
        raise InputError("--data is missing; name a BEIR folder, or 'code' for code search.")
    return read_benchmarks(DATA.value, SPLIT.value)


def _given(**values: Any) -> dict[str, Any]:
    """Those that the command line sets."""
    return {name: value for name, value in values.items() if value is not None}


def _only(flag: flags.FlagHolder, what: str) -> str:
    """The flag's one value; other commands take several."""
    if len(flag.value) != 1:
        came = f"given {len(flag.value)} times" if flag.value else "missing"
        raise InputError(f"--{flag.name} is {came}; name {what}, once.")
    return flag.value[0]


if __name__ == "__main__":
    run_main(
        main,
        commands={word: [flag.name for flag in taken] for word, (_, taken) in COMMANDS.items()},
    )
