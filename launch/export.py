"""Exports a model so that the score in production is the score that was trained.

    python launch/export.py vectors --checkpoint=runs/code --data=code --target=faiss --out=vectors
    python launch/export.py vectors --checkpoint=runs/code --data=FILE.jsonl --store_text
        --target=pgvector --out=postgresql://USER@HOST/DATABASE --index=hnsw --side=document
    python launch/export.py table --checkpoint=runs/code --data=code --out=table.md
    python launch/export.py sentence_transformers --checkpoint=runs/code --out=st
    python launch/export.py stablehlo --checkpoint=runs/code --out=exported

vectors stores documents (and queries) normalized by their own power, so that the inner product is
the trained score, and tells the database to compare by it; another metric is refused where it
would rank otherwise. table writes the same embeddings to each engine that is installed, asks them,
and prints whether each returns the exact ranking. sentence_transformers writes a folder whose
encode_query and encode_document are the model's, with a model card that says which distance to set;
stablehlo the encoders as programs that need JAX alone.
"""

from absl import flags

from magjax import hub
from magjax.checks import InputError
from magjax.config import run_main
from magjax.files import write_text
from magjax.similarity import Score
from magjax.study import restore_step

CHECKPOINT = flags.DEFINE_string("checkpoint", None, "Run folder, model folder or hub id.")
STEP = flags.DEFINE_integer("step", None, "A step of a run folder's checkpoints/, not its best.")
SCORE = flags.DEFINE_string("score", None, "Score of a folder that states none.")
DTYPE = flags.DEFINE_string("dtype", "float32", "Compute dtype: float32 or bfloat16.")
TOKENS_PER_BATCH = flags.DEFINE_integer("tokens_per_batch", 2048, "Tokens of a device's batch.")
OUT = flags.DEFINE_string("out", None, "Folder or server address; of table: a Markdown file.")
DATA = flags.DEFINE_string("data", None, "BEIR folder, 'code', or a JSONL file of documents.")
SPLIT = flags.DEFINE_string("split", "test", "Judgements of a BEIR folder, which name its queries.")
TARGET = flags.DEFINE_string("target", None, "numpy, parquet, faiss, qdrant, pgvector or lancedb.")
SIDE = flags.DEFINE_string(
    "side", None, "document, query or both; default: document, of stablehlo both."
)
INDEX = flags.DEFINE_string("index", "flat", "flat (exact), hnsw or ivf.")
INDEX_OPTIONS = flags.DEFINE_list("index_options", [], "Such as m=16,ef_construction=100.")
METRIC = flags.DEFINE_string("metric", None, "inner_product, cosine or euclidean; default: right.")
AUGMENT = flags.DEFINE_string("augment", "none", "none, euclidean or cosine: one coordinate more.")
LARGEST_NORM = flags.DEFINE_float("largest_norm", None, "Longest document there will ever be.")
NAME = flags.DEFINE_string("name", "", "Put before the tables' names, documents and queries.")
STORE_TEXT = flags.DEFINE_bool("store_text", False, "Store the texts beside the vectors.")
BLOCK_SIZE = flags.DEFINE_integer("block_size", 16_384, "Texts embedded and written at a time.")
OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace an older export.")
TARGETS = flags.DEFINE_list("targets", [], "Targets of the table; default: all.")
K = flags.DEFINE_integer("k", 10, "Documents a query.")
DOCUMENTS = flags.DEFINE_integer("documents", 10_000, "Most documents of the table.")
QUERIES = flags.DEFINE_integer("queries", 200, "Most queries of the table.")
POSTGRES = flags.DEFINE_string("postgres", None, "Server for pgvector; default: a private one.")

TRAINING_DATA = flags.DEFINE_multi_string("training_data", [], "Said in the model card.")
FIGURES = flags.DEFINE_list("figures", [], "NAME=VALUE of the model card, as nDCG@10=0.31.")
ALLOW_INEXACT = flags.DEFINE_bool(
    "allow_inexact", False, "Write a document power that encode() cannot apply; the card says so."
)
PLATFORMS = flags.DEFINE_list("platforms", ["cpu"], "Of cpu, cuda, rocm and tpu.")
NORMALIZED = flags.DEFINE_bool("normalized", True, "Apply the score's normalization.")

