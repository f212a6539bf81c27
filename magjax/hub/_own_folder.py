"""magjax's own folder: Hugging Face files plus ``score.json`` and, when there, projections."""

from pathlib import Path

from magjax.checks import InputError, choose
from magjax.encoders import VisionEncoder
from magjax.files import write_folder, write_json
from magjax.hub._model import Model
from magjax.hub._pair import is_pair, pair_towers, write_pair
from magjax.hub._projection import projection_settings, projection_tensors, read_projections
from magjax.hub._stated import Stated, read_statement
from magjax.hub._tensors import write_tensors
from magjax.hub._tower import write_tower
from magjax.hub._towers import write_images

__all__ = ["SCORE_FILE", "read_own", "save"]

SCORE_FILE = "score.json"
_FORMAT = 1
_KEYS = ("format", "score", "text", "pooling", "towers", "projections")
_OPTIONAL = ("query_modality",)  # of models whose sides are text and images
_TOWERS = ("shared", "separate", "pair")
_PROJECTIONS = ("projection", "document_projection")
_PROJECTION_FILE = "projection.safetensors"


def save(model: Model, path: str | Path) -> None:
    """Writes ``model`` as a folder that ``load`` restores bitwise and torch reads as it is.

    A shared tower lies in the folder itself (``config.json``, ``model.safetensors``, tokenizer),
    and so do the two of a CLIP or SigLIP model; others in ``query/`` and ``document/``, each a
    Hugging Face folder of its own. With images comes ``preprocessor_config.json``. Beside them
    ``score.json`` (score, prompts, lengths, pooling, which side is the query) and, where the
    encoder has projections, ``projection.safetensors``. The folder appears as a whole or not at
    all; an older model at ``path`` is replaced.

    Raises:
        InputError: ``path`` is a file, or a folder of something else than a saved model.

    >>> import tempfile
    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.similarity import Score
    >>> from magjax.encoders import DualEncoder, EncoderConfig
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> config = EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=8,
    ...     num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> text = TextSettings(query_max_length=8, document_max_length=16)
    >>> model = Model(DualEncoder.create(config), Score.of("qnorm", 0.05), tokenizer, text)
    >>> folder = Path(tempfile.mkdtemp(), "model")
    >>> save(model, folder)
    >>> sorted(file.name for file in folder.iterdir())
    ['config.json', 'model.safetensors', 'score.json', 'tokenizer.json', 'tokenizer_config.json']
    """
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file; name a folder for the model.")
    if target.is_dir() and any(target.iterdir()) and not (target / SCORE_FILE).is_file():
        raise InputError(
            f"{target} holds other files, which saving a model would replace; name a new folder."
        )
    encoder = model.encoder
    with write_folder(target) as folder:
        kind = _write_towers(model, folder)
        projections = {
            name: getattr(encoder, name)
            for name in _PROJECTIONS
            if getattr(encoder, name) is not None
        }
        if projections:
            write_tensors(folder / _PROJECTION_FILE, projection_tensors(projections))
        write_json(
            folder / SCORE_FILE,
            {
                "format": _FORMAT,
                "score": None if model.score is None else model.score.to_json(),
                "text": model.text.to_json(),
                "pooling": encoder.pooling,
                "towers": kind,
                "projections": {
                    name: projection_settings(projection)
                    for name, projection in projections.items()
                },
                **({"query_modality": encoder.modality("query")} if encoder.is_mixed else {}),
            },
        )


def _write_towers(model: Model, folder: Path) -> str:
    """Writes the towers with what each needs, and returns how they lie there."""
    encoder = model.encoder
    pair = pair_towers(encoder)
    if pair is not None:
        assert model.images is not None
        write_pair(*pair, model.score, folder)
        write_images(model.images, folder)
        model.tokenizer.save(folder)
        return "pair"
    towers = {"": encoder.query_tower}
    if encoder.document_tower is not None:
        towers = {"query": encoder.query_tower, "document": encoder.document_tower}
    for name, tower in towers.items():
        (folder / name).mkdir(exist_ok=True)
        write_tower(tower, folder / name)
        if isinstance(tower, VisionEncoder):
            assert model.images is not None
            write_images(model.images, folder / name)
        else:
            model.tokenizer.save(folder / name)
    return "shared" if encoder.document_tower is None else "separate"


def read_own(folder: Path) -> Stated:
    """Reads ``score.json`` and the projections that it lists.

    Raises:
        InputError: a missing, damaged or incomplete file.
    """
    file = folder / SCORE_FILE
    content, score, text = read_statement(file, _KEYS, _FORMAT, optional=_OPTIONAL)
    if content["towers"] not in _TOWERS:
        raise InputError(
            f"{file}: towers is {content['towers']!r}, not one of {', '.join(_TOWERS)}."
        )
    if (content["towers"] == "pair") != is_pair(folder):
        raise InputError(
            f"{file}: towers is {content['towers']!r}, which {folder / 'config.json'} contradicts; "
            "one of the two was edited."
        )
    if content["towers"] == "pair" or "query_modality" in content:
        choose(f"query_modality in {file}", content.get("query_modality"), ("text", "image"))
    listed = content["projections"]
    if not isinstance(listed, dict) or not set(listed) <= set(_PROJECTIONS):
        raise InputError(f"{file}: projections may list {' and '.join(_PROJECTIONS)} only.")
    projections = read_projections(folder / _PROJECTION_FILE, listed) if listed else {}
    separate = content["towers"] == "separate"
    return Stated(
        query_folder=folder / "query" if separate else folder,
        document_folder=folder / "document" if separate else None,
        pooling=content["pooling"],
        score=score,
        query_prompt=text.query_prompt,
        document_prompt=text.document_prompt,
        query_max_length=text.query_max_length,
        document_max_length=text.document_max_length,
        projection=projections.get("projection"),
        document_projection=projections.get("document_projection"),
        query_modality=content.get("query_modality"),
    )
