"""The vision transformers of CLIP and SigLIP, from pixels to embeddings."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import nnx

from magjax.checks import InputError, choose
from magjax.encoders._attention_pool import AttentionPool
from magjax.encoders._layers import COMPUTE_DTYPES, layer_norm, linear
from magjax.encoders._position_interpolation import interpolate_positions
from magjax.encoders._pre_norm import PreNormLayer, Starts, apply_layers, starts_of
from magjax.encoders._vision_config import VisionConfig
from magjax.typing import Array, Float

__all__ = ["VisionEncoder"]


class VisionEmbeddings(nnx.Module):
    """Patches through one dense layer, a class token where the family has one, positions."""

    def __init__(self, config: VisionConfig, starts: Starts, *, dtype: Any, rngs: nnx.Rngs) -> None:
        self.config = config
        self.dtype = dtype
        width = config.hidden_size
        # A convolution whose stride is its size is a matrix product over cut-out patches.
        self.patch = linear(
            3 * config.patch_size**2,
            width,
            start=starts.patch,
            use_bias=config.family.patch_bias,
            dtype=dtype,
            rngs=rngs,
        )
        self.class_token: nnx.Param | None = nnx.data(None)
        if config.family.class_token:
            start = nnx.initializers.normal(width**-0.5)
            self.class_token = nnx.Param(start(rngs.params(), (width,)))
        self.position = nnx.Embed(config.positions, width, embedding_init=starts.table, rngs=rngs)

    def __call__(
        self, pixels: Float[jax.Array, "batch height width 3"], *, interpolate: bool
    ) -> Float[jax.Array, "batch length hidden"]:
        batch, size, grid = pixels.shape[0], self.config.patch_size, self.config.grid
        height, width = pixels.shape[1] // size, pixels.shape[2] // size
        pixels = pixels[:, : height * size, : width * size]
        patches = pixels.reshape(batch, height, size, width, size, 3).swapaxes(2, 3)
        hidden = self.patch(patches.reshape(batch, height * width, -1))
        table, class_rows = self.position.embedding[...], 0
        if self.class_token is not None:
            class_rows = 1
            first = jnp.broadcast_to(self.class_token[...], (batch, 1, hidden.shape[-1]))
            hidden = jnp.concatenate([first.astype(hidden.dtype), hidden], axis=1)
        if interpolate and (height, width) != (grid, grid):
            table = interpolate_positions(table, height, width, class_rows=class_rows)
        return (hidden + table[None]).astype(self.dtype)


class VisionEncoder(nnx.Module):
    """A vision transformer of CLIP or SigLIP, from pixels to embeddings.

    CLIP (Radford et al., arXiv 2103.00020): a class token before the patches, its last state
    normalized and projected. SigLIP (Zhai et al., arXiv 2303.15343): patches alone, pooled by the
    attention of one learned query. Images are channels last here; checkpoints hold convolutions
    channels first, and the loader transposes them.

    Parameters are float32; layers run in ``dtype``, what follows CLIP's class token in float32.

    Args:
        config: sizes and settings; ``config.model_type`` chooses the family.
        dtype: compute dtype, a name in ``COMPUTE_DTYPES``.
        remat: recompute each layer in the backward pass instead of keeping its activations.
        rngs: source of the random start.

    Raises:
        InputError: an unknown dtype.

    >>> config = VisionConfig.of("clip_vision_model", hidden_size=16, num_hidden_layers=1,
    ...     num_attention_heads=2, intermediate_size=32, image_size=8, patch_size=4,
    ...     projection_dim=4)
    >>> encoder = VisionEncoder(config, rngs=nnx.Rngs(0))
    >>> encoder.embed({"pixel_values": jnp.ones((2, 8, 8, 3))}).shape
    (2, 4)
    """

    modality: Literal["image"] = "image"

    def __init__(
        self,
        config: VisionConfig,
        *,
        dtype: str = "float32",
        remat: bool = False,
        rngs: nnx.Rngs,
    ) -> None:
        self.config = config
        self.dtype = choose("dtype", dtype, COMPUTE_DTYPES)
        self.remat = remat
        starts, compute = starts_of(config), COMPUTE_DTYPES[dtype]
        width, epsilon = config.hidden_size, config.layer_norm_eps
        has_class = config.family.class_token
        self.embeddings = VisionEmbeddings(config, starts, dtype=compute, rngs=rngs)
        self.first_norm = (
            layer_norm(width, epsilon, dtype=compute, rngs=rngs) if has_class else None
        )
        self.layers = nnx.List(
            [
                PreNormLayer(config, starts, dtype=compute, rngs=rngs)
                for _ in range(config.num_hidden_layers)
            ]
        )
        self.final_norm = layer_norm(
            width, epsilon, dtype=jnp.float32 if has_class else compute, rngs=rngs
        )
        self.head = None if has_class else AttentionPool(config, starts, dtype=compute, rngs=rngs)
        self.projection = (
            None
            if config.projection_dim is None
            else linear(
                width,
                config.projection_dim,
                start=starts.projection,
                use_bias=False,
                dtype=jnp.float32,
                rngs=rngs,
            )
        )

    @property
    def dim(self) -> int:
        """Dimensions of an embedding."""
        return self.config.dim

    @property
    def pooling(self) -> str:
        """How patches become one vector: ``"class_token"`` or ``"attention"``."""
        return "class_token" if self.config.family.class_token else "attention"

    def __call__(
        self,
        pixel_values: Float[Array, "batch height width channels"],
        *,
        dropout_key: jax.Array | None = None,
        output_layers: bool = False,
        interpolate_positions: bool = False,
    ) -> (
        Float[jax.Array, "batch length hidden"]
        | tuple[Float[jax.Array, "batch length hidden"], ...]
    ):
        """Hidden states of the last layer, or of all, before the last norm.

        Args:
            pixel_values: normalized images ``[batch, height, width, 3]``, channels last.
            dropout_key: PRNG key of this call's dropout masks; None for none.
            output_layers: return the first layer's input and every layer's output instead.
            interpolate_positions: resize the position table (bicubic) to images of another size.

        Returns:
            ``[batch, length, hidden]`` in the compute dtype, the class token first; or a tuple of
            ``num_hidden_layers + 1`` such arrays.

        Raises:
            InputError: channels not last, or another image size without interpolation.
        """
        _, height, width, channels = pixel_values.shape
        if channels != 3:
            raise InputError(
                f"pixel_values of shape {tuple(pixel_values.shape)} must be [batch, height, width, "
                "3]: channels last."
            )
        size, patch = self.config.image_size, self.config.patch_size
        if not interpolate_positions and (height, width) != (size, size):
            raise InputError(
                f"images of {height} x {width} pixels do not fit image_size={size} of this "
                f"{self.config.model_type}; resize them, or use resized() or "
                "interpolate_positions=True."
            )
        if min(height, width) < patch:
            raise InputError(
                f"images of {height} x {width} pixels hold no patch of {patch} x {patch}."
            )
        pixels = jnp.asarray(pixel_values).astype(COMPUTE_DTYPES[self.dtype])
        hidden = self.embeddings(pixels, interpolate=interpolate_positions)
        if self.first_norm is not None:
            hidden = self.first_norm(hidden)
        states = apply_layers(self.layers, hidden, None, dropout_key, remat=self.remat)
        return states if output_layers else states[-1]

    def embed(
        self,
        batch: Mapping[str, Array],
        *,
        dropout_key: jax.Array | None = None,
        interpolate_positions: bool = False,
    ) -> Float[jax.Array, "batch dim"]:
        """Raw float32 embeddings of a batch of images.

        Args:
            batch: ``pixel_values`` float ``[batch, height, width, 3]``.
            dropout_key: PRNG key of the dropout masks; None for none.
            interpolate_positions: admit images of another size.
        """
        hidden = self(
            batch["pixel_values"],
            dropout_key=dropout_key,
            interpolate_positions=interpolate_positions,
        )
        assert not isinstance(hidden, tuple)
        if self.head is not None:
            pooled = self.head(self.final_norm(hidden)).astype(jnp.float32)
        else:
            pooled = self.final_norm(hidden[:, 0].astype(jnp.float32))
        return pooled if self.projection is None else self.projection(pooled)

    def resized(self, image_size: int) -> "VisionEncoder":
        """This tower for images of another size: its position table interpolated, all else kept.

        >>> config = VisionConfig.preset("tiny", num_hidden_layers=1)
        >>> VisionEncoder(config, rngs=nnx.Rngs(0)).resized(48).config.positions
        37
        """
        config = dataclasses.replace(self.config, image_size=image_size)
        graph, empty = nnx.split(
            nnx.eval_shape(
                lambda: VisionEncoder(config, dtype=self.dtype, remat=self.remat, rngs=nnx.Rngs(0))
            )
        )
        held = dict(nnx.to_flat_state(nnx.state(self)))
        filled = []
        for path, variable in nnx.to_flat_state(empty):
            value = held[path][...]
            if path == ("embeddings", "position", "embedding"):
                rows = int(config.family.class_token)
                value = interpolate_positions(value, config.grid, config.grid, class_rows=rows)
            filled.append((path, variable.replace(value)))
        return nnx.merge(graph, nnx.from_flat_state(filled))