_MODEL = (CHECKPOINT, STEP, SCORE, DTYPE)
_TEXTS = (DATA, SPLIT, TOKENS_PER_BATCH)
_STORED = (TARGET, SIDE, NAME, STORE_TEXT, BLOCK_SIZE, OVERWRITE)
_SEARCHED = (INDEX, INDEX_OPTIONS, METRIC, AUGMENT, LARGEST_NORM)


def vectors() -> int:
    """Writes the vectors of texts to a target."""
    from magjax.export import export_texts, parse_options, read_texts

    out = _given(OUT, "a folder or a server's address")
    target = _given(TARGET, "one of numpy, parquet, faiss, qdrant, pgvector and lancedb")
    data = _given(DATA, "a BEIR folder, 'code' or a JSONL file")
    told = export_texts(
        _load(),
        read_texts(data, SPLIT.value),
        out,
        target=target,
        side=SIDE.value or "document",
        store_text=STORE_TEXT.value,
        tokens_per_batch=TOKENS_PER_BATCH.value,
        block_size=BLOCK_SIZE.value,
        name=NAME.value,
        model_name=CHECKPOINT.value,
        metric=METRIC.value,
        index=INDEX.value,
        options=parse_options(INDEX_OPTIONS.value),
        augment=AUGMENT.value,
        largest_norm=LARGEST_NORM.value,
        overwrite=OVERWRITE.value,
    )
    print(told.summary())
    return 0


def table() -> int:
    """Prints what each engine returns beside the exact ranking."""
    from magjax.export import parity_table, read_texts

    data = _given(DATA, "a BEIR folder, 'code' or a JSONL file of pairs")
    text = parity_table(
        _load(),
        read_texts(data, SPLIT.value).thinned(document=DOCUMENTS.value, query=QUERIES.value),
        targets=TARGETS.value,
        k=K.value,
        tokens_per_batch=TOKENS_PER_BATCH.value,
        postgres=POSTGRES.value,
    )
    print(text)
    if OUT.value:
        write_text(OUT.value, text + "\n")
    return 0


def sentence_transformers() -> int:
    """Writes a sentence-transformers folder with its model card."""
    out = _given(OUT, "a new folder")
    figures = {}
    for item in FIGURES.value:
        name, equals, value = item.partition("=")
        if not equals:
            raise InputError(f"--figures item {item!r} must be NAME=VALUE, as nDCG@10=0.31.")
        figures[name] = value
    hub.save_sentence_transformers(
        _load(),
        out,
        training_data=TRAINING_DATA.value or None,
        figures=figures or None,
        allow_inexact=ALLOW_INEXACT.value,
    )
    print(f"wrote {out}; its README.md says how to use it.")
    return 0


def stablehlo() -> int:
    """Writes the encoders as StableHLO."""
    from magjax.export import export_encoders

    out = _given(OUT, "a new folder")
    side = SIDE.value or "both"
    export_encoders(
        _load(),
        out,
        platforms=PLATFORMS.value,
        sides=("query", "document") if side == "both" else (side,),
        normalized=NORMALIZED.value,
        overwrite=OVERWRITE.value,
    )
    print(f"wrote {out}; magjax.export.load_exported reads it.")
    return 0


COMMANDS = {
    "vectors": (
        vectors,
        (*_MODEL, *_TEXTS, OUT, *_STORED, *_SEARCHED),
    ),
    "sentence_transformers": (
        sentence_transformers,
        (*_MODEL, OUT, TRAINING_DATA, FIGURES, ALLOW_INEXACT),
    ),
    "stablehlo": (stablehlo, (*_MODEL, OUT, SIDE, PLATFORMS, NORMALIZED, OVERWRITE)),
    "table": (table, (*_MODEL, *_TEXTS, OUT, TARGETS, K, DOCUMENTS, QUERIES, POSTGRES)),
}
"""Per command what it runs and the flags that it takes; those of another are refused."""


def main(command: str) -> int:
    """Runs one command."""
    return COMMANDS[command][0]()


def _load() -> hub.Model:
    return hub.load(
        _given(CHECKPOINT, "a run folder or a model folder"),
        step=STEP.value,
        restore=restore_step,
        dtype=DTYPE.value,
        score=Score.parse(SCORE.value) if SCORE.value else None,
    )


def _given(flag: flags.FlagHolder, what: str) -> str:
    if not flag.value:
        raise InputError(f"--{flag.name} is missing; name {what}.")
    return flag.value


if __name__ == "__main__":
    run_main(
        main,
        commands={word: [flag.name for flag in taken] for word, (_, taken) in COMMANDS.items()},
    )
