"""Mines hard negatives for training, under the score that a model was trained for.

    python launch/mine.py --checkpoint=runs/qnorm --data=code --out=negatives.jsonl
    python launch/mine.py --checkpoint=runs/qnorm --data=BEIR_FOLDER --split=train \
        --index=faiss:HNSW32 --index_search=efSearch=128 --out=negatives.jsonl

Writes one line a query: its answers and its negatives with their scores, which a run reads with
--config.data.source=jsonl. A run that was stopped goes on with --resume.
"""

from pathlib import Path

from absl import flags

from magjax import hub
from magjax.checks import InputError
from magjax.config import run_main
from magjax.data import TrainingSet, code_search, read_beir, read_pairs_jsonl
from magjax.evaluation import (
    MINING_SOURCES,
    MiningSettings,
    check_index,
    mine_to_file,
    progress_bar,
)
from magjax.similarity import Score
from magjax.study import restore_step

USUAL = MiningSettings()

CHECKPOINT = flags.DEFINE_string("checkpoint", None, "Run folder, model folder or hub id.")
STEP = flags.DEFINE_integer("step", None, "A step of a run folder's checkpoints/, not its best.")
DATA = flags.DEFINE_string("data", None, "BEIR folder, file of JSONL pairs, or 'code'.")
SPLIT = flags.DEFINE_string("split", None, "Judgements of a BEIR folder; default: train.")
SCORE = flags.DEFINE_string(
    "score", None, "Mine by cosine, dot, qnorm, dnorm or GAMMA_QUERY,GAMMA_DOCUMENT."
)
OUT = flags.DEFINE_string("out", None, "The JSONL file to write.")
SOURCE = flags.DEFINE_enum("source", "model", MINING_SOURCES, "Where candidates come from.")
INDEX = flags.DEFINE_string("index", "exact", "exact, or faiss:FACTORY such as faiss:HNSW32.")
INDEX_SEARCH = flags.DEFINE_string("index_search", "", "Such as efSearch=64 or nprobe=8.")
K = flags.DEFINE_integer("k", USUAL.k, "Candidates a query.")
NEGATIVES = flags.DEFINE_integer("negatives", USUAL.negatives, "Negatives a query, at most.")
SKIP_TOP = flags.DEFINE_integer("skip_top", USUAL.skip_top, "Best candidates to pass over.")
MARGIN = flags.DEFINE_float(
    "margin",
    USUAL.margin,
    "Leave out candidates above (1 - margin) of the answer's score; below 0: leave out none.",
)
MAX_SCORE = flags.DEFINE_float("max_score", None, "Leave out candidates above this score.")
SAMPLE = flags.DEFINE_enum("sample", USUAL.sample, ("top", "random"), "How negatives are taken.")
SEED = flags.DEFINE_integer("seed", USUAL.seed, "Of --sample=random.")
RESUME = flags.DEFINE_bool("resume", False, "Go on with the part file of a stopped run.")
DTYPE = flags.DEFINE_string("dtype", "float32", "Compute dtype: float32 or bfloat16.")
TOKENS_PER_BATCH = flags.DEFINE_integer("tokens_per_batch", 2048, "Tokens of a device's batch.")


def main() -> int:
    """Loads, embeds, mines; writes the file and prints what it holds."""
    for flag in (CHECKPOINT, DATA, OUT):
        if not flag.value:
            raise InputError(f"--{flag.name} is missing; see --help.")
    check_index(INDEX.value, INDEX_SEARCH.value)
    settings = MiningSettings(
        k=K.value,
        negatives=NEGATIVES.value,
        skip_top=SKIP_TOP.value,
        margin=None if MARGIN.value < 0.0 else MARGIN.value,
        max_score=MAX_SCORE.value,
        sample=SAMPLE.value,
        seed=SEED.value,
    )
    named = Score.parse(SCORE.value) if SCORE.value else None
    model = hub.load(CHECKPOINT.value, step=STEP.value, restore=restore_step, dtype=DTYPE.value)
    model = model.ranked_by(named)
    data = _training_set(DATA.value, SPLIT.value)
    with progress_bar(data.source) as progress:
        summary = mine_to_file(
            model,
            data,
            OUT.value,
            settings=settings,
            source=SOURCE.value,
            index=INDEX.value,
            index_search=INDEX_SEARCH.value,
            resume=RESUME.value,
            tokens_per_batch=TOKENS_PER_BATCH.value,
            progress=progress,
        )
    print(f"{OUT.value}: {summary}.")
    return 0


def _training_set(source: str, split: str | None) -> TrainingSet:
    if source != "code" and Path(source).is_dir():
        return TrainingSet.from_benchmark(read_beir(source, split=split or "train"))
    if split is not None:
        raise InputError(f"--split={split} is for BEIR folders, but --data={source} is none.")
    return code_search().train if source == "code" else read_pairs_jsonl(source)


if __name__ == "__main__":
    run_main(main)
