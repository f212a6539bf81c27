"""Records, readers, the embedded corpora (code search, icons), tokens, pixels and batches.

Everything here is host work on strings, images and NumPy arrays; arrays reach the device in training
and evaluation.
"""

from magjax.data._answers import QuestionSet, read_questions
from magjax.data._batch_iterator import BatchIterator, batch_iterator
from magjax.data._batch_shape import Batches
from magjax.data._beir import beir_splits, find_beir, read_beir
from magjax.data._benchmark_sources import read_benchmarks
from magjax.data._bright import BRIGHT_TASKS, find_bright, read_bright
from magjax.data._code_packages import OUT_OF_DOMAIN_PACKAGES, TRAINING_PACKAGES
from magjax.data._code_search import CodeSearch, code_search, mine_code_search
from magjax.data._hold_out import hold_out
from magjax.data._icon_families import icon_families
from magjax.data._icon_fonts import OUT_OF_DOMAIN_ICONS, TRAINING_ICONS
from magjax.data._icons import icon_base_name, icons
from magjax.data._image_augmentation import AUGMENTATIONS, ImageAugmentation
from magjax.data._image_batches import MODALITIES, ImageTextBatches, pixel_batches
from magjax.data._image_classes import read_image_classes
from magjax.data._image_decoder import ImageDecoder
from magjax.data._image_hold_out import hold_out_images
from magjax.data._image_preprocessor import ImagePreprocessor
from magjax.data._image_settings import ImageSettings
from magjax.data._image_text import ImageTextBenchmark, ImageTextData, ImageTextSet
from magjax.data._image_text_reader import (
    find_image_text,
    read_image_text,
    read_image_text_folder,
)
from magjax.data._images import ChosenImages, ImageArrays, ImageFiles, Images, decodable
from magjax.data._labelled_pairs import find_labelled_pairs, read_labelled_pairs
from magjax.data._labelled_texts import LabelledTexts, find_labelled_texts, read_labelled_texts
from magjax.data._msmarco import read_msmarco, read_msmarco_triples, read_trec_dl
from magjax.data._multihop import MultiHop, find_multihop, read_multihop
from magjax.data._pairs import read_hf_dataset, read_pairs_jsonl
from magjax.data._passages import Passages, read_passages
from magjax.data._qrels import read_qrels
from magjax.data._records import Benchmark, TrainingSet, text_key
from magjax.data._sts import find_sts, read_sts
from magjax.data._text_pairs import TextPairs
from magjax.data._text_preprocessor import TextPreprocessor, bucket_length, length_buckets
from magjax.data._text_settings import SIDES, TextSettings
from magjax.data._text_tokenizer import TextTokenizer
from magjax.data._text_writers import write_beir, write_pairs_jsonl
from magjax.data._tfds_images import read_tfds_images
from magjax.data._training_batches import TrainingBatches
from magjax.data._trec_run import read_run
from magjax.data._webdataset import read_webdataset

__all__ = [
    "AUGMENTATIONS",
    "BRIGHT_TASKS",
    "MODALITIES",
    "OUT_OF_DOMAIN_ICONS",
    "OUT_OF_DOMAIN_PACKAGES",
    "SIDES",
    "TRAINING_ICONS",
    "TRAINING_PACKAGES",
    "BatchIterator",
    "Batches",
    "Benchmark",
    "ChosenImages",
    "CodeSearch",
    "ImageArrays",
    "ImageAugmentation",
    "ImageDecoder",
    "ImageFiles",
    "ImagePreprocessor",
    "ImageSettings",
    "ImageTextBatches",
    "ImageTextBenchmark",
    "ImageTextData",
    "ImageTextSet",
    "Images",
    "LabelledTexts",
    "MultiHop",
    "Passages",
    "QuestionSet",
    "TextPairs",
    "TextPreprocessor",
    "TextSettings",
    "TextTokenizer",
    "TrainingBatches",
    "TrainingSet",
    "batch_iterator",
    "beir_splits",
    "bucket_length",
    "code_search",
    "decodable",
    "find_beir",
    "find_bright",
    "find_image_text",
    "find_labelled_pairs",
    "find_labelled_texts",
    "find_multihop",
    "find_sts",
    "hold_out",
    "hold_out_images",
    "icon_base_name",
    "icon_families",
    "icons",
    "length_buckets",
    "mine_code_search",
    "pixel_batches",
    "read_beir",
    "read_benchmarks",
    "read_bright",
    "read_hf_dataset",
    "read_image_classes",
    "read_image_text",
    "read_image_text_folder",
    "read_labelled_pairs",
    "read_labelled_texts",
    "read_msmarco",
    "read_msmarco_triples",
    "read_multihop",
    "read_pairs_jsonl",
    "read_passages",
    "read_qrels",
    "read_questions",
    "read_run",
    "read_sts",
    "read_tfds_images",
    "read_trec_dl",
    "read_webdataset",
    "text_key",
    "write_beir",
    "write_pairs_jsonl",
]
