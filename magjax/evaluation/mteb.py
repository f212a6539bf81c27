"""A model as `MTEB <https://github.com/embeddings-benchmark/mteb>`_ runs it, trained score and all.

    import mteb
    from magjax import hub
    from magjax.evaluation.mteb import MtebEncoder

    results = mteb.evaluate(MtebEncoder(hub.load("runs/qnorm")), mteb.get_tasks(["SciFact"]))

Needs mteb 2 (``pip install -e '.[mteb]'``). Nothing of magjax imports this module.
"""

import functools
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from flax import nnx
from jax.sharding import Mesh

from magjax.checks import InputError, choose, need
from magjax.data import SIDES, TextPreprocessor
from magjax.evaluation._encode import encode
from magjax.evaluation._fingerprint import model_fingerprint
from magjax.evaluation._symmetric import (
    asymmetries,
    encoder_asymmetries,
    side_of_equals,
    unequal,
)
from magjax.hub import Model
from magjax.typing import Side

__all__ = ["MtebEncoder"]

_log = logging.getLogger(__name__)

# What mteb passes on to every encode(); batches are made by tokens_per_batch instead of rows.
_OPTIONS = ("batch_size", "show_progress_bar", "precision")


class MtebEncoder:
    r"""What ``mteb.evaluate`` takes as a model: its similarity is the score that was trained.

    Queries get the query's prompt, length limit, tower and power of normalization, and documents
    the document's, so that the inner product of what :meth:`encode` returns is
    :math:`\langle q, d\rangle \lVert q\rVert^{-\gamma_q} \lVert d\rVert^{-\gamma_d}`. Prompts that
    a task brings are not used: the model's own are part of it.

    Tasks between equals (STS, pair classification, clustering, classification, bitext mining) say
    of no text which side it is. They run when both sides are one (a symmetric score, one tower,
    one prompt). Otherwise an error says why, and ``symmetric`` names the side that every text then
    is; with ``"query"`` a qnorm model compares by cosine, with ``"document"`` by the dot product.
    Of the figures such tasks report, those named ``cosine_...`` are the cosine whatever the model's
    score is.

    mteb caches results by name and revision; the revision here names the weights, the settings
    and the powers, so that results of another model are never taken for this one's.

    Args:
        model: with a score, from :func:`magjax.hub.load`.
        name: what results call it, ``organization/name``.
        symmetric: the side of texts that a task gives none.
        tokens_per_batch: tokens of an encoder batch on each device.
        mesh: devices to use; default: all of this process.

    Raises:
        InputError: the model states no score, ``name`` has no ``/``, or an unknown side.

    >>> from magjax.data import TextSettings, TextTokenizer
    >>> from magjax.encoders import DualEncoder, EncoderConfig
    >>> from magjax.similarity import Score
    >>> tokenizer = TextTokenizer.train(["a b"] * 2, 270)
    >>> config = EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=8,
    ...     num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> text = TextSettings(query_max_length=8, document_max_length=16)
    >>> model = Model(DualEncoder.create(config), Score.of("qnorm"), tokenizer, text)
    >>> encoder = MtebEncoder(model)
    >>> queries = encoder.encode([{"text": ["a", "b a"]}], task_metadata=None, hf_split="test",
    ...                          hf_subset="default", prompt_type="query")
    >>> [round(float(length), 6) for length in np.linalg.norm(queries, axis=1)]
    [1.0, 1.0]
    """

    def __init__(
        self,
        model: Model,
        *,
        name: str = "magjax/model",
        symmetric: str | None = None,
        tokens_per_batch: int = 2048,
        mesh: Mesh | None = None,
    ) -> None:
        self._score = model.require_score()
        if "/" not in name:
            raise InputError(f"name={name!r} has no '/'; mteb wants organization/name.")
        self._model = model
        self._name = name
        self._symmetric = None if symmetric is None else _side("symmetric", symmetric)
        self._preprocessor = TextPreprocessor(model.tokenizer, model.text)
        self._tokens_per_batch = tokens_per_batch
        self._mesh = mesh

    def encode(
        self,
        inputs: Iterable[Mapping[str, Any]],
        *,
        task_metadata: Any,
        hf_split: str,
        hf_subset: str,
        prompt_type: Any = None,
        **options: Any,
    ) -> np.ndarray:
        """Normalized embeddings, float32 ``[texts, dim]``, in order.

        Args:
            inputs: batches with a list of strings as ``text``.
            task_metadata: mteb's description of the task; its name stands in messages.
            hf_split: not used.
            hf_subset: not used.
            prompt_type: mteb's ``PromptType`` (query or document), or None.
            options: mteb's ``encode_kwargs``; ``batch_size`` and ``show_progress_bar`` change
                nothing, and ``precision`` other than float32 is refused.

        Raises:
            InputError: no text in a batch, no side where one is needed, or another option.
        """
        del hf_split, hf_subset
        for option, value in options.items():
            choose("encode option of MtebEncoder", option, _OPTIONS)
            if option == "precision" and value not in (None, "float32"):
                raise InputError(
                    f"precision={value!r}: embeddings are returned as float32; leave it out."
                )
        task = getattr(task_metadata, "name", "this task")
        if prompt_type is None:
            side = self._side_of_equals(task)
        else:
            side = _side("prompt_type", str(prompt_type))  # PromptType is a string
        texts: list[str] = []
        for batch in inputs:
            if "text" not in batch:
                raise InputError(
                    f"{task} gives batches of {', '.join(batch)}, but this model reads text only."
                )
            texts.extend(batch["text"])
        raw = encode(
            self._model.encoder,
            self._preprocessor,
            texts,
            side,
            mesh=self._mesh,
            tokens_per_batch=self._tokens_per_batch,
        )
        return np.array(self._score.normalize(raw, side))  # a copy: torch warns of read-only ones

    def similarity(self, embeddings1: Any, embeddings2: Any) -> np.ndarray:
        """The score of each of ``embeddings1`` with each of ``embeddings2``, float32 ``[n, m]``.

        Args:
            embeddings1: of queries, ``[n, dim]`` or ``[dim]``, from :meth:`encode`.
            embeddings2: of documents, ``[m, dim]`` or ``[dim]``.
        """
        return _matrix(embeddings1) @ _matrix(embeddings2).T

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> np.ndarray:
        """The score of each of ``embeddings1`` with its neighbour, float32 ``[n]``.

        Args:
            embeddings1: of queries, ``[n, dim]``, from :meth:`encode`.
            embeddings2: of documents, ``[n, dim]``.
        """
        wide = _matrix(embeddings1).astype(np.float64) * _matrix(embeddings2)
        return wide.sum(axis=1).astype(np.float32)

    @functools.cached_property
    def mteb_model_meta(self) -> Any:
        """The model's ``ModelMeta``.

        Raises:
            InputError: mteb is not installed.
        """
        meta = need("mteb.models.model_meta", "mteb")
        text, score = self._model.text, self._score
        revision = (
            f"{model_fingerprint(self._model)}-{score.gamma_query:.6g}-{score.gamma_document:.6g}"
        )
        if self._symmetric is not None:
            revision += f"-{self._symmetric}"
        leaves = nnx.to_flat_state(nnx.state(self._model.encoder))
        sizes = [int(np.prod(value.shape)) for _, value in leaves]
        return meta.ModelMeta.create_empty(
            {
                "name": self._name,
                "revision": revision,
                "n_parameters": sum(sizes),
                "max_tokens": max(text.max_length(side) for side in SIDES),
                "embed_dim": self._model.encoder.dim,
                "framework": ["JAX"],
                "similarity_fn_name": meta.ScoringFunction.DOT_PRODUCT,
                "use_instructions": any(text.prompt(side) for side in SIDES),
            }
        )

    def _side_of_equals(self, task: str) -> Side:
        """The side of texts whose task says none."""
        if self._symmetric is not None:
            return self._symmetric
        found = asymmetries(self._score, encoder_asymmetries(self._model))
        if found:
            raise unequal(
                task,
                found,
                "Evaluate it on retrieval, or name the side that all texts are to be with "
                "symmetric='query' or 'document'; that is another score than the trained one.",
            )
        return side_of_equals(self._model.text)


def _side(name: str, value: str) -> Side:
    return SIDES[SIDES.index(choose(name, value, SIDES))]


def _matrix(embeddings: Any) -> np.ndarray:
    """Float32 rows of a NumPy array or a torch tensor on whatever device."""
    if hasattr(embeddings, "detach"):
        embeddings = embeddings.detach().cpu().float().numpy()  # NumPy has no bfloat16
    return np.atleast_2d(np.asarray(embeddings, np.float32))
