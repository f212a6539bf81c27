"""sentence-transformers folders: what their modules and settings say, by closed tables."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from magjax.checks import InputError, choose, positive_integer
from magjax.data import SIDES
from magjax.encoders import Projection
from magjax.files import read_json
from magjax.hub._projection import read_projections
from magjax.hub._router import MODULES_FILE, read_chains
from magjax.hub._stated import Stated
from magjax.hub._statement import STATEMENT_FILE, agreed
from magjax.similarity import Score
from magjax.typing import Side

__all__ = ["MODULES_FILE", "read_sentence_transformers"]

_log = logging.getLogger(__name__)

# Poolings by the name that newer folders state, and the flags of older ones.
_POOLINGS = {
    "mean": "mean",
    "cls": "cls",
    "max": "max",
    "lasttoken": "last",
    "weightedmean": "weighted_mean",
}
_POOLING_FLAGS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "lasttoken",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
}
_ACTIVATIONS = {
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.linear.Identity": "identity",
}
# One of these names the maximum length; which one followed the family in old releases.
_LENGTH_FILES = (
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_xlm-roberta_config.json",
)
# Settings of the Transformer module that change its numbers or its tokens.
_UNSUPPORTED = (
    "query_expansion",
    "processing_kwargs",
    "tokenizer_args",
    "processor_kwargs",
    "config_args",
    "config_kwargs",
)
_DOCUMENT_PROMPTS = ("document", "passage", "corpus")
_BERT_TOKENIZERS = ("BertTokenizer", "DistilBertTokenizer", "MPNetTokenizer")
_SCORES = {"cosine": "cosine", "dot": "dot", "dot_product": "dot"}


def read_sentence_transformers(folder: Path) -> Stated:
    """Reads what a sentence-transformers folder states: modules, prompts, length, similarity.

    A side whose modules end in ``Normalize`` has power 1, another power 0: with both, or with
    similarity ``cosine`` and neither, the score is cosine; with similarity ``dot`` it is dot,
    qnorm or dnorm. A folder that normalizes one side and states ``cosine`` (which normalizes both)
    or nothing contradicts itself or leaves it open, so no score is read. ``magjax.json``, where
    there, must agree with all this, and says the rest.

    Raises:
        InputError: another module, order, pooling or similarity than these, or sides that differ
            in something that one model of magjax has in common. Nothing that the folder names is
            imported or run.
    """
    chains = read_chains(folder)
    general = _optional(folder / "config_sentence_transformers.json")
    if general.get("model_type") not in (None, "SentenceTransformer"):
        raise InputError(
            f"{folder} holds a {general['model_type']}, which gives no embedding to compare; only "
            "SentenceTransformer is supported."
        )
    if general.get("truncate_dim") is not None:
        raise InputError(
            f"{folder} truncates embeddings to {general['truncate_dim']} dimensions, which is not "
            "supported; remove truncate_dim from config_sentence_transformers.json to use all."
        )
    prompts = _prompts(folder, general)
    poolings = {side: _pooling(chains[side]["Pooling"], prompts[side]) for side in SIDES}
    if poolings["query"] != poolings["document"]:
        raise InputError(
            f"{folder} pools queries by {poolings['query']} and documents by "
            f"{poolings['document']}; one pooling for both sides is supported."
        )
    towers = {side: chains[side]["Transformer"] for side in SIDES}
    lengths = {side: _length(towers[side], side) for side in SIDES}
    cases = {side: _lower_case(towers[side]) for side in SIDES}
    if cases["query"] != cases["document"]:
        raise InputError(f"{folder} lowers the case (do_lower_case) of one side alone.")
    projection, document_projection = _projections(folder, chains)
    stated = Stated(
        query_folder=towers["query"],
        document_folder=None if towers["document"] == towers["query"] else towers["document"],
        projection=projection,
        document_projection=document_projection,
        pooling=poolings["query"],
        score=_score(folder, general, {side: _normalizes(chains[side]) for side in SIDES}),
        query_prompt=prompts["query"],
        document_prompt=prompts["document"],
        query_max_length=lengths["query"],
        document_max_length=lengths["document"],
        lower_case=cases["query"],
    )
    return agreed(folder, stated) if (folder / STATEMENT_FILE).is_file() else stated


def _pooling(folder: Path, prompt: str | None) -> str:
    file = folder / "config.json"
    config = read_json(file)
    stated = config.get("pooling_mode")
    if stated is None:
        stated = [mode for flag, mode in _POOLING_FLAGS.items() if config.get(flag)] or "mean"
    modes = [stated] if isinstance(stated, str) else list(stated)
    if len(modes) != 1:
        raise InputError(
            f"{file} combines {len(modes)} poolings ({', '.join(modes)}); exactly one is supported."
        )
    if prompt and not config.get("include_prompt", True):
        raise InputError(
            f"{folder} leaves the prompt's tokens out of pooling (include_prompt false), "
            "which is not supported; use another checkpoint or one without prompts."
        )
    return _POOLINGS[choose(f"pooling in {file}", modes[0], _POOLINGS)]


def _length(folder: Path, side: Side) -> int | None:
    """The maximum length of a side, once nothing else of the module changes its numbers."""
    config = _transformer_settings(folder)
    task = config.get("transformer_task", "feature-extraction")
    if task != "feature-extraction":
        raise InputError(f"{folder} is set up for the task {task!r}, not for feature-extraction.")
    for name in _UNSUPPORTED:
        if config.get(name):
            raise InputError(
                f"{folder} sets {name} to {config[name]!r}, which is not supported; remove it."
            )
    output = config.get("modality_config", {}).get("text", {}).get("method_output_name")
    if output not in (None, "last_hidden_state"):
        raise InputError(
            f"{folder} takes {output!r} of its text model; only last_hidden_state is supported."
        )
    tokenizer = _optional(folder / "tokenizer_config.json")
    for name in ("padding_side", "truncation_side"):
        if tokenizer.get(name, "right") != "right":
            raise InputError(
                f"{folder}: {name} {tokenizer[name]!r} in tokenizer_config.json is not supported; "
                "texts are cut and padded at their end."
            )
    # Version 6 has a length for each side, above the common one.
    length = config.get(f"{side}_length") or config.get("max_seq_length")
    return None if length is None else positive_integer(f"max_seq_length in {folder}", length)


def _lower_case(folder: Path) -> bool | None:
    if _transformer_settings(folder).get("do_lower_case"):
        return True
    tokenizer = _optional(folder / "tokenizer_config.json")
    # transformers builds these anew, and its setting, on by default, outdoes tokenizer.json.
    if str(tokenizer.get("tokenizer_class")).removesuffix("Fast") in _BERT_TOKENIZERS:
        return bool(tokenizer.get("do_lower_case", True))
    return None


def _transformer_settings(folder: Path) -> dict[str, Any]:
    files = (folder / name for name in _LENGTH_FILES)
    return next((read_json(file) for file in files if file.is_file()), {})


def _prompts(folder: Path, general: dict[str, Any]) -> dict[Side, str | None]:
    prompts = general.get("prompts") or {}
    default = general.get("default_prompt_name")
    name = next((name for name in _DOCUMENT_PROMPTS if prompts.get(name)), None)
    used: dict[Side, str | None] = {
        "query": prompts.get("query") or None,
        "document": None if name is None else prompts[name],
    }
    if name not in (None, "document"):
        # Their encode_document says that it does, but an empty "document" is always there first.
        _log.warning(
            "%s: documents get the prompt %r (%r), which encode_document of sentence-transformers "
            "5 and 6 leaves out.",
            folder,
            name,
            prompts[name],
        )
    if default is not None and prompts.get(default) and prompts[default] not in used.values():
        # Applied to both sides by some callers and to neither by others: never guessed.
        _log.warning(
            "%s: the default prompt %r (%r) belongs to neither side and is not used; "
            "set query_prompt and document_prompt if it should be.",
            folder,
            default,
            prompts[default],
        )
    return used


def _projections(
    folder: Path, chains: Mapping[Side, Mapping[str, Path]]
) -> tuple[Projection | None, Projection | None]:
    query, document = (chains[side].get("Dense") for side in SIDES)
    if query is None and document is None:
        return None, None
    if query is None or document is None:
        alone = "documents" if query is None else "queries"
        raise InputError(
            f"{folder} has a Dense layer for {alone} alone, which is not supported; both sides "
            "need one, their own or a common one."
        )
    return _dense(query), None if query == document else _dense(document)


def _dense(folder: Path) -> Projection:
    config = read_json(folder / "config.json")
    if config.get("use_residual"):
        raise InputError(f"{folder} has a residual connection, which is not supported.")
    _check_sentence_embedding(folder, config)
    missing = {"in_features", "out_features", "activation_function"} - set(config)
    if missing:
        raise InputError(f"{folder / 'config.json'} lacks {', '.join(sorted(missing))}.")
    activation = choose(f"activation in {folder}", config["activation_function"], _ACTIVATIONS)
    settings = {
        "inputs": config["in_features"],
        "outputs": config["out_features"],
        "bias": config.get("bias", True),
        "activation": _ACTIVATIONS[activation],
    }
    return read_projections(folder / "model.safetensors", {"linear": settings})["linear"]


def _normalizes(chain: Mapping[str, Path]) -> bool:
    if "Normalize" not in chain:
        return False
    _check_sentence_embedding(chain["Normalize"], _optional(chain["Normalize"] / "config.json"))
    return True


def _check_sentence_embedding(folder: Path, config: Mapping[str, Any]) -> None:
    for key in ("module_input_name", "module_output_name"):
        if config.get(key) not in (None, "sentence_embedding"):
            raise InputError(f"{folder}: {key} {config[key]!r} is not supported.")


def _score(folder: Path, general: dict[str, Any], normalized: Mapping[Side, bool]) -> Score | None:
    stated = general.get("similarity_fn_name")
    if stated is not None:
        choose(f"similarity_fn_name in {folder}", stated, _SCORES)
    powers = (float(normalized["query"]), float(normalized["document"]))
    if powers == (1.0, 1.0):
        return Score.of("cosine")
    if stated is not None and _SCORES[stated] == "dot":
        return Score.power(*powers)
    if powers == (0.0, 0.0):
        return None if stated is None else Score.of("cosine")
    # sentence-transformers writes "cosine" where nobody chose a similarity.
    _log.warning(
        "%s normalizes %s alone, but its similarity is %s, which normalizes both: it states no "
        "score; name the one that it was trained for.",
        folder,
        "queries" if normalized["query"] else "documents",
        "cosine by default" if stated is None else stated,
    )
    return None


def _optional(file: Path) -> dict[str, Any]:
    return read_json(file) if file.is_file() else {}
