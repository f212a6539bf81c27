"""Records, readers, the embedded code-search corpus, tokenizing and batching.

Everything here is host work on strings and NumPy arrays; arrays reach the device in training
and evaluation.
"""

from magjax.data._batch_iterator import BatchIterator, batch_iterator
from magjax.data._beir import read_beir
from magjax.data._code_packages import OUT_OF_DOMAIN_PACKAGES, TRAINING_PACKAGES
from magjax.data._code_search import CodeSearch, code_search, mine_code_search
from magjax.data._hold_out import hold_out
from magjax.data._msmarco import read_msmarco, read_msmarco_triples
from magjax.data._pairs import read_hf_dataset, read_pairs_jsonl
from magjax.data._qrels import read_qrels
from magjax.data._records import Benchmark, TrainingSet, text_key
from magjax.data._text_preprocessor import TextPreprocessor, bucket_length, length_buckets
from magjax.data._text_settings import SIDES, TextSettings
from magjax.data._text_tokenizer import TextTokenizer
from magjax.data._training_batches import TrainingBatches

__all__ = [
    "OUT_OF_DOMAIN_PACKAGES",
    "SIDES",
    "TRAINING_PACKAGES",
    "BatchIterator",
    "Benchmark",
    "CodeSearch",
    "TextPreprocessor",
    "TextSettings",
    "TextTokenizer",
    "TrainingBatches",
    "TrainingSet",
    "batch_iterator",
    "bucket_length",
    "code_search",
    "hold_out",
    "length_buckets",
    "mine_code_search",
    "read_beir",
    "read_hf_dataset",
    "read_msmarco",
    "read_msmarco_triples",
    "read_pairs_jsonl",
    "read_qrels",
    "text_key",
]
