"""Evaluates a checkpoint on retrieval benchmarks, or on a published suite of them.

    python launch/evaluate.py --checkpoint=runs/code --data=code
    python launch/evaluate.py --checkpoint=MODEL_FOLDER --data=BEIR_FOLDER --score=cosine --bm25
    python launch/evaluate.py --checkpoint=runs/code --data=code --index=faiss:HNSW32
    python launch/evaluate.py --checkpoint=runs/code --suite=beir --root=FOLDER_OF_SETS
    python launch/evaluate.py --run=RUN.trec --qrels=qrels/test.tsv

The score, pooling, prompts and lengths are the trained model's. A folder that states no score
needs --score=; naming one for a model that was trained under another is a cross-evaluation, and
is said to be one. --index= adds a row for an approximate index and says what it loses. --suite=
reads the benchmark's own files under --root= and averages as the benchmark does (docs/evaluation.md).
--run= measures a run that is there already; no model is loaded. Prints a table; --workdir= also
receives results.json, TREC runs and per-query values.
"""

import dataclasses
from collections.abc import Sequence

from absl import flags

from magjax import hub
from magjax.checks import InputError, choose
from magjax.config import run_main
from magjax.data import read_benchmarks
from magjax.evaluation import METRICS as USUAL
from magjax.evaluation import (
    check_depth,
    check_index,
    evaluate_benchmarks,
    evaluate_run_file,
    format_results,
    write_results,
)
from magjax.evaluation.suites import SUITES, SuiteSettings, write_suite
from magjax.similarity import Score
from magjax.study import restore_step

CHECKPOINT = flags.DEFINE_string("checkpoint", None, "Run folder, model folder or hub id.")
STEP = flags.DEFINE_integer("step", None, "A step of a run folder's checkpoints/, not its best.")
DATA = flags.DEFINE_multi_string("data", [], "BEIR folder, or 'code'; may be repeated.")
SUITE = flags.DEFINE_string("suite", None, f"A published suite: {', '.join(SUITES)}.")
ROOT = flags.DEFINE_string("root", None, "The folder of the suite's data.")
OPTION = flags.DEFINE_multi_string("option", [], "NAME=VALUE of one suite; may be repeated.")
RUN = flags.DEFINE_string("run", None, "A TREC run to measure; needs --qrels= and no model.")
QRELS = flags.DEFINE_string("qrels", None, "Judgements of --run=.")
RELEVANCE_LEVEL = flags.DEFINE_integer("relevance_level", 1, "Least grade that is relevant.")
SPLIT = flags.DEFINE_string("split", None, "Judgements to use; of a BEIR folder qrels/SPLIT.tsv.")
SCORE = flags.DEFINE_string(
    "score", None, "Rank by cosine, dot, qnorm, dnorm or GAMMA_QUERY,GAMMA_DOCUMENT."
)
WORKDIR = flags.DEFINE_string("workdir", None, "Folder for results.json, runs/ and per_query/.")
K = flags.DEFINE_integer("k", None, "Documents a query; default: 100, or the suite's own.")
METRICS = flags.DEFINE_list("metrics", [], "Metrics such as ndcg@10; default: the usual five.")
BM25 = flags.DEFINE_bool("bm25", False, "Add a BM25 row.")
INDEX = flags.DEFINE_string(
    "index", "exact", "Also search by faiss:FACTORY, such as faiss:HNSW32 or faiss:IVF64,Flat."
)
INDEX_SEARCH = flags.DEFINE_string("index_search", "", "Such as efSearch=64 or nprobe=8.")
IGNORE_IDENTICAL_IDS = flags.DEFINE_bool(
    "ignore_identical_ids", None, "Never return the document whose id is the query's (ArguAna)."
)
ALLOW_ASYMMETRIC = flags.DEFINE_bool(
    "allow_asymmetric", False, "Let a one-sided score rank a symmetric task, in both orders."
)
SEED = flags.DEFINE_integer("seed", 0, "Of what a suite draws.")
CROSS_EVALUATION = flags.DEFINE_bool(
    "cross_evaluation", False, "Let pooling, prompts and lengths replace the trained model's."
)
POOLING = flags.DEFINE_string("pooling", None, "Pooling of a folder that states none.")
QUERY_PROMPT = flags.DEFINE_string("query_prompt", None, "Put before each query.")
DOCUMENT_PROMPT = flags.DEFINE_string("document_prompt", None, "Put before each document.")
QUERY_MAX_LENGTH = flags.DEFINE_integer("query_max_length", None, "Most tokens of a query.")
DOCUMENT_MAX_LENGTH = flags.DEFINE_integer("document_max_length", None, "Most of a document.")
DTYPE = flags.DEFINE_string("dtype", "float32", "Compute dtype: float32 or bfloat16.")
TOKENS_PER_BATCH = flags.DEFINE_integer("tokens_per_batch", 2048, "Tokens of a device's batch.")

_SUITE_ONLY = (SUITE, ROOT, OPTION, ALLOW_ASYMMETRIC, SEED)
_DATA_ONLY = (DATA, INDEX, INDEX_SEARCH)
_RUN_ONLY = (RUN, QRELS, RELEVANCE_LEVEL)
_MODEL = (
    *(CHECKPOINT, STEP, SCORE, SPLIT, K, BM25, IGNORE_IDENTICAL_IDS, CROSS_EVALUATION, POOLING),
    *(QUERY_PROMPT, DOCUMENT_PROMPT, QUERY_MAX_LENGTH, DOCUMENT_MAX_LENGTH, DTYPE),
    TOKENS_PER_BATCH,
)


