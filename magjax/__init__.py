"""magjax: two-encoder retrieval in JAX where the length of an embedding is a choice.

Subpackages are imported by name (``from magjax import similarity``); importing
``magjax`` alone loads none of them.
"""

__version__ = "0.1.0"
