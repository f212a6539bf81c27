"""Evaluates a checkpoint on retrieval benchmarks.

    python launch/evaluate.py --checkpoint=runs/code --data=code
    python launch/evaluate.py --checkpoint=MODEL_FOLDER --data=BEIR_FOLDER --score=cosine --bm25
    python launch/evaluate.py --checkpoint=runs/code --data=code --index=faiss:HNSW32

The score, pooling, prompts and lengths are the trained model's. A folder that states no score
needs --score=; naming one for a model that was trained under another is a cross-evaluation, and
is said to be one. --index= adds a row for an approximate index and says what it loses. Prints a
table; --workdir= also receives results.json, TREC runs and per-query values.
"""

import dataclasses
import logging
from collections.abc import Iterator, Sequence

from absl import flags

from magjax import hub
from magjax.checks import InputError
from magjax.config import run_main
from magjax.data import Benchmark, TextPreprocessor, code_search, read_beir
from magjax.evaluation import METRICS as USUAL
from magjax.evaluation import (
    check_depth,
    check_index,
    evaluate_bm25,
    evaluate_index,
    evaluate_retrieval,
    format_results,
    progress_bar,
    write_results,
)
from magjax.similarity import Score
from magjax.study import restore_step

CHECKPOINT = flags.DEFINE_string("checkpoint", None, "Run folder, model folder or hub id.")
STEP = flags.DEFINE_integer("step", None, "A step of a run folder's checkpoints/, not its best.")
DATA = flags.DEFINE_multi_string("data", [], "BEIR folder, or 'code'; may be repeated.")
SPLIT = flags.DEFINE_string("split", "test", "Judgements of a BEIR folder: qrels/SPLIT.tsv.")
SCORE = flags.DEFINE_string(
    "score", None, "Rank by cosine, dot, qnorm, dnorm or GAMMA_QUERY,GAMMA_DOCUMENT."
)
WORKDIR = flags.DEFINE_string("workdir", None, "Folder for results.json, runs/ and per_query/.")
K = flags.DEFINE_integer("k", 100, "Documents a query.")
METRICS = flags.DEFINE_list("metrics", [], "Metrics such as ndcg@10; default: the usual five.")
BM25 = flags.DEFINE_bool("bm25", False, "Add a BM25 row.")
INDEX = flags.DEFINE_string(
    "index", "exact", "Also search by faiss:FACTORY, such as faiss:HNSW32 or faiss:IVF64,Flat."
)
INDEX_SEARCH = flags.DEFINE_string("index_search", "", "Such as efSearch=64 or nprobe=8.")
IGNORE_IDENTICAL_IDS = flags.DEFINE_bool(
    "ignore_identical_ids", False, "Never return the document whose id is the query's (ArguAna)."
)
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


def main() -> int:
    """Loads, embeds, searches, measures; prints a table and writes the workdir."""
    if not CHECKPOINT.value:
        raise InputError("--checkpoint is missing; name a run folder or a model folder.")
    if not DATA.value:
        raise InputError("--data is missing; name a BEIR folder, or 'code' for code search.")
    named = Score.parse(SCORE.value) if SCORE.value else None
    metrics = METRICS.value or USUAL
    check_depth(metrics, K.value)
    approximate = check_index(INDEX.value, INDEX_SEARCH.value) is not None
    log = logging.getLogger("magjax")
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
    if named is not None:
        if model.score is not None and not model.score.agrees_with(named):
            log.warning("cross-evaluation: trained for %s, ranked by %s.", model.score, named)
        model = dataclasses.replace(model, score=named)
    score = model.require_score()
    preprocessor = TextPreprocessor(model.tokenizer, model.text)
    results, indexes = [], []
    for benchmark in list(_benchmarks(DATA.value)):  # all are read before the first is embedded
        with progress_bar(benchmark.name) as progress:
            common = {
                "k": K.value,
                "metrics": metrics,
                "ignore_identical_ids": IGNORE_IDENTICAL_IDS.value,
                "tokens_per_batch": TOKENS_PER_BATCH.value,
                "progress": progress,
            }
            arguments = (model.encoder, preprocessor, benchmark, score)
            if approximate:
                indexes.append(
                    evaluate_index(
                        *arguments, index=INDEX.value, index_search=INDEX_SEARCH.value, **common
                    )
                )
                result = indexes[-1].exact
            else:
                result = evaluate_retrieval(*arguments, **common)
        results.append(result)
        means = (f"{name} {value:.4f}" for name, value in result.evaluation.mean.items())
        log.info("%s: %s", benchmark.name, ", ".join(means))  # a later one may fail
        if approximate:
            results.append(indexes[-1].approximate)
        if BM25.value:
            results.append(evaluate_bm25(benchmark, k=K.value, metrics=metrics))
    log.info(preprocessor.describe())
    print("\n".join([format_results(results), *(index.describe() for index in indexes)]))
    if WORKDIR.value:
        about = {
            "checkpoint": CHECKPOINT.value,
            "pooling": model.encoder.pooling,
            "text": preprocessor.settings.to_json(),
        }
        if indexes:
            about["indexes"] = [index.to_json() for index in indexes]
        write_results(WORKDIR.value, results, about)
    return 0


def _benchmarks(sources: Sequence[str]) -> Iterator[Benchmark]:
    for source in sources:
        if source == "code":
            corpora = code_search()
            yield corpora.in_domain
            yield corpora.out_of_domain
        else:
            yield read_beir(source, split=SPLIT.value)


if __name__ == "__main__":
    run_main(main)
