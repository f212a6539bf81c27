"""Models from and to folders: Hugging Face, sentence-transformers, and magjax's own."""

from magjax.hub._load import load
from magjax.hub._model import Model
from magjax.hub._own_folder import save

__all__ = ["Model", "load", "save"]
