"""sentence-transformers folders: ``modules.json`` and its modules, by a closed table."""

import logging
from pathlib import Path
from typing import Any

from magjax.checks import InputError, choose
from magjax.encoders import Projection
from magjax.files import read_json
from magjax.hub._projection import read_projections
from magjax.hub._stated import Stated
from magjax.similarity import Score

__all__ = ["MODULES_FILE", "read_sentence_transformers"]

_log = logging.getLogger(__name__)

MODULES_FILE = "modules.json"
_MODULES = ("Transformer", "Pooling", "Dense", "Normalize")
_ORDERS = (
    ("Transformer", "Pooling"),
    ("Transformer", "Pooling", "Dense"),
    ("Transformer", "Pooling", "Normalize"),
    ("Transformer", "Pooling", "Dense", "Normalize"),
)
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
_SCORES = {"cosine": "cosine", "dot": "dot", "dot_product": "dot"}


def read_sentence_transformers(folder: Path) -> Stated:
    """Reads what a sentence-transformers folder states: modules, prompts, length, similarity.

    ``Normalize``, or similarity ``cosine``, is the cosine score; similarity ``dot`` without
    ``Normalize`` is the dot product; without either no score is stated.

    Raises:
        InputError: another module, order, pooling or similarity than these. Nothing that the
            folder names is imported or run.
    """
    kinds, paths = _modules(folder)
    tower = paths["Transformer"]
    general = _optional(folder / "config_sentence_transformers.json")
    pooling, with_prompt = _pooling(paths["Pooling"] / "config.json")
    prompts = _prompts(folder, general)
    if not with_prompt and any(prompts.values()):
        raise InputError(
            f"{paths['Pooling']} leaves the prompt's tokens out of pooling (include_prompt false), "
            "which is not supported; use another checkpoint or one without prompts."
        )
    if general.get("truncate_dim") is not None:
        raise InputError(
            f"{folder} truncates embeddings to {general['truncate_dim']} dimensions, which is not "
            "supported; remove truncate_dim from config_sentence_transformers.json to use all."
        )
    length: dict[str, Any] = next(
        (read_json(tower / name) for name in _LENGTH_FILES if (tower / name).is_file()), {}
    )
    task = length.get("transformer_task", "feature-extraction")
    if task != "feature-extraction":
        raise InputError(f"{tower} is set up for the task {task!r}, not for feature-extraction.")
    return Stated(
        query_folder=tower,
        projection=_dense(paths["Dense"]) if "Dense" in kinds else None,
        pooling=pooling,
        score=_score(folder, general, "Normalize" in kinds),
        query_prompt=prompts["query"],
        document_prompt=prompts["document"],
        query_max_length=length.get("max_seq_length"),
        document_max_length=length.get("max_seq_length"),
        lower_case=bool(length.get("do_lower_case", False)),
    )


def _modules(folder: Path) -> tuple[tuple[str, ...], dict[str, Path]]:
    file = folder / MODULES_FILE
    modules = read_json(file)
    try:
        ordered = sorted(modules, key=lambda module: module["idx"])
        named = [(module["type"], module["path"]) for module in ordered]
    except (TypeError, KeyError) as error:
        raise InputError(f'{file} must list objects with "idx", "path" and "type".') from error
    for name, path in named:
        package, _, kind = name.rpartition(".")
        if not package.startswith("sentence_transformers.") or kind not in _MODULES:
            raise InputError(
                f"{file} names the module {name!r}; known: {', '.join(_MODULES)} of "
                "sentence_transformers. Other modules would need their own code."
            )
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise InputError(f"{file} names a path outside its folder: {path!r}.")
    kinds = tuple(name.rpartition(".")[2] for name, _ in named)
    if kinds not in _ORDERS:
        raise InputError(
            f"{file} chains {' > '.join(kinds)}; supported is "
            "Transformer > Pooling, then optionally Dense, then optionally Normalize."
        )
    return kinds, {kind: folder / path for kind, (_, path) in zip(kinds, named, strict=True)}


def _pooling(file: Path) -> tuple[str, bool]:
    config = read_json(file)
    stated = config.get("pooling_mode")
    if stated is None:
        stated = [mode for flag, mode in _POOLING_FLAGS.items() if config.get(flag)] or "mean"
    modes = [stated] if isinstance(stated, str) else list(stated)
    if len(modes) != 1:
        raise InputError(
            f"{file} combines {len(modes)} poolings ({', '.join(modes)}); exactly one is supported."
        )
    mode = choose(f"pooling in {file}", modes[0], _POOLINGS)
    return _POOLINGS[mode], bool(config.get("include_prompt", True))


def _prompts(folder: Path, general: dict[str, Any]) -> dict[str, str | None]:
    prompts = general.get("prompts") or {}
    default = general.get("default_prompt_name")
    used = {
        "query": prompts.get("query") or None,
        "document": next(
            (prompts[name] for name in ("document", "passage", "corpus") if prompts.get(name)), None
        ),
    }
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


def _dense(folder: Path) -> Projection:
    config = read_json(folder / "config.json")
    if config.get("use_residual"):
        raise InputError(f"{folder} has a residual connection, which is not supported.")
    for key in ("module_input_name", "module_output_name"):
        if config.get(key) not in (None, "sentence_embedding"):
            raise InputError(f"{folder}: {key} {config[key]!r} is not supported.")
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


def _score(folder: Path, general: dict[str, Any], normalized: bool) -> Score | None:
    stated = general.get("similarity_fn_name")
    if stated is not None:
        choose(f"similarity_fn_name in {folder}", stated, _SCORES)
    if normalized:
        return Score.of("cosine")
    return None if stated is None else Score.of(_SCORES[stated])


def _optional(file: Path) -> dict[str, Any]:
    return read_json(file) if file.is_file() else {}
