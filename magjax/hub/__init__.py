"""Models from and to folders: Hugging Face, sentence-transformers, and magjax's own."""

from magjax.hub._combine import combine
from magjax.hub._load import load
from magjax.hub._model import Model
from magjax.hub._own_folder import save
from magjax.hub._sentence_transformers_write import save_sentence_transformers

__all__ = ["Model", "combine", "load", "save", "save_sentence_transformers"]
