"""The modules of a sentence-transformers folder as files that versions 5 and 6 read."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from magjax.data import TextSettings
from magjax.encoders import DualEncoder, Projection
from magjax.files import read_json, write_json
from magjax.hub._model import Model
from magjax.hub._projection import projection_settings, projection_tensors
from magjax.hub._router import ROUTER_FILE
from magjax.hub._tensors import write_tensors
from magjax.hub._tower import write_tower
from magjax.typing import Side

__all__ = ["Module", "head", "router", "tail", "write_chain"]

# The names from before version 6, which every version since 5 (and 2, but for Router) resolves.
_PACKAGE = "sentence_transformers.models"
_POOLINGS = {
    "mean": "pooling_mode_mean_tokens",
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "last": "pooling_mode_lasttoken",
    "weighted_mean": "pooling_mode_weightedmean_tokens",
}
_ACTIVATIONS = {
    "tanh": "torch.nn.modules.activation.Tanh",
    "identity": "torch.nn.modules.linear.Identity",
}


@dataclasses.dataclass(frozen=True)
class Module:
    """A module to be written.

    Attributes:
        kind: the name of its class.
        write: fills a folder that is there.
        subject: the weights in it; modules of the same weights are written once.

    >>> weights = object()
    >>> Module("Dense", print, weights).equals(Module("Dense", print, weights))
    True
    """

    kind: str
    write: Callable[[Path], None]
    subject: Any = None

    def equals(self, other: "Module") -> bool:
        """Whether both are one module."""
        return self.kind == other.kind and self.subject is other.subject


def head(model: Model, side: Side, text: TextSettings) -> list[Module]:
    """Tower and pooling of one side."""
    return [
        Module("Transformer", functools.partial(_write_transformer, model, side, text)),
        Module("Pooling", functools.partial(_write_pooling, model.encoder, side)),
    ]


def tail(encoder: DualEncoder, side: Side, *, normalized: bool) -> list[Module]:
    """What follows pooling on one side: its projection, and the division by the length.

    >>> from magjax.encoders import EncoderConfig
    >>> config = EncoderConfig(vocab_size=20, hidden_size=8, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=8)
    >>> encoder = DualEncoder.create(config, projection_dim=4)
    >>> [module.kind for module in tail(encoder, "query", normalized=True)]
    ['Dense', 'Normalize']
    """
    projection = encoder.side_projection(side)
    modules = []
    if projection is not None:
        modules.append(Module("Dense", functools.partial(_write_dense, projection), projection))
    if normalized:
        # Empty settings rather than no file: version 5 knows none of version 6's, and a folder
        # without any file survives neither git nor an upload.
        modules.append(Module("Normalize", functools.partial(_write_settings, {})))
    return modules


def router(routes: Mapping[Side, list[Module]]) -> Module:
    """A module that applies each side's own; an empty route changes nothing.

    >>> router({"query": [], "document": []}).kind
    'Router'
    """
    # An empty list loads too, but both versions index the first module of a route here and there
    # (tokenizer, length, modalities). Dropout does nothing outside training, and at rate 0 never.
    idle = [Module("Dropout", functools.partial(_write_settings, {"dropout": 0.0}))]
    filled = {side: modules or idle for side, modules in routes.items()}
    return Module("Router", functools.partial(_write_router, filled))


def write_chain(folder: Path, chain: Sequence[Module]) -> list[dict[str, Any]]:
    """Writes the modules, and returns the content of ``modules.json``.

    >>> import tempfile
    >>> chain = [router({"query": [], "document": []})]
    >>> write_chain(Path(tempfile.mkdtemp()), chain)[0]["type"]
    'sentence_transformers.models.Router'
    """
    listed = []
    for place, module in enumerate(chain):
        name = "" if place == 0 else f"{place}_{module.kind}"
        _write_module(folder / name, module)
        listed.append(
            {"idx": place, "name": str(place), "path": name, "type": f"{_PACKAGE}.{module.kind}"}
        )
    return listed


def _write_module(folder: Path, module: Module) -> None:
    folder.mkdir(exist_ok=True)
    module.write(folder)


def _write_router(routes: Mapping[Side, Sequence[Module]], folder: Path) -> None:
    names: dict[str, Module] = {}
    structure: dict[str, list[str]] = {}
    for side, modules in routes.items():
        structure[side] = []
        for place, module in enumerate(modules):
            name = next(
                (n for n, m in names.items() if m.subject is not None and m.equals(module)),
                f"{side}_{place}_{module.kind}",
            )
            if name not in names:
                names[name] = module
                _write_module(folder / name, module)
            structure[side].append(name)
    write_json(
        folder / ROUTER_FILE,
        {
            "types": {name: f"{_PACKAGE}.{module.kind}" for name, module in names.items()},
            "structure": structure,
            "parameters": {"default_route": "document", "allow_empty_key": True},
        },
    )


def _write_transformer(model: Model, side: Side, text: TextSettings, folder: Path) -> None:
    write_tower(model.encoder.tower(side), folder)
    model.tokenizer.save(folder)
    file = folder / "tokenizer_config.json"
    # The class that takes tokenizer.json as it is: others rebuild parts of it from settings such as
    # do_lower_case and add_prefix_space, and then give other tokens.
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "padding_side": "right",
        "truncation_side": "right",
        "model_input_names": ["input_ids", "attention_mask"],
    }
    first = read_json(folder / "tokenizer.json").get("pre_tokenizer") or {}
    if "add_prefix_space" in first:
        settings["add_prefix_space"] = first["add_prefix_space"]
    write_json(file, {**read_json(file), **settings})
    write_json(
        folder / "sentence_bert_config.json",
        {"max_seq_length": text.max_length(side), "do_lower_case": False},
    )


def _write_pooling(encoder: DualEncoder, side: Side, folder: Path) -> None:
    # Flags of version 5, which version 6 reads too.
    _write_settings(
        {
            "word_embedding_dimension": encoder.tower(side).config.hidden_size,
            **{flag: name == encoder.pooling for name, flag in _POOLINGS.items()},
            "pooling_mode_mean_sqrt_len_tokens": False,
            "include_prompt": True,
        },
        folder,
    )


def _write_dense(projection: Projection, folder: Path) -> None:
    settings = projection_settings(projection)
    _write_settings(
        {
            "in_features": settings["inputs"],
            "out_features": settings["outputs"],
            "bias": settings["bias"],
            "activation_function": _ACTIVATIONS[settings["activation"]],
        },
        folder,
    )
    write_tensors(folder / "model.safetensors", projection_tensors({"linear": projection}))


def _write_settings(settings: Mapping[str, Any], folder: Path) -> None:
    write_json(folder / "config.json", settings)
