"""Random CLIP and SigLIP checkpoints of torch, and what they compute."""

import numpy as np
import pytest

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,  # square, so that a missing transpose keeps every shape
}
VOCABULARY, POSITIONS = 310, 12


def configuration(kind, *, text=None, vision=None, **settings):
    """A tiny transformers configuration of ``clip`` or ``siglip``."""
    transformers = pytest.importorskip("transformers")
    width = {"projection_dim": 16} if kind == "clip" else {}
    text = {
        **SIZES,
        **width,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": POSITIONS,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        **(text or {}),
    }
    vision = {**SIZES, **width, "image_size": 12, "patch_size": 4, **(vision or {})}
    cls = {"clip": transformers.CLIPConfig, "siglip": transformers.SiglipConfig}[kind]
    return cls(text_config=text, vision_config=vision, **width, **settings)


def randomized(model):
    """Every parameter random, so that none can be forgotten or confused with another."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            centre = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.copy_(centre + 0.3 * torch.randn(parameter.shape))
    return model.eval()


def make_folder(kind, folder, tokenizer, **changes):
    """A torch model of random parameters, saved with tokenizer and image processor."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("torch")
    cls = {"clip": transformers.CLIPModel, "siglip": transformers.SiglipModel}[kind]
    model = randomized(cls(configuration(kind, **changes)))
    model.save_pretrained(folder)
    tokenizer.save(folder)
    if kind == "clip":
        processor = transformers.CLIPImageProcessorPil(
            size={"shortest_edge": 16}, crop_size={"height": 12, "width": 12}
        )
    else:
        processor = transformers.SiglipImageProcessorPil(size={"height": 12, "width": 12})
    processor.save_pretrained(folder)
    return model


def captions():
    """Rows of 9, 6 and 2 tokens, ended by id 3 and padded by id 0."""
    rng = np.random.default_rng(1)
    lengths, place = np.array([[9], [6], [2]]), np.arange(9)[None]
    ids = rng.integers(5, 300, (3, 9))
    ids = np.where(place == lengths - 1, 3, np.where(place < lengths, ids, 0)).astype(np.int32)
    return {"input_ids": ids, "attention_mask": (place < lengths).astype(np.int32)}


def images(size=12, count=3):
    """Channels last, as magjax has them."""
    rng = np.random.default_rng(2)
    return {"pixel_values": rng.normal(size=(count, size, size, 3)).astype(np.float32)}


def torch_text(tower, batch, **more):
    """Hidden states and pooled output of a torch text tower."""
    torch = pytest.importorskip("torch")
    inputs = {name: torch.from_numpy(value).long() for name, value in batch.items()}
    with torch.no_grad():
        return tower(**inputs, output_hidden_states=True, **more)


def torch_images(tower, batch, **more):
    """Hidden states and pooled output of a torch vision tower, which has channels first."""
    torch = pytest.importorskip("torch")
    pixels = torch.from_numpy(batch["pixel_values"].transpose(0, 3, 1, 2).copy())
    with torch.no_grad():
        return tower(pixel_values=pixels, output_hidden_states=True, **more)


def array(tensor):
    """A torch tensor as a NumPy array."""
    return tensor.detach().numpy()
