"""What is trained, and the state that a step maps to the next."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from magjax.encoders import DualEncoder, EncoderConfig
from magjax.similarity import SimilarityHead
from magjax.training._freeze import freeze_parameters

__all__ = ["TrainState", "Trainee", "initial_state", "merge_state", "tiny_trainee"]


class Trainee(nnx.Module):
    """The dual encoder beside the similarity head that scores its embeddings.

    Args:
        encoder: gives raw embeddings; knows nothing of the score.
        head: normalization powers and temperature.

    >>> tiny_trainee("dnorm").head.score().variant
    'dnorm'
    """

    def __init__(self, encoder: DualEncoder, head: SimilarityHead) -> None:
        self.encoder = encoder
        self.head = head


def tiny_trainee(variant: str, *, dropout: float = 0.0, loss_bias: float | None = None) -> Trainee:
    """A random model of a few thousand parameters, for examples and tests.

    >>> tiny_trainee("qnorm").encoder.dim
    16
    """
    config = EncoderConfig(
        vocab_size=64,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        hidden_dropout=dropout,
        attention_dropout=dropout,
    )
    head = SimilarityHead(
        variant,
        temperature=0.1,
        learn_temperature=True,
        temperature_range=(0.01, 10.0),
        bias=loss_bias,
    )
    return Trainee(DualEncoder.create(config, seed=0), head)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """Everything that a step reads and writes; all of it is saved and restored.

    Attributes:
        step: int32 scalar, optimizer steps done.
        params: the trainable arrays of a :class:`Trainee`.
        rest: its other arrays (fixed powers, fixed temperature, what is frozen).
        opt_state: the optimizer's state.
        key: uint32 data of the run's random key; step ``i`` uses the key folded with ``i``.

    >>> [field.name for field in dataclasses.fields(TrainState)]
    ['step', 'params', 'rest', 'opt_state', 'key']
    """

    step: Any  # like all fields: arrays, or what stands for them (shapes, shardings, host copies)
    params: Any
    rest: Any
    opt_state: Any
    key: Any


def initial_state(
    model: Trainee,
    optimizer: optax.GradientTransformation,
    *,
    seed: int,
    freeze: Sequence[str] = (),
) -> tuple[nnx.GraphDef[Trainee], TrainState]:
    """Splits ``model`` into its static graph and the state of step 0.

    The arrays are copied, so that donating the state leaves ``model`` usable.

    Args:
        model: what is trained.
        optimizer: makes its own state of the parameters.
        seed: of the run's random key.
        freeze: regular expressions of parameters that stay as they are (see
            ``OptimizerSettings.freeze``); they become part of ``rest``.

    Raises:
        InputError: a pattern that names no parameter.

    >>> graph, state = initial_state(tiny_trainee("cosine"), optax.sgd(0.1), seed=0)
    >>> int(state.step)
    0
    """
    own = nnx.merge(*nnx.split(model))  # the same arrays in a structure of its own
    if freeze:
        freeze_parameters(own, freeze)
    graph, *parts = nnx.split(own, nnx.Param, ...)
    params, rest = (jax.tree.map(jnp.copy, nnx.as_pure(part)) for part in parts)
    key = jax.random.key_data(jax.random.key(seed))
    step = jnp.zeros((), jnp.int32)
    return graph, TrainState(step, params, rest, optimizer.init(params), key)


def merge_state(graph: nnx.GraphDef[Trainee], state: TrainState) -> Trainee:
    """The model of ``state``; it shares the state's arrays, so use it before the next step.

    >>> merge_state(*initial_state(tiny_trainee("cosine"), optax.sgd(0.1), seed=0)).head.variant
    'cosine'
    """
    return nnx.merge(graph, state.params, state.rest)
