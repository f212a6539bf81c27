"""The trained score everywhere: vectors for databases whose inner product is the score."""

from magjax.export._app import ServerSettings, encode_app
from magjax.export._augmentation import augment_documents, augment_queries, largest_norm
from magjax.export._description import VectorDescription
from magjax.export._exported import ExportedEncoders, load_exported
from magjax.export._metric import AUGMENTATIONS, METRICS, choose_metric
from magjax.export._parity import ParityRow, format_parity, parity_rows
from magjax.export._private_postgres import private_postgres
from magjax.export._program import (
    export_texts,
    parity_table,
    parse_options,
)
from magjax.export._records import Texts, read_texts
from magjax.export._search import Found, read_description, search_vectors
from magjax.export._server import serve
from magjax.export._stablehlo import export_encoders
from magjax.export._vectors import Embeddings
from magjax.export._writers import TARGETS, write_vectors

__all__ = [
    "AUGMENTATIONS",
    "METRICS",
    "TARGETS",
    "Embeddings",
    "ExportedEncoders",
    "Found",
    "ParityRow",
    "ServerSettings",
    "Texts",
    "VectorDescription",
    "augment_documents",
    "augment_queries",
    "choose_metric",
    "encode_app",
    "export_encoders",
    "export_texts",
    "format_parity",
    "largest_norm",
    "load_exported",
    "parity_rows",
    "parity_table",
    "parse_options",
    "private_postgres",
    "read_description",
    "read_texts",
    "search_vectors",
    "serve",
    "write_vectors",
]