def main() -> int:
    """Evaluates what one of --data, --suite and --run names."""
    named = [flag for flag in (DATA, SUITE, RUN) if flag.value]
    if len(named) > 1:
        both = " and ".join(f"--{flag.name}" for flag in named)
        raise InputError(f"{both} exclude each other; evaluate one at a time.")
    if RUN.value:
        _refuse("run", (*_DATA_ONLY, *_SUITE_ONLY, *_MODEL))
        return evaluate_run()
    if SUITE.value:
        _refuse("suite", (*_DATA_ONLY, *_RUN_ONLY))
        return evaluate_suite()
    _refuse("data", (*_SUITE_ONLY, *_RUN_ONLY))
    return evaluate_data()


def evaluate_run() -> int:
    """Measures a run file; prints a table and writes the workdir."""
    if not QRELS.value:
        raise InputError("--run needs --qrels=, the judgements to measure it by.")
    result = evaluate_run_file(
        RUN.value,
        QRELS.value,
        metrics=METRICS.value or USUAL,
        relevance_level=RELEVANCE_LEVEL.value,
    )
    print(format_results([result]))
    if WORKDIR.value:
        about = {"run": RUN.value, "qrels": QRELS.value, "relevance_level": RELEVANCE_LEVEL.value}
        write_results(WORKDIR.value, [result], about)
    return 0


def evaluate_suite() -> int:
    """Runs a suite; prints its table and writes the workdir."""
    suite = SUITES[choose("suite", SUITE.value, SUITES)]
    fields = [field.name for field in dataclasses.fields(SuiteSettings) if field.name != "options"]
    suite.check_taken([name for name in fields if flags.FLAGS[name].present])
    options: dict[str, str] = {}
    for item in OPTION.value:
        name, equals, value = item.partition("=")
        if not equals or name in options:
            raise InputError(f"--option={item} must be NAME=VALUE, each NAME once.")
        options[name] = value
    settings = SuiteSettings(
        split=SPLIT.value,
        k=K.value,
        metrics=tuple(METRICS.value),
        tokens_per_batch=TOKENS_PER_BATCH.value,
        bm25=BM25.value,
        ignore_identical_ids=IGNORE_IDENTICAL_IDS.value,
        allow_asymmetric=ALLOW_ASYMMETRIC.value,
        seed=SEED.value,
        options=options,
    )
    if not ROOT.value:
        raise InputError(f"--suite={suite.name} needs --root=, a folder with {suite.looks_for}.")
    suite.check(ROOT.value, settings)
    model = _load()
    report = suite(model, ROOT.value, settings)
    print(report.format())
    if WORKDIR.value:
        write_suite(WORKDIR.value, report, {**_about(model), "root": ROOT.value})
    return 0


def evaluate_data() -> int:
    """Evaluates benchmark by benchmark; prints a table and writes the workdir."""
    if not CHECKPOINT.value:
        raise InputError(_NO_CHECKPOINT)
    if not DATA.value:
        raise InputError(
            "--data is missing; name a BEIR folder, or 'code' for code search (or a --suite=)."
        )
    metrics, k = METRICS.value or USUAL, 100 if K.value is None else K.value
    check_depth(metrics, k)
    check_index(INDEX.value, INDEX_SEARCH.value)
    model = _load()
    results, indexes = evaluate_benchmarks(
        model,
        read_benchmarks(DATA.value, SPLIT.value or "test"),
        k=k,
        metrics=metrics,
        ignore_identical_ids=bool(IGNORE_IDENTICAL_IDS.value),
        tokens_per_batch=TOKENS_PER_BATCH.value,
        bm25=BM25.value,
        index=INDEX.value,
        index_search=INDEX_SEARCH.value,
    )
    print("\n".join([format_results(results), *(index.describe() for index in indexes)]))
    if WORKDIR.value:
        about = _about(model)
        if indexes:
            about["indexes"] = [index.to_json() for index in indexes]
        write_results(WORKDIR.value, results, about)
    return 0


_NO_CHECKPOINT = "--checkpoint is missing; name a run folder or a model folder."


def _load() -> hub.Model:
    if not CHECKPOINT.value:
        raise InputError(_NO_CHECKPOINT)
    named = Score.parse(SCORE.value) if SCORE.value else None
    model = hub.load(
        CHECKPOINT.value,
        step=STEP.value,
        restore=restore_step,
        dtype=DTYPE.value,
        pooling=POOLING.value,
        query_prompt=QUERY_PROMPT.value,
        document_prompt=DOCUMENT_PROMPT.value,
        query_max_length=QUERY_MAX_LENGTH.value,
        document_max_length=DOCUMENT_MAX_LENGTH.value,
        cross_evaluation=CROSS_EVALUATION.value,
    )
    return model.ranked_by(named)


def _about(model: hub.Model) -> dict:
    return {
        "checkpoint": CHECKPOINT.value,
        "pooling": model.encoder.pooling,
        "text": model.text.to_json(),
    }


def _refuse(mode: str, others: Sequence[flags.FlagHolder]) -> None:
    for flag in others:
        if flags.FLAGS[flag.name].present:
            raise InputError(f"--{flag.name} is not a flag of an evaluation by --{mode}.")


if __name__ == "__main__":
    run_main(main)
